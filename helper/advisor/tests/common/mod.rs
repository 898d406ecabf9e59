// SPDX-License-Identifier: GPL-3.0-or-later
//! Streams of requests for the tests.
#![allow(dead_code, reason = "each test program uses some of it")]

use tandem_advisor::{Advisor, Kind, Request};

/// Sectors.
pub const FRAME: u64 = 32;
pub const GIB: u64 = 1 << 21;
pub const TB: u64 = 1_000_000_000_000 / 512;
/// Microseconds.
pub const DAY: u64 = 86_400_000_000;

/// The player that feeds an advisor, with a request each time step.
pub struct Player {
    pub advisor: Advisor,
    pub time_us: u64,
    pub step_us: u64,
}

impl Player {
    pub fn new(disk_sectors: u64) -> Self {
        Self {
            advisor: Advisor::new(disk_sectors).unwrap(),
            time_us: 0,
            step_us: 1000,
        }
    }

    pub fn play(&mut self, kind: Kind, sector: u64, sectors: u64) {
        self.time_us += self.step_us;
        self.advisor.feed(&Request {
            time_us: self.time_us,
            kind,
            sector,
            sectors,
        });
    }

    pub fn read(&mut self, sector: u64, sectors: u64) {
        self.play(Kind::Read, sector, sectors);
    }

    /// Reads a range in pieces.
    pub fn read_all(&mut self, start: u64, sectors: u64, piece: u64) {
        let mut at = start;
        while at < start + sectors {
            let count = piece.min(start + sectors - at);
            self.read(at, count);
            at += count;
        }
    }

    /// Nothing happens until the first day is over.
    pub fn end_day(&mut self) {
        self.advisor.watch(DAY + 1000);
    }

    /// What a cache of so many sectors serves of the bytes, in hundredths, and how far off that may be.
    pub fn served(&self, sectors: u64) -> (f64, f64) {
        let point = self.advisor.curve().at(sectors * 512).unwrap();
        let estimate = point.bytes_served;
        (100.0 * estimate.share, 100.0 * estimate.error)
    }
}

/// The numbers below a power of two in an order without a pattern, each once.
pub fn shuffled(bits: u32) -> impl Iterator<Item = u64> {
    let mask = (1u64 << bits) - 1;
    (0..1u64 << bits).map(move |at| {
        let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15 | 1) & mask;
        let mixed = mixed ^ mixed >> (bits / 2);
        mixed.wrapping_mul(0xd134_2543_de82_ef95 | 1) & mask
    })
}

/// A number below `below`, small ones more often: about one over its rank.
pub fn skewed(rng: &mut fastrand::Rng, below: u64) -> u64 {
    ((below as f64).powf(rng.f64()) as u64).min(below - 1)
}
