// SPDX-License-Identifier: GPL-3.0-or-later
//! The requests and the time that a start takes to know that the disk is the same.

use std::thread::sleep;

use anyhow::{Result, ensure};

use super::watched::xfs;
use super::{is_warm, with_test_disk};
use crate::cases::time::{ms, timed};
use crate::io::{self, MIB};
use crate::rig::Rig;

/// 120 requests a second, one after the other.
const REQUEST_NS: u64 = 8_333_333;
/// Longest time of a start, in ms. A start asks the disk for nothing else.
const LIMIT: u64 = 1500;

/// The lists of what is written and read most are full, and the places are those of XFS. After a stop, and after a cut.
pub(super) fn of_start() -> Result<()> {
    let mut config = with_test_disk("writethrough");
    config.origin.delay_ns = REQUEST_NS;
    config.origin.single = true;
    let (rig, model) = Rig::holding(config.cuttable(), xfs)?;
    let file = io::direct(&rig.path()?)?;
    // Quarters that are far from each other, those that are read and those that are written.
    for _ in 0..2 {
        for at in (16 * MIB..40 * MIB).step_by(MIB / 4) {
            if at % (MIB / 2) == 0 {
                io::read(&file, at as u64, 4096)?;
            } else {
                io::write(&file, at as u64, &model[at..at + 4096])?;
            }
        }
        file.sync_all()?;
        sleep(ms(20_000));
    }
    let used = rig.quiet()?.used;
    let mut cut = rig.cut()?;
    for end in ["a cut", "a stop"] {
        let before = cut.origin.stat()?.read;
        let ((), time) = timed(|| cut.attach(false))?;
        let read = (cut.origin.stat()?.read - before) / 8;
        println!("     after {end}: {read} quarters of the disk in {time:?}");
        is_warm(&cut.status()?, used)?;
        ensure!(read > 15, "after {end}: only {read} quarters were compared");
        ensure!(time <= ms(LIMIT), "after {end}: the start took {time:?}");
        cut.detach()?;
    }
    Ok(())
}
