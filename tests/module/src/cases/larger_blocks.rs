// SPDX-License-Identifier: GPL-3.0-or-later
//! An SSD with larger logical blocks than the disk.

use std::io::{IoSlice, IoSliceMut};

use anyhow::{Context, Result, ensure};
use rustix::io::{preadv, pwritev};

use super::Entry;
use super::writeback::{config, write_quarters};
use crate::disk::{Disk, Shape, counter};
use crate::dm::{self, Dm, Line};
use crate::io::{self, MIB};
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
    // promise 29: uml-plain/sizes: memory in pieces smaller than a block of the SSD
    (
        "sizes: memory in pieces smaller than a block of the SSD",
        pieces,
    ),
    // promise 29: uml-plain/write-back: memory in pieces smaller than a sector
    (
        "write-back: memory in pieces smaller than a sector",
        small_pieces,
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
        ..config().keeping()
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

/// The disk takes pieces of 512 bytes. The SSD cannot split a block between two pieces.
fn pieces() -> Result<()> {
    let mut config = Config {
        ssd_under: Some(Under::Linear),
        ..Config::default()
    };
    config.ssd.block = 4096;
    let mut rig = Rig::disks(config)?;
    let mut model = rig.origin.fill(3)?;
    rig.test_ssd()?;
    rig.attach(true)?;
    let file = io::direct(&rig.path()?)?;
    for _ in 0..2 {
        io::read(&file, 0, MIB)?;
        rig.quiet()?;
    }
    let below = rig.ssd_target()?;
    let misaligned = || counter(&below.status()?, "misaligned");
    let (disk, before) = (rig.origin.stat()?, misaligned()?);
    io::read(&file, 0, 4096)?;
    ensure!(
        (rig.origin.stat()? - disk).read == 0,
        "not cached, so the case would show nothing"
    );
    let (mut first, mut second) = (io::Buffer::new(512)?, io::Buffer::new(3584)?);
    let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    ensure!(preadv(&file, &mut into, 0)? == 4096, "a short read");
    ensure!(
        first[..] == model[..512] && second[..] == model[512..4096],
        "wrong data"
    );
    first.fill(1);
    second.fill(2);
    let from = [IoSlice::new(&first), IoSlice::new(&second)];
    ensure!(pwritev(&file, &from, 0)? == 4096, "a short write");
    model[..512].fill(1);
    model[512..4096].fill(2);
    ensure!(
        misaligned()? == before,
        "the SSD got pieces smaller than its blocks"
    );
    drop(file);
    rig.equals(&model)
}

/// New kernels let a user give memory in pieces of four bytes. A disk may take these where the SSD does not: no such
/// request may make the SSD count as lost, nor cost it a slot.
fn small_pieces() -> Result<()> {
    let (rig, mut model) = Rig::new(Config {
        ssd_under: Some(Under::Linear),
        ..config().keeping()
    })?;
    rig.test_ssd()?.message("fail misaligned")?;
    let user = format!("{} user plain 3", rig.path()?.display());
    let user = Line::new(rig.origin.sectors(), "testdisk", user);
    let user = Dm::with(&format!("{}-user", rig.name), user)?;
    let file = io::direct(&rig.path()?)?;
    // Twice: to a block that is new to the SSD, and in its place there.
    for _ in 0..2 {
        user.message("pieces write 8")?;
    }
    model[4096..8192].fill(7);
    let status = rig.status()?;
    ensure!(status.dirty == 8, "not in write-back: {status:?}");
    ensure!(
        io::read(&file, 4096, 4096)?[..] == model[4096..8192],
        "wrong data"
    );
    // The only copy is where these pieces cannot be read to; that costs the request alone.
    ensure!(
        user.message("pieces read 8").is_err(),
        "the SSD takes small pieces"
    );
    ensure!(
        io::read(&file, 4096, 4096)?[..] == model[4096..8192],
        "wrong data"
    );
    // A clean copy is read from the disk.
    rig.drain()?;
    for _ in 0..16 {
        user.message("pieces read 8")?;
    }
    let status = rig.quiet()?;
    ensure!(
        status.state == "active" && status.get("retired")? == 0 && status.get("ssd_errors")? == 0,
        "the SSD is blamed: {status:?}"
    );
    drop((file, user));
    rig.equals(&model)
}
