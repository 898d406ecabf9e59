// SPDX-License-Identifier: GPL-3.0-or-later
//! Queues of block numbers, of which each is in one queue at most.

/// No block.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    older: u32,
    newer: u32,
    queue: u8,
}

#[derive(Clone, Copy)]
struct Ends {
    oldest: u32,
    newest: u32,
    length: usize,
}

/// A number that means no queue.
const OUT: u8 = u8::MAX;

/// Some queues, numbered from 0.
pub struct Queues {
    nodes: Vec<Node>,
    ends: Vec<Ends>,
}

impl Queues {
    /// `queues` empty ones.
    pub fn new(queues: usize) -> Queues {
        let empty = Ends {
            oldest: NONE,
            newest: NONE,
            length: 0,
        };
        Queues {
            nodes: Vec::new(),
            ends: vec![empty; queues],
        }
    }

    /// The queue that a block is in.
    pub fn queue_of(&self, block: u32) -> Option<usize> {
        let node = self.nodes.get(block as usize)?;
        (node.queue != OUT).then_some(usize::from(node.queue))
    }

    /// Blocks in a queue.
    pub fn len(&self, queue: usize) -> usize {
        self.ends[queue].length
    }

    /// The block that was put into the queue first.
    pub fn oldest(&self, queue: usize) -> Option<u32> {
        let oldest = self.ends[queue].oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// Puts a block at the new end of a queue, from wherever it was.
    pub fn put(&mut self, block: u32, queue: usize) {
        self.remove(block);
        if self.nodes.len() <= block as usize {
            let out = Node {
                older: NONE,
                newer: NONE,
                queue: OUT,
            };
            self.nodes.resize(block as usize + 1, out);
        }
        let ends = &mut self.ends[queue];
        self.nodes[block as usize] = Node {
            older: ends.newest,
            newer: NONE,
            queue: queue as u8,
        };
        match ends.newest {
            NONE => ends.oldest = block,
            newest => self.nodes[newest as usize].newer = block,
        }
        ends.newest = block;
        ends.length += 1;
    }

    /// Takes a block out of the queue that it is in, if any.
    pub fn remove(&mut self, block: u32) {
        let Some(queue) = self.queue_of(block) else {
            return;
        };
        let Node { older, newer, .. } = self.nodes[block as usize];
        let ends = &mut self.ends[queue];
        match older {
            NONE => ends.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => ends.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        ends.length -= 1;
        self.nodes[block as usize].queue = OUT;
    }

    /// Takes the oldest block out of a queue.
    pub fn pop(&mut self, queue: usize) -> Option<u32> {
        let block = self.oldest(queue)?;
        self.remove(block);
        Some(block)
    }
}
