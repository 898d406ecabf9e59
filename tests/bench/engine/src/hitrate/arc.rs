// SPDX-License-Identifier: GPL-3.0-or-later
//! Adaptive replacement cache (Megiddo and Modha, FAST'03), case by case as in the paper's figure 4.

use super::Policy;
use super::list::Queues;

/// List of the frames that were seen once lately and are in the cache.
const T1: usize = 0;
/// List of the frames that were seen at least twice lately and are in the cache.
const T2: usize = 1;
/// Ghosts of T1.
const B1: usize = 2;
/// Ghosts of T2.
const B2: usize = 3;

/// The cache.
pub struct Arc {
    room: usize,
    /// What T1 should hold.
    target: usize,
    queues: Queues,
}

impl Arc {
    /// An empty one for `room` blocks.
    pub fn new(room: usize) -> Arc {
        Arc {
            room,
            target: 0,
            queues: Queues::new(4),
        }
    }

    fn replace(&mut self, in_b2: bool) {
        let recent = self.queues.len(T1);
        let (from, to) = if recent > 0 && (recent > self.target || (in_b2 && recent == self.target))
        {
            (T1, B1)
        } else {
            (T2, B2)
        };
        if let Some(block) = self.queues.pop(from) {
            self.queues.put(block, to);
        }
    }

    fn make_room(&mut self) {
        let recent = self.queues.len(T1) + self.queues.len(B1);
        let all = recent + self.queues.len(T2) + self.queues.len(B2);
        if recent == self.room {
            if self.queues.len(T1) < self.room {
                self.queues.pop(B1);
                self.replace(false);
            } else {
                self.queues.pop(T1);
            }
        } else if all >= self.room {
            if all == 2 * self.room {
                self.queues.pop(B2);
            }
            self.replace(false);
        }
    }
}

impl Policy for Arc {
    fn access(&mut self, block: u32) -> bool {
        let (b1, b2) = (self.queues.len(B1), self.queues.len(B2));
        let queue = self.queues.queue_of(block);
        match queue {
            Some(B1) => {
                self.target = (self.target + (b2 / b1).max(1)).min(self.room);
                self.replace(false);
            }
            Some(B2) => {
                self.target = self.target.saturating_sub((b1 / b2).max(1));
                self.replace(true);
            }
            Some(_) => {}
            None => self.make_room(),
        }
        self.queues
            .put(block, if queue.is_some() { T2 } else { T1 });
        matches!(queue, Some(T1 | T2))
    }
}
