// SPDX-License-Identifier: GPL-3.0-or-later
//! What the simulated applications ask for.

/// Largest request in sectors of 512 bytes: 1 MiB.
pub const LARGEST: u64 = 2048;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Read.
    Read,
    /// Write, durable when acknowledged if `fua`.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// The content is not needed any more.
    Discard,
    /// Write zeroes.
    Zeroes,
    /// Make durable all that was acknowledged.
    Flush,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What for.
    pub verb: Verb,
    /// First sector, in 512 bytes.
    pub first: u64,
    /// Length in sectors; 0 for a flush.
    pub count: u64,
    /// The application changes the buffer while the request is under way.
    pub restless: bool,
}

/// How often, in 256, each verb is asked for; what is left are reads.
struct Mix {
    writes: u8,
    discards: u8,
    zeroes: u8,
    flushes: u8,
}

/// A source of requests whose habits change from phase to phase.
pub struct Workload {
    sectors: u64,
    mix: Mix,
    hot: u64,
    hot_length: u64,
    largest: u64,
    stream: u64,
    /// How often, in 16, a request goes on where the stream is.
    streaming: u8,
}

impl Workload {
    /// For a disk of `sectors` sectors.
    pub fn new(sectors: u64) -> Workload {
        let mix = Mix {
            writes: 80,
            discards: 2,
            zeroes: 2,
            flushes: 4,
        };
        Workload {
            sectors,
            mix,
            hot: 0,
            hot_length: sectors,
            largest: LARGEST,
            stream: 0,
            streaming: 0,
        }
    }

    /// Takes up new habits.
    pub fn next_phase(&mut self, rng: &mut fastrand::Rng) {
        self.mix = Mix {
            writes: *pick(rng, &[0, 16, 80, 128, 220]),
            discards: *pick(rng, &[0, 1, 4, 16]),
            zeroes: *pick(rng, &[0, 1, 4]),
            flushes: *pick(rng, &[0, 2, 8]),
        };
        self.hot_length = (*pick(rng, &[8, 40, 200, 1000, self.sectors])).min(self.sectors);
        self.hot = rng.u64(..=self.sectors - self.hot_length);
        self.largest = *pick(rng, &[1, 8, 32, 64, 300, LARGEST]);
        self.stream = rng.u64(..self.sectors);
        self.streaming = *pick(rng, &[0, 0, 0, 1, 1, 1, 1, 15]);
        if self.streaming == 15 {
            self.mix = Mix {
                writes: 0,
                discards: 0,
                zeroes: 0,
                flushes: 0,
            };
        }
        if rng.u8(..3) == 0 {
            // Neighbours in one frame: where writes, reads and pins meet most.
            self.hot = rng.u64(..self.sectors) & !31;
            self.hot_length = (self.sectors - self.hot).min(32);
            self.largest = *pick(rng, &[8, 8, 16]);
            self.mix.writes = *pick(rng, &[40, 80, 128]);
        }
    }

    /// All on a frame or two, of a quarter each, and often unwanted again: reads that are still under way meet what was
    /// written after a discard.
    pub fn duel(&mut self, rng: &mut fastrand::Rng) {
        self.mix = Mix {
            writes: *pick(rng, &[64, 128]),
            discards: *pick(rng, &[8, 24, 48]),
            zeroes: 0,
            flushes: *pick(rng, &[0, 2]),
        };
        self.hot = rng.u64(..self.sectors) & !31;
        self.hot_length = (self.sectors - self.hot).min(*pick(rng, &[16, 32, 64]));
        self.largest = *pick(rng, &[8, 8, 16]);
        self.streaming = 0;
    }

    /// The next request.
    pub fn next(&mut self, rng: &mut fastrand::Rng) -> Request {
        let verb = self.verb(rng);
        if verb == Verb::Flush {
            return Request {
                verb,
                first: 0,
                count: 0,
                restless: false,
            };
        }
        let count = self.length(rng).min(self.sectors);
        if rng.u8(..16) < self.streaming {
            let first = self.stream;
            let count = count.min(self.sectors - first);
            self.stream = (first + count) % self.sectors;
            return Request {
                verb,
                first,
                count,
                restless: false,
            };
        }
        let first = match rng.u8(..16) {
            0..=11 => self.hot + rng.u64(..self.hot_length),
            12..=14 => rng.u64(..self.sectors),
            _ => self.sectors - count,
        };
        let first = if rng.bool() { first } else { first & !7 };
        let count = count.min(self.sectors - first);
        Request {
            verb,
            first,
            count,
            restless: rng.u8(..8) == 0,
        }
    }

    fn verb(&self, rng: &mut fastrand::Rng) -> Verb {
        let mut ticket = rng.u8(..);
        for (share, verb) in [
            (
                self.mix.writes,
                Verb::Write {
                    fua: rng.u8(..16) == 0,
                },
            ),
            (self.mix.discards, Verb::Discard),
            (self.mix.zeroes, Verb::Zeroes),
            (self.mix.flushes, Verb::Flush),
        ] {
            match ticket.checked_sub(share) {
                None => return verb,
                Some(rest) => ticket = rest,
            }
        }
        Verb::Read
    }

    fn length(&self, rng: &mut fastrand::Rng) -> u64 {
        let usual = match rng.u8(..8) {
            0..=2 => 8,
            3 => 32,
            4 => 1,
            5 => 1 << rng.u32(..12),
            6 => rng.u64(1..=64),
            _ => rng.u64(1..=LARGEST),
        };
        usual.min(self.largest)
    }
}

/// Any of `choices`.
pub fn pick<'a, T>(rng: &mut fastrand::Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.usize(..choices.len())]
}
