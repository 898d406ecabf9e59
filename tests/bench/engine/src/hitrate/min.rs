// SPDX-License-Identifier: GPL-3.0-or-later
//! The unreachable best: it knows the future, keeps what is used again soonest, and stores nothing that it would drop first
//! (Belady with bypass).

use std::collections::BTreeSet;

use super::{Policy, Recording};

/// The cache. Only for the recording that it was made from.
pub struct Min {
    room: usize,
    /// For each access, when its block is asked for again.
    next: Vec<u32>,
    at: usize,
    /// Blocks in the cache, by when they are asked for again.
    kept: BTreeSet<(u32, u32)>,
}

impl Min {
    /// An empty one for `room` blocks.
    pub fn new(room: usize, recording: &Recording) -> Min {
        let blocks = recording.blocks();
        let mut next = vec![u32::MAX; blocks.len()];
        let mut last = vec![u32::MAX; recording.footprint()];
        for (at, &block) in blocks.iter().enumerate().rev() {
            next[at] = std::mem::replace(&mut last[block as usize], at as u32);
        }
        Min {
            room,
            next,
            at: 0,
            kept: BTreeSet::new(),
        }
    }
}

impl Policy for Min {
    fn access(&mut self, block: u32) -> bool {
        let now = self.at as u32;
        let next = self.next[self.at];
        self.at += 1;
        let hit = self.kept.remove(&(now, block));
        if next != u32::MAX {
            self.kept.insert((next, block));
            if self.kept.len() > self.room {
                self.kept.pop_last();
            }
        }
        hit
    }
}
