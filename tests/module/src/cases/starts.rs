// SPDX-License-Identifier: GPL-3.0-or-later
//! What a start finds after a clean stop and after a cut, and how long a stop takes (promises 1, 2, 11 to 14, 24, 25).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::writeback::write_quarters;
use super::{Entry, writeback};
use crate::disk::Shape;
use crate::dm::Dm;
use crate::io::{self, MIB, SECTOR};
use crate::model::{Mix, drive, seeded};
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    // promise 13: uml-plain/starts: all is warm after a stop, write-through
    ("starts: all is warm after a stop, write-through", || {
        warm("writethrough")
    }),
    // promise 13: uml-plain/starts: all is warm after a stop, write-around
    ("starts: all is warm after a stop, write-around", || {
        warm("writearound")
    }),
    // promise 13: uml-plain/starts: all is warm after a stop, write-back
    ("starts: all is warm after a stop, write-back", || {
        warm("writeback")
    }),
    // promise 13: uml-plain/starts: all is warm after a flush and a cut
    (
        "starts: all is warm after a flush and a cut",
        warm_after_flush,
    ),
    // promise 24: uml-plain/starts: a stop keeps dirty data, in another mode it is drained
    (
        "starts: a stop keeps dirty data, in another mode it is drained",
        keeps_dirty,
    ),
    // promise 1: uml-plain/starts: a cut keeps what was flushed
    ("starts: a cut keeps what was flushed", cut_after_flush),
    // promise 1: uml-plain/starts: a cut under load, write-back
    ("starts: a cut under load, write-back", || {
        cut_under_load("writeback")
    }),
    // promise 2: uml-plain/starts: a cut under load, write-through
    ("starts: a cut under load, write-through", || {
        cut_under_load("writethrough")
    }),
    ("starts: `start cold` forgets what is clean only", cold),
    // promise 27: uml-plain/starts: a damaged index is refused
    ("starts: a damaged index is refused", damaged),
    // promise 21: uml-plain/starts: a disk that was written without the cache is noticed
    (
        "starts: a disk that was written without the cache is noticed",
        changed_disk,
    ),
    (
        "starts: after a stop and a power cut a disk that was written elsewhere is noticed",
        changed_after_cut,
    ),
];

pub const TIMED: &[Entry] = &[
    // promise 24: uml-time/time: a stop waits for what is under way and no more
    (
        "time: a stop waits for what is under way and no more",
        stop_in_time,
    ),
];

/// Reads the first MiBs by frames in random order, so that all are cached.
pub fn read_frames(rig: &Rig, mib: usize) -> Result<()> {
    let file = io::direct(&rig.path()?)?;
    let mut offsets: Vec<u64> = (0..(mib * MIB) as u64).step_by(16384).collect();
    Rng::with_seed(1).shuffle(&mut offsets);
    for offset in offsets {
        io::read(&file, offset, 16384)?;
    }
    Ok(())
}

/// Reads them again: nothing may come from the disk.
fn is_warm(rig: &Rig, mib: usize) -> Result<()> {
    let disk = rig.origin.stat()?;
    read_frames(rig, mib)?;
    let read = (rig.origin.stat()? - disk).read;
    ensure!(
        read == 0,
        "{read} sectors came from the disk; {}",
        rig.mapped()?.status()?
    );
    Ok(())
}

/// Room for all that is read, so that nothing of it may come from the disk.
fn roomy(mode: &'static str) -> Config {
    Config {
        mode,
        origin: Shape::new(16),
        ssd: Shape::new(64),
        ..Config::default()
    }
}

fn warm(mode: &'static str) -> Result<()> {
    let config = match mode {
        "writeback" => roomy(mode).keeping(),
        _ => roomy(mode),
    };
    let (mut rig, mut model) = Rig::new(config)?;
    for round in 0..3 {
        write_quarters(&rig, &mut model, 100, round)?;
        read_frames(&rig, 8)?;
        rig.quiet()?;
        let before = rig.status()?;
        rig.detach()?;
        rig.attach(false)?;
        let after = rig.status()?;
        ensure!(
            before.used == after.used && before.dirty == after.dirty,
            "{before:?}, then {after:?}"
        );
        ensure!(
            (mode == "writeback") == (after.dirty > 0),
            "{} sectors dirty",
            after.dirty
        );
        is_warm(&rig, 8)?;
        rig.shows(&model)?;
    }
    rig.equals(&model)
}

/// In write-back alone; for the other modes see sameness.rs.
fn warm_after_flush() -> Result<()> {
    let (rig, mut model) = Rig::formatted(roomy("writeback").cuttable())?;
    write_quarters(&rig, &mut model, 150, 1)?;
    crate::rig::format(&mut model);
    io::write(&io::direct(&rig.path()?)?, 0, &model[..4096])?;
    read_frames(&rig, 8)?;
    rig.quiet()?;
    io::direct(&rig.path()?)?.sync_all()?;
    let mut cut = rig.cut()?;
    cut.attach(false)?;
    is_warm(&cut, 8)?;
    cut.equals(&model)
}

fn keeps_dirty() -> Result<()> {
    for mode in ["writethrough", "writearound", "writeback"] {
        let (mut rig, mut model) = Rig::new(writeback::config().keeping())?;
        write_quarters(&rig, &mut model, 200, 2)?;
        let dirty = rig.status()?.dirty;
        rig.detach()?;
        ensure!(rig.origin.content()? != model, "the stop has drained");
        rig.attach_as(mode)?;
        if mode == "writeback" {
            ensure!(rig.status()?.dirty == dirty, "{:?}", rig.status()?);
        } else {
            rig.wait_clean()?;
            ensure!(rig.origin.content()? == model, "{mode}: not drained");
        }
        rig.equals(&model)?;
    }
    Ok(())
}

/// Promise 24: a second for the writes that are under way and one for the flush behind them, where draining all takes half a minute.
fn stop_in_time() -> Result<()> {
    const SLOW: u32 = 1000;
    const LIMIT: Duration = Duration::from_secs(6);
    let (mut rig, mut model) = Rig::new(Config {
        mode: "writeback",
        origin: Shape::new(40),
        ssd: Shape::new(40),
        origin_under: Some(Under::Linear),
        ..Config::default()
    })?;
    {
        // Single quarters all over the disk, which make no longer writes.
        let file = io::direct(&rig.path()?)?;
        for start in (0..model.len()).step_by(80 << 10) {
            model[start..start + 4096].fill(7);
            io::write(&file, start as u64, &model[start..start + 4096])?;
        }
        file.sync_all()?;
    }
    let below = |rig: &Rig, under: Under| rig.origin_target()?.swap(under.line(&rig.origin));
    below(&rig, Under::Delay(0, SLOW))?;
    rig.mapped()?.message("flush start")?;
    thread::sleep(Duration::from_millis(u64::from(SLOW) / 2));
    let dirty = rig.status()?.dirty;
    ensure!(dirty > 400 * 8, "only {dirty} sectors are dirty");
    let began = Instant::now();
    rig.detach()?;
    let took = began.elapsed();
    ensure!(took < LIMIT, "the stop took {took:?}");
    below(&rig, Under::Linear)?;
    rig.attach(false)?;
    let left = rig.status()?.dirty;
    ensure!(left > 200 * 8, "{dirty} sectors were dirty, {left} are");
    rig.mapped()?.message("flush start")?;
    rig.wait_clean()?;
    ensure!(rig.origin.content()? == model, "not all was drained");
    rig.equals(&model)
}

fn cut_after_flush() -> Result<()> {
    for mode in ["writeback", "writethrough"] {
        let (rig, mut model) = Rig::new(Config {
            mode,
            origin: Shape::new(10).cuttable(),
            ssd: Shape::new(6).cuttable(),
            ..Config::default()
        })?;
        let mix = Mix {
            longest: 128,
            writes: 60,
            discards: 3,
            zeroes: 3,
            ..Mix::new(4 * MIB)
        };
        for round in 0..2 {
            let file = io::direct(&rig.path()?)?;
            drive(&file, &mut model, &mut seeded(round), mix, 150)?;
            file.sync_all()?;
            let mut cut = rig.cut()?;
            // Twice: the work of a start may be cut before it ends.
            for _ in 0..2 {
                cut.attach(false)?;
                cut.shows(&model)?;
                let again = cut.cut()?;
                cut = again;
            }
            cut.attach(false)?;
            cut.equals(&model)?;
        }
    }
    Ok(())
}

/// Blocks that the writers of a cut share out.
const BLOCKS: usize = 1024;

/// What each block must hold at least, and may at most: numbers of writes.
struct Bounds {
    flushed: Vec<AtomicU64>,
    begun: Vec<AtomicU64>,
    stop: AtomicBool,
}

impl Bounds {
    fn of(numbers: &[AtomicU64]) -> Vec<u64> {
        numbers.iter().map(|n| n.load(Ordering::SeqCst)).collect()
    }
}

fn block(index: usize, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    for sector in bytes.chunks_exact_mut(SECTOR) {
        sector[..8].copy_from_slice(&(index as u64).to_le_bytes());
        sector[8..16].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// Writes blocks of its own in ever new versions and flushes now and then.
fn writer(path: &Path, own: std::ops::Range<usize>, seed: u64, bounds: &Bounds) -> Result<()> {
    let file = io::direct(path)?;
    let mut rng = seeded(seed);
    let mut version = 0;
    let mut last = vec![0; own.len()];
    while !bounds.stop.load(Ordering::Relaxed) {
        for _ in 0..rng.usize(1..20) {
            let index = rng.usize(own.clone());
            version += 1;
            bounds.begun[index].store(version, Ordering::SeqCst);
            io::write(&file, index as u64 * 4096, &block(index, version))?;
            last[index - own.start] = version;
        }
        file.sync_all()?;
        for (index, version) in own.clone().zip(&last) {
            bounds.flushed[index].store(*version, Ordering::SeqCst);
        }
    }
    Ok(())
}

fn judge(content: &[u8], flushed: &[u64], begun: &[u64]) -> Result<()> {
    for index in 0..BLOCKS {
        for (at, sector) in content[index * 4096..][..4096].chunks(SECTOR).enumerate() {
            let owner = u64::from_le_bytes(sector[..8].try_into()?);
            let number = u64::from_le_bytes(sector[8..16].try_into()?);
            ensure!(
                owner == index as u64,
                "block {index} sector {at} holds data of block {owner}"
            );
            ensure!(
                number >= flushed[index] && number <= begun[index],
                "block {index} sector {at} holds version {number}, flushed {}, begun {}",
                flushed[index],
                begun[index]
            );
        }
    }
    Ok(())
}

/// A power cut takes both devices at one instant; what is durable then is what the next start finds.
fn cut_under_load(mode: &'static str) -> Result<()> {
    let mut config = Config {
        mode,
        ..Config::default()
    };
    config.origin.delay_ns = 300_000;
    config.ssd.delay_ns = 50_000;
    config.origin.mib = 6;
    config.ssd.mib = 4;
    let mut rig = Rig::disks(config.cuttable())?;
    let content: Vec<u8> = (0..BLOCKS).flat_map(|index| block(index, 0)).collect();
    rig.origin.put(0, &content)?;
    rig.attach(true)?;
    let numbers = || (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
    let bounds = Arc::new(Bounds {
        flushed: numbers(),
        begun: numbers(),
        stop: AtomicBool::new(false),
    });
    let path = rig.path()?;
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let (path, bounds) = (path.clone(), Arc::clone(&bounds));
            let own = number * BLOCKS / 4..(number + 1) * BLOCKS / 4;
            thread::spawn(move || writer(&path, own, number as u64, &bounds))
        })
        .collect();
    let result = cuts(&rig, &bounds);
    bounds.stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    result
}

fn cuts(rig: &Rig, bounds: &Bounds) -> Result<()> {
    let mut rng = Rng::with_seed(1);
    for round in 0..6 {
        thread::sleep(Duration::from_millis(rng.u64(100..700)));
        if round % 3 == 2 {
            rig.mapped()?
                .message(["flush start", "flush stop"][round / 3 % 2])?;
        }
        let flushed = Bounds::of(&bounds.flushed);
        let mut cut = rig.cut()?;
        let begun = Bounds::of(&bounds.begun);
        cut.attach(false)?;
        let shown = io::whole(&cut.path()?)?;
        judge(&shown, &flushed, &begun)?;
        read_frames(&cut, 4)?;
        cut.equals(&shown)?;
    }
    Ok(())
}

fn cold() -> Result<()> {
    let (mut rig, mut model) = Rig::new(writeback::config().keeping())?;
    read_frames(&rig, 8)?;
    rig.quiet()?;
    write_quarters(&rig, &mut model, 50, 3)?;
    let dirty = rig.status()?.dirty;
    ensure!(dirty > 0, "nothing is dirty");
    rig.detach()?;
    // Frames that hold nothing dirty; the disk was written without the cache.
    let change = io::random(MIB, 7);
    rig.origin.put(12 * MIB as u64, &change)?;
    model[12 * MIB..13 * MIB].copy_from_slice(&change);
    let words = rig.words(false).replacen("4 ", "6 ", 1) + " start cold";
    let device = Dm::with(&rig.name, rig.line(&format!("writeback {words}")))?;
    ensure!(
        !device.table()?.contains("cold"),
        "the table line repeats `start cold`"
    );
    device.remove()?;
    drop(device);
    rig.attach(false)?;
    let status = rig.status()?;
    ensure!(
        status.dirty == dirty && status.used <= dirty / 8,
        "{dirty} sectors were dirty: {status:?}"
    );
    rig.equals(&model)
}

/// Promise 21, for quarters that are sampled: the first one, and those that were written most often.
fn changed_disk() -> Result<()> {
    for mode in ["writethrough", "writeback"] {
        for place in [0, 5 * MIB] {
            let mut config = Config {
                mode,
                ..Config::default()
            };
            config.origin.failing = true;
            let (mut rig, mut model) = Rig::new(config)?;
            read_frames(&rig, 8)?;
            rig.detach()?;
            rig.attach(false)?;
            ensure!(
                rig.status()?.used > 0,
                "an unchanged disk was not known again"
            );
            let file = io::direct(&rig.path()?)?;
            // With "flush start" the writes go straight to the disk: only writes of the disk are counted.
            rig.mapped()?.message("flush start")?;
            for round in 0..20 {
                model[5 * MIB..5 * MIB + 4096].fill(round);
                io::write(&file, 5 * MIB as u64, &model[5 * MIB..5 * MIB + 4096])?;
            }
            rig.mapped()?.message("flush stop")?;
            drop(file);
            if mode == "writeback" {
                rig.keep(true)?;
                write_quarters(&rig, &mut model, 20, 1)?;
            }
            rig.detach()?;
            let before = rig.origin.content()?;
            rig.origin.put(place as u64, &io::random(4096, 9))?;
            if mode == "writeback" {
                ensure!(
                    rig.attach(false).is_err(),
                    "a changed disk was taken with dirty data, {place}"
                );
                // The start was refused because of the disk's content; the refusal changed nothing.
                rig.origin.put(0, &before)?;
                rig.keep(true)?;
                rig.attach(false)?;
                ensure!(rig.status()?.dirty > 0, "{:?}", rig.status()?);
            } else {
                model[place..place + 4096].copy_from_slice(&io::random(4096, 9));
                rig.attach(false)?;
                ensure!(
                    rig.status()?.used == 0,
                    "a changed disk was not noticed, {place}"
                );
            }
            rig.equals(&model)?;
        }
    }
    Ok(())
}

/// What a stop notes of the disk is durable when the stop ends.
fn changed_after_cut() -> Result<()> {
    let (mut rig, mut model) = Rig::new(Config::default().cuttable())?;
    read_frames(&rig, 8)?;
    rig.detach()?;
    for changed in [false, true] {
        let mut cut = rig.cut()?;
        if changed {
            let other = io::random(4096, 9);
            cut.origin.put(0, &other)?;
            model[..4096].copy_from_slice(&other);
        }
        cut.attach(false)?;
        let used = cut.status()?.used;
        ensure!(changed || used > 0, "an unchanged disk was not known again");
        ensure!(!changed || used == 0, "a changed disk was not noticed");
        cut.equals(&model)?;
    }
    Ok(())
}

fn damaged() -> Result<()> {
    let (mut rig, mut model) = Rig::new(Config {
        mode: "writeback",
        ..Config::default()
    })?;
    write_quarters(&rig, &mut model, 50, 3)?;
    rig.detach()?;
    // Everything between the superblock and the data but the journal's first blocks.
    let ssd = rig.ssd.content()?;
    rig.ssd.put(MIB as u64, &io::random(3 * MIB / 2, 4))?;
    let before = rig.ssd.content()?;
    ensure!(rig.attach(false).is_err(), "a damaged index was taken");
    ensure!(rig.ssd.content()? == before, "the refusal wrote to the SSD");
    rig.ssd.put(0, &ssd)?;
    rig.attach(false)?;
    rig.equals(&model)
}
