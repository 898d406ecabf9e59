// SPDX-License-Identifier: GPL-3.0-or-later
//! Instructions of single requests: one nanosecond of virtual time each.

use std::os::unix::fs::FileExt;
use std::time::Instant;

use anyhow::Result;
use fastrand::Rng;

use super::devices::Device;
use super::{ensure_served, show, warm};
use crate::io::{self, Buffer};

/// Bytes that requests go to: few, so that every cache holds them all.
const AREA: usize = 2 * io::MIB;
/// The same for large requests.
const LARGE_AREA: usize = 8 * io::MIB;
/// Requests of 4 KiB that are measured.
const COUNT: usize = 2000;

/// Prints the cost of reads that hit, and of writes, each as 10th, 50th and 90th of a hundred.
pub fn run(device: &Device) -> Result<()> {
    let file = io::direct_without_times(device.path())?;
    let small = offsets(AREA, 4096);
    warm(device, &file, &small, 4096)?;
    let hits = device.hits()?;
    let reads = measure(&small, 4096, COUNT, |buffer, offset| {
        Ok(file.read_exact_at(buffer, offset)?)
    })?;
    ensure_served(device, hits, COUNT, 4096)?;
    for (share, cost) in ["p10", "p50", "p90"].iter().zip(reads) {
        show(format!("read-4-{share}"), cost);
    }
    let writes = measure(&small, 4096, COUNT, |buffer, offset| {
        Ok(file.write_all_at(buffer, offset)?)
    })?;
    show("write-4", writes[1]);
    for kib in [16, 64, 256, 1024] {
        let length = kib * 1024;
        let offsets = offsets(LARGE_AREA, length);
        warm(device, &file, &offsets, length)?;
        let count = 4 * offsets.len();
        let hits = device.hits()?;
        let reads = measure(&offsets, length, count, |buffer, offset| {
            Ok(file.read_exact_at(buffer, offset)?)
        })?;
        ensure_served(device, hits, count, length)?;
        show(format!("read-{kib}"), reads[1]);
    }
    Ok(())
}

/// All pieces of the area, in random order.
fn offsets(area: usize, length: usize) -> Vec<u64> {
    let mut offsets: Vec<u64> = (0..area / length).map(|at| (at * length) as u64).collect();
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
