// SPDX-License-Identifier: GPL-3.0-or-later
//! 2Q (Johnson and Shasha, VLDB'94), the full version: a first-in-first-out queue of a quarter for what is new, ghosts of it
//! for half of the cache, and an LRU queue for the ghosts that come back.

use super::Policy;
use super::list::Queues;

const NEW: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// The cache.
pub struct TwoQ {
    room: usize,
    new: usize,
    ghosts: usize,
    queues: Queues,
}

impl TwoQ {
    /// An empty one for `room` blocks.
    pub fn new(room: usize) -> TwoQ {
        TwoQ {
            room,
            new: (room / 4).max(1),
            ghosts: (room / 2).max(1),
            queues: Queues::new(3),
        }
    }

    fn evict(&mut self) {
        if self.queues.len(NEW) <= self.new && self.queues.pop(MAIN).is_some() {
            return;
        }
        if let Some(block) = self.queues.pop(NEW) {
            self.queues.put(block, GHOST);
            if self.queues.len(GHOST) > self.ghosts {
                self.queues.pop(GHOST);
            }
        }
    }
}

impl Policy for TwoQ {
    fn access(&mut self, block: u32) -> bool {
        match self.queues.queue_of(block) {
            Some(NEW) => return true,
            Some(MAIN) => {
                self.queues.put(block, MAIN);
                return true;
            }
            _ => {}
        }
        let known = self.queues.queue_of(block).is_some();
        self.queues.remove(block);
        if self.queues.len(NEW) + self.queues.len(MAIN) >= self.room {
            self.evict();
        }
        self.queues.put(block, if known { MAIN } else { NEW });
        false
    }
}
