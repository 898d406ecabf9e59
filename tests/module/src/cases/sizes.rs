// SPDX-License-Identifier: GPL-3.0-or-later
//! Devices of more than 2 TiB, where the number of a sector needs more than 32 bits (promises 2 and 28).

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::damaged::change_superblocks;
use crate::disk::{Disk, Shape};
use crate::io;
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    // promise 34: uml-plain/sizes: a disk of 5 TiB in write-through keeps data in its place
    (
        "sizes: a disk of 5 TiB in write-through keeps data in its place",
        || keeps("writethrough", false),
    ),
    // promise 34: uml-plain/sizes: a disk of 5 TiB in write-back keeps data in its place
    (
        "sizes: a disk of 5 TiB in write-back keeps data in its place",
        || keeps("writeback", false),
    ),
    // promise 34: uml-plain/sizes: an SSD of 3 TiB in write-through keeps data in its place
    (
        "sizes: an SSD of 3 TiB in write-through keeps data in its place",
        || keeps("writethrough", true),
    ),
    // promise 34: uml-plain/sizes: an SSD of 3 TiB in write-back keeps data in its place
    (
        "sizes: an SSD of 3 TiB in write-back keeps data in its place",
        || keeps("writeback", true),
    ),
];

const TIB_IN_MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const DISK_TIB: u64 = 5;
const BLOCK: usize = 16384;

/// Places all over the disk, each with its twin: the place that it becomes if the sector loses its upper 32 bits.
fn places() -> Vec<(u64, u64)> {
    let mut rng = Rng::with_seed(1);
    let place = |_| {
        let at = rng.u64(2 * TIB / BLOCK as u64..DISK_TIB * TIB / BLOCK as u64) * BLOCK as u64;
        (at, at % (2 * TIB))
    };
    (0..150).map(place).collect()
}

fn content(place: u64) -> Vec<u8> {
    io::random(BLOCK, place)
}

/// Where FORMAT.md has the length of the SSD, in sectors, and the first sector of the data region in a superblock.
const SSD_SECTORS: usize = 64;
const DATA_START: usize = 200;

/// Puts a cache without data on an SSD of 3 TiB, with its data region behind 2 TiB. An index for all of that SSD would
/// take 2 GB of the guest's memory.
fn move_to_large_ssd(rig: &mut Rig) -> Result<()> {
    let large = Disk::new(Shape::new(3 * TIB_IN_MIB))?;
    let small = io::direct(rig.ssd.path())?;
    let number = |at: usize| -> Result<u64> {
        let block = io::read(&small, 0, 4096)?;
        Ok(u64::from_le_bytes(block[at..at + 8].try_into()?))
    };
    let metadata = usize::try_from(number(DATA_START)?)? * io::SECTOR;
    large.put(0, &io::read(&small, 0, metadata)?)?;
    let data_start = 5 * TIB / 2 / io::SECTOR as u64;
    change_superblocks(&large, |block| {
        block[SSD_SECTORS..][..8].copy_from_slice(&large.sectors().to_le_bytes());
        block[DATA_START..][..8].copy_from_slice(&data_start.to_le_bytes());
    })?;
    rig.ssd = large;
    Ok(())
}

fn keeps(mode: &'static str, is_ssd_large: bool) -> Result<()> {
    let mut rig = Rig::disks(Config {
        mode,
        origin: Shape::new(DISK_TIB * TIB_IN_MIB),
        ssd: Shape::new(64),
        ..Config::default()
    })?;
    let places = places();
    // The first half is on the disk before the cache is; the cache reads it and then has it. The rest is written.
    let (read, written) = places.split_at(places.len() / 2);
    for (at, _) in read {
        rig.origin.put(*at, &content(*at))?;
    }
    rig.attach(true)?;
    if is_ssd_large {
        rig.detach()?;
        move_to_large_ssd(&mut rig)?;
        rig.attach(false)?;
    }
    let shows = |rig: &Rig, what: &str| -> Result<()> {
        let file = io::direct(&rig.path()?)?;
        for (at, twin) in &places {
            let is = |place: u64, bytes: &[u8]| -> Result<bool> {
                Ok(io::read(&file, place, BLOCK)?[..] == *bytes)
            };
            ensure!(is(*at, &content(*at))?, "{what}: wrong data at byte {at}");
            ensure!(
                is(*twin, &[0; BLOCK])?,
                "{what}: byte {twin} has data that belongs to byte {at}"
            );
        }
        Ok(())
    };
    {
        let file = io::direct(&rig.path()?)?;
        for (at, _) in written {
            io::write(&file, *at, &content(*at))?;
        }
        file.sync_all()?;
    }
    shows(&rig, "at first")?;
    shows(&rig, "from the cache")?;
    rig.quiet()?;
    ensure!(rig.status()?.get("read_hit")? > 0, "nothing was cached");
    rig.detach()?;
    rig.attach(false)?;
    shows(&rig, "after a stop and a start")?;
    rig.drain()?;
    rig.detach()?;
    let disk = io::direct(rig.origin.path())?;
    for (at, twin) in &places {
        let on_disk = io::read(&disk, *at, BLOCK).context("the plain disk")?;
        ensure!(
            on_disk[..] == content(*at)[..],
            "the plain disk: wrong data at byte {at}"
        );
        ensure!(
            io::read(&disk, *twin, BLOCK)?.iter().all(|byte| *byte == 0),
            "the plain disk: byte {twin} has data that belongs to byte {at}"
        );
    }
    Ok(())
}
