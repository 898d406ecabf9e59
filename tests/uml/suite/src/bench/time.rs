// SPDX-License-Identifier: GPL-3.0-or-later
//! How long things take on a disk that seeks and an SSD that does not (tests/bench/model), to the nanosecond.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::aio::{self, Verb};
use super::devices::Device;
use super::{ensure_served, show, warm};
use crate::io::{self, Buffer};

const BLOCK: usize = 4096;
/// Blocks all over the disk that are read again and again.
const HOT: usize = 1024;
const ROUNDS: usize = 4;
/// A file that is read from its start to its end, as by a copy, and the requests that readahead makes for it.
const COPY: usize = 32 * io::MIB;
const READAHEAD: usize = 128 * 1024;
/// Writes that are followed by a flush, and writes that are not.
const SYNCED: usize = 300;
const WRITES: usize = 8192;

/// Prints requests a second, MB/s and microseconds, as the names say.
pub fn run(device: &Device) -> Result<()> {
    ensure!(
        io::queue_text(device.path(), "write_cache")? == "write back",
        "flushes do not reach the device"
    );
    let file = io::direct_without_times(device.path())?;
    let half = io::size(device.path())? as u64 / 2;
    let mut rng = Rng::with_seed(1);
    let hot: Vec<u64> = random_blocks(&mut rng, 0..half, HOT);
    warm(device, &file, &hot, BLOCK)?;
    for depth in [1, 32] {
        let hits = device.hits()?;
        let reads = hot.iter().copied().cycle().take(ROUNDS * HOT);
        let time = aio::each(&file, Verb::Read, reads, BLOCK, depth)?;
        show(format!("reads-{depth}"), per_second(ROUNDS * HOT, time));
        ensure_served(device, hits, ROUNDS * HOT, BLOCK)?;
    }
    for name in ["copy-first", "copy-second"] {
        let time = copy(&file, half)?;
        show(name, per_second(COPY, time) / 1_000_000);
        // Fills and promotions may go on behind it.
        thread::sleep(Duration::from_secs(60));
    }
    let start = Instant::now();
    let block = Buffer::new(BLOCK)?;
    for offset in random_blocks(&mut rng, 0..2 * half, SYNCED) {
        file.write_all_at(&block, offset)?;
        file.sync_data()?;
    }
    let time = start.elapsed() / SYNCED as u32;
    show("synced-write-us", u64::try_from(time.as_micros())?);
    let writes = random_blocks(&mut rng, 0..2 * half, WRITES);
    let time = aio::each(&file, Verb::Write, writes, BLOCK, 32)?;
    show("writes-32", per_second(WRITES, time));
    Ok(())
}

fn random_blocks(rng: &mut Rng, range: std::ops::Range<u64>, count: usize) -> Vec<u64> {
    let block = BLOCK as u64;
    (0..count)
        .map(|_| rng.u64(range.start / block..range.end / block) * block)
        .collect()
}

fn per_second(count: usize, time: Duration) -> u64 {
    (count as f64 / time.as_secs_f64()) as u64
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
