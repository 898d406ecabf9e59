// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests under way to the two disks, and the memory that they move.
//!
//! Nothing is ordered, and some requests take far longer than others: [`Queue::pick`] takes any request and says whether it
//! flushes first, moves some of its sectors or is completed. So data may arrive in pieces, long before the completion is
//! told, and in any order against other requests to the same sectors.

use std::hash::{Hash, Hasher};

use crate::disk::Disk;
use crate::oracle::Time;
use crate::stamp::Stamp;

/// A piece of memory of some sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer(u32);

/// All memory that is in use.
#[derive(Default)]
pub struct Memory {
    buffers: Vec<Option<Vec<Stamp>>>,
    free: Vec<u32>,
}

impl Memory {
    /// `sectors` sectors of junk.
    pub fn allocate(&mut self, sectors: usize) -> Buffer {
        let content = Some(vec![Stamp::JUNK; sectors]);
        match self.free.pop() {
            Some(at) => {
                self.buffers[at as usize] = content;
                Buffer(at)
            }
            None => {
                self.buffers.push(content);
                Buffer((self.buffers.len() - 1) as u32)
            }
        }
    }

    /// Gives the memory back.
    pub fn release(&mut self, buffer: Buffer) {
        self.buffers[buffer.0 as usize] = None;
        self.free.push(buffer.0);
    }

    /// The content; empty if it was given back.
    pub fn get(&self, buffer: Buffer) -> &[Stamp] {
        self.buffers[buffer.0 as usize]
            .as_deref()
            .unwrap_or_default()
    }

    /// The content, to be changed; empty if it was given back.
    pub fn get_mut(&mut self, buffer: Buffer) -> &mut [Stamp] {
        self.buffers[buffer.0 as usize]
            .as_deref_mut()
            .unwrap_or_default()
    }

    /// Copies sectors from one piece to another; both are large enough.
    pub fn copy(&mut self, from: (Buffer, u64), to: (Buffer, u64), count: u64) {
        let source = self.get(from.0)[from.1 as usize..][..count as usize].to_vec();
        self.get_mut(to.0)[to.1 as usize..][..count as usize].copy_from_slice(&source);
    }

    /// Pieces in use.
    pub fn used(&self) -> usize {
        self.buffers.len() - self.free.len()
    }
}

/// Which disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The hard disk with the user's data.
    Origin,
    /// The cache.
    Ssd,
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Fills the buffer from the disk.
    Read,
    /// A write of the buffer, or what the ledger gave.
    Write,
    /// A discard, which gives the sectors a new content that no request chose. The number is that of the user's
    /// request.
    Discard(u32),
    /// A write of zeroes; their stamps carry the number of the user's request.
    Zeroes(u32),
    /// A flush, which makes durable what was completed before.
    Flush,
}

impl Kind {
    /// The sectors of the disk change.
    pub fn changes(self) -> bool {
        matches!(self, Kind::Write | Kind::Discard(_) | Kind::Zeroes(_))
    }
}

/// A request to one disk.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// To which disk.
    pub side: Side,
    /// To do what.
    pub kind: Kind,
    /// First sector on that disk, in 512 bytes.
    pub first: u64,
    /// Length in sectors.
    pub count: u64,
    /// The memory and the sector in it; `None` if nothing is moved, or the ledger gives it.
    pub buffer: Option<(Buffer, u64)>,
    /// A flush before anything is moved.
    pub preflush: bool,
    /// Durable when completed.
    pub fua: bool,
    /// The caller's mark, by which it knows the request again.
    pub token: u64,
}

/// A request under way.
#[derive(Clone, Copy)]
pub struct Pending {
    /// The request.
    pub io: Io,
    /// Sectors moved.
    pub moved: u64,
    /// The flush before it was carried out, or there is none.
    pub flushed: bool,
    /// When it was submitted.
    pub start: Time,
    /// Number of the request as a writer.
    pub writer: u64,
    /// The request hardly ever goes on: the first flag until all sectors are moved, the second from then on.
    lazy: (bool, bool),
}

/// The next step of the request that was picked.
pub enum Turn {
    /// Nothing yet.
    Missed,
    /// The flush before it.
    Preflush(Pending),
    /// Move this many sectors, behind those that were moved already.
    Move(Pending, u64),
    /// End.
    Complete {
        /// The request.
        pending: Pending,
        /// The request failed; some sectors may have been moved.
        failed: bool,
    },
}

/// All requests under way.
#[derive(Default)]
pub struct Queue {
    pending: Vec<Pending>,
    writers: u64,
    /// Of 256 chances to go on, this many are missed by requests to the hard disk.
    pub disk_reluctance: u8,
    /// Of 256 chances to go on, this many are missed by requests to the SSD.
    pub ssd_reluctance: u8,
    /// Of 256 requests this many hardly ever go on while others can.
    pub lazy: u8,
}

/// Of 256 chances a lazy request misses this many.
const LAZINESS: u8 = 250;

impl Queue {
    /// Takes a request up at `now`.
    pub fn submit(&mut self, io: Io, rng: &mut fastrand::Rng, now: Time) {
        let lazy = rng.u8(..) < self.lazy;
        let when = rng.u8(..3);
        let lazy = (lazy && when != 0, lazy && when != 1);
        self.writers += 1;
        self.pending.push(Pending {
            io,
            moved: 0,
            flushed: !io.preflush,
            start: now,
            writer: self.writers,
            lazy,
        });
    }

    /// Requests under way.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The requests under way.
    pub fn iter(&self) -> impl Iterator<Item = &Io> {
        self.pending.iter().map(|pending| &pending.io)
    }

    /// All requests under way, which are so no more.
    pub fn take(&mut self) -> Vec<Pending> {
        std::mem::take(&mut self.pending)
    }

    /// When the requests under way were submitted.
    pub fn starts(&self) -> impl Iterator<Item = Time> {
        self.pending.iter().map(|pending| pending.start)
    }

    /// Adds the requests under way to `hash`.
    pub fn digest(&self, rank: impl Fn(Time) -> usize, hash: &mut impl Hasher) {
        for pending in &self.pending {
            let Io { first, count, .. } = pending.io;
            let kind = (pending.io.side == Side::Ssd, pending.io.kind.changes());
            (first, count, kind, pending.io.token, rank(pending.start)).hash(hash);
        }
    }

    /// Completes the `at`th request under way: all that the caller has to carry out.
    pub fn complete(&mut self, at: usize) -> Vec<Turn> {
        let mut pending = self.pending.remove(at);
        let mut turns = Vec::new();
        if !pending.flushed {
            turns.push(Turn::Preflush(pending));
            pending.flushed = true;
        }
        turns.extend(Self::end(pending, pending.io.count, false));
        turns
    }

    /// Ends the `at`th request under way with an error, after its first `moved` sectors: all that the caller has to carry
    /// out.
    pub fn fail(&mut self, at: usize, moved: u64) -> Vec<Turn> {
        Self::end(self.pending.remove(at), moved, true)
    }

    /// The request ends after its first `moved` sectors.
    fn end(mut pending: Pending, moved: u64, failed: bool) -> Vec<Turn> {
        let mut turns = Vec::new();
        if moved > 0 {
            turns.push(Turn::Move(pending, moved));
            pending.moved = moved;
        }
        turns.push(Turn::Complete { pending, failed });
        turns
    }

    /// Lets any request go on; `None` if there is none. The caller carries out the step that is returned.
    pub fn pick(&mut self, rng: &mut fastrand::Rng, disk: &Disk, ssd: &Disk) -> Option<Turn> {
        if self.pending.is_empty() {
            return None;
        }
        let at = rng.usize(..self.pending.len());
        let pending = &mut self.pending[at];
        let (device, reluctance) = match pending.io.side {
            Side::Origin => (disk, self.disk_reluctance),
            Side::Ssd => (ssd, self.ssd_reluctance),
        };
        let (early, late) = pending.lazy;
        let lazy = if pending.moved < pending.io.count {
            early
        } else {
            late
        };
        let reluctance = if lazy { LAZINESS } else { reluctance };
        if rng.u8(..) < reluctance {
            return Some(Turn::Missed);
        }
        let failed = device.dead || (device.failing > 0 && rng.u32(..65536) < device.failing);
        if !failed && !pending.flushed {
            pending.flushed = true;
            return Some(Turn::Preflush(*pending));
        }
        if !failed && pending.moved < pending.io.count {
            let before = *pending;
            let rest = pending.io.count - pending.moved;
            let part = if rng.u8(..4) == 0 {
                rng.u64(1..=rest).next_multiple_of(device.block()).min(rest)
            } else {
                rest
            };
            pending.moved += part;
            return Some(Turn::Move(before, part));
        }
        let pending = self.pending.swap_remove(at);
        Some(Turn::Complete { pending, failed })
    }
}
