// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads that miss while a fill of their frame is in flight (promises 2 and 18).

use std::fs::File;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow, ensure};

use super::Entry;
use crate::io::{self, Buffer, MIB, SECTOR};
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    (
        "joins: the disk is asked once for the quarters of a frame",
        once,
    ),
    (
        "joins: what the SSD has not got yet is read from the fill's pages",
        stored_late,
    ),
    (
        "joins: a read that begins where a fill is in flight reads the rest alone",
        rest,
    ),
    // promise 2: uml-plain/joins: what was written meanwhile is read from the disk
    (
        "joins: what was written meanwhile is read from the disk",
        written,
    ),
    // promise 18: uml-plain/joins: a sector that cannot be read fails its own reads only
    (
        "joins: a sector that cannot be read fails its own reads only",
        unreadable,
    ),
];

const FRAME: u64 = 5 * MIB as u64;
const QUARTER: usize = 4096;

fn quarter(model: &[u8], n: u64) -> &[u8] {
    let start = FRAME as usize + n as usize * QUARTER;
    &model[start..start + QUARTER]
}

fn begin() -> Result<(Rig, Vec<u8>, File)> {
    let config = Config {
        origin_under: Some(Under::Linear),
        ..Config::default()
    };
    let (rig, model) = Rig::new(config)?;
    let file = io::direct_without_times(&rig.path()?)?;
    Ok((rig, model, file))
}

/// Reads quarters from `n` of the frame on in a thread, and waits until the cache has counted the read as missed.
fn read<'scope>(
    rig: &Rig,
    scope: &'scope thread::Scope<'scope, '_>,
    file: &'scope File,
    n: u64,
    quarters: usize,
) -> Result<ScopedJoinHandle<'scope, Result<Buffer>>> {
    let before = rig.status()?.get("read_missed")?;
    let reader =
        scope.spawn(move || io::read(file, FRAME + n * QUARTER as u64, quarters * QUARTER));
    rig.until("missed", |status| {
        status
            .get("read_missed")
            .is_ok_and(|now| now == before + (quarters * QUARTER) as u64 / SECTOR as u64)
    })?;
    Ok(reader)
}

fn end(reader: ScopedJoinHandle<'_, Result<Buffer>>) -> Result<Buffer> {
    reader.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// What reads of all quarters get that come while the disk answers none.
fn read_together(rig: &Rig, file: &File) -> Result<Vec<Result<Buffer>>> {
    thread::scope(|scope| {
        rig.hold_reads(true)?;
        let readers: Vec<_> = (0..4)
            .map(|n| read(rig, scope, file, n, 1))
            .collect::<Result<_>>()?;
        rig.hold_reads(false)?;
        Ok(readers.into_iter().map(end).collect())
    })
}

/// Another read comes when the fill has ended: a hit.
fn once() -> Result<()> {
    let (rig, model, file) = begin()?;
    let disk = rig.origin.stat()?;
    for (seen, n) in read_together(&rig, &file)?.into_iter().zip(0..) {
        ensure!(seen?[..] == *quarter(&model, n), "quarter {n}");
    }
    rig.quiet()?;
    io::read(&file, FRAME, 4 * QUARTER)?;
    let read = (rig.origin.stat()? - disk).read;
    ensure!(read == 32, "the disk was asked for {read} sectors");
    drop(file);
    rig.equals(&model)
}

/// The disk has answered the fill, and the SSD has not. The last read has two frames more.
fn stored_late() -> Result<()> {
    let config = Config {
        ssd_under: Some(Under::Linear),
        ..Config::default()
    };
    let (rig, model) = Rig::new(config)?;
    let file = io::direct_without_times(&rig.path()?)?;
    let before = (rig.status()?.get("read_missed")?, rig.origin.stat()?);
    rig.ssd_target()?
        .swap(Under::Delay(0, 60_000).line(&rig.ssd))?;
    for n in 0..4 {
        let read = io::read(&file, FRAME + n * QUARTER as u64, QUARTER)?;
        ensure!(read[..] == *quarter(&model, n), "quarter {n}");
    }
    let more = io::read(&file, FRAME + 2 * QUARTER as u64, 8 * QUARTER)?;
    for (n, seen) in (2..).zip(more.chunks(QUARTER)) {
        ensure!(seen == quarter(&model, n), "quarter {n} of a longer read");
    }
    let missed = rig.status()?.get("read_missed")? - before.0;
    rig.ssd_target()?.swap(Under::Linear.line(&rig.ssd))?;
    rig.quiet()?;
    let read = (rig.origin.stat()? - before.1).read;
    ensure!(
        (missed, read) == (32 + 64, 32 + 64),
        "{missed} sectors missed, the disk was asked for {read}"
    );
    drop(file);
    rig.equals(&model)
}

/// As readahead does: a read begins in the frame in which the one before has ended, and has more frames.
fn rest() -> Result<()> {
    let (rig, model, file) = begin()?;
    let disk = rig.origin.stat()?;
    thread::scope(|scope| -> Result<()> {
        rig.hold_reads(true)?;
        let first = read(&rig, scope, &file, 0, 2)?;
        let second = read(&rig, scope, &file, 2, 8)?;
        let third = read(&rig, scope, &file, 10, 2)?;
        rig.hold_reads(false)?;
        for (seen, from, quarters) in [(first, 0, 2), (second, 2, 8), (third, 10, 2)] {
            let seen = end(seen)?;
            for (n, seen) in (from..).zip(seen.chunks(QUARTER)) {
                ensure!(seen == quarter(&model, n), "quarter {n}");
            }
            ensure!(seen.len() == quarters * QUARTER, "{} bytes", seen.len());
        }
        Ok(())
    })?;
    rig.quiet()?;
    let read = (rig.origin.stat()? - disk).read;
    ensure!(read == 3 * 32, "the disk was asked for {read} sectors");
    drop(file);
    rig.equals(&model)
}

/// The fill began before the write, so it may have what was there before.
fn written() -> Result<()> {
    let (rig, mut model, file) = begin()?;
    let disk = rig.origin.stat()?;
    let data = io::random(QUARTER, 1);
    thread::scope(|scope| -> Result<()> {
        rig.hold_reads(true)?;
        let first = read(&rig, scope, &file, 0, 1)?;
        let before = read(&rig, scope, &file, 2, 1)?;
        io::write(&file, FRAME + 2 * QUARTER as u64, &data)?;
        let busy = rig.status()?.get("read_bypassed_busy")?;
        let after = scope.spawn(|| io::read(&file, FRAME + 2 * QUARTER as u64, QUARTER));
        rig.until("past the fill", |status| {
            status
                .get("read_bypassed_busy")
                .is_ok_and(|now| now == busy + 8)
        })?;
        rig.hold_reads(false)?;
        ensure!(end(first)?[..] == *quarter(&model, 0), "another quarter");
        let seen = end(before)?;
        ensure!(
            seen[..] == *quarter(&model, 2) || seen[..] == data[..],
            "the read beside the write has neither data"
        );
        ensure!(
            end(after)?[..] == data[..],
            "the read behind the write is old"
        );
        Ok(())
    })?;
    let read = (rig.origin.stat()? - disk).read;
    ensure!(read == 32 + 8, "the disk was asked for {read} sectors");
    model[FRAME as usize + 2 * QUARTER..][..QUARTER].copy_from_slice(&data);
    drop(file);
    rig.equals(&model)
}

/// Quarter 3 cannot be read, and so the frame.
fn unreadable() -> Result<()> {
    let (rig, model, file) = begin()?;
    let bad = (FRAME as usize + 3 * QUARTER) as u64 / SECTOR as u64;
    rig.origin.fail(bad, bad, true)?;
    for (seen, n) in read_together(&rig, &file)?.into_iter().zip(0..) {
        if n == 3 {
            ensure!(seen.is_err(), "what cannot be read was read");
        } else {
            ensure!(seen?[..] == *quarter(&model, n), "quarter {n}");
        }
    }
    rig.origin.fail(bad, bad, false)?;
    drop(file);
    rig.equals(&model)
}
