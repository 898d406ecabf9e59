// SPDX-License-Identifier: GPL-3.0-or-later
//! Hit rates of core's own policy on recorded requests, beside those of well-known ones.
//!
//! One unit for all: a *block*, of 16 KiB as core's frames, or of 4 KiB. A request is one access to each block that it
//! touches, and a policy keeps whole blocks. With 4 KiB every block of the recording plays a frame of core, so that core
//! decides about the same things as the others.

pub mod arc;
pub mod core;
pub mod hot_only;
pub mod list;
pub mod lru;
pub mod min;
pub mod recording;
pub mod report;
pub mod s3_fifo;
pub mod sieve;
pub mod two_q;

pub use recording::Recording;

/// A cache of whole blocks, which are numbered from 0 in order of their first access.
pub trait Policy {
    /// A block is asked for; true if it was there.
    fn access(&mut self, block: u32) -> bool;
}

/// What a cache did for a recording.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Accesses.
    pub accesses: u64,
    /// Requests that found their block.
    pub hits: u64,
    /// Accesses that are reads.
    pub reads: u64,
    /// Reads that found their block.
    pub read_hits: u64,
}

impl Tally {
    /// Adds `blocks` accesses.
    pub fn add(&mut self, write: bool, blocks: u64, hit: bool) {
        let hits = if hit { blocks } else { 0 };
        self.accesses += blocks;
        self.hits += hits;
        if !write {
            self.reads += blocks;
            self.read_hits += hits;
        }
    }

    /// Hits in a hundred accesses.
    pub fn percent(&self) -> f64 {
        percent(self.hits, self.accesses)
    }

    /// Hits in a hundred reads.
    pub fn read_percent(&self) -> f64 {
        percent(self.read_hits, self.reads)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Plays a recording to a policy.
pub fn play(recording: &Recording, policy: &mut dyn Policy) -> Tally {
    let mut tally = Tally::default();
    let mut at = 0;
    for request in recording.requests() {
        for _ in request.first..=request.last {
            let hit = policy.access(recording.blocks()[at]);
            tally.add(request.write, 1, hit);
            at += 1;
        }
    }
    tally
}
