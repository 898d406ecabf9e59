// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes in order, and requests beside the place where these writes are. All of it is drawn apart from other requests, so
//! that a seed without a stream plays the same run as before there were any.

use crate::workload::{Request, Verb, pick};

/// A stream of writes, in one of some runs.
pub struct WriteStream {
    rng: fastrand::Rng,
    sectors: u64,
    /// Sectors of the smallest piece of a request.
    block: u64,
    /// Where the stream goes on.
    next: u64,
    /// Largest write of the stream, in quarters.
    largest: u64,
    /// How often, in 16, a request is the stream's.
    share: u8,
    threshold: u32,
}

impl WriteStream {
    /// Of the run with this seed, on a disk with so many sectors, in blocks of `block` sectors.
    pub fn new(seed: u64, sectors: u64, block: u64) -> WriteStream {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5743_a800_0000_0000);
        let threshold = match rng.u8(..4) {
            0 => *pick(&mut rng, &[1, 2, 3, 8]),
            _ => u32::MAX,
        };
        WriteStream {
            rng,
            sectors,
            block,
            next: 0,
            largest: 1,
            share: 0,
            threshold,
        }
    }

    /// Frames in a row that are a stream in this run; `u32::MAX`: there are no streams.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Takes up new habits.
    pub fn turn(&mut self) {
        if self.threshold == u32::MAX {
            return;
        }
        self.share = *pick(&mut self.rng, &[0, 4, 12, 15]);
        self.largest = *pick(&mut self.rng, &[1, 4, 16, 64]);
        self.restart();
    }

    fn restart(&mut self) {
        self.next = self.rng.u64(..self.sectors) / self.block * self.block;
    }

    /// The next request, if it is the stream's turn.
    pub fn draw(&mut self) -> Option<Request> {
        if self.share == 0 || self.rng.u8(..16) >= self.share {
            return None;
        }
        if self.next >= self.sectors || self.rng.u8(..32) == 0 {
            self.restart();
        }
        let mut request = Request {
            verb: Verb::Write { fua: false },
            first: self.next,
            count: 8 * self.rng.u64(1..=self.largest),
            restless: self.rng.u8(..8) == 0,
        };
        if self.block == 1 && self.rng.u8(..16) == 0 {
            request.count = self.rng.u64(1..=request.count);
        }
        if self.rng.u8(..4) == 0 {
            self.beside(&mut request);
        }
        request.count = request.count.min(self.sectors - request.first);
        if request.first == self.next {
            self.next += request.count;
        }
        Some(request)
    }

    /// Makes it a request beside the stream: what the stream has just written, or will write next.
    fn beside(&mut self, request: &mut Request) {
        let ahead = self.next + 8 * self.rng.u64(1..=16);
        let behind = self.next.saturating_sub(8 * self.rng.u64(1..=16));
        request.first = if self.rng.bool() && ahead < self.sectors {
            ahead
        } else {
            behind
        };
        request.count = request.count.min(8 * self.rng.u64(1..=4));
        request.verb = match self.rng.u8(..16) {
            0 => Verb::Discard,
            1 => Verb::Write { fua: true },
            2..=8 => Verb::Write { fua: false },
            _ => Verb::Read,
        };
    }
}
