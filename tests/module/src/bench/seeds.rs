// SPDX-License-Identifier: GPL-3.0-or-later
//! What five articles measured of other caches, repeated: one article a guest, so that each begins with an empty SSD.
//!
//! Files and SSD have a 64th of the articles' sizes (`tests/xtask/src/bench/seeds.rs`); the recordings have their own size.

use std::fs::File;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use super::aio::{self, Ask, Verb};
use super::devices::Device;
use super::{BLOCK, per_second, random_blocks, show};
use crate::io;

/// A gigabyte of an article.
const GB: usize = 16 * io::MIB;
/// What readahead asks for.
const READAHEAD: usize = 128 << 10;
/// Fills and promotions may go on behind a job.
const PAUSE: Duration = Duration::from_secs(60);
/// Blocks all over the disk, of 1 GB in all.
const BLOCKS: usize = GB / BLOCK;
/// How often they are read: with dm-cache it is said that more than twice matters.
const PASSES: usize = 6;
/// Passes over a recording.
const STARTS: usize = 3;
/// A start asks for several things at the same time, a scan for one thing after the other: see the recordings' first lines.
const RECORDINGS: [(&str, &str, usize); 2] = [
    ("desktop", include_str!("../../../bench/seeds/desktop"), 2),
    ("home", include_str!("../../../bench/seeds/home"), 1),
];

/// Prints MB/s, kB/s, requests a second and milliseconds.
pub fn run(article: &str, device: &Device) -> Result<()> {
    let file = io::direct_without_times(device.path())?;
    let size = io::size(device.path())? as u64;
    let mut rng = Rng::with_seed(29);
    match article {
        "files" => files(&file, size, &mut rng),
        "random" => random(&file, size, &mut rng),
        "depth" => depth(&file, size, &mut rng),
        "desktop" => desktop(&file, size),
        "drain" => drain(device, &file, size, &mut rng),
        _ => bail!("unknown article {article}"),
    }
}

fn mb_per_second(bytes: usize, time: Duration) -> u64 {
    per_second(bytes, time) / 1_000_000
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Where a job has its files: the bare SSD has room for them and not for much else.
fn part(size: u64, eighth: u64) -> u64 {
    size / 8 / io::MIB as u64 * io::MIB as u64 * eighth
}

/// A file of 4 GB, one of 24 GB, and 15 GB of many files, each read twice.
fn files(file: &File, size: u64, rng: &mut Rng) -> Result<()> {
    let pieces = |range: std::ops::Range<u64>| range.step_by(READAHEAD);
    for (gb, from) in [(4, 0), (24, part(size, 1))] {
        let range = from..from + (gb * GB) as u64;
        for pass in ["first", "second"] {
            let time = aio::each(file, Verb::Read, pieces(range.clone()), READAHEAD, 1)?;
            show(format!("file-{gb}-{pass}"), mb_per_second(gb * GB, time));
            sleep(PAUSE);
        }
    }
    // 0.125 to 16 MiB, each power of two equally often; a folder lists them in another order than the disk has them.
    let (mut many, mut at, end) = (Vec::new(), part(size, 5), part(size, 5) + 15 * GB as u64);
    while at < end {
        let length = ((READAHEAD as f64) * 128_f64.powf(rng.f64())) as u64;
        let next = end.min((at + length).next_multiple_of(READAHEAD as u64));
        many.push(at..next);
        at = next;
    }
    rng.shuffle(&mut many);
    for pass in ["first", "second"] {
        let all = many.iter().cloned().flat_map(pieces);
        let time = aio::each(file, Verb::Read, all, READAHEAD, 1)?;
        show(format!("many-{pass}"), mb_per_second(15 * GB, time));
        sleep(PAUSE);
    }
    Ok(())
}

/// Reads of 4 KiB, one at a time, and writes to the same blocks, which end with a flush.
fn random(file: &File, size: u64, rng: &mut Rng) -> Result<()> {
    let mut blocks = random_blocks(rng, 0..size, BLOCKS);
    for pass in 1..=PASSES {
        rng.shuffle(&mut blocks);
        let time = aio::each(file, Verb::Read, blocks.iter().copied(), BLOCK, 1)?;
        show(format!("reads-{pass}"), per_second(BLOCKS, time));
        sleep(PAUSE);
    }
    rng.shuffle(&mut blocks);
    let start = std::time::Instant::now();
    aio::each(file, Verb::Write, blocks.iter().copied(), BLOCK, 1)?;
    file.sync_all()?;
    show("writes", per_second(BLOCKS, start.elapsed()));
    Ok(())
}

/// A file of 4 GB in requests of 4 KiB, 32 at a time: in its order, and in none.
fn depth(file: &File, size: u64, rng: &mut Rng) -> Result<()> {
    let from = part(size, 5);
    let ordered: Vec<u64> = (0..4 * BLOCKS)
        .map(|at| from + (at * BLOCK) as u64)
        .collect();
    let mut mixed = ordered.clone();
    rng.shuffle(&mut mixed);
    for (name, verb, blocks) in [
        ("ordered-first", Verb::Read, &ordered),
        ("ordered-second", Verb::Read, &ordered),
        ("ordered-write", Verb::Write, &ordered),
        ("mixed-read", Verb::Read, &mixed),
        ("mixed-write", Verb::Write, &mixed),
    ] {
        let time = aio::each(file, verb, blocks.iter().copied(), BLOCK, 32)?;
        // A disk does not come to 2 MB/s here.
        show(format!("{name}-kb"), per_second(4 * GB, time) / 1000);
        file.sync_all()?;
        sleep(PAUSE);
    }
    Ok(())
}

/// The recordings, as fast as the device answers: without the time in which programs compute.
fn desktop(file: &File, size: u64) -> Result<()> {
    for (at, (name, text, depth)) in (0..).zip(RECORDINGS) {
        let asks = recording(text, part(size, at * 4), part(size, 3))?;
        let longest = asks.iter().map(|ask| ask.2).max().unwrap_or(BLOCK);
        for pass in 1..=STARTS {
            let time = aio::play(file, asks.iter().copied(), longest, depth)?;
            show(format!("{name}-{pass}-ms"), millis(time));
            file.sync_all()?;
            sleep(PAUSE);
        }
    }
    Ok(())
}

/// Words `first+count` in blocks, with a `w` before for a write; lines with `#` say what it is. The bare SSD is smaller
/// than the disks of the recordings, which are wound up on it by `most` bytes.
fn recording(text: &str, from: u64, most: u64) -> Result<Vec<Ask>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .flat_map(str::split_whitespace)
        .map(|word| {
            let (verb, place) = match word.strip_prefix('w') {
                Some(place) => (Verb::Write, place),
                None => (Verb::Read, word),
            };
            let (first, count) = place.split_once('+').context("first+count")?;
            let (first, count) = (first.parse::<u64>()?, count.parse::<usize>()?);
            Ok((verb, from + first * BLOCK as u64 % most, count * BLOCK))
        })
        .collect()
}

/// 4 GB of random blocks are written all over the disk, and then written back.
fn drain(device: &Device, file: &File, size: u64, rng: &mut Rng) -> Result<()> {
    let blocks = random_blocks(rng, 0..size, 4 * BLOCKS);
    let time = aio::each(file, Verb::Write, blocks, BLOCK, 32)?;
    let drained = device.drain()?;
    show("written-ms", millis(time));
    show("drained-ms", millis(drained));
    show("both-ms", millis(time + drained));
    Ok(())
}
