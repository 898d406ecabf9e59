// SPDX-License-Identifier: GPL-3.0-or-later
//! What `cargo xtask bench` runs in its guest, where time is virtual and figures repeat.
//!
//! `SUITE_BENCH` is `cost:<device>` (instructions of single requests, all devices being RAM disks) or `time:<device>`
//! (how long things take on models of a disk and an SSD). Each figure is printed as `bench: <name> <number>`.

pub mod aio;
mod cost;
mod devices;
mod time;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::io::{self, Buffer};
use devices::{Base, Device};

/// Measures what is asked for.
pub fn run(what: &str) -> Result<()> {
    let (kind, name) = what.split_once(':').context("kind:device")?;
    match kind {
        "cost" => cost::run(&Device::new(name, Base::ram()?)?),
        "time" => time::run(&Device::new(name, Base::models()?)?),
        _ => bail!("unknown bench {kind}"),
    }
}

fn show(name: impl std::fmt::Display, number: u64) {
    println!("bench: {name} {number}");
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
