// SPDX-License-Identifier: GPL-3.0-or-later
//! What `cargo xtask bench` runs in its guest, where time is virtual and figures repeat.
//!
//! `SUITE_BENCH` is `cost:<device>` (instructions of single requests, all devices being RAM disks), `lines:<device>` (the same
//! devices, by a plugin of QEMU), or `time:<device>`,
//! `drain:<device>` and `seeds-<article>:<device>` (how long things take on models of a disk and an SSD). Each figure is
//! printed as `bench: <name> <number>`.

pub mod aio;
mod cost;
mod devices;
mod drain;
mod lines;
mod seeds;
mod time;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use crate::io::{self, Buffer};
use devices::{Base, Device};

/// Measures what is asked for.
pub fn run(what: &str) -> Result<()> {
    let (kind, name) = what.split_once(':').context("kind:device")?;
    match kind {
        "cost" => cost::run(&Device::new(name, Base::ram()?)?),
        "lines" => lines::run(&Device::new(name, Base::ram()?)?),
        "time" => time::run(&Device::new(name, Base::models()?)?),
        "drain" => drain::run(name, &Device::new(name, Base::models()?)?),
        _ if let Some(article) = kind.strip_prefix("seeds-") => {
            seeds::run(article, &Device::new(name, Base::models()?)?)
        }
        _ => bail!("unknown bench {kind}"),
    }
}

fn show(name: impl std::fmt::Display, number: u64) {
    println!("bench: {name} {number}");
}

/// Bytes of a small request.
const BLOCK: usize = 4096;

fn random_blocks(rng: &mut Rng, range: Range<u64>, count: usize) -> Vec<u64> {
    let block = BLOCK as u64;
    (0..count)
        .map(|_| rng.u64(range.start / block..range.end / block) * block)
        .collect()
}

fn per_second(count: usize, time: Duration) -> u64 {
    (count as f64 / time.as_secs_f64()) as u64
}

/// Writes and reads blocks of `length` bytes until reads come from the SSD, or a cache has had that many chances.
fn warm(device: &Device, file: &File, offsets: &[u64], length: usize, rounds: usize) -> Result<()> {
    let mut buffer = Buffer::of(&io::random(length, 1))?;
    for offset in offsets {
        file.write_all_at(&buffer, *offset)?;
    }
    file.sync_all()?;
    for _ in 0..rounds {
        let hits = device.hits()?;
        for offset in offsets {
            file.read_exact_at(&mut buffer, *offset)?;
        }
        if device.share(hits, offsets.len(), length)? == 100 {
            break;
        }
        // Caches that promote do so by and by, and virtual time costs nothing.
        sleep(Duration::from_millis(500));
    }
    Ok(())
}
