// SPDX-License-Identifier: GPL-3.0-or-later
//! Writing back what is dirty, on a disk that seeks: how long it takes, how well that is told before, and who has to
//! wait for it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;

use super::aio::{self, Verb};
use super::devices::Device;
use super::{BLOCK, random_blocks, show};
use crate::io::{self, Buffer};

/// Random blocks that are written, all over the disk and in a part of it.
const BLOCKS: usize = 6144;
const DENSE: u64 = 512 << 20;
/// Where the disk happens to be makes a tenth of so short a time.
const DENSE_ROUNDS: u32 = 5;
/// A large file.
const FILE: usize = 256 * io::MIB;
/// More random blocks than may be dirty.
const FLOOD: usize = 49152;
/// Reads of the user while something is written back, and his pause between two.
const READS: usize = 400;
const PAUSE: Duration = Duration::from_millis(20);
/// How often the status is asked for.
const LOOK: Duration = Duration::from_millis(500);
/// Nobody reads an estimate to the second below this.
const SHORTEST: Duration = Duration::from_secs(5);

/// Prints milliseconds, microseconds and percent, as the names say.
pub fn run(name: &str, device: &Device) -> Result<()> {
    let file = io::direct_without_times(device.path())?;
    let size = io::size(device.path())? as u64;
    let mut rng = Rng::with_seed(3);
    for (kind, range, rounds) in [
        ("sparse", 0..size, 1),
        ("dense", size / 2..size / 2 + DENSE, DENSE_ROUNDS),
    ] {
        let (mut written, mut drained) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..rounds {
            let mut blocks = random_blocks(&mut rng, range.clone(), BLOCKS);
            if name == "elevator" {
                blocks.sort_unstable();
            }
            written += aio::each(&file, Verb::Write, blocks, BLOCK, 32)?;
            drained += device.drain()?;
        }
        show(format!("{kind}-written-ms"), millis(written / rounds));
        show(format!("{kind}-drained-ms"), millis(drained / rounds));
    }
    match name {
        "disk" => reads(&file, &mut rng, size, "alone").map(drop),
        "tandem-wb" => {
            // A cache that has measured nothing yet, and the same when it has.
            estimates(device, &file, &mut rng, size)?;
            foreground(device, &file, &mut rng, size)?;
            limit(device, &file, &mut rng, size)
        }
        _ => Ok(()),
    }
}

/// What the status said during a drain: since its start, and seconds left.
struct Said {
    at: Duration,
    seconds: u64,
}

/// Writes back all, doing `meanwhile` in between; prints how long that took, when an estimate was told, and how far off
/// it was at most since then, in percent.
fn drain(
    device: &Device,
    file: &File,
    name: &str,
    mut meanwhile: impl FnMut() -> Result<()>,
) -> Result<()> {
    // What went past the cache is not waited for.
    file.sync_all()?;
    let mut said = Vec::new();
    let start = Instant::now();
    device.dm()?.message("flush start")?;
    loop {
        let status = device.status()?;
        if status.dirty == 0 {
            break;
        }
        let seconds = status.get("drain_seconds")?;
        let at = start.elapsed();
        println!(
            "{name} after {} ms: {} sectors dirty, {seconds} s left",
            at.as_millis(),
            status.dirty
        );
        if seconds > 0 {
            said.push(Said { at, seconds });
        }
        while start.elapsed() < at + LOOK {
            meanwhile()?;
        }
    }
    let whole = start.elapsed();
    device.dm()?.message("flush stop")?;
    let off = |said: &Said| {
        let left = (whole - said.at).as_secs_f64();
        // The module rounds the seconds up.
        ((said.seconds as f64 - 0.5) / left - 1.0).abs() * 100.0
    };
    show(format!("{name}-drained-ms"), millis(whole));
    let first = said.first().context("no estimate was told")?;
    show(format!("{name}-told-ms"), millis(first.at));
    let counted = said.iter().filter(|said| whole - said.at >= SHORTEST);
    show(
        format!("{name}-off"),
        counted.map(off).fold(0.0, f64::max) as u64,
    );
    Ok(())
}

fn estimates(device: &Device, file: &File, rng: &mut Rng, size: u64) -> Result<()> {
    let idle = || {
        sleep(Duration::from_millis(100));
        Ok(())
    };
    aio::each(
        file,
        Verb::Write,
        random_blocks(rng, 0..size, BLOCKS),
        BLOCK,
        32,
    )?;
    drain(device, file, "idle", idle)?;
    // A part of it of another kind than what was measured before.
    aio::each(
        file,
        Verb::Write,
        random_blocks(rng, 0..size / 2, BLOCKS),
        BLOCK,
        32,
    )?;
    let from = size / 4 * 3;
    let pieces = (0..FILE / io::MIB).map(|at| from + (at * io::MIB) as u64);
    aio::each(file, Verb::Write, pieces, io::MIB, 4)?;
    drain(device, file, "mixed", idle)
}

/// Reads of blocks that no cache has, with pauses, and how long each took.
struct Reader<'a> {
    file: &'a File,
    rng: &'a mut Rng,
    range: Range<u64>,
    buffer: Buffer,
    times: Vec<Duration>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a File, rng: &'a mut Rng, size: u64) -> Result<Self> {
        Ok(Self {
            file,
            rng,
            range: 0..size,
            buffer: Buffer::new(BLOCK)?,
            times: Vec::new(),
        })
    }

    fn read(&mut self) -> Result<()> {
        let offset = random_blocks(self.rng, self.range.clone(), 1)[0];
        let start = Instant::now();
        self.file.read_exact_at(&mut self.buffer, offset)?;
        self.times.push(start.elapsed());
        sleep(PAUSE);
        Ok(())
    }

    fn show(mut self, name: &str) -> Result<()> {
        self.times.sort_unstable();
        let count = self.times.len();
        let mean = self.times.iter().sum::<Duration>() / u32::try_from(count)?;
        show(format!("reads-{name}-us"), u64::try_from(mean.as_micros())?);
        let late = self.times[count * 95 / 100];
        show(
            format!("reads-{name}-p95-us"),
            u64::try_from(late.as_micros())?,
        );
        Ok(())
    }
}

fn reads(file: &File, rng: &mut Rng, size: u64, name: &str) -> Result<()> {
    let mut reader = Reader::new(file, rng, size)?;
    for _ in 0..READS {
        reader.read()?;
    }
    reader.show(name)
}

/// Reads from the disk while nothing is dirty, while something is, and while that is written back on request.
fn foreground(device: &Device, file: &File, rng: &mut Rng, size: u64) -> Result<()> {
    reads(file, rng, size, "alone")?;
    aio::each(
        file,
        Verb::Write,
        random_blocks(rng, 0..size, BLOCKS / 2),
        BLOCK,
        32,
    )?;
    let dirty = device.status()?.dirty;
    // By then the writes are no longer young.
    sleep(Duration::from_millis(10));
    reads(file, rng, size, "dirty")?;
    let left = device.status()?.dirty;
    show("dirty-left-percent", left * 100 / dirty);
    aio::each(
        file,
        Verb::Write,
        random_blocks(rng, 0..size, BLOCKS / 4),
        BLOCK,
        32,
    )?;
    let mut reader = Reader::new(file, rng, size)?;
    drain(device, file, "busy", || reader.read())?;
    reader.show("draining")
}

/// Writes more than may be dirty by a limit of 30 s, and writes it back.
fn limit(device: &Device, file: &File, rng: &mut Rng, size: u64) -> Result<()> {
    device.dm()?.message("dirty_limit 30 0")?;
    let start = Instant::now();
    let blocks = random_blocks(rng, 0..size, FLOOD);
    aio::each(file, Verb::Write, blocks, BLOCK, 32)?;
    show("flood-written-ms", millis(start.elapsed()));
    show("flood-dirty-kib", device.status()?.dirty / 2);
    show("flood-drained-ms", millis(device.drain()?));
    Ok(())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
