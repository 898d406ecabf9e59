// SPDX-License-Identifier: GPL-3.0-or-later
//! Only what is hot enters, as dm-cache's policy smq does it: misses are counted for regions of some blocks, and a block is
//! promoted when its region has become hot. A model of that behaviour, not of smq's 64 levels and its timers.

use std::collections::HashMap;

use super::Policy;
use super::list::Queues;

/// Blocks in a region.
const REGION: u32 = 16;
/// Misses that make a region hot.
const HOT: u8 = 4;

/// The cache. Regions are made of blocks with neighbouring numbers, which is neighbours in time.
pub struct HotOnly {
    room: usize,
    queue: Queues,
    regions: Queues,
    misses: HashMap<u32, u8>,
}

impl HotOnly {
    /// An empty one for `room` blocks; it remembers as many regions as it has room for blocks, at least 64.
    pub fn new(room: usize) -> HotOnly {
        HotOnly {
            room,
            queue: Queues::new(1),
            regions: Queues::new(1),
            misses: HashMap::new(),
        }
    }

    fn is_hot(&mut self, region: u32) -> bool {
        if self.regions.queue_of(region).is_none()
            && self.regions.len(0) >= self.room.max(64)
            && let Some(coldest) = self.regions.pop(0)
        {
            self.misses.remove(&coldest);
        }
        self.regions.put(region, 0);
        let misses = self.misses.entry(region).or_default();
        *misses = misses.saturating_add(1);
        *misses >= HOT
    }
}

impl Policy for HotOnly {
    fn access(&mut self, block: u32) -> bool {
        let hit = self.queue.queue_of(block).is_some();
        if hit || self.is_hot(block / REGION) {
            if !hit && self.queue.len(0) >= self.room {
                self.queue.pop(0);
            }
            self.queue.put(block, 0);
        }
        hit
    }
}
