// SPDX-License-Identifier: GPL-3.0-or-later
//! Write-back writes that begin or end inside a quarter (promises 1, 3, 16 and 20).

use std::os::unix::fs::FileExt;
use std::thread::sleep;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::failures::break_ssd;
use super::time::{config as slow, ms};
use super::writeback::config;
use crate::aio::Request;
use crate::io::{self, MIB, SECTOR};
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    (
        "edges: a write of a part of a quarter goes to the SSD, and reads the rest once",
        read_once,
    ),
    // promise 1: uml-plain/edges: a cut keeps what was flushed of parts of quarters
    (
        "edges: a cut keeps what was flushed of parts of quarters",
        kept_by_a_cut,
    ),
    (
        "edges: where the rest cannot be read the write goes to the disk",
        unreadable,
    ),
    // promise 16: uml-plain/edges: two parts of a quarter are both there
    ("edges: two parts of a quarter are both there", two_parts),
    // promise 33: uml-plain/edges: nothing else waits while a rest is read
    (
        "edges: nothing else waits while a rest is read",
        waits_alone,
    ),
    (
        "edges: few rests are read at a time for writes that nobody waits for",
        background,
    ),
    ("edges: the SSD fails while a rest is read", || {
        ssd_gone(false)
    }),
    // promise 18: uml-plain/edges: an SSD with dirty data fails while a rest is read
    (
        "edges: an SSD with dirty data fails while a rest is read",
        || ssd_gone(true),
    ),
    (
        "edges: a mode without dirty data begins meanwhile",
        new_mode,
    ),
];

pub const TIMED: &[Entry] = &[
    (
        "time: what was merged is written back when the disk is idle",
        idle_again,
    ),
    (
        "time: a suspend and a new table wait for a write whose rest is read",
        suspended,
    ),
];

/// A quarter's start, in bytes.
const PLACE: usize = 5 * MIB;
const QUARTER: usize = 4096;

/// Writes, and keeps the model.
fn write(rig: &Rig, model: &mut [u8], start: usize, sectors: usize, seed: u64) -> Result<()> {
    let data = io::random(sectors * SECTOR, seed);
    model[start..start + data.len()].copy_from_slice(&data);
    io::write(&io::direct(&rig.path()?)?, start as u64, &data)
}

/// 12 KiB that begin with the last sector of a quarter, as in a partition that begins at sector 63.
fn read_once() -> Result<()> {
    let (rig, mut model) = Rig::new(config().keeping())?;
    let before = rig.origin.stat()?;
    let start = PLACE + 7 * SECTOR;
    write(&rig, &mut model, start, 24, 1)?;
    let status = rig.status()?;
    let disk = rig.origin.stat()? - before;
    ensure!(
        status.get("write_back")? == 24 && status.get("merges")? == 1,
        "not on the SSD alone: {status:?}"
    );
    ensure!(status.dirty == 4 * 8, "4 quarters were touched: {status:?}");
    ensure!(
        disk.read == 7 + 1 && disk.written == 0,
        "the disk was read for {} sectors, and {} were written",
        disk.read,
        disk.written
    );
    // Parts of the same quarters, and one within a quarter.
    write(&rig, &mut model, PLACE + 3 * SECTOR, 2, 2)?;
    write(&rig, &mut model, start + 20 * SECTOR, 5, 3)?;
    let status = rig.status()?;
    ensure!(
        status.get("merges")? == 1 && status.get("write_back")? == 24 + 7,
        "what is on the SSD was read again: {status:?}"
    );
    // The disk's last quarter, and one of which the middle is written.
    write(&rig, &mut model, 40 * MIB - 3 * SECTOR, 3, 4)?;
    write(&rig, &mut model, PLACE + MIB + 3 * SECTOR, 2, 5)?;
    ensure!(
        rig.status()?.get("merges")? == 3,
        "no rest was read: {:?}",
        rig.status()?
    );
    rig.shows(&model)?;
    // The reads above are being stored, and hold slots that the write needs.
    rig.quiet()?;
    // The disk may take less at a time, and each piece has its edges.
    write(&rig, &mut model, PLACE + 2 * MIB + 5 * SECTOR, 2048, 15)?;
    let status = rig.status()?;
    ensure!(
        status.get("write_hit")? == status.get("write_requested")?,
        "not all is on the SSD: {status:?}"
    );
    rig.shows(&model)?;
    rig.equals(&model)
}

fn kept_by_a_cut() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config().cuttable().keeping())?;
    let mut rng = Rng::with_seed(6);
    for round in 0..4 {
        for _ in 0..50 {
            let sector = rng.usize(0..2 * MIB / SECTOR);
            let count = rng.usize(1..40);
            write(&rig, &mut model, sector * SECTOR, count, rng.u64(..))?;
        }
        io::direct(&rig.path()?)?.sync_all()?;
        let merges = rig.status()?.get("merges")?;
        ensure!(merges > 0, "round {round}: no rest was read");
        let mut after = rig.cut()?;
        after.attach(false)?;
        after.shows(&model).context("after the cut")?;
        rig.keep(false)?;
        rig = after;
    }
    rig.equals(&model)
}

/// The write itself may go where the disk can be written.
fn unreadable() -> Result<()> {
    let (rig, mut model) = Rig::new(config())?;
    // The only rest; the first of two; the second, when the first was read.
    for (number, sectors, bad) in [(1, 31, 0), (2, 27, 0), (3, 27, 29)] {
        let start = PLACE + number * MIB;
        let bad = (start / SECTOR + bad) as u64;
        rig.origin.fail(bad, bad, true)?;
        write(&rig, &mut model, start + SECTOR, sectors, 7)?;
        let status = rig.quiet()?;
        ensure!(
            status.get("merges")? == number as u64 && status.get("disk_errors")? == 0,
            "a rest that no user misses counts as an error, or none was read: {status:?}"
        );
        ensure!(
            status.get("write_back")? == 0 && status.dirty == 0,
            "a rest that could not be read is dirty: {status:?}"
        );
        rig.origin.fail(bad, bad, false)?;
        ensure!(
            rig.origin.content()? == model,
            "the disk lacks the write: {:?}",
            rig.status()?
        );
    }
    rig.equals(&model)
}

fn held() -> Result<(Rig, Vec<u8>)> {
    Rig::new(Config {
        origin_under: Some(Under::Linear),
        ..config()
    })
}

/// Begins a write, and keeps the model.
fn begin(rig: &Rig, model: &mut [u8], start: usize, sectors: usize, seed: u64) -> Result<Request> {
    let data = io::random(sectors * SECTOR, seed);
    model[start..start + data.len()].copy_from_slice(&data);
    Request::write(&io::direct(&rig.path()?)?, start as u64, &data)
}

fn merges(rig: &Rig, count: u64) -> Result<()> {
    rig.until("a rest is read", |status| {
        status.get("merges").is_ok_and(|now| now == count)
    })?;
    Ok(())
}

/// The second must not read the rest, which the first is about to change, from the disk.
fn two_parts() -> Result<()> {
    let (rig, mut model) = held()?;
    rig.hold_reads(true)?;
    let first = begin(&rig, &mut model, PLACE, 3, 8)?;
    merges(&rig, 1)?;
    let second = begin(&rig, &mut model, PLACE + 5 * SECTOR, 3, 9)?;
    rig.until("the second waits", |status| {
        status.get("waits").is_ok_and(|waits| waits == 1)
    })?;
    rig.hold_reads(false)?;
    first.end()?;
    second.end()?;
    let status = rig.status()?;
    ensure!(
        status.get("merges")? == 1 && status.get("write_back")? == 6,
        "{status:?}"
    );
    rig.shows(&model)?;
    rig.equals(&model)
}

/// Writes of the frame's other quarters, and a flush.
fn waits_alone() -> Result<()> {
    let (rig, mut model) = held()?;
    rig.hold_reads(true)?;
    let part = begin(&rig, &mut model, PLACE + QUARTER, 3, 10)?;
    merges(&rig, 1)?;
    let whole = begin(&rig, &mut model, PLACE, 8, 11)?;
    whole.end()?;
    write(&rig, &mut model, PLACE + 2 * QUARTER, 16, 12)?;
    io::direct(&rig.path()?)?.sync_all()?;
    let status = rig.status()?;
    ensure!(
        status.get("write_back")? == 24,
        "the part was not held: {status:?}"
    );
    rig.hold_reads(false)?;
    part.end()?;
    rig.shows(&model)?;
    rig.equals(&model)
}

/// The others go to the disk, where write-back throttling holds them back.
fn background() -> Result<()> {
    const ALL: usize = 20;
    const AT_A_TIME: u64 = 8;
    let (rig, mut model) = held()?;
    let file = io::buffered(&rig.path()?)?;
    io::set_block_size(&file, SECTOR)?;
    for start in (0..ALL).map(|number| number * MIB) {
        model[start..start + SECTOR].fill(16);
        file.write_all_at(&model[start..start + SECTOR], start as u64)?;
    }
    rig.hold_reads(true)?;
    io::begin_write_out(&file)?;
    let status = rig.until("nothing is left", |status| {
        let value = |name| status.get(name).unwrap_or(0);
        value("merges") + value("write_missed") == ALL as u64
    })?;
    // Somebody waits for this one.
    let waited = begin(&rig, &mut model, 30 * MIB, 1, 17)?;
    let more = merges(&rig, status.get("merges")? + 1);
    // Also if it fails, the case can come to an end.
    rig.hold_reads(false)?;
    more?;
    ensure!(
        status.get("merges")? == AT_A_TIME,
        "not {AT_A_TIME} rests are read at a time: {status:?}"
    );
    waited.end()?;
    file.sync_all()?;
    drop(file);
    rig.equals(&model)
}

/// Then the write goes to the disk; but if the lost SSD has data that the disk lacks, the write fails.
fn ssd_gone(dirty: bool) -> Result<()> {
    let mut config = if dirty { config().keeping() } else { config() };
    config.origin_under = Some(Under::Linear);
    config.ssd_under = Some(Under::Linear);
    let (rig, mut model) = Rig::new(config)?;
    if dirty {
        rig.keep(true)?;
        write(&rig, &mut model, 0, 8, 18)?;
    }
    let before = model.clone();
    rig.hold_reads(true)?;
    let part = begin(&rig, &mut model, PLACE + SECTOR, 3, 19)?;
    merges(&rig, 1)?;
    break_ssd(&rig)?;
    let other = write(&rig, &mut model, PLACE + MIB, 8, 20);
    let state = if dirty { "stranded" } else { "bypass" };
    rig.until(state, |status| status.state == state)?;
    rig.hold_reads(false)?;
    let part = part.end();
    if !dirty {
        part.and(other)?;
        ensure!(rig.origin.content()? == model, "the disk lacks a write");
        return rig.shows(&model);
    }
    ensure!(
        part.is_err() && other.is_err(),
        "a write was answered that no device has"
    );
    rig.keep(false)?;
    ensure!(
        rig.origin.content()?[MIB..] == before[MIB..],
        "a write that failed went to the disk"
    );
    Ok(())
}

/// A suspend waits for the write, and so does a new table.
fn suspended() -> Result<()> {
    let (rig, mut model) = Rig::new(slow(500))?;
    let device = rig.mapped()?;
    for reload in [false, true] {
        let start = PLACE + usize::from(reload) * MIB + SECTOR;
        let before = rig.status()?;
        let part = begin(&rig, &mut model, start, 3, 21)?;
        let reads = rig.status()?;
        ensure!(
            reads.get("merges")? == before.get("merges")? + 1 && reads.dirty == before.dirty,
            "no rest is being read: {reads:?}"
        );
        if reload {
            device.load(rig.good_line(false))?;
        }
        device.suspend()?;
        let status = rig.status()?;
        device.resume()?;
        part.end()?;
        ensure!(
            status.dirty == before.dirty + 8,
            "suspended beside a write: {status:?}"
        );
        rig.shows(&model)?;
    }
    rig.equals(&model)
}

/// What is read then is of no use: the write goes to the disk as it is.
fn new_mode() -> Result<()> {
    let (rig, mut model) = held()?;
    rig.hold_reads(true)?;
    let part = begin(&rig, &mut model, PLACE + SECTOR, 3, 13)?;
    merges(&rig, 1)?;
    rig.mapped()?.message("mode writethrough")?;
    let before = rig.origin.stat()?;
    rig.hold_reads(false)?;
    part.end()?;
    let status = rig.quiet()?;
    let written = (rig.origin.stat()? - before).written;
    ensure!(
        status.get("write_back")? == 0 && status.dirty == 0 && written == 3,
        "{written} sectors were written to the disk: {status:?}"
    );
    rig.equals(&model)
}

/// The read of the rest has ended, so the user is at the disk no more.
fn idle_again() -> Result<()> {
    let (rig, mut model) = Rig::new(config())?;
    write(&rig, &mut model, PLACE + SECTOR, 31, 14)?;
    ensure!(rig.status()?.get("merges")? == 1, "{:?}", rig.status()?);
    sleep(ms(60_000));
    ensure!(
        rig.status()?.dirty == 0,
        "not written back to an idle disk: {:?}",
        rig.status()?
    );
    rig.equals(&model)
}
