// SPDX-License-Identifier: GPL-3.0-or-later
//! Random requests held against a plain array of bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Result, bail};
use fastrand::Rng;

use crate::io::{self, SECTOR};

/// Which requests to make.
#[derive(Clone, Copy)]
pub struct Mix {
    /// Logical block size: offsets and lengths are multiples of it.
    pub block: usize,
    /// Longest request in blocks.
    pub longest: usize,
    /// Part of the device that requests fall into most of the time, in bytes, so that they meet again.
    pub hot: usize,
    /// Out of 100 requests.
    pub writes: u8,
    /// Out of 100 requests.
    pub discards: u8,
    /// Out of 100 requests.
    pub zeroes: u8,
}

impl Mix {
    /// Reads and writes of every size from a sector to 1 MiB.
    pub fn new(hot: usize) -> Self {
        Self {
            block: SECTOR,
            longest: 2048,
            hot,
            writes: 40,
            discards: 0,
            zeroes: 0,
        }
    }
}

/// The random numbers of a case: the same in each run, or others for each `SUITE_SEED`.
pub fn seeded(number: u64) -> Rng {
    let seed = std::env::var("SUITE_SEED").ok();
    let seed: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or(0);
    Rng::with_seed(seed << 32 ^ number)
}

/// Makes random requests on `file` and on `model` and compares each read.
///
/// The content of a discarded range is whatever the disk makes of it, so the device's answer right after the
/// discard becomes the model's; from then on it must stay.
pub fn drive(
    file: &File,
    model: &mut [u8],
    rng: &mut Rng,
    mix: Mix,
    requests: usize,
) -> Result<()> {
    let blocks = model.len() / mix.block;
    let hot = (mix.hot / mix.block).clamp(1, blocks);
    for number in 0..requests {
        // Small requests are as frequent as large ones: the exponent is uniform, not the length.
        let longest = 1 << rng.u32(0..=mix.longest.ilog2());
        let length = rng.usize(1..=longest).min(blocks);
        let reach = if rng.u8(0..10) == 0 {
            blocks
        } else {
            hot.max(length)
        };
        let first = rng.usize(0..=reach - length);
        let range = first * mix.block..(first + length) * mix.block;
        let (offset, bytes) = (range.start as u64, range.len() as u64);
        match rng.u8(0..100) {
            kind if kind < mix.writes => {
                rng.fill(&mut model[range.clone()]);
                io::write(file, offset, &model[range.clone()])?;
            }
            kind if kind < mix.writes + mix.discards => {
                io::discard(file, offset, bytes)?;
                model[range.clone()].copy_from_slice(&io::read(file, offset, range.len())?);
            }
            kind if kind < mix.writes + mix.discards + mix.zeroes => {
                io::zero(file, offset, bytes)?;
                model[range.clone()].fill(0);
            }
            _ => {
                let mut buffer = io::Buffer::new(range.len())?;
                file.read_exact_at(&mut buffer, offset)?;
                if let Some(difference) = io::difference(&buffer, &model[range.clone()]) {
                    bail!(
                        "request {number}, read of {length} blocks at block {first}: {difference}"
                    );
                }
            }
        }
    }
    Ok(())
}
