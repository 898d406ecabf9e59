// SPDX-License-Identifier: GPL-3.0-or-later
//! Discards of many runs, which go to the disk whole (promises 14, 16 and 30).

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use fastrand::Rng;

use super::failures::{self, break_ssd, mend_ssd};
use super::{Entry, writeback};
use crate::io::{self, MIB, SECTOR};
use crate::model::seeded;
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    // promise 14: uml-plain/discards: of many runs, whole
    ("discards: of many runs, whole", || whole(RANGE, 7)),
    // promise 14: uml-plain/discards: of two runs, whole
    ("discards: of two runs, whole", || whole(TWO_RUNS, 59)),
    // promise 14: uml-plain/discards: of many runs with dirty data, failed and done
    (
        "discards: of many runs with dirty data, failed and done",
        || dirty(RANGE, 54),
    ),
    // promise 14: uml-plain/discards: of two runs with dirty data, failed and done
    (
        "discards: of two runs with dirty data, failed and done",
        || dirty(TWO_RUNS, 1),
    ),
    // promise 30: uml-plain/discards: dirty data beside a read is written back with few flushes
    (
        "discards: dirty data beside a read is written back with few flushes",
        beside_reads,
    ),
    // promise 16: uml-plain/discards: over each other and over writes, write-through
    (
        "discards: over each other and over writes, write-through",
        || contested("writethrough"),
    ),
    // promise 16: uml-plain/discards: over each other and over writes, write-back
    (
        "discards: over each other and over writes, write-back",
        || contested("writeback"),
    ),
    // promise 18: uml-plain/discards: of many runs, the SSD lost meanwhile
    (
        "discards: of many runs, the SSD lost meanwhile",
        lost_meanwhile,
    ),
];

/// Both ends lie within the third quarter of a frame.
const RANGE: std::ops::Range<usize> = MIB / 2 + 8192 + SECTOR..14 * MIB + 8192 + 3 * SECTOR;

/// Around the end of a run; the answer of the disk ends so few of them at once.
const TWO_RUNS: std::ops::Range<usize> = 196 * 1024 + SECTOR..316 * 1024;

fn discard(file: &File, range: &std::ops::Range<usize>) -> Result<()> {
    io::discard(file, range.start as u64, range.len() as u64)
}

/// The disk gets one request, not one for each run. Then `left` frames are cached.
fn whole(range: std::ops::Range<usize>, left: u64) -> Result<()> {
    let (rig, mut model) = Rig::new(Config::default())?;
    let file = io::direct(&rig.path()?)?;
    for start in (0..15 * MIB).step_by(MIB / 4) {
        io::read(&file, start as u64, 16384)?;
    }
    let cached = rig.quiet()?.used;
    let before = rig.origin.stat()?;
    discard(&file, &range)?;
    // The kernel counts a request after it has ended.
    let used = rig.quiet()?.used;
    let requests = (rig.origin.stat()? - before).discards;
    ensure!(requests == 1, "the disk got {requests} discards");
    ensure!(cached == 60 && used == left, "{cached} frames, then {used}");
    model[range.clone()].copy_from_slice(&rig.origin.content()?[range]);
    drop(file);
    rig.equals(&model)
}

/// A cache with 60 blocks that the disk lacks, some of them in each run of the range and around the range.
fn soiled(config: Config) -> Result<(Rig, Vec<u8>, File)> {
    let (rig, mut model) = Rig::new(config.keeping())?;
    let file = io::direct(&rig.path()?)?;
    for start in (0..15 * MIB).step_by(MIB / 4) {
        model[start..start + 4096].fill(5);
        io::write(&file, start as u64, &model[start..start + 4096])?;
    }
    file.sync_all()?;
    Ok((rig, model, file))
}

/// A discard that the disk fails takes nothing along; when the disk carries it out, `blocks` dirty blocks are dropped unwritten.
fn dirty(range: std::ops::Range<usize>, blocks: u64) -> Result<()> {
    let mut config = writeback::config();
    config.origin_under = Some(Under::Linear);
    let (rig, mut model, file) = soiled(config)?;
    let below = rig.test_origin()?;
    let before = rig.status()?;
    ensure!(before.dirty == 60 * 8, "{before:?}");
    below.message("fail request 1")?;
    ensure!(
        discard(&file, &range).is_err(),
        "a discard that the disk fails succeeds"
    );
    let failed = rig.status()?;
    ensure!(
        failed.dirty == before.dirty,
        "a discard failed and took dirty data along: {failed:?}"
    );
    rig.shows(&model)?;
    let disk = rig.origin.stat()?;
    discard(&file, &range)?;
    let (after, done) = (rig.status()?, rig.origin.stat()? - disk);
    // Dirty blocks in front of the range and behind it are left.
    ensure!(
        after.dirty == (60 - blocks) * 8 && after.get("drained")? == before.get("drained")?,
        "{after:?}"
    );
    ensure!(
        done.written == 0 && done.flushes > 0,
        "the disk got {done:?}"
    );
    model[range.clone()].copy_from_slice(&rig.origin.content()?[range]);
    drop(file);
    rig.equals(&model)
}

/// While a read is at the disk, dirty data is not dropped but written back. The runs of a discard do that side by side: a flush
/// of the disk for each would take minutes for a gigabyte. One read is at the disk all the time, so that each run finds it there.
fn beside_reads() -> Result<()> {
    let mut config = writeback::config();
    config.origin_under = Some(Under::Linear);
    let (rig, mut model, file) = soiled(config)?;
    let path = rig.path()?;
    let before = rig.status()?.get("read_missed")?;
    let disk = rig.origin.stat()?;
    thread::scope(|scope| -> Result<()> {
        // Writes and flushes take their time, too: else a fast disk has ended with a run before the next one begins.
        let slow = Under::Delay(60_000, 100).line(&rig.origin);
        rig.origin_target()?.swap(slow)?;
        let reader = scope.spawn(|| io::read(&io::direct(&path)?, 20 * MIB as u64, 4096).map(drop));
        rig.until("a read at the disk", |s| {
            s.get("read_missed").is_ok_and(|missed| missed > before)
        })?;
        let discarded = rig.keep(false).and_then(|()| discard(&file, &RANGE));
        rig.hold_reads(false)?;
        reader.join().map_err(|_| anyhow!("a thread panicked"))??;
        discarded
    })?;
    let done = rig.origin.stat()? - disk;
    ensure!(done.written > 0, "nothing was written back: {done:?}");
    ensure!(done.flushes <= 6, "the disk got {} flushes", done.flushes);
    model[RANGE].copy_from_slice(&rig.origin.content()?[RANGE]);
    drop(file);
    rig.equals(&model)
}

/// Each thread writes blocks of its own. A block shows what its thread wrote last, or zeroes since a later discard.
fn contested(mode: &'static str) -> Result<()> {
    const AREA: usize = 12 * MIB;
    const BLOCKS: usize = AREA / 4096;
    let mut config = Config {
        mode,
        ..Config::default()
    };
    (config.origin.delay_ns, config.ssd.delay_ns) = (30_000, 20_000);
    let (rig, _) = Rig::new(config)?;
    let path = rig.path()?;
    let over = AtomicBool::new(false);
    let writes = |seed: u64| -> Result<()> {
        let file = io::direct(&path)?;
        let mut rng = seeded(seed);
        for number in 1..=400_u64 {
            let block = rng.usize(0..BLOCKS / 2) * 2 + (seed & 1) as usize;
            let (at, bytes) = ((block * 4096) as u64, io::random(4096, seed << 32 | number));
            io::write(&file, at, &bytes)?;
            let mut seen_zero = false;
            for _ in 0..2 {
                let read = io::read(&file, at, 4096)?;
                let zero = read[..].iter().all(|byte| *byte == 0);
                ensure!(
                    zero || (!seen_zero && read[..] == bytes),
                    "block {block} shows what is older than write {number}"
                );
                seen_zero |= zero;
            }
        }
        Ok(())
    };
    let discards = |seed: u64| -> Result<u32> {
        let file = io::direct(&path)?;
        let mut rng = Rng::with_seed(seed);
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            let length = rng.usize(MIB..6 * MIB) / 4096 * 4096;
            let start = rng.usize(0..AREA - length) / 4096 * 4096;
            discard(&file, &(start..start + length))?;
            number += 1;
        }
        Ok(number)
    };
    thread::scope(|scope| -> Result<()> {
        let writers: Vec<_> = (10..12)
            .map(|seed| scope.spawn(move || writes(seed)))
            .collect();
        let discarders: Vec<_> = (0..2)
            .map(|seed| scope.spawn(move || discards(seed)))
            .collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        over.store(true, Ordering::Relaxed);
        for discarder in discarders {
            let number = discarder
                .join()
                .map_err(|_| anyhow!("a thread panicked"))??;
            ensure!(number > 10, "only {number} discards");
        }
        for result in written {
            result.map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(())
    })?;
    rig.quiet()?;
    rig.agrees()
}

/// With nothing dirty no discard fails. With dirty data each one ends, and no dirty data goes with those that fail.
fn lost_meanwhile() -> Result<()> {
    for mode in ["writethrough", "writeback"] {
        let stranded = mode == "writeback";
        let config = failures::config(mode);
        let (rig, mut model) = Rig::new(if stranded { config.keeping() } else { config })?;
        let file = io::direct(&rig.path()?)?;
        // Not where the discards are.
        for start in (20 * MIB..21 * MIB).step_by(16384) {
            model[start..start + 4096].fill(5);
            io::write(&file, start as u64, &model[start..start + 4096])?;
        }
        file.sync_all()?;
        let path = rig.path()?;
        let over = AtomicBool::new(false);
        let (done, failed) = thread::scope(|scope| -> Result<(u32, u32)> {
            let discards = scope.spawn(|| -> Result<(u32, u32)> {
                let file = io::direct(&path)?;
                let (mut done, mut failed) = (0, 0);
                while !over.load(Ordering::Relaxed) {
                    match discard(&file, &RANGE) {
                        Ok(()) => done += 1,
                        Err(_) => failed += 1,
                    }
                }
                Ok((done, failed))
            });
            thread::sleep(Duration::from_millis(300));
            let broken = break_ssd(&rig).and_then(|()| {
                // In write-through a write has to find out.
                while rig.status()?.state == "active" {
                    io::write(&file, 20 * MIB as u64, &model[20 * MIB..20 * MIB + 4096]).ok();
                }
                thread::sleep(Duration::from_millis(1500));
                Ok(())
            });
            over.store(true, Ordering::Relaxed);
            let result = discards.join().map_err(|_| anyhow!("a thread panicked"))?;
            broken.and(result)
        })?;
        ensure!(done > 0, "no discard went well");
        let status = rig.status()?;
        ensure!(
            (failed > 0) == stranded
                && status.state == if stranded { "stranded" } else { "bypass" }
                && (status.dirty > 0) == stranded,
            "{failed} discards failed: {status:?}"
        );
        if stranded {
            mend_ssd(&rig)?;
            let line = rig.good_line(false);
            rig.mapped()?.load(line)?;
            rig.mapped()?.resume()?;
        }
        model[RANGE].copy_from_slice(&rig.origin.content()?[RANGE]);
        rig.shows(&model).with_context(|| mode.to_owned())?;
    }
    Ok(())
}
