// SPDX-License-Identifier: GPL-3.0-or-later
//! Write-back on an SSD with larger logical blocks than the disk.

use anyhow::{Context, Result, ensure};

use super::Entry;
use super::writeback::{config, write_quarters};
use crate::disk::{Disk, Shape};
use crate::dm;
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    (
        "write-back: an SSD with larger blocks than the disk",
        coarse,
    ),
    // promise 29: uml-plain/write-back: dirty data on an SSD that has larger blocks now
    (
        "write-back: dirty data on an SSD that has larger blocks now",
        coarser,
    ),
    // promise 29: uml-plain/write-back: the same when a table is loaded again
    (
        "write-back: the same when a table is loaded again",
        coarser_live,
    ),
];

fn coarse() -> Result<()> {
    let mut config = Config::default();
    config.ssd.block = 4096;
    let (rig, _) = Rig::new(config)?;
    ensure!(
        rig.mapped()?.message("mode writeback").is_err(),
        "the message was taken"
    );
    ensure!(
        rig.mapped()?
            .load(rig.line(&format!("writeback {}", rig.words(false))))
            .is_err(),
        "the table was taken"
    );
    Ok(())
}

/// A cache with dirty data over an SSD that can be exchanged.
fn exchangeable() -> Result<(Rig, Vec<u8>)> {
    let (rig, mut model) = Rig::new(Config {
        ssd_under: Some(Under::Linear),
        ..config()
    })?;
    write_quarters(&rig, &mut model, 300, 1)?;
    ensure!(rig.status()?.dirty > 0, "nothing is dirty");
    Ok((rig, model))
}

/// Puts this disk in place of the SSD.
fn exchange(rig: &Rig, ssd: &Disk) -> Result<()> {
    let below = rig.below_ssd.as_ref();
    let below = below.context("no target below the SSD")?;
    below.swap(Under::Linear.line(ssd))
}

/// Exchanges the SSD for a copy of it with blocks of 4096 bytes.
fn with_larger_blocks(rig: &Rig) -> Result<Disk> {
    let mut shape = Shape::new(rig.ssd.sectors() / 2048);
    shape.block = 4096;
    let ssd = Disk::new(shape)?;
    ssd.put(0, &rig.ssd.content()?)?;
    exchange(rig, &ssd)?;
    Ok(ssd)
}

/// Checks that `result` is the refusal of larger blocks, and that neither device has changed.
fn refused(rig: &Rig, ssd: &Disk, result: Result<()>, disk: &[u8]) -> Result<()> {
    match result {
        Ok(()) => anyhow::bail!("taken: {:?}", rig.status()?),
        Err(error) => ensure!(
            dm::is_errno(&error, rustix::io::Errno::MEDIUMTYPE),
            "{error:#}"
        ),
    }
    ensure!(ssd.content()? == rig.ssd.content()?, "the SSD was written");
    ensure!(rig.origin.content()? == disk, "the disk was written");
    Ok(())
}

fn coarser() -> Result<()> {
    let (mut rig, model) = exchangeable()?;
    rig.detach()?;
    let disk = rig.origin.content()?;
    let ssd = with_larger_blocks(&rig)?;
    let result = rig.attach_as("writethrough");
    refused(&rig, &ssd, result, &disk)?;
    // On the SSD with the old block size, everything is there.
    exchange(&rig, &rig.ssd)?;
    rig.attach(false)?;
    rig.equals(&model)?;
    rig.detach()?;
    drop(ssd);
    let _larger = with_larger_blocks(&rig)?;
    rig.attach(false)?;
    let status = rig.status()?;
    ensure!(status.used > 0 && status.dirty == 0, "{status:?}");
    rig.equals(&model)
}

fn coarser_live() -> Result<()> {
    let (rig, model) = exchangeable()?;
    rig.mapped()?.suspend()?;
    let disk = rig.origin.content()?;
    let ssd = with_larger_blocks(&rig)?;
    let line = rig.line(&format!("writethrough {}", rig.words(false)));
    rig.mapped()?.load(line)?;
    refused(&rig, &ssd, rig.mapped()?.resume(), &disk)?;
    exchange(&rig, &rig.ssd)?;
    rig.mapped()?.load(rig.good_line(false))?;
    rig.mapped()?.resume()?;
    rig.equals(&model)
}
