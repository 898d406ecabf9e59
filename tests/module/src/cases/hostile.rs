// SPDX-License-Identifier: GPL-3.0-or-later
//! Metadata that is broken or meant to break (promise 27): a refusal or a correct cache, never anything else.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use crate::beside::processor_time;
use crate::disk::Shape;
use crate::dm::Dm;
use crate::io::{self, MIB};
use crate::rig::{Config, Rig};

pub const CASES: &[Entry] = &[
    // promise 27: uml-plain/hostile: changed superblocks
    ("hostile: changed superblocks", changed),
    // promise 27: uml-plain/hostile: changed superblocks with a right checksum
    (
        "hostile: changed superblocks with a right checksum",
        checksummed,
    ),
    // promise 27: uml-plain/hostile: random first MiB
    ("hostile: random first MiB", noise),
    (
        "hostile: one superblock left by who reformatted the SSD",
        leftover,
    ),
];

/// Tries to attach; if that works, the device must show the disk.
fn attempt(rig: &Rig, model: &[u8]) -> Result<bool> {
    let processor_time = || processor_time("/proc/thread-self");
    let before = processor_time()?;
    let written = rig.origin.stat()?.written;
    let device = Dm::create(&rig.name)?;
    let taken = device
        .load(rig.good_line(false))
        .and_then(|()| device.resume())
        .is_ok();
    if taken {
        for _ in 0..2 {
            let difference = io::compare(device.path(), model)?;
            ensure!(
                difference.is_none(),
                "the device does not show the disk: {difference:?}"
            );
        }
    }
    drop(device);
    ensure!(
        rig.origin.stat()?.written == written,
        "the disk was written"
    );
    let took = processor_time()? - before;
    ensure!(took < Duration::from_secs(20), "took {took:?}");
    Ok(taken)
}

fn made() -> Result<(Rig, Vec<u8>, Vec<u8>)> {
    let (mut rig, model) = Rig::new(Config {
        origin: Shape::new(2),
        ssd: Shape::new(6),
        ..Config::default()
    })?;
    rig.quiet()?;
    rig.detach()?;
    let good = rig.ssd.content()?[..MIB].to_owned();
    Ok((rig, model, good))
}

/// Blocks of 4096 bytes of the first MiB that hold anything.
fn used_blocks(good: &[u8]) -> Vec<usize> {
    good.chunks(4096)
        .enumerate()
        .filter(|(_, block)| block.starts_with(b"TANDEM01"))
        .map(|(n, _)| n * 4096)
        .collect()
}

fn changed() -> Result<()> {
    let (rig, model, good) = made()?;
    let blocks = used_blocks(&good);
    ensure!(!blocks.is_empty(), "no superblock found");
    let mut rng = Rng::with_seed(1);
    let mut refused = 0;
    for round in 0..150 {
        let mut bad = good.clone();
        // One copy broken, or all of them.
        let broken = if round % 3 == 0 { 1 } else { blocks.len() };
        for block in &blocks[..broken] {
            for _ in 0..1 << rng.u32(0..5) {
                bad[block + rng.usize(0..512)] ^= 1 << rng.u32(0..8);
            }
        }
        rig.ssd.put(0, &bad)?;
        refused += u32::from(!attempt(&rig, &model).with_context(|| format!("round {round}"))?);
    }
    ensure!(refused > 0, "no change was ever noticed");
    rig.ssd.put(0, &good)?;
    ensure!(attempt(&rig, &model)?, "the good superblock is refused");
    Ok(())
}

fn noise() -> Result<()> {
    let (rig, model, _) = made()?;
    for seed in 0..20 {
        rig.ssd.put(0, &io::random(MIB, seed))?;
        ensure!(
            !attempt(&rig, &model)?,
            "random bytes were taken for a superblock"
        );
    }
    Ok(())
}

/// A user who partitions the SSD elsewhere overwrites one superblock and leaves the other: then nothing is written to
/// the SSD. A superblock that is only zeroes is made again.
fn leftover() -> Result<()> {
    let (rig, model, good) = made()?;
    for block in used_blocks(&good) {
        let mut foreign = good.clone();
        foreign[block..block + 4096].copy_from_slice(&io::random(4096, 7));
        rig.ssd.put(0, &foreign)?;
        ensure!(!attempt(&rig, &model)?, "taken beside foreign content");
        ensure!(
            rig.ssd.content()?[..MIB] == foreign,
            "foreign content was written over"
        );
        let mut gone = good.clone();
        gone[block..block + 4096].fill(0);
        rig.ssd.put(0, &gone)?;
        ensure!(attempt(&rig, &model)?, "one sound copy is not enough");
        ensure!(
            rig.ssd.content()?[block..block + 4096]
                .iter()
                .any(|byte| *byte != 0),
            "the lost copy was not made again"
        );
    }
    Ok(())
}

/// crc32c of a block, bit by bit.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc: u32, _| {
            (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1))
        })
    })
}

/// Where a block's own checksum lies and how much it covers, found by looking for it.
fn checksum_place(block: &[u8]) -> Option<(usize, usize)> {
    for length in [512, 4096] {
        for place in (0..length).step_by(4) {
            let stored = u32::from_le_bytes(block[place..place + 4].try_into().ok()?);
            let mut zeroed = block[..length].to_vec();
            zeroed[place..place + 4].fill(0);
            if stored != 0 && (crc32c(&zeroed) == stored || crc32c(&block[..place]) == stored) {
                return Some((place, length));
            }
        }
    }
    None
}

fn checksummed() -> Result<()> {
    let (rig, model, good) = made()?;
    let blocks = used_blocks(&good);
    let first = *blocks.first().context("no superblock found")?;
    let (place, length) = checksum_place(&good[first..first + 4096])
        .context("no checksum found in the superblock")?;
    let mut rng = Rng::with_seed(2);
    let mut refused = 0;
    for round in 0..200 {
        let mut bad = good.clone();
        let mut block = good[first..first + length].to_vec();
        for _ in 0..1 << rng.u32(0..3) {
            let at = rng.usize(0..length.min(256) / 4) * 4;
            let value = match rng.u8(0..4) {
                0 => 0_u32,
                1 => u32::MAX,
                2 => 1 << rng.u32(0..32),
                _ => rng.u32(..),
            };
            block[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let whole = {
            let mut zeroed = good[first..first + length].to_vec();
            let stored = u32::from_le_bytes(zeroed[place..place + 4].try_into()?);
            zeroed[place..place + 4].fill(0);
            crc32c(&zeroed) == stored
        };
        block[place..place + 4].fill(0);
        let sum = if whole {
            crc32c(&block)
        } else {
            crc32c(&block[..place])
        };
        block[place..place + 4].copy_from_slice(&sum.to_le_bytes());
        for at in &blocks {
            bad[*at..at + length].copy_from_slice(&block);
        }
        rig.ssd.put(0, &bad)?;
        refused += u32::from(!attempt(&rig, &model).with_context(|| format!("round {round}"))?);
    }
    ensure!(
        refused > 100,
        "only {refused} of 200 changed superblocks were refused"
    );
    Ok(())
}
