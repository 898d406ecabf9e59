// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests that overlap in time and place (promises 15 and 16).

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use crate::beside::Blocked;
use crate::io::{self, Buffer, MIB, SECTOR};
use crate::model::seeded;
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    // promise 16: uml-plain/concurrent: overlapping requests, write-through
    ("concurrent: overlapping requests, write-through", || {
        overlapping("writethrough", Times::Short)
    }),
    ("concurrent: overlapping requests, write-around", || {
        overlapping("writearound", Times::Short)
    }),
    ("concurrent: overlapping requests, slow disk", || {
        overlapping("writethrough", Times::SlowDisk)
    }),
    ("concurrent: overlapping requests, slow SSD", || {
        overlapping("writethrough", Times::SlowSsd)
    }),
    // promise 16: uml-plain/concurrent: overlapping requests, write-back
    ("concurrent: overlapping requests, write-back", || {
        overlapping("writeback", Times::Short)
    }),
    (
        "concurrent: overlapping requests, write-back, slow disk",
        || overlapping("writeback", Times::SlowDisk),
    ),
    (
        "concurrent: overlapping requests, write-back, slow SSD",
        || overlapping("writeback", Times::SlowSsd),
    ),
    // promise 23: uml-plain/concurrent: changes of mode, flushes and drops under load
    (
        "concurrent: changes of mode, flushes and drops under load",
        messages,
    ),
    // promise 15: uml-plain/concurrent: a buffer that changes while it is written
    (
        "concurrent: a buffer that changes while it is written",
        scribbled_write,
    ),
    // promise 15: uml-plain/concurrent: a buffer that changes while it is read into
    (
        "concurrent: a buffer that changes while it is read into",
        scribbled_read,
    ),
    // promise 15: uml-plain/concurrent: a buffer that changes, an SSD that wants stable pages
    (
        "concurrent: a buffer that changes, an SSD that wants stable pages",
        stable_pages,
    ),
];

/// Which device is slow.
#[derive(Clone, Copy)]
enum Times {
    Short,
    SlowDisk,
    SlowSsd,
}

fn config(mode: &'static str, times: Times) -> Config {
    let mut config = Config {
        mode,
        ..Config::default()
    };
    config.ssd.mib = 4;
    (config.origin.delay_ns, config.ssd.delay_ns) = match times {
        Times::Short => (30_000, 20_000),
        Times::SlowDisk => (2_000_000, 20_000),
        Times::SlowSsd => (20_000, 2_000_000),
    };
    config
}

/// Sectors that the threads fight over.
const CONTESTED: usize = 1024;
/// Writes in one case at most.
const WRITES: usize = 200_000;

/// Which values each sector may show.
///
/// Every write has a number and fills each of its sectors with sector and number. A logical clock gives the
/// times when it began and ended. A read may not return a write that had ended before another write began which
/// was complete, or had been seen, when the read began. Per sector, `floor` is the latest such beginning.
struct Judge {
    clock: AtomicU64,
    next: AtomicU64,
    begun: Vec<AtomicU64>,
    ended: Vec<AtomicU64>,
    floor: Vec<AtomicU64>,
}

impl Judge {
    fn new() -> Self {
        let numbers = |count, value| {
            (0..count)
                .map(|_| AtomicU64::new(value))
                .collect::<Vec<_>>()
        };
        let judge = Self {
            clock: AtomicU64::new(1),
            next: AtomicU64::new(1),
            begun: numbers(WRITES, 0),
            ended: numbers(WRITES, u64::MAX),
            floor: numbers(CONTESTED, 0),
        };
        judge.ended[0].store(0, Ordering::SeqCst);
        judge
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn write(&self, file: &std::fs::File, first: usize, count: usize) -> Result<()> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let slot = usize::try_from(number)?;
        ensure!(slot < WRITES, "more writes than the judge has room for");
        let begun = self.tick();
        self.begun[slot].store(begun, Ordering::SeqCst);
        let content: Vec<u8> = (first..first + count)
            .flat_map(|sector| stamp(sector as u64, number))
            .collect();
        io::write(file, (first * SECTOR) as u64, &content)?;
        self.ended[slot].store(self.tick(), Ordering::SeqCst);
        for sector in first..first + count {
            self.floor[sector].fetch_max(begun, Ordering::SeqCst);
        }
        Ok(())
    }

    fn read(&self, file: &std::fs::File, first: usize, count: usize) -> Result<()> {
        let floors: Vec<u64> = self.floor[first..first + count]
            .iter()
            .map(|f| f.load(Ordering::SeqCst))
            .collect();
        let content = io::read(file, (first * SECTOR) as u64, count * SECTOR)?;
        for (index, (bytes, floor)) in content.chunks_exact(SECTOR).zip(floors).enumerate() {
            let sector = first + index;
            let number = u64::from_le_bytes(bytes[8..16].try_into()?);
            ensure!(
                bytes == stamp(sector as u64, number),
                "sector {sector} holds parts of two writes, or another's data"
            );
            let slot = usize::try_from(number)?;
            let ended = self
                .ended
                .get(slot)
                .context("a write that never was")?
                .load(Ordering::SeqCst);
            ensure!(
                ended >= floor,
                "sector {sector} shows write {number}, which had ended at {ended} before one that began at {floor}"
            );
            self.floor[sector].fetch_max(self.begun[slot].load(Ordering::SeqCst), Ordering::SeqCst);
        }
        Ok(())
    }
}

fn stamp(sector: u64, number: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for pair in bytes.chunks_exact_mut(16) {
        pair[..8].copy_from_slice(&sector.to_le_bytes());
        pair[8..].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// Six threads on half a MiB for some seconds, two of them more readers than writers; `beside` runs meanwhile.
fn fight(rig: &Rig, seconds: u64, mut beside: impl FnMut() -> Result<()>) -> Result<()> {
    let judge = Arc::new(Judge::new());
    let until = Instant::now() + Duration::from_secs(seconds);
    let path = rig.path()?;
    let threads: Vec<_> = (0..6_u64)
        .map(|seed| {
            let (judge, path) = (Arc::clone(&judge), path.clone());
            thread::spawn(move || -> Result<u64> {
                let file = io::direct(&path)?;
                let mut rng = seeded(seed);
                let mut requests = 0;
                while Instant::now() < until {
                    let longest = 1 << rng.u32(0..9);
                    let count = rng.usize(1..=longest);
                    let first = rng.usize(0..=CONTESTED - count);
                    if rng.u64(0..6) < 2 + (seed & 1) {
                        judge.write(&file, first, count)?;
                    } else {
                        judge.read(&file, first, count)?;
                    }
                    requests += 1;
                }
                Ok(requests)
            })
        })
        .collect();
    while Instant::now() < until {
        beside()?;
    }
    let mut requests = 0;
    for thread in threads {
        requests += thread
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    ensure!(requests > 100, "only {requests} requests");
    // What the judge has seen last is what everybody sees from now on, twice, and what is on the plain disk.
    let file = io::direct(&path)?;
    judge.read(&file, 0, CONTESTED)?;
    rig.quiet()?;
    judge.read(&file, 0, CONTESTED)?;
    rig.agrees()
}

/// A new cache whose contested sectors hold write 0.
fn arena(config: Config) -> Result<Rig> {
    let mut rig = Rig::disks(config)?;
    let content: Vec<u8> = (0..CONTESTED as u64)
        .flat_map(|sector| stamp(sector, 0))
        .collect();
    rig.origin.put(0, &content)?;
    rig.attach(true)?;
    Ok(rig)
}

fn overlapping(mode: &'static str, times: Times) -> Result<()> {
    let rig = arena(config(mode, times))?;
    fight(&rig, 6, || {
        thread::sleep(Duration::from_millis(100));
        Ok(())
    })?;
    let status = rig.status()?;
    ensure!(status.state == "active", "state {}", status.state);
    ensure!(
        status.get("read_hit")? > 0,
        "nothing was read from the SSD: no overlap was tried"
    );
    Ok(())
}

fn messages() -> Result<()> {
    let rig = arena(config("writethrough", Times::Short))?;
    let mut round = 0;
    fight(&rig, 6, || {
        let message = [
            "mode writearound",
            "drop",
            "mode writeback",
            "flush start",
            "flush stop",
            "drop",
            "mode writethrough",
            "mode writeback",
        ][round % 8];
        round += 1;
        thread::sleep(Duration::from_millis(7));
        rig.mapped()?.message(message)
    })
}

/// A thread that changes bytes of a buffer all the time, as an application may that does not wait for its request.
struct Scribbler {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Scribbler {
    fn start(buffer: &Buffer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (address, length, told) = (buffer.address(), buffer.len(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut rng = Rng::with_seed(1);
            while !told.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    // SAFETY: the buffer outlives the thread, which `drop` joins; racing with the kernel's
                    // copy is the purpose, and Rust code reads the bytes only after the join.
                    unsafe {
                        std::ptr::write_volatile(
                            (address + rng.usize(0..length)) as *mut u8,
                            rng.u8(..),
                        )
                    };
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Scribbler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The disk takes its data 10 ms after the SSD, or the other way round, while the buffer changes.
fn scribbled_write() -> Result<()> {
    for (origin, ssd) in [
        (Some(Under::Delay(0, 10)), None),
        (None, Some(Under::Delay(0, 10))),
        (None, None),
    ] {
        let (rig, _) = Rig::new(Config {
            origin_under: origin,
            ssd_under: ssd,
            ..Config::default()
        })?;
        let file = io::direct(&rig.path()?)?;
        let buffer = Buffer::new(65536)?;
        let scribbler = Scribbler::start(&buffer);
        let mut rng = Rng::with_seed(3);
        for _ in 0..40 {
            let offset = rng.u64(0..64) * 16384 + rng.u64(0..8) * 4096;
            file.write_all_at(&buffer[..rng.usize(1..=128) * SECTOR], offset)?;
        }
        drop(scribbler);
        drop(file);
        let status = rig.quiet()?;
        ensure!(status.get("write_hit")? > 0, "no write was stored");
        rig.agrees()?;
    }
    Ok(())
}

fn scribbled_read() -> Result<()> {
    for (origin, ssd) in [
        (Some(Under::Delay(10, 0)), None),
        (None, Some(Under::Delay(0, 10))),
        (None, None),
    ] {
        let (rig, model) = Rig::new(Config {
            origin_under: origin,
            ssd_under: ssd,
            ..Config::default()
        })?;
        let file = io::direct(&rig.path()?)?;
        let mut buffer = Buffer::new(65536)?;
        let scribbler = Scribbler::start(&buffer);
        let address = buffer.address();
        let mut rng = Rng::with_seed(4);
        for _ in 0..60 {
            let offset = rng.u64(0..128) * 16384 + rng.u64(0..8) * 4096;
            let length = rng.usize(1..=128) * SECTOR;
            // SAFETY: lies within the buffer; what the bytes are does not matter here.
            let target = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, length) };
            file.read_exact_at(target, offset)?;
        }
        drop(scribbler);
        buffer.fill(0);
        let status = rig.quiet()?;
        ensure!(status.used > 0, "nothing was stored");
        let range = 0..3 * MIB;
        let read = io::read(&file, 0, range.len())?;
        if let Some(difference) = io::difference(&read, &model[range]) {
            anyhow::bail!("the cache holds what the application scribbled: {difference}");
        }
        drop(file);
        rig.equals(&model)?;
    }
    Ok(())
}

/// Writes a quarter that is dirty already and changes the buffer before the SSD looks at it. Whether it got what was
/// there at first.
fn first_data_written(stable: bool) -> Result<bool> {
    let mut rig = Rig::disks(Config {
        mode: "writeback",
        ssd_under: Some(Under::Linear),
        ..Config::default().keeping()
    })?;
    let name = rig.ssd.path().file_name().context("no name")?;
    let flag = Path::new("/sys/block")
        .join(name)
        .join("queue/stable_writes");
    fs::write(flag, if stable { "1" } else { "0" })?;
    // What is above takes the flag over.
    rig.ssd_target()?.swap(Under::Linear.line(&rig.ssd))?;
    rig.attach(true)?;
    let file = io::direct(&rig.path()?)?;
    io::write(&file, 0, &[1; 4096])?;
    // The SSD gets the write only after the buffer has changed.
    let silent = rig.ssd_target()?.suspended()?;
    let buffer = Arc::new(Buffer::of(&[2; 4096])?);
    let (address, written) = (buffer.address(), Arc::clone(&buffer));
    let writer = Blocked::new(move || {
        file.write_all_at(&written, 0)?;
        Ok(file)
    })?;
    for at in 0..4096 {
        // SAFETY: the buffer outlives this loop; racing with the device is the purpose.
        unsafe { std::ptr::write_volatile((address + at) as *mut u8, 3) };
    }
    ensure!(!writer.is_over(), "answered before it was written");
    drop(silent);
    let read = io::read(&writer.join()?, 0, 4096)?;
    Ok(read[..] == [2; 4096])
}

fn stable_pages() -> Result<()> {
    ensure!(
        !first_data_written(false)?,
        "nothing is written from the user's pages, so the case would show nothing"
    );
    ensure!(
        first_data_written(true)?,
        "an SSD that wants stable pages gets the user's"
    );
    Ok(())
}
