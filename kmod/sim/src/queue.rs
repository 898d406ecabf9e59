// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests under way to the two disks, and the memory that they move.
//!
//! Nothing is ordered, and some requests take far longer than others: [`Queue::step`] picks any request and either moves some of its sectors or completes it. So data may
//! arrive in pieces, long before the completion is told, and in any order against other requests to the same sectors.

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
    /// Stores the buffer.
    Write,
    /// Leaves the sectors with some new content that nobody chose. The number is that of the user's request.
    Discard(u32),
    /// Stores zeroes; their stamps carry the number of the user's request.
    Zeroes(u32),
    /// Makes durable what was completed before.
    Flush,
}

impl Kind {
    /// The sectors of the disk change.
    pub fn changes(self) -> bool {
        matches!(self, Kind::Write | Kind::Discard(_) | Kind::Zeroes(_))
    }
}

/// A request to one disk.
#[derive(Clone, Debug)]
pub struct Io {
    /// To which disk.
    pub side: Side,
    /// To do what.
    pub kind: Kind,
    /// First sector on that disk, in 512 bytes.
    pub first: u64,
    /// Length in sectors.
    pub count: u64,
    /// The memory and the sector in it; `None` if nothing is moved.
    pub buffer: Option<(Buffer, u64)>,
    /// Durable when completed.
    pub fua: bool,
    /// Whom to tell; chosen by the caller.
    pub token: u64,
}

struct Pending {
    io: Io,
    moved: u64,
    start: Time,
    writer: u64,
    lazy: bool,
}

/// What a step did.
pub enum Step {
    /// Nothing: the request that was picked does not want to go on yet.
    Missed,
    /// Moved the sectors `from..to` of the request.
    Moved {
        /// The request.
        io: Io,
        /// First sector, counted from the request's first.
        from: u64,
        /// One after the last.
        to: u64,
    },
    /// Ended the request.
    Completed {
        /// The request.
        io: Io,
        /// It failed; some sectors may have been moved.
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
    /// The same for the SSD.
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
        self.writers += 1;
        self.pending.push(Pending {
            io,
            moved: 0,
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

    /// Lets any request go on; `None` if there is none.
    pub fn step(
        &mut self,
        rng: &mut fastrand::Rng,
        memory: &mut Memory,
        disk: &mut Disk,
        ssd: &mut Disk,
        now: Time,
    ) -> Option<Step> {
        if self.pending.is_empty() {
            return None;
        }
        let at = rng.usize(..self.pending.len());
        let pending = &mut self.pending[at];
        let reluctance = match pending.io.side {
            _ if pending.lazy => LAZINESS,
            Side::Origin => self.disk_reluctance,
            Side::Ssd => self.ssd_reluctance,
        };
        if rng.u8(..) < reluctance {
            return Some(Step::Missed);
        }
        let device = match pending.io.side {
            Side::Origin => disk,
            Side::Ssd => ssd,
        };
        let failed = device.dead || (device.failing > 0 && rng.u32(..65536) < device.failing);
        if !failed && pending.moved < pending.io.count && pending.io.kind != Kind::Flush {
            let rest = pending.io.count - pending.moved;
            let part = if rng.u8(..4) == 0 {
                rng.u64(1..=rest)
            } else {
                rest
            };
            let from = pending.moved;
            pending.moved += part;
            carry(pending, from, part, memory, device);
            return Some(Step::Moved {
                io: pending.io.clone(),
                from,
                to: from + part,
            });
        }
        let Pending {
            io,
            start,
            moved,
            writer,
            ..
        } = self.pending.swap_remove(at);
        if !failed && io.kind == Kind::Flush {
            device.flush_completed(start);
        }
        if io.kind.changes() {
            device.write_completed(io.first, moved, writer, io.fua && !failed, now);
        }
        Some(Step::Completed { io, failed })
    }
}

/// Moves `count` sectors of a request, from its sector `from` on.
fn carry(pending: &Pending, from: u64, count: u64, memory: &mut Memory, disk: &mut Disk) {
    let Pending { io, writer, .. } = pending;
    let first = io.first + from;
    let slice = io.buffer.map(|(buffer, offset)| {
        (
            buffer,
            (offset + from) as usize..(offset + from + count) as usize,
        )
    });
    match (io.kind, slice) {
        (Kind::Read, Some((buffer, range))) => disk.read(first, &mut memory.get_mut(buffer)[range]),
        (Kind::Write, Some((buffer, range))) => {
            disk.write(first, &memory.get(buffer)[range], *writer)
        }
        (Kind::Discard(op) | Kind::Zeroes(op), _) => {
            let stamps: Vec<_> = (first..first + count)
                .map(|sector| Stamp::new(op, sector, 0))
                .collect();
            disk.write(first, &stamps, *writer);
        }
        _ => {}
    }
}
