// SPDX-License-Identifier: GPL-3.0-or-later
//! What reaches the disk: flushes, FUA, and nothing but the user's writes (promises 3 to 5).

use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use crate::disk::{Disk, Shape};
use crate::dm::{Dm, Line, is_errno};
use crate::io::{self, MIB, SECTOR};
use crate::model::{Mix, drive};
use crate::rig::{Config, Rig};
use crate::skipped::Skipped;

pub const CASES: &[Entry] = &[
    // promise 3: uml-plain/order: a flush reaches the disk
    ("order: a flush reaches the disk", flush),
    // promise 4: uml-plain/order: FUA reaches the disk
    ("order: FUA reaches the disk", fua),
    (
        "order: the disk gets the user's writes, each once, and nothing else",
        only_user_writes,
    ),
    (
        "order: a user's write is not marked to fail fast",
        no_write_fails_fast,
    ),
    (
        "order: memory that the SSD cannot take is refused",
        memory_for_both,
    ),
];

fn flush() -> Result<()> {
    for mode in ["writethrough", "writearound"] {
        let (rig, _) = Rig::new(Config {
            mode,
            ..Config::default()
        })?;
        let file = io::direct(&rig.path()?)?;
        for round in 0..10 {
            io::write(&file, round * 40960, &[round as u8; 4096])?;
            let before = rig.origin.stat()?;
            file.sync_all()?;
            ensure!(
                (rig.origin.stat()? - before).flushes >= 1,
                "{mode}: round {round}: no flush on the disk"
            );
        }
        // Nor does one flush answer for what was written after it.
        let reader = io::direct(&rig.path()?)?;
        io::read(&reader, 0, 65536)?;
        io::write(&reader, 0, &[1; 512])?;
        let before = rig.origin.stat()?;
        file.sync_all()?;
        ensure!(
            (rig.origin.stat()? - before).flushes >= 1,
            "{mode}: no flush on the disk after another file's write"
        );
        ensure!(
            rig.quiet()?.get("flushes_disk")? >= 11,
            "{mode}: flushes are not counted"
        );
    }
    Ok(())
}

const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// One record of dm-log-writes.
struct Logged {
    sector: usize,
    flags: u64,
    data: Vec<u8>,
    sectors: usize,
}

/// Reads the log that dm-log-writes made of all that passed through it, in 512-byte blocks.
fn parse(log: &Path) -> Result<Vec<Logged>> {
    let file = io::direct(log)?;
    let numbers = |at: usize| -> Result<Vec<u64>> {
        let block = io::read(&file, at as u64, SECTOR)?;
        block
            .chunks_exact(8)
            .map(|bytes| Ok(u64::from_le_bytes(bytes.try_into()?)))
            .collect()
    };
    let head = numbers(0)?;
    ensure!(head[0] == 0x006a_7366_7773_6872, "no log");
    let mut at = SECTOR;
    let mut logged = Vec::new();
    for _ in 0..head[2] {
        let entry = numbers(at)?;
        let (sector, sectors, flags) = (entry[0] as usize, entry[1] as usize, entry[2]);
        at += SECTOR;
        let length = if flags & (DISCARD | MARK) != 0 {
            0
        } else {
            sectors * SECTOR
        };
        let data = if length > 0 {
            io::read(&file, at as u64, length)?.to_vec()
        } else {
            Vec::new()
        };
        at += length;
        if flags & MARK == 0 {
            logged.push(Logged {
                sector,
                flags,
                data,
                sectors,
            });
        }
    }
    Ok(logged)
}

/// A cache whose disk logs the requests that reach it.
fn logging(mode: &'static str) -> Result<(Rig, Disk, Vec<u8>)> {
    let mut rig = Rig::disks(Config {
        mode,
        ..Config::default()
    })?;
    let model = rig.origin.fill(1)?;
    let log = Disk::new(Shape::new(192))?;
    let args = format!("{} {}", rig.origin.path().display(), log.path().display());
    let below = Dm::create(&format!("{}-log", rig.name))?;
    if below
        .load(Line::new(rig.origin.sectors(), "log-writes", args))
        .is_err()
    {
        return Err(Skipped::because("this kernel has no dm-log-writes"));
    }
    below.resume()?;
    rig.below_origin = Some(below);
    rig.attach(true)?;
    Ok((rig, log, model))
}

fn fua() -> Result<()> {
    let (mut rig, log, _) = logging("writethrough")?;
    {
        let file = io::durable(&rig.path()?)?;
        for number in 0..20_u64 {
            io::write(&file, number * 65536 + 4096, &[number as u8; 4096])?;
        }
    }
    rig.detach()?;
    rig.below_origin = None;
    let logged = parse(log.path())?;
    for number in 0..20 {
        let sector = number * 128 + 8;
        let write = logged
            .iter()
            .find(|entry| entry.sector == sector && entry.sectors == 8);
        let write = write.with_context(|| format!("write {number} is not in the disk's log"))?;
        ensure!(
            write.flags & FUA != 0,
            "write {number} reached the disk without FUA: flags {}",
            write.flags
        );
    }
    Ok(())
}

fn only_user_writes() -> Result<()> {
    for mode in ["writethrough", "writearound"] {
        let (mut rig, log, mut model) = logging(mode)?;
        let mut replayed = model.clone();
        {
            let file = io::direct(&rig.path()?)?;
            let mix = Mix {
                longest: 256,
                ..Mix::new(8 * MIB)
            };
            drive(&file, &mut model, &mut Rng::with_seed(2), mix, 500)?;
        }
        let requested = rig.quiet()?.get("write_requested")?;
        rig.detach()?;
        rig.below_origin = None;
        let logged = parse(log.path())?;
        let written: usize = logged.iter().map(|entry| entry.data.len() / SECTOR).sum();
        for entry in &logged {
            let start = entry.sector * SECTOR;
            replayed[start..start + entry.data.len()].copy_from_slice(&entry.data);
        }
        ensure!(
            written as u64 == requested,
            "{mode}: {requested} sectors written by the user, {written} on the disk"
        );
        if let Some(difference) = io::difference(&replayed, &model) {
            anyhow::bail!("{mode}: the disk's log does not give the model: {difference}");
        }
        ensure!(
            io::compare(rig.origin.path(), &model)?.is_none(),
            "{mode}: the plain disk differs from the model"
        );
    }
    Ok(())
}

/// A request that is marked to fail fast gets none of the driver's retries. That is right for what the cache reads ahead
/// of the user, and wrong for what the user asked for.
fn no_write_fails_fast() -> Result<()> {
    let (rig, mut model) = Rig::new(Config {
        origin: Shape::new(40).cuttable(),
        ..Config::default()
    })?;
    {
        let file = io::direct(&rig.path()?)?;
        let mix = Mix {
            longest: 256,
            ..Mix::new(8 * MIB)
        };
        drive(&file, &mut model, &mut Rng::with_seed(3), mix, 300)?;
        // Reads of a part of a quarter, of which the cache fetches the rest.
        for number in 0..20 {
            io::read(&file, 20 * MIB as u64 + number * 65536 + 512, 512)?;
        }
    }
    rig.quiet()?;
    let [fast_reads, fast_writes] =
        ["fast_reads", "fast_writes"].map(|name| rig.origin.test_counter(name));
    ensure!(
        fast_reads? > 0,
        "no read is marked, so the case would show nothing"
    );
    let fast_writes = fast_writes?;
    ensure!(
        fast_writes == 0,
        "{fast_writes} writes of the user are marked to fail fast"
    );
    rig.equals(&model)
}

/// Reads straight into memory that begins so many bytes behind a page.
fn read_into(file: &std::fs::File, offset: u64, behind: usize) -> Result<()> {
    let mut buffer = io::Buffer::new(8192)?;
    file.read_exact_at(&mut buffer[behind..behind + 4096], offset)?;
    Ok(())
}

/// The SSD takes memory at multiples of 1024 bytes, the disk at any sector.
fn memory_for_both() -> Result<()> {
    let ssd = Shape {
        dma_alignment: 1023,
        ..Shape::new(16)
    };
    let (rig, _) = Rig::new(Config {
        ssd,
        ..Config::default()
    })?;
    let file = io::direct(&rig.path()?)?;
    for _ in 0..2 {
        io::read(&file, 0, MIB)?;
        rig.quiet()?;
    }
    let (disk, misaligned) = (rig.origin.stat()?, rig.ssd.test_counter("misaligned")?);
    read_into(&file, 0, 1024).context("memory that both take")?;
    ensure!(
        (rig.origin.stat()? - disk).read == 0,
        "not cached, so the case would show nothing"
    );
    let refused = read_into(&file, 0, 512);
    ensure!(
        rig.ssd.test_counter("misaligned")? == misaligned,
        "the SSD got memory that it cannot take"
    );
    ensure!(
        refused.is_err_and(|error| is_errno(&error, rustix::io::Errno::INVAL)),
        "a read into memory that the SSD cannot take was not refused"
    );
    Ok(())
}
