// SPDX-License-Identifier: GPL-3.0-or-later
//! SIEVE (Zhang and others, NSDI'24): one queue in order of arrival, and a hand that goes from the oldest to the newest and
//! takes the first block that was not used since it came by.

use super::Policy;
use super::list::Queues;

/// The cache. Blocks in front of the hand wait in one list and those behind it in another, so that the hand is always between
/// two ends.
pub struct Sieve {
    room: usize,
    queues: Queues,
    used: Vec<bool>,
}

/// Blocks that the hand has not reached yet, and all that came since it began its round.
const AHEAD: usize = 0;
/// Blocks that it left behind, the oldest first.
const BEHIND: usize = 1;

impl Sieve {
    /// An empty one for `room` blocks.
    pub fn new(room: usize) -> Sieve {
        Sieve {
            room,
            queues: Queues::new(2),
            used: Vec::new(),
        }
    }

    fn evict(&mut self) {
        let mut evicted = false;
        while !evicted {
            let Some(block) = self.queues.pop(AHEAD) else {
                return;
            };
            evicted = !std::mem::take(&mut self.used[block as usize]);
            if !evicted {
                self.queues.put(block, BEHIND);
            }
            if self.queues.len(AHEAD) == 0 {
                self.begin_round();
            }
        }
    }

    /// The hand is at the newest: it goes on with the oldest, and not with what comes next.
    fn begin_round(&mut self) {
        while let Some(block) = self.queues.pop(BEHIND) {
            self.queues.put(block, AHEAD);
        }
    }
}

impl Policy for Sieve {
    fn access(&mut self, block: u32) -> bool {
        if self.used.len() <= block as usize {
            self.used.resize(block as usize + 1, false);
        }
        let hit = self.queues.queue_of(block).is_some();
        if !hit && self.queues.len(AHEAD) + self.queues.len(BEHIND) >= self.room {
            self.evict();
        }
        self.used[block as usize] = hit;
        if !hit {
            self.queues.put(block, AHEAD);
        }
        hit
    }
}
