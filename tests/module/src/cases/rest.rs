// SPDX-License-Identifier: GPL-3.0-or-later
//! Dirty data waits for a disk at rest, as long as the user allows.

use std::thread::sleep;

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::time::{config, ms};
use super::writeback::write_quarters;
use crate::io::{self, MIB};
use crate::rig::Rig;

pub const CASES: &[Entry] = &[
    // promise 30: uml-time/time: dirty data waits an hour for a disk at rest, and no longer
    (
        "time: dirty data waits an hour for a disk at rest, and no longer",
        hour,
    ),
    ("time: a disk that is used gets what waits for it", awake),
];

const MINUTE: u64 = 60_000;

/// Sleeps so long. Nothing may be asked of the disk meanwhile.
fn at_rest(rig: &Rig, what: &str, minutes: u64) -> Result<()> {
    let before = rig.origin.stat()?;
    sleep(ms(minutes * MINUTE));
    let after = rig.origin.stat()?;
    ensure!(
        before == after && rig.status()?.dirty > 0,
        "{what}: {before:?} became {after:?}: {:?}",
        rig.status()?
    );
    Ok(())
}

fn written_back(rig: &Rig, what: &str) -> Result<()> {
    let status = rig.status()?;
    ensure!(status.dirty == 0, "{what}: {status:?}");
    Ok(())
}

fn hour() -> Result<()> {
    let (rig, mut model) = Rig::new(config(5))?;
    rig.mapped()?.message("dirty_limit 30 0 3600")?;
    // The disk was used when the cache was made, and counts as awake for ten seconds.
    sleep(ms(15_000));
    // Two hours, so that the second one begins when the disk has everything.
    for hour in 0..2 {
        write_quarters(&rig, &mut model, 40, hour)?;
        sleep(ms(15_000));
        for part in 0..5 {
            at_rest(&rig, "an idle hour", 11)?;
            // Hits and writes leave the disk alone, and do not put off the end.
            write_quarters(&rig, &mut model, 1, 2 + part)?;
            let written = Rng::with_seed(2 + part).usize(0..2048) * 4096;
            io::read(&io::direct(&rig.path()?)?, written as u64, 4096)?;
        }
        at_rest(&rig, "before the hour is over", 3)?;
        sleep(ms(3 * MINUTE));
        written_back(&rig, "after the hour")?;
    }
    rig.mapped()?.message("dirty_limit 30 0")?;
    write_quarters(&rig, &mut model, 40, 9)?;
    sleep(ms(10_000));
    written_back(&rig, "without a rest")?;
    rig.equals(&model)
}

fn awake() -> Result<()> {
    let (rig, mut model) = Rig::new(config(5))?;
    rig.mapped()?.message("dirty_limit 30 8192 86400")?;
    sleep(ms(15_000));
    for round in 0..2 {
        write_quarters(&rig, &mut model, 100, round)?;
        sleep(ms(15_000));
        at_rest(&rig, "nobody uses the disk", 30)?;
        io::read(&io::direct(&rig.path()?)?, (10 + round) * MIB as u64, 4096)?;
        sleep(ms(5000));
        written_back(&rig, "the disk was used")?;
        sleep(ms(15_000));
    }
    // More than half of what may be dirty.
    write_quarters(&rig, &mut model, 700, 2)?;
    sleep(ms(15_000));
    written_back(&rig, "near the limit")?;
    sleep(ms(15_000));
    write_quarters(&rig, &mut model, 10, 3)?;
    sleep(ms(15_000));
    at_rest(&rig, "again", 30)?;
    rig.mapped()?.message("flush start")?;
    sleep(ms(15_000));
    written_back(&rig, "a flush")?;
    rig.equals(&model)
}
