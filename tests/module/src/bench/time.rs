// SPDX-License-Identifier: GPL-3.0-or-later
//! How long things take on a disk that seeks and an SSD that does not (tests/bench/model), to the nanosecond.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::aio::{self, Verb};
use super::devices::Device;
use super::{BLOCK, per_second, random_blocks, show, warm};
use crate::io::{self, Buffer};

/// Blocks all over the disk that are read again and again.
const HOT: usize = 1024;
const ROUNDS: usize = 4;
/// How often they were read before, for a cache that wants to see them more than once.
const CHANCES: usize = 20;
/// Larger requests that are read again and again: this much in all, of each size.
const LARGE: usize = 32 * io::MIB;
/// A file that is read from its start to its end, as by a copy, and the requests that readahead makes for it.
const COPY: usize = 32 * io::MIB;
const READAHEAD: usize = 128 * 1024;
/// Writes that are followed by a flush, and writes that are not.
const SYNCED: usize = 300;
const WRITES: usize = 8192;
/// In order, 32 at a time.
const SEQUENTIAL: usize = 8192;
/// A file that is written from its start to its end, as by a copy of a film: so much in requests of each size.
const STREAM: usize = 256 * io::MIB;

/// Prints requests a second, MB/s and microseconds, as the names say.
pub fn run(device: &Device) -> Result<()> {
    let flushes = io::queue_text(device.path(), "write_cache")? == "write back";
    ensure!(
        flushes == device.flushes(),
        "whether flushes reach the disk is not as it was: {flushes}"
    );
    let file = io::direct_without_times(device.path())?;
    let size = io::size(device.path())? as u64;
    // Each kind of request has a part of the disk of its own. (bcache's device is shorter than its disk.)
    let length = size / 8 / io::MIB as u64 * io::MIB as u64;
    let part = |number: u64| length * number..length * (number + 1);
    let mut rng = Rng::with_seed(1);
    let hot = random_blocks(&mut rng, 0..part(3).end, HOT);
    warm(device, &file, &hot, BLOCK, CHANCES)?;
    for depth in [1, 32] {
        let hits = device.hits()?;
        let reads = hot.iter().copied().cycle().take(ROUNDS * HOT);
        let time = aio::each(&file, Verb::Read, reads, BLOCK, depth)?;
        show(format!("reads-{depth}"), per_second(ROUNDS * HOT, time));
        let share = device.share(hits, ROUNDS * HOT, BLOCK)?;
        show(format!("share-{depth}"), share);
    }
    large(device, &file, part(4))?;
    copies(&file, part(5).start)?;
    // The SSD alone is too small for them.
    if length > 5 * STREAM as u64 {
        streams(&file, part(5).start + COPY as u64)?;
        let from = part(5).start + (COPY + 4 * STREAM) as u64;
        discard(device, &file, from..part(5).end)?;
    }
    synced(device, &file, part(6), &mut rng)?;
    let writes = random_blocks(&mut rng, part(7), WRITES);
    let time = aio::each(&file, Verb::Write, writes, BLOCK, 32)?;
    show("writes-32", per_second(WRITES, time));
    Ok(())
}

/// What a file system gives back, of which the SSD has nothing: one large range, and pieces of 2 MiB as `fstrim` makes
/// them of free space that is scattered. In microseconds.
fn discard(device: &Device, file: &File, range: Range<u64>) -> Result<()> {
    const PIECE: u64 = 2 << 20;
    if io::queue(device.path(), "discard_max_bytes")? == 0 {
        return Ok(());
    }
    let middle = range.start.midpoint(range.end) / PIECE * PIECE;
    let start = Instant::now();
    io::discard(file, range.start, middle - range.start)?;
    show("discard-whole", u64::try_from(start.elapsed().as_micros())?);
    let start = Instant::now();
    for at in (middle..range.end - PIECE).step_by(2 * PIECE as usize) {
        io::discard(file, at, PIECE)?;
    }
    show(
        "discard-pieces",
        u64::try_from(start.elapsed().as_micros())?,
    );
    Ok(())
}

/// Warm reads of each size, in pieces all over the range.
fn large(device: &Device, file: &File, range: Range<u64>) -> Result<()> {
    for (at, kib) in [16, 64, 256, 1024].into_iter().enumerate() {
        let length = kib * 1024;
        let count = (LARGE / length) as u64;
        let from = range.start + (at * LARGE) as u64;
        let offsets: Vec<u64> = (0..count).map(|n| from + n * length as u64).collect();
        warm(device, file, &offsets, length, CHANCES)?;
        for depth in [1, 32] {
            let time = aio::each(file, Verb::Read, offsets.iter().copied(), length, depth)?;
            let kb = per_second(LARGE, time) / 1000;
            show(format!("large-{kib}-{depth}"), kb);
        }
    }
    Ok(())
}

/// A file that is copied twice, and the same in small requests: in MB/s.
fn copies(file: &File, from: u64) -> Result<()> {
    for name in ["copy-first", "copy-second"] {
        let time = copy(file, from)?;
        show(name, per_second(COPY, time) / 1_000_000);
        // Fills and promotions may go on behind it.
        thread::sleep(Duration::from_secs(60));
    }
    let offsets = || (0..SEQUENTIAL).map(|at| from + (at * BLOCK) as u64);
    for (name, verb) in [
        ("sequential-reads", Verb::Read),
        ("sequential-writes", Verb::Write),
    ] {
        let time = aio::each(file, verb, offsets(), BLOCK, 32)?;
        show(name, per_second(SEQUENTIAL * BLOCK, time) / 1_000_000);
    }
    Ok(())
}

/// Files that are written, each where nothing was before: in MB/s.
fn streams(file: &File, from: u64) -> Result<()> {
    let kinds = [(4, 1), (4, 32), (1024, 1), (1024, 32)];
    for (at, (kib, depth)) in kinds.into_iter().enumerate() {
        let length = kib * 1024;
        let from = from + (at * STREAM) as u64;
        let offsets = (0..STREAM / length).map(|n| from + (n * length) as u64);
        let time = aio::each(file, Verb::Write, offsets, length, depth)?;
        show(
            format!("stream-{kib}-{depth}"),
            per_second(STREAM, time) / 1_000_000,
        );
        // The disk's cache is empty again, and nothing is on its way.
        file.sync_data()?;
        thread::sleep(Duration::from_secs(60));
    }
    Ok(())
}

/// Writes that are flushed, in microseconds: to blocks that nobody has touched, again to the same, and to blocks that
/// were read before.
fn synced(device: &Device, file: &File, range: Range<u64>, rng: &mut Rng) -> Result<()> {
    let middle = range.start.midpoint(range.end);
    let fresh = random_blocks(rng, range.start..middle, SYNCED);
    let read = random_blocks(rng, middle..range.end, SYNCED);
    if !device.flushes() {
        // Nothing would be synced. The blocks were drawn all the same, so that those that follow are the same for all.
        return Ok(());
    }
    let mut buffer = Buffer::new(BLOCK)?;
    for _ in 0..CHANCES {
        let hits = device.hits()?;
        for offset in &read {
            file.read_exact_at(&mut buffer, *offset)?;
        }
        if device.share(hits, SYNCED, BLOCK)? == 100 {
            break;
        }
    }
    // The earlier writes are on their way to the disk no more, and the first flush below is not for them.
    file.sync_data()?;
    thread::sleep(Duration::from_secs(60));
    for (name, offsets) in [
        ("synced-fresh", &fresh),
        ("synced-again", &fresh),
        ("synced-read", &read),
    ] {
        let start = Instant::now();
        for offset in offsets {
            file.write_all_at(&buffer, *offset)?;
            file.sync_data()?;
        }
        let time = start.elapsed() / SYNCED as u32;
        show(name, u64::try_from(time.as_micros())?);
    }
    Ok(())
}

/// Reads the file once, one request at a time.
fn copy(file: &File, from: u64) -> Result<Duration> {
    let mut buffer = Buffer::new(READAHEAD)?;
    let start = Instant::now();
    for at in (0..COPY).step_by(READAHEAD) {
        file.read_exact_at(&mut buffer, from + at as u64)?;
    }
    Ok(start.elapsed())
}
