// SPDX-License-Identifier: GPL-3.0-or-later
//! Write-back: what is where, what a flush costs, draining, the limit, discards (promises 3, 5, 9, 14, 23, 28, 30).

use std::thread;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::time::{ms, timed};
use crate::beside::Beside;
use crate::dm;
use crate::io::{self, MIB, SECTOR};
use crate::model::{Mix, drive};
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    // promise 9: uml-plain/write-back: data is on the SSD only until it is drained
    (
        "write-back: data is on the SSD only until it is drained",
        where_it_is,
    ),
    // promise 5: uml-plain/write-back: an fsync costs the disk nothing
    ("write-back: an fsync costs the disk nothing", fsync),
    // promise 5: uml-plain/write-back: after a write to the disk a flush reaches it
    (
        "write-back: after a write to the disk a flush reaches it",
        fsync_of_disk,
    ),
    // promise 4: uml-plain/write-back: FUA is recorded when it returns
    ("write-back: FUA is recorded when it returns", fua),
    // promise 30: uml-plain/write-back: dirty data stays below the limit
    ("write-back: dirty data stays below the limit", limit),
    // promise 14: uml-plain/write-back: discards and zero-outs over dirty data
    (
        "write-back: discards and zero-outs over dirty data",
        discards,
    ),
    // promise 14: uml-plain/write-back: dirty data that is discarded is not written back first
    (
        "write-back: dirty data that is discarded is not written back first",
        discarded_dirt,
    ),
    // promise 23: uml-plain/write-back: leaving the mode drains
    ("write-back: leaving the mode drains", leaving),
    ("write-back: requests of all sizes", all_sizes),
];

pub const TIMED: &[Entry] = &[
    ("time: flush start, pause, resume, stop", flush_messages),
    (
        "time: the end of a drain of a moment is an event",
        short_drain,
    ),
    // promise 30: uml-time/time: flush start ends beside blocks that are rewritten
    (
        "time: flush start ends beside blocks that are rewritten",
        flush_of_hot,
    ),
];

pub fn config() -> Config {
    Config {
        mode: "writeback",
        ..Config::default()
    }
}

/// Writes `count` random quarters of the first MiBs and keeps the model; returns how many different ones.
pub fn write_quarters(rig: &Rig, model: &mut [u8], count: usize, seed: u64) -> Result<u64> {
    let file = io::direct(&rig.path()?)?;
    let mut rng = Rng::with_seed(seed);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..count {
        let start = rng.usize(0..2048) * 4096;
        seen.insert(start);
        rng.fill(&mut model[start..start + 4096]);
        io::write(&file, start as u64, &model[start..start + 4096])?;
    }
    Ok(seen.len() as u64)
}

/// Writes 64 quarters, each in a frame of its own, and flushes them.
pub fn write_apart(device: &dm::Dm, model: &mut [u8]) -> Result<()> {
    let file = io::direct(device.path())?;
    for start in (0..4 * MIB).step_by(65536) {
        model[start..start + 4096].fill(9);
        io::write(&file, start as u64, &model[start..start + 4096])?;
    }
    Ok(file.sync_all()?)
}

fn where_it_is() -> Result<()> {
    let (rig, mut model) = Rig::new(config().keeping())?;
    let before = model.clone();
    let disk = rig.origin.stat()?;
    let quarters = write_quarters(&rig, &mut model, 200, 1)?;
    let status = rig.status()?;
    ensure!(
        (rig.origin.stat()? - disk).written == 0,
        "the disk was written"
    );
    ensure!(
        status.dirty == quarters * 8 && status.get("write_back")? == 200 * 8,
        "{quarters} quarters written: {status:?}"
    );
    ensure!(
        status.get("drain_seconds")? == 0,
        "a time to drain before anything was measured: {status:?}"
    );
    rig.shows(&model)?;
    ensure!(
        rig.origin.content()? == before,
        "the plain disk has changed"
    );
    rig.keep(false)?;
    rig.mapped()?.message("flush start")?;
    let status = rig.wait_clean()?;
    ensure!(
        status.get("drained")? == quarters * 8 && status.state == "flushing",
        "{status:?}"
    );
    ensure!(
        rig.origin.content()? == model,
        "the plain disk is not what the device shows"
    );
    rig.shows(&model)
}

fn fsync() -> Result<()> {
    let (rig, mut model) = Rig::new(config().cuttable().keeping())?;
    // What the start left to be flushed.
    let file = io::direct(&rig.path()?)?;
    file.sync_all()?;
    let (disk, ssd) = (rig.origin.stat()?, rig.ssd.stat()?);
    for round in 0..100 {
        let start = round * 8192;
        model[start..start + 4096].fill(round as u8);
        io::write(&file, start as u64, &model[start..start + 4096])?;
        file.sync_all()?;
    }
    let disk = rig.origin.stat()? - disk;
    // If the machine stood still for seconds, the cleaner has tried to write something back.
    let tried = rig.status()?.get("disk_errors")? > 0;
    ensure!(
        (disk.flushes == 0 || tried) && disk.written == 0,
        "the disk had work: {disk:?}"
    );
    ensure!(
        (rig.ssd.stat()? - ssd).flushes >= 100,
        "the SSD was not flushed"
    );
    let mut cut = rig.cut()?;
    cut.attach(false)?;
    cut.shows(&model)
}

fn fsync_of_disk() -> Result<()> {
    let (rig, mut model) = Rig::new(config())?;
    let file = io::direct(&rig.path()?)?;
    rig.mapped()?.message("flush start")?;
    for round in 0..10 {
        let start = round * 65536;
        model[start..start + 4096].fill(round as u8);
        io::write(&file, start as u64, &model[start..start + 4096])?;
        let disk = rig.origin.stat()?;
        file.sync_all()?;
        ensure!(
            (rig.origin.stat()? - disk).flushes >= 1,
            "round {round}: no flush on the disk"
        );
        let disk = rig.origin.stat()?;
        file.sync_all()?;
        ensure!(
            (rig.origin.stat()? - disk).flushes == 0,
            "round {round}: a flush that nobody needed"
        );
    }
    drop(file);
    rig.equals(&model)
}

fn fua() -> Result<()> {
    let (rig, mut model) = Rig::new(config().cuttable().keeping())?;
    let file = io::durable(&rig.path()?)?;
    for round in 0..20 {
        let start = round * 40960;
        let disk = rig.origin.stat()?;
        model[start..start + 8192].fill(round as u8);
        io::write(&file, start as u64, &model[start..start + 8192])?;
        ensure!(
            (rig.origin.stat()? - disk).written == 0,
            "the disk was written"
        );
        if round % 7 == 6 {
            let mut cut = rig.cut()?;
            cut.attach(false)?;
            ensure!(cut.status()?.dirty > 0, "no dirty data after the cut");
            cut.shows(&model)?;
        }
    }
    Ok(())
}

fn flush_messages() -> Result<()> {
    let mut config = config();
    config.origin.delay_ns = 30_000_000;
    let (rig, mut model) = Rig::new(config)?;
    let device = rig.mapped()?;
    for word in ["pause", "resume", "nonsense"] {
        ensure!(
            device.message(&format!("flush {word}")).is_err(),
            "flush {word} was taken"
        );
    }
    device.message("flush stop")?;
    write_quarters(&rig, &mut model, 250, 2)?;
    device.message("flush start")?;
    device.message("flush start")?;
    device.message("flush pause")?;
    device.message("flush pause")?;
    ensure!(rig.status()?.state == "paused", "{:?}", rig.status()?);
    let left = rig.quiet()?.dirty;
    ensure!(left > 0, "too fast for the case");
    thread::sleep(ms(2500));
    ensure!(
        rig.status()?.dirty == left,
        "{} sectors dirty, {left} when it was paused",
        rig.status()?.dirty
    );
    // During the flush nothing becomes dirty.
    let file = io::direct(&rig.path()?)?;
    model[20 * MIB..20 * MIB + 4096].fill(1);
    io::write(&file, 20 * MIB as u64, &model[20 * MIB..20 * MIB + 4096])?;
    drop(file);
    ensure!(rig.status()?.dirty == left, "a write got dirty");
    let event = device.event()?;
    device.message("flush resume")?;
    rig.wait_clean()?;
    ensure!(rig.status()?.state == "flushing", "{:?}", rig.status()?);
    device.event_after(event + 1)?;
    device.message("flush stop")?;
    ensure!(rig.status()?.state == "active", "{:?}", rig.status()?);
    write_quarters(&rig, &mut model, 10, 3)?;
    ensure!(rig.status()?.dirty > 0, "no write-back after the flush");
    rig.equals(&model)
}

/// The drain is over before the first second of its data is.
fn short_drain() -> Result<()> {
    let (rig, mut model) = Rig::new(config())?;
    rig.quiet()?;
    thread::sleep(ms(60_000));
    write_quarters(&rig, &mut model, 1, 4)?;
    io::direct(&rig.path()?)?.sync_all()?;
    let device = rig.mapped()?;
    device.message("flush start")?;
    let event = device.event()?;
    rig.until("clean", |status| status.dirty == 0)?;
    device.event_after(event).context("the drain has ended")?;
    rig.equals(&model)
}

/// Without special care, each quarter is rewritten before the disk has it. (There are several quarters, since a single
/// one may be lucky.)
fn flush_of_hot() -> Result<()> {
    let mut config = config();
    config.origin.delay_ns = 20_000_000;
    let (rig, mut model) = Rig::new(config)?;
    let hot: Vec<_> = (0..4).map(|number| number * 65536).collect();
    let mut writing = Vec::new();
    for &start in &hot {
        model[start..start + 4096].fill(1);
        let block = model[start..start + 4096].to_vec();
        let file = io::direct(&rig.path()?)?;
        io::write(&file, start as u64, &block)?;
        writing.push(Beside::new(ms(15), move || {
            io::write(&file, start as u64, &block)
        }));
    }
    thread::sleep(ms(500));
    ensure!(rig.status()?.dirty > 0, "nothing is dirty");
    rig.mapped()?.message("flush start")?;
    let (_, took) = timed(|| rig.wait_clean())?;
    ensure!(took < ms(10_000), "clean after {took:?}");
    thread::sleep(ms(100));
    let status = rig.status()?;
    ensure!(status.dirty == 0, "dirty again: {status:?}");
    for writer in writing {
        writer.end()?;
    }
    rig.equals(&model)
}

fn limit() -> Result<()> {
    let mut config = config();
    config.origin.delay_ns = 5_000_000;
    let (rig, mut model) = Rig::new(config)?;
    let file = io::direct(&rig.path()?)?;
    let mut rng = Rng::with_seed(4);
    let mut most = 0;
    for number in 0..1500 {
        let start = rng.usize(0..2500) * 16384;
        let end = (start + rng.usize(1..=8) * 4096).min(model.len());
        rng.fill(&mut model[start..end]);
        io::write(&file, start as u64, &model[start..end])?;
        if number % 50 == 0 {
            let status = rig.status()?;
            most = most.max(status.dirty);
            ensure!(
                status.dirty <= status.get("dirty_limit")? + 512,
                "{status:?}"
            );
        }
    }
    ensure!(most > 2048, "only {most} sectors were dirty");
    drop(file);
    rig.equals(&model)?;
    rig.quiet()?;
    Ok(())
}

fn discards() -> Result<()> {
    let (rig, mut model) = Rig::new(config().cuttable())?;
    for round in 0..4 {
        write_quarters(&rig, &mut model, 100, round)?;
        let file = io::direct(&rig.path()?)?;
        let mut rng = Rng::with_seed(round);
        for _ in 0..20 {
            let start = rng.usize(0..4000) * 2048;
            let length = rng.usize(1..200) * SECTOR;
            io::zero(&file, start as u64, length as u64)?;
            model[start..start + length].fill(0);
            let start = rng.usize(0..1000) * 8192;
            io::discard(&file, start as u64, 12288)?;
            let shown = io::read(&file, start as u64, 12288)?;
            model[start..start + 12288].copy_from_slice(&shown);
        }
        file.sync_all()?;
        let mut cut = rig.cut()?;
        cut.attach(false)?;
        cut.shows(&model).context("after a cut")?;
    }
    rig.equals(&model)
}

/// The same if the disk splits the discard, and if the disk fails it.
fn discarded_dirt() -> Result<()> {
    const HALF: usize = MIB / 2;
    let mut config = config();
    config.origin_under = Some(Under::Linear);
    let (rig, mut model) = Rig::new(config.keeping())?;
    let file = io::direct(&rig.path()?)?;
    model[..MIB].fill(5);
    io::write_in_pieces(&file, 0, &model[..MIB])?;
    file.sync_all()?;
    let below = rig.test_origin()?;
    let before = rig.status()?;
    ensure!(before.dirty == 2048, "{before:?}");

    below.message("fail writes")?;
    ensure!(
        io::discard(&file, 0, HALF as u64).is_err(),
        "a discard that the disk fails succeeds"
    );
    below.message("fail nothing")?;
    ensure!(
        rig.status()?.dirty == 2048 && io::read(&file, 0, HALF)?[..] == model[..HALF],
        "a discard failed and took dirty data along: {:?}",
        rig.status()?
    );

    // Smaller than what the cached device takes, so that the disk splits the requests.
    io::set_queue(rig.origin_path(), "discard_max_bytes", "65536")?;
    let disk = rig.origin.stat()?;
    io::discard(&file, 0, HALF as u64)?;
    let after = rig.status()?;
    let done = rig.origin.stat()? - disk;
    ensure!(
        done.written == 0 && done.discarded == 1024 && done.flushes > 0,
        "the disk got {done:?}"
    );
    ensure!(
        after.dirty == 1024 && after.get("drained")? == before.get("drained")?,
        "{after:?}"
    );
    model[..HALF].copy_from_slice(&io::read(&file, 0, HALF)?);
    ensure!(
        model[..HALF] != [5; HALF],
        "the discarded data is still there"
    );
    io::write(&file, 0, &model[HALF..HALF + 4096])?;
    model[..4096].fill(5);
    drop(file);
    rig.equals(&model)
}

fn leaving() -> Result<()> {
    for mode in ["writethrough", "writearound"] {
        let (rig, mut model) = Rig::new(config().keeping())?;
        write_quarters(&rig, &mut model, 250, 5)?;
        ensure!(rig.status()?.dirty > 0, "nothing is dirty");
        rig.keep(false)?;
        rig.mapped()?.message(&format!("mode {mode}"))?;
        let status = rig.wait_clean()?;
        ensure!(
            status.state == "active" && status.mode == mode,
            "{status:?}"
        );
        ensure!(
            rig.origin.content()? == model,
            "the plain disk is not what the device shows"
        );
        rig.equals(&model)?;
    }
    Ok(())
}

fn all_sizes() -> Result<()> {
    let (rig, mut model) = Rig::new(config())?;
    {
        let file = io::direct(&rig.path()?)?;
        let mix = Mix {
            writes: 50,
            discards: 3,
            zeroes: 3,
            ..Mix::new(12 * MIB)
        };
        drive(&file, &mut model, &mut Rng::with_seed(6), mix, 1500)?;
    }
    rig.quiet()?;
    rig.equals(&model)
}
