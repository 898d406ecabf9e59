// SPDX-License-Identifier: GPL-3.0-or-later
//! Memory that is short (promise 26).

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::failures::config;
use crate::faults::{self, Starved};
use crate::io::{self, MIB};
use crate::model::{Mix, drive};
use crate::rig::Rig;

pub const CASES: &[Entry] = &[
    // promise 26: uml-plain/failures: no memory for copies
    ("failures: no memory for copies", no_memory),
    (
        "failures: memory that is short for a while is used again later",
        short_for_a_while,
    ),
];

fn no_memory() -> Result<()> {
    faults::needed()?;
    for mode in ["writeback", "writethrough"] {
        let (rig, mut model) = Rig::new(config(mode))?;
        {
            let file = io::direct(&rig.path()?)?;
            let mix = Mix {
                longest: 256,
                ..Mix::new(8 * MIB)
            };
            let starved = Starved::new("30")?;
            drive(&file, &mut model, &mut Rng::with_seed(1), mix, 600)?;
            drop(starved);
        }
        let status = rig.quiet()?;
        ensure!(
            status.get("read_bypassed_memory")? > 0 && status.get("write_bypassed_memory")? > 0,
            "no allocation failed: {status:?}"
        );
        rig.equals(&model).context(mode)?;
    }
    Ok(())
}

/// A cache has at most 64 MiB of memory for requests under way. Requests that got none must not count against that.
fn short_for_a_while() -> Result<()> {
    faults::needed()?;
    let (rig, mut model) = Rig::new(config("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    {
        let _starved = Starved::new("100")?;
        for round in 0..100 {
            model[..MIB].fill(round);
            io::write(&file, 0, &model[..MIB])?;
        }
    }
    let short = |rig: &Rig| -> Result<u64> { rig.quiet()?.get("write_bypassed_memory") };
    let before = short(&rig)?;
    ensure!(
        before > (64 * MIB / io::SECTOR) as u64,
        "too few allocations failed: {before} sectors"
    );
    for round in 0..10 {
        model[..MIB].fill(round);
        io::write(&file, 0, &model[..MIB])?;
    }
    let after = short(&rig)?;
    ensure!(
        after == before,
        "{} sectors went past the cache with memory to be had",
        after - before
    );
    drop(file);
    rig.equals(&model)
}
