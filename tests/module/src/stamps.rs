// SPDX-License-Identifier: GPL-3.0-or-later
//! The values that a device may show when its disks fail: each sector has one of the values that were written to it
//! since its value was last known to be durable.

use std::fs::File;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use crate::io::{self, MIB, SECTOR};

/// The values that one sector may have. A value fills the sector.
#[derive(Clone)]
struct Sector {
    /// As long as nothing is lost: the value that was acknowledged last, and the values of later writes that failed.
    now: Vec<u64>,
    /// If data that was not flushed may be lost.
    past: Vec<u64>,
}

/// A part of a device.
pub struct Stamps {
    offset: u64,
    sectors: Vec<Sector>,
    rng: Rng,
    /// Requests that failed.
    pub failed: u32,
}

fn content(stamp: u64, sectors: usize) -> Vec<u8> {
    stamp.to_le_bytes().repeat(sectors * SECTOR / 8)
}

fn stamp_of(sector: &[u8]) -> Result<u64> {
    let first = &sector[..8];
    ensure!(
        sector.chunks_exact(8).all(|word| word == first),
        "a mixture of writes"
    );
    Ok(u64::from_le_bytes(first.try_into()?))
}

impl Stamps {
    /// Writes first values to the disk itself.
    pub fn put(disk: &File, offset: u64, bytes: usize, seed: u64) -> Result<Self> {
        let mut rng = Rng::with_seed(seed);
        let stamps: Vec<u64> = (0..bytes / SECTOR).map(|_| rng.u64(1..)).collect();
        let bytes: Vec<u8> = stamps.iter().flat_map(|s| content(*s, 1)).collect();
        io::write_in_pieces(disk, offset, &bytes)?;
        let sectors = stamps
            .into_iter()
            .map(|stamp| Sector {
                now: vec![stamp],
                past: vec![stamp],
            })
            .collect();
        Ok(Self {
            offset,
            sectors,
            rng,
            failed: 0,
        })
    }

    fn note<T>(&mut self, result: &Result<T>) -> bool {
        self.failed += u32::from(result.is_err());
        result.is_ok()
    }

    /// Does a random read, write or flush. What a successful request tells of a value has to be true; a failure is only
    /// counted.
    /// `durable` is the same device, opened for FUA.
    pub fn step(&mut self, file: &File, durable: &File) -> Result<()> {
        let longest = self.rng.usize(1..=64);
        let length = longest.min(self.sectors.len());
        let mut first = self.rng.usize(0..=self.sectors.len() - length);
        let mut length = length;
        if self.rng.bool() {
            first &= !7;
            length = (length.next_multiple_of(8)).min(self.sectors.len() - first);
        }
        let range = first..first + length;
        let at = self.offset + (first * SECTOR) as u64;
        match self.rng.u8(0..16) {
            0 => {
                let done = file.sync_all().map_err(Into::into);
                if self.note(&done) {
                    for sector in &mut self.sectors {
                        sector.past.clone_from(&sector.now);
                    }
                }
            }
            kind @ 1..9 => {
                let zero = kind == 1;
                let stamp = if zero { 0 } else { self.rng.u64(1..) };
                let done = match kind {
                    1 => io::zero(file, at, (length * SECTOR) as u64),
                    2..4 => io::write(durable, at, &content(stamp, length)),
                    _ => io::write(file, at, &content(stamp, length)),
                };
                let (good, fua) = (self.note(&done), (2..4).contains(&kind));
                for sector in &mut self.sectors[range] {
                    if good {
                        sector.now.clear();
                    }
                    sector.now.push(stamp);
                    if good && fua {
                        sector.past.clear();
                    }
                    sector.past.push(stamp);
                }
            }
            _ => {
                let read = io::read(file, at, length * SECTOR);
                if self.note(&read) {
                    self.compare(first, &read?, false)?;
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, first: usize, read: &[u8], lost: bool) -> Result<()> {
        for (number, sector) in (first..).zip(read.chunks_exact(SECTOR)) {
            let shown = stamp_of(sector).with_context(|| format!("sector {number}"))?;
            let known = &mut self.sectors[number];
            let values = if lost { &known.past } else { &known.now };
            if !values.contains(&shown) {
                bail!("sector {number} shows {shown:x}, not one of {values:x?}");
            }
            // A value that was read once stays.
            known.now = vec![shown];
            if lost {
                known.past = vec![shown];
            }
        }
        Ok(())
    }

    /// Reads everything. With `lost`, data that was not flushed may be lost.
    pub fn check(&mut self, file: &File, lost: bool) -> Result<()> {
        let bytes = self.sectors.len() * SECTOR;
        for start in (0..bytes).step_by(MIB) {
            let read = io::read(file, self.offset + start as u64, MIB.min(bytes - start))?;
            self.compare(start / SECTOR, &read, lost)?;
        }
        Ok(())
    }
}
