// SPDX-License-Identifier: GPL-3.0-or-later
//! Time of single requests on one device after another; exact where the machine's time is virtual.
//!
//! The devices lie on RAM disks: `/dev/ram0` is the disk, `/dev/ram1` the SSD, `/dev/ram2` holds metadata.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use crate::dm::{Dm, Line};
use crate::io::{self, Buffer};

const DISK: &str = "/dev/ram0";
const SSD: &str = "/dev/ram1";
const METADATA: &str = "/dev/ram2";
/// Size of each request in bytes.
const BLOCK: usize = 4096;
/// Blocks that requests go to: few, so that every cache holds them all.
const BLOCKS: usize = 512;
/// Requests that are measured.
const COUNT: usize = 2000;

/// A device to measure, and how to ask it how many reads it served from the SSD.
struct Device {
    path: PathBuf,
    dm: Option<Dm>,
    hits: Hits,
}

enum Hits {
    /// It has no SSD.
    None,
    /// In requests, a word of the status line.
    Word(usize),
    /// In sectors, a named counter of the status line.
    Counter(&'static str),
    /// In requests, a file.
    File(&'static str),
}

/// Measures one device and prints its figures.
pub fn run(name: &str) -> Result<()> {
    let device = device(name)?;
    let file = io::direct(&device.path)?;
    let mut offsets: Vec<u64> = (0..BLOCKS).map(|block| (block * BLOCK) as u64).collect();
    Rng::with_seed(1).shuffle(&mut offsets);
    warm(&device, &file, &offsets)?;
    let hits = device.hits()?;
    let reads = measure(&offsets, |buffer, offset| {
        Ok(file.read_exact_at(buffer, offset)?)
    })?;
    let hits = device.hits()? - hits;
    ensure!(
        matches!(device.hits, Hits::None) || hits >= COUNT as u64,
        "{hits} of {COUNT} reads came from the SSD"
    );
    let writes = measure(&offsets, |buffer, offset| {
        Ok(file.write_all_at(buffer, offset)?)
    })?;
    println!("bench: {name} read {} write {}", text(reads), text(writes));
    Ok(())
}

fn text((low, middle, high): (u64, u64, u64)) -> String {
    format!("{low} {middle} {high}")
}

/// Reads and writes the blocks until reads come from the SSD.
fn warm(device: &Device, file: &File, offsets: &[u64]) -> Result<()> {
    let mut buffer = Buffer::of(&io::random(BLOCK, 1))?;
    for offset in offsets {
        file.write_all_at(&buffer, *offset)?;
    }
    file.sync_all()?;
    for _ in 0..200 {
        let before = device.hits()?;
        for offset in offsets {
            file.read_exact_at(&mut buffer, *offset)?;
        }
        if matches!(device.hits, Hits::None) || device.hits()? - before >= offsets.len() as u64 {
            return Ok(());
        }
        // Caches that promote do so by and by, and virtual time costs nothing.
        sleep(Duration::from_millis(500));
    }
    bail!("reads do not come from the SSD")
}

/// Nanoseconds of single requests: the 10th, 50th and 90th of a hundred.
fn measure(
    offsets: &[u64],
    mut request: impl FnMut(&mut Buffer, u64) -> Result<()>,
) -> Result<(u64, u64, u64)> {
    let mut buffer = Buffer::new(BLOCK)?;
    let mut times = Vec::with_capacity(COUNT);
    for offset in offsets.iter().cycle().take(COUNT) {
        let start = Instant::now();
        request(&mut buffer, *offset)?;
        times.push(u64::try_from(start.elapsed().as_nanos())?);
    }
    times.sort_unstable();
    Ok((times[COUNT / 10], times[COUNT / 2], times[COUNT * 9 / 10]))
}

impl Device {
    fn hits(&self) -> Result<u64> {
        let status = || {
            self.dm
                .as_ref()
                .context("no device-mapper device")?
                .status()
        };
        Ok(match self.hits {
            Hits::None => 0,
            Hits::Word(index) => {
                let status = status()?;
                let word = status.split_whitespace().nth(index);
                word.with_context(|| format!("status {status}"))?.parse()?
            }
            Hits::Counter(name) => {
                crate::rig::Status::parse(&status()?)?.get(name)? / (BLOCK / io::SECTOR) as u64
            }
            Hits::File(path) => {
                // bcache adds its counters up every 22 s.
                sleep(Duration::from_secs(50));
                fs::read_to_string(path)?.trim().parse()?
            }
        })
    }
}

fn device(name: &str) -> Result<Device> {
    let sectors = (io::size(DISK.as_ref())? / io::SECTOR) as u64;
    let mapped = |target: &str, args: String, hits| -> Result<Device> {
        let dm = Dm::with(name, Line::new(sectors, target, args))?;
        Ok(Device {
            path: dm.path().to_owned(),
            dm: Some(dm),
            hits,
        })
    };
    match name {
        "brd" => Ok(Device {
            path: DISK.into(),
            dm: None,
            hits: Hits::None,
        }),
        "dm-linear" => mapped("linear", format!("{DISK} 0"), Hits::None),
        "dm-writecache" => mapped(
            "writecache",
            format!("s {DISK} {SSD} 4096 0"),
            Hits::Word(5),
        ),
        "dm-cache" => {
            let args = format!("{METADATA} {SSD} {DISK} 64 1 writethrough smq 0");
            mapped("cache", args, Hits::Word(4))
        }
        "tandem" => {
            let words = "6 uuid 00112233445566778899aabbccddeeff origin_id abcd format new";
            let args = format!("{DISK} {SSD} writethrough {words}");
            mapped("tandem", args, Hits::Counter("read_hit"))
        }
        "bcache" => bcache(),
        _ => bail!("unknown device {name}"),
    }
}

fn bcache() -> Result<Device> {
    let output = Command::new("/make-bcache")
        .args(["-C", SSD, "-B", DISK, "--block", "4k", "--bucket", "64k"])
        .output()
        .context("cannot start make-bcache")?;
    ensure!(
        output.status.success(),
        "make-bcache: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    for node in [SSD, DISK] {
        fs::write("/sys/fs/bcache/register", node)
            .with_context(|| format!("cannot register {node}"))?;
    }
    let path = PathBuf::from("/dev/bcache0");
    let start = Instant::now();
    while !path.exists() {
        ensure!(start.elapsed() < Duration::from_secs(30), "no /dev/bcache0");
        sleep(Duration::from_millis(100));
    }
    for (file, value) in [
        ("sequential_cutoff", "0"),
        ("cache/congested_read_threshold_us", "0"),
        ("cache/congested_write_threshold_us", "0"),
    ] {
        let file = PathBuf::from("/sys/block/bcache0/bcache").join(file);
        fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let hits = Hits::File("/sys/block/bcache0/bcache/stats_total/cache_hits");
    Ok(Device {
        path,
        dm: None,
        hits,
    })
}
