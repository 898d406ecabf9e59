// SPDX-License-Identifier: GPL-3.0-or-later
//! S3-FIFO (Yang and others, SOSP'23): a small queue of a tenth, a main queue, ghosts of what the small one dropped. Two hits
//! in the small queue lead to the main one.

use super::Policy;
use super::list::Queues;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// Hits remembered of a block.
const MOST: u8 = 3;
/// Hits in the small queue that lead to the main one.
const ENOUGH: u8 = 2;

/// The cache.
pub struct S3Fifo {
    room: usize,
    small: usize,
    ghosts: usize,
    queues: Queues,
    hits: Vec<u8>,
}

impl S3Fifo {
    /// An empty one for `room` blocks.
    pub fn new(room: usize) -> S3Fifo {
        S3Fifo {
            room,
            small: (room / 10).max(1),
            ghosts: room * 9 / 10,
            queues: Queues::new(3),
            hits: Vec::new(),
        }
    }

    fn enter(&mut self, block: u32, queue: usize) {
        if self.hits.len() <= block as usize {
            self.hits.resize(block as usize + 1, 0);
        }
        self.hits[block as usize] = 0;
        self.queues.put(block, queue);
    }

    fn evict(&mut self) {
        if self.queues.len(MAIN) > self.room - self.small || self.queues.len(SMALL) == 0 {
            return self.evict_main();
        }
        while let Some(block) = self.queues.oldest(SMALL) {
            if self.hits[block as usize] >= ENOUGH {
                self.enter(block, MAIN);
                continue;
            }
            if self.queues.len(GHOST) >= self.ghosts {
                self.queues.pop(GHOST);
            }
            self.queues.put(block, GHOST);
            return;
        }
        self.evict_main();
    }

    fn evict_main(&mut self) {
        while let Some(block) = self.queues.oldest(MAIN) {
            let hits = &mut self.hits[block as usize];
            if *hits == 0 {
                self.queues.remove(block);
                return;
            }
            *hits -= 1;
            self.queues.put(block, MAIN);
        }
    }
}

impl Policy for S3Fifo {
    fn access(&mut self, block: u32) -> bool {
        let queue = self.queues.queue_of(block);
        if let Some(SMALL | MAIN) = queue {
            let hits = &mut self.hits[block as usize];
            *hits = MOST.min(*hits + 1);
            return true;
        }
        self.queues.remove(block);
        while self.queues.len(SMALL) + self.queues.len(MAIN) >= self.room {
            self.evict();
        }
        self.enter(block, if queue.is_some() { MAIN } else { SMALL });
        false
    }
}
