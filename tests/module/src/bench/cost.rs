// SPDX-License-Identifier: GPL-3.0-or-later
//! Instructions of single requests: one nanosecond of virtual time each.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::devices::Device;
use super::{show, warm};
use crate::io::{self, Buffer};

/// Bytes that requests go to: few, so that every cache holds them all.
const AREA: usize = 2 * io::MIB;
/// The same for large requests.
const LARGE_AREA: usize = 8 * io::MIB;
/// Where nobody has read or written; and of blocks that are read before they are written.
const FRESH_AREA: Range<usize> = 32 * io::MIB..40 * io::MIB;
const MISS_AREA: Range<usize> = 40 * io::MIB..48 * io::MIB;
const CLEAN_AREA: Range<usize> = 48 * io::MIB..50 * io::MIB;
/// From one of those blocks to the next: a frame of its own each, for any cache.
const STRIDE: usize = 32 * 1024;
/// Requests of 4 KiB that are measured.
const COUNT: usize = 2000;
/// How often a cache is shown what it is to hold.
const ROUNDS: usize = 200;

/// Prints the cost of reads that hit, and of the kinds of writes, as 10th, 50th and 90th of a hundred or the 50th.
pub fn run(device: &Device) -> Result<()> {
    let file = io::direct_without_times(device.path())?;
    let small = offsets(0..AREA, 4096);
    warm(device, &file, &small, 4096, ROUNDS)?;
    let hits = device.hits()?;
    let reads = measure(&small, 4096, COUNT, |buffer, offset| {
        Ok(file.read_exact_at(buffer, offset)?)
    })?;
    ensure_hits(device, hits, COUNT, 4096)?;
    for (share, cost) in ["p10", "p50", "p90"].iter().zip(reads) {
        show(format!("read-4-{share}"), cost);
    }
    let write = |buffer: &mut Buffer, offset| Ok(file.write_all_at(buffer, offset)?);
    // The first round makes dirty what has been written back meanwhile.
    measure(&small, 4096, small.len(), write)?;
    show("write-4", measure(&small, 4096, COUNT, write)?[1]);
    for kib in [16, 64, 256, 1024] {
        let length = kib * 1024;
        let offsets = offsets(0..LARGE_AREA, length);
        warm(device, &file, &offsets, length, ROUNDS)?;
        let count = 4 * offsets.len();
        let hits = device.hits()?;
        let reads = measure(&offsets, length, count, |buffer, offset| {
            Ok(file.read_exact_at(buffer, offset)?)
        })?;
        ensure_hits(device, hits, count, length)?;
        show(format!("read-{kib}"), reads[1]);
    }
    let miss = offsets(MISS_AREA, STRIDE);
    let reads = measure(&miss, 4096, miss.len(), |buffer, offset| {
        Ok(file.read_exact_at(buffer, offset)?)
    })?;
    show("miss-4", reads[1]);
    let fresh = offsets(FRESH_AREA, STRIDE);
    show(
        "write-fresh-4",
        measure(&fresh, 4096, fresh.len(), write)?[1],
    );
    write_clean(device, &file)
}

/// The first write to a block that was only read so far, for caches that cache what is read.
fn write_clean(device: &Device, file: &File) -> Result<()> {
    let offsets = offsets(CLEAN_AREA, STRIDE);
    let mut buffer = Buffer::new(4096)?;
    for _ in 0..ROUNDS {
        let hits = device.hits()?;
        for offset in &offsets {
            file.read_exact_at(&mut buffer, *offset)?;
        }
        if device.share(hits, offsets.len(), 4096)? == 100 {
            let cost = measure(&offsets, 4096, offsets.len(), |buffer, offset| {
                Ok(file.write_all_at(buffer, offset)?)
            })?;
            show("write-clean-4", cost[1]);
            break;
        }
        thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Fails unless so many of these reads came from the SSD since it had `hits` that nine of ten are measured as hits;
/// dm-cache makes room beside them.
fn ensure_hits(device: &Device, hits: u64, reads: usize, length: usize) -> Result<()> {
    let share = device.share(hits, reads, length)?;
    ensure!(share >= 95, "{share} % of the reads came from the SSD");
    Ok(())
}

/// All pieces of the area, in random order.
fn offsets(area: Range<usize>, length: usize) -> Vec<u64> {
    let mut offsets: Vec<u64> = area.step_by(length).map(|at| at as u64).collect();
    Rng::with_seed(1).shuffle(&mut offsets);
    offsets
}

fn measure(
    offsets: &[u64],
    length: usize,
    count: usize,
    mut request: impl FnMut(&mut Buffer, u64) -> Result<()>,
) -> Result<[u64; 3]> {
    let mut buffer = Buffer::new(length)?;
    let mut times = Vec::with_capacity(count);
    for offset in offsets.iter().cycle().take(count) {
        let start = Instant::now();
        request(&mut buffer, *offset)?;
        times.push(u64::try_from(start.elapsed().as_nanos())?);
    }
    times.sort_unstable();
    Ok([times[count / 10], times[count / 2], times[count * 9 / 10]])
}
