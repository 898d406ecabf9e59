// SPDX-License-Identifier: GPL-3.0-or-later
//! Hits come from the SSD, and the counters tell the truth; both are held against the disks' own counters.

use std::thread;

use anyhow::{Result, anyhow, ensure};
use fastrand::Rng;

use super::Entry;
use super::failures::config;
use crate::io::{self, MIB, SECTOR};
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    // promise 31: uml-plain/hits: second reads come from the SSD, sector for sector
    (
        "hits: second reads come from the SSD, sector for sector",
        second_reads,
    ),
    ("hits: a large file is fast the second time", large_file),
    ("hits: written data is read from the SSD", written),
    ("hits: write-around leaves no old copy", write_around),
    ("hits: a scan does not evict what is used daily", scan),
    (
        "hits: an unaligned read of cached data comes from the SSD",
        unaligned,
    ),
    ("hits: the data on the SSD is what was read", from_ssd),
    (
        "hits: what is dropped while it is read counts no longer",
        dropped_under_a_reader,
    ),
];

/// Offsets of all frames of the first MiBs, in random order so that they are no stream.
fn frames(mib: usize) -> Vec<u64> {
    let mut offsets: Vec<u64> = (0..mib * MIB)
        .step_by(16384)
        .map(|offset| offset as u64)
        .collect();
    Rng::with_seed(8).shuffle(&mut offsets);
    offsets
}

fn second_reads() -> Result<()> {
    let (rig, model) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    let offsets = frames(4);
    let sectors = (4 * MIB / SECTOR) as u64;
    for offset in &offsets {
        io::read(&file, *offset, 16384)?;
    }
    let first = rig.quiet()?;
    ensure!(
        first.get("read_requested")? >= sectors,
        "requests are not counted"
    );
    let (disk, ssd) = (rig.origin.stat()?, rig.ssd.stat()?);
    for offset in &offsets {
        let start = usize::try_from(*offset)?;
        ensure!(
            io::read(&file, *offset, 16384)?[..] == model[start..start + 16384],
            "wrong data at {offset}"
        );
    }
    let (disk, ssd) = (rig.origin.stat()? - disk, rig.ssd.stat()? - ssd);
    let second = rig.quiet()?;
    ensure!(disk.read == 0, "the disk was read: {} sectors", disk.read);
    ensure!(
        ssd.read == sectors,
        "{} sectors were read from the SSD, not {sectors}",
        ssd.read
    );
    let hits = second.get("read_hit")? - first.get("read_hit")?;
    ensure!(
        hits == sectors,
        "{hits} sectors counted as hits, not {sectors}"
    );
    ensure!(disk.written == 0, "the disk was written");
    Ok(())
}

/// In order and in large requests, as a player or a loading game does.
fn large_file() -> Result<()> {
    let (rig, _) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    let read_all = || -> Result<()> {
        for offset in (0..4 * MIB).step_by(128 * 1024) {
            io::read(&file, offset as u64, 128 * 1024)?;
        }
        Ok(())
    };
    read_all()?;
    rig.quiet()?;
    let disk = rig.origin.stat()?;
    read_all()?;
    let status = rig.quiet()?;
    let again = (rig.origin.stat()? - disk).read;
    ensure!(again == 0, "{again} sectors were read from the disk again");
    ensure!(status.get("streams")? > 0, "the stream was not counted");
    Ok(())
}

fn written() -> Result<()> {
    let (rig, _) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    let offsets = frames(4);
    for offset in &offsets {
        io::write(&file, *offset, &io::random(16384, *offset))?;
    }
    let status = rig.quiet()?;
    ensure!(
        status.get("write_hit")? == (4 * MIB / SECTOR) as u64,
        "not all writes were stored"
    );
    let disk = rig.origin.stat()?;
    for offset in &offsets {
        ensure!(
            io::read(&file, *offset, 16384)?[..] == io::random(16384, *offset),
            "wrong data at {offset}"
        );
    }
    ensure!((rig.origin.stat()? - disk).read == 0, "the disk was read");
    Ok(())
}

fn write_around() -> Result<()> {
    let (rig, mut model) = Rig::new(Config {
        mode: "writearound",
        ..Config::default()
    })?;
    let file = io::direct(&rig.path()?)?;
    for offset in frames(4) {
        io::read(&file, offset, 16384)?;
    }
    rig.quiet()?;
    for offset in frames(2) {
        let start = usize::try_from(offset)? + 4096;
        model[start..start + 4096].copy_from_slice(&io::random(4096, offset));
        io::write(&file, start as u64, &model[start..start + 4096])?;
    }
    let status = rig.quiet()?;
    ensure!(status.get("write_hit")? == 0, "write-around stored a write");
    ensure!(
        status.get("write_bypassed_mode")? + status.get("write_missed")? > 0,
        "writes are not counted"
    );
    drop(file);
    rig.equals(&model)
}

/// Half a cache full of data that is read again and again stays while twice the cache is read once.
fn scan() -> Result<()> {
    let (rig, _) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    let daily = frames(6);
    for _ in 0..4 {
        for offset in &daily {
            io::read(&file, *offset, 16384)?;
        }
        rig.quiet()?;
    }
    for offset in (8 * MIB..40 * MIB).step_by(256 * 1024) {
        io::read(&file, offset as u64, 256 * 1024)?;
    }
    rig.quiet()?;
    let disk = rig.origin.stat()?;
    for offset in &daily {
        io::read(&file, *offset, 16384)?;
    }
    let lost = (rig.origin.stat()? - disk).read;
    let of = (6 * MIB / SECTOR) as u64;
    ensure!(
        lost * 10 <= of,
        "{lost} of {of} sectors had to be read from the disk again"
    );
    Ok(())
}

fn unaligned() -> Result<()> {
    let (rig, model) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    for offset in frames(4) {
        io::read(&file, offset, 16384)?;
    }
    rig.quiet()?;
    let disk = rig.origin.stat()?;
    let mut rng = Rng::with_seed(9);
    for _ in 0..300 {
        let first = rng.usize(0..8000);
        let length = rng.usize(1..100);
        let range = first * SECTOR..(first + length) * SECTOR;
        ensure!(
            io::read(&file, range.start as u64, range.len())?[..] == model[range],
            "wrong data at sector {first}"
        );
    }
    ensure!((rig.origin.stat()? - disk).read == 0, "the disk was read");
    Ok(())
}

/// Changes the plain disk behind the cache's back: what is then read tells where it came from.
fn from_ssd() -> Result<()> {
    let (rig, model) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    for offset in frames(2) {
        io::read(&file, offset, 16384)?;
    }
    rig.quiet()?;
    rig.origin.put(0, &vec![0xee; 2 * MIB])?;
    for offset in frames(2) {
        let start = usize::try_from(offset)?;
        ensure!(
            io::read(&file, offset, 16384)?[..] == model[start..start + 16384],
            "{offset} came from the disk"
        );
    }
    rig.mapped()?.message("drop")?;
    for offset in frames(2) {
        ensure!(
            io::read(&file, offset, 16384)?
                .iter()
                .all(|byte| *byte == 0xee),
            "{offset} came from the SSD"
        );
    }
    Ok(())
}

/// A slot that was pinned when it was forgotten keeps its frame; but nobody can read it, now or after the next start.
fn dropped_under_a_reader() -> Result<()> {
    let (mut rig, model) = Rig::new(config("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, 16384)?;
    let filled = rig.quiet()?;
    ensure!(
        filled.used == 1,
        "{} slots in use after a read",
        filled.used
    );
    let below = rig.ssd_target()?;
    let silent = below.suspended()?;
    let reader = thread::spawn(move || io::read(&file, 0, 16384).map(|read| read[..].to_vec()));
    let before = filled.get("read_hit")?;
    rig.until("reading", |status| {
        status.get("read_hit").is_ok_and(|n| n > before)
    })?;
    let dropped = rig.mapped()?.message("drop");
    drop(silent);
    let read = reader.join().map_err(|_| anyhow!("a panic"))??;
    dropped?;
    ensure!(read == model[..16384], "wrong data");
    let used = rig.quiet()?.used;
    ensure!(used == 0, "{used} slots in use after a drop");
    rig.detach()?;
    rig.attach(false)?;
    let used = rig.status()?.used;
    ensure!(used == 0, "{used} slots in use after a start");
    Ok(())
}
