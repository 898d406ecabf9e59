// SPDX-License-Identifier: GPL-3.0-or-later
//! Least recently used goes first.

use super::Policy;
use super::list::Queues;

/// The cache.
pub struct Lru {
    room: usize,
    queue: Queues,
}

impl Lru {
    /// An empty one for `room` blocks.
    pub fn new(room: usize) -> Lru {
        Lru {
            room,
            queue: Queues::new(1),
        }
    }
}

impl Policy for Lru {
    fn access(&mut self, block: u32) -> bool {
        let hit = self.queue.queue_of(block).is_some();
        if !hit && self.queue.len(0) >= self.room {
            self.queue.pop(0);
        }
        self.queue.put(block, 0);
        hit
    }
}
