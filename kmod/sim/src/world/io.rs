// SPDX-License-Identifier: GPL-3.0-or-later
//! I/O is submitted, moved piece by piece, and completed; then core is told.

use super::{Fault, Hit, Sub, Task, World, ensure};
use crate::engine::{ReqKind, State, WORK_KINDS};
use crate::queue::{Buffer, Io, Kind, Pending, Side, Turn};
use crate::stamp::Stamp;

/// The purpose of an I/O, kept in the lowest bits of its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Direct,
    Hit,
    Home,
    Span,
    Extent,
    Work,
    /// Core was told already that this I/O has ended.
    Detached,
    /// The rest of a quarter is read for a write.
    Rest,
}

const ROLES: [Role; 8] = [
    Role::Direct,
    Role::Hit,
    Role::Home,
    Role::Span,
    Role::Extent,
    Role::Work,
    Role::Detached,
    Role::Rest,
];

pub(super) fn token(id: u64, role: Role) -> u64 {
    id << 3 | role as u64
}

pub(super) fn role(io: &Io) -> Role {
    ROLES[(io.token & 7) as usize]
}

impl World {
    pub(super) fn io(&mut self, io: Io) {
        let now = self.tick();
        self.note_io(&io, "is submitted");
        if let Some(io) = self.spoiled(io) {
            self.queue.submit(io, &mut self.rng, now);
        }
    }

    pub(super) fn read(&mut self, side: Side, range: (u64, u64), to: (Buffer, u64), token: u64) {
        self.transfer(Kind::Read, side, range, to, token);
    }

    pub(super) fn write(&mut self, side: Side, range: (u64, u64), from: (Buffer, u64), token: u64) {
        self.transfer(Kind::Write, side, range, from, token);
    }

    /// A write of what the request of part `id` stores on the SSD.
    pub(super) fn store_extent(
        &mut self,
        id: u64,
        (first, count): (u64, u64),
        from: (Buffer, u64),
    ) {
        let request = self.subs.get(&id).and_then(|sub| sub.request.as_ref());
        let fua = request.is_some_and(|request| self.engine.stores_durably(request));
        self.io(Io {
            side: Side::Ssd,
            kind: Kind::Write,
            first,
            count,
            buffer: Some(from),
            preflush: false,
            fua,
            token: token(id, Role::Extent),
        });
    }

    fn transfer(
        &mut self,
        kind: Kind,
        side: Side,
        (first, count): (u64, u64),
        memory: (Buffer, u64),
        token: u64,
    ) {
        self.io(Io {
            side,
            kind,
            first,
            count,
            buffer: Some(memory),
            preflush: false,
            fua: false,
            token,
        });
    }

    /// The request that the queue picked goes on.
    pub(super) fn take_turn(&mut self, turn: Turn) -> Result<(), Fault> {
        match turn {
            Turn::Missed => Ok(()),
            Turn::Preflush(pending) => {
                self.last = "preflush";
                self.note_io(&pending.io, "has flushed first");
                self.flush_done(&pending);
                Ok(())
            }
            Turn::Move(pending, count) => {
                let io = pending.io;
                self.last = match (io.side, io.kind.changes()) {
                    (Side::Origin, true) => "disk stores",
                    (Side::Ssd, true) if role(&io) == Role::Work => "SSD stores metadata",
                    (Side::Ssd, true) => "SSD stores",
                    _ => "read",
                };
                let from = pending.moved;
                self.note_io(&io, &format!("moves {from}+{count}"));
                self.moved(&pending, from, count)
            }
            Turn::Complete { pending, failed } => self.completed(&pending, failed),
        }
    }

    fn flush_done(&mut self, pending: &Pending) {
        match pending.io.side {
            Side::Origin => self.disk.flush_completed(pending.start),
            Side::Ssd => self.ssd.flush_completed(pending.start),
        }
    }

    /// Moves `count` sectors of a request, from its sector `from` on.
    pub(super) fn moved(&mut self, pending: &Pending, from: u64, count: u64) -> Result<(), Fault> {
        let Pending { io, writer, .. } = *pending;
        let first = io.first + from;
        let device = match io.side {
            Side::Origin => &mut self.disk,
            Side::Ssd => &mut self.ssd,
        };
        match (io.kind, io.buffer) {
            (Kind::Read, Some((buffer, offset))) => {
                let to = &mut self.memory.get_mut(buffer)[(offset + from) as usize..];
                to[..count as usize]
                    .copy_from_slice(&device.content()[first as usize..][..count as usize]);
            }
            (Kind::Write, Some((buffer, offset))) => {
                let source = &self.memory.get(buffer)[(offset + from) as usize..];
                for (sector, &stamp) in (first..first + count).zip(source) {
                    device.write(sector, stamp, writer);
                }
            }
            (Kind::Write, None) => {
                let mut bytes = vec![[0; 512]; count as usize];
                let kind = WORK_KINDS[(io.token >> 3) as usize];
                self.engine.work_bytes(kind, from, &mut bytes);
                for (sector, bytes) in (first..).zip(&bytes) {
                    device.write(sector, self.bytes.keep(bytes), writer);
                }
            }
            (Kind::Discard(_), _) if io.side == Side::Ssd => {
                for sector in first..first + count {
                    device.write(sector, Stamp::JUNK, writer);
                }
            }
            (Kind::Discard(op) | Kind::Zeroes(op), _) => {
                for sector in first..first + count {
                    device.write(sector, Stamp::new(op, sector, 0), writer);
                }
            }
            _ => {}
        }
        if io.side == Side::Origin && io.kind.changes() && role(&io) != Role::Detached {
            self.check_disk(&io, first, count)?;
        }
        Ok(())
    }

    /// Each sector that the disk was given must come from a user's write to this same sector.
    fn check_disk(&self, io: &Io, first: u64, count: u64) -> Result<(), Fault> {
        let cleaning = self
            .subs
            .get(&(io.token >> 3))
            .is_some_and(|sub| sub.kind == ReqKind::Clean);
        for sector in first..first + count {
            let stamp = self.disk.content()[sector as usize];
            let known = cleaning || self.ops.contains_key(&stamp.op());
            ensure!(
                known && stamp.sector() == sector,
                "disk sector {sector} was given {stamp}, which no request under way wrote"
            );
        }
        Ok(())
    }

    fn completed(&mut self, pending: &Pending, failed: bool) -> Result<(), Fault> {
        let io = pending.io;
        let now = self.now;
        let from_ssd = matches!(role(&io), Role::Extent | Role::Hit) && io.kind == Kind::Read;
        let failed =
            failed || from_ssd && self.unreadable > 0 && self.rng.u32(..65536) < self.unreadable;
        self.note_io(&io, if failed { "failed" } else { "is done" });
        let device = match io.side {
            Side::Origin => &mut self.disk,
            Side::Ssd => &mut self.ssd,
        };
        if io.kind == Kind::Flush {
            if !failed {
                device.flush_completed(pending.start);
            }
            self.guard.flushed(io.side, pending.start, failed);
        } else if io.kind.changes() {
            let fua = io.fua && !failed;
            device.write_completed(io.first, pending.moved, pending.writer, fua, now);
            self.guard.written(io.side, now);
            let cleaning = self.is_cleaning(io.token >> 3) || role(&io) == Role::Detached;
            if io.side == Side::Origin && !cleaning {
                self.durable.disk_written(io.first, now);
            }
        }
        self.last = match (io.side, io.kind) {
            (_, Kind::Flush) => "flush done",
            (Side::Origin, Kind::Read) => "disk read done",
            (Side::Ssd, Kind::Read) => "SSD read done",
            (Side::Origin, _) => "disk write done",
            (Side::Ssd, _) => "SSD write done",
        };
        self.tell_core(&io, failed)
    }

    /// Tells the owner of an I/O that the I/O has ended.
    pub(super) fn tell_core(&mut self, io: &Io, failed: bool) -> Result<(), Fault> {
        let id = io.token >> 3;
        match role(io) {
            Role::Direct => self.direct_done(id, failed),
            Role::Rest => self.rest_done(id, failed),
            Role::Hit => self.hit_done(id, failed),
            Role::Home => self.home_done(id, failed),
            Role::Span => self.span_done(id, failed),
            Role::Extent => self.extent_done(id, failed),
            Role::Work => self.work_ended(WORK_KINDS[id as usize], failed),
            Role::Detached => {
                if let Some((buffer, _)) = io.buffer {
                    self.memory.release(buffer);
                }
                Ok(())
            }
        }
    }

    /// A flush of the disk failed. The flushes that wait for it may fail, and so may writes that wait for what the
    /// flush was for.
    pub(super) fn excuse_all(&mut self) {
        for op in self.ops.values_mut() {
            op.excused = true;
        }
    }

    /// The cleaning `id` failed. A write that touches everything that this cleaning was to move may fail, since the bad
    /// sectors are a part of that.
    fn excuse_writes(&mut self, id: u64) -> Result<(), Fault> {
        let moved = self.sub(id)?.quarters();
        for sub in self.subs.values().filter(|sub| sub.count > 0) {
            let touched = sub.quarters();
            if touched.contains(moved.start())
                && touched.contains(moved.end())
                && let Some(op) = self.ops.get_mut(&sub.op)
            {
                op.excused = true;
            }
        }
        Ok(())
    }

    /// A disk answered a request of the application directly, so the application gets the disk's error.
    fn excuse(&mut self, id: u64, failed: bool) -> Result<(), Fault> {
        let op = self.sub(id)?.op;
        if let Some(op) = self.ops.get_mut(&op) {
            op.excused |= failed;
        }
        Ok(())
    }

    fn direct_done(&mut self, id: u64, failed: bool) -> Result<(), Fault> {
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.failed = failed;
        }
        self.excuse(id, failed)?;
        self.answer(id)
    }

    fn hit_done(&mut self, id: u64, failed: bool) -> Result<(), Fault> {
        let sub = self.sub(id)?;
        let (first, count) = (sub.first, sub.count);
        let Some(hit) = sub.hit else {
            return Err(Fault::Other(format!("#{} was no hit", sub.op)));
        };
        let Hit { slot, slots, .. } = hit;
        let elsewhere = failed && self.hit_failed((first, count), hit)?;
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.disk_read = elsewhere;
        }
        ensure!(
            !failed || elsewhere || hit.was_dirty,
            "sector {first}+{count}: an error, though the disk had it when it was asked for"
        );
        for slot in slot..slot + slots {
            if self.engine.unpin(slot) {
                self.later(Task::Drained {
                    sector: first,
                    slot,
                });
            }
        }
        if failed {
            self.seen.ssd_errors += 1;
        }
        if failed {
            self.pump();
        }
        if elsewhere {
            return self.read_direct(id);
        }
        if failed {
            self.excuse(id, true)?;
            if let Some(sub) = self.subs.get_mut(&id) {
                sub.failed = true;
            }
        } else {
            self.seen.served_by_ssd += count;
        }
        self.answer(id)
    }

    fn home_done(&mut self, id: u64, failed: bool) -> Result<(), Fault> {
        let sub = self.sub(id)?;
        let (first, hit) = (sub.first, sub.hit);
        self.engine.write_home_done(!failed);
        if failed {
            self.seen.ssd_errors += 1;
            self.excuse(id, true)?;
            self.ssd_lost()?;
        }
        if let Some(Hit { slot, .. }) = hit
            && self.engine.unpin(slot)
        {
            self.later(Task::Drained {
                sector: first,
                slot,
            });
        }
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.failed = failed;
        }
        self.pump();
        self.answer(id)
    }

    fn span_done(&mut self, id: u64, failed: bool) -> Result<(), Fault> {
        let kind = self.sub(id)?.kind;
        if matches!(kind, ReqKind::Write | ReqKind::Discard) {
            self.excuse(id, failed)?;
        }
        if kind == ReqKind::Clean && failed {
            self.excuse_writes(id)?;
        }
        self.seen.disk_errors += u64::from(failed && kind != ReqKind::Discard);
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.done = true;
        }
        self.guard.fresh.remove(&id);
        let Some(Sub {
            request: Some(request),
            ..
        }) = self.subs.get(&id)
        else {
            return Err(Fault::Other(format!("request {id} is unknown")));
        };
        let (actions, woken) = self.engine.disk_done(request, !failed);
        self.note_actions(id, "is done on the disk", actions);
        if kind == ReqKind::Read {
            self.joined_go_on(id, failed)?;
        }
        self.follow_up(id, actions, woken);
        Ok(())
    }

    fn extent_done(&mut self, id: u64, failed: bool) -> Result<(), Fault> {
        let Some(sub) = self.subs.get_mut(&id) else {
            return Err(Fault::Other(format!("request {id} is unknown")));
        };
        sub.ssd_failed |= failed;
        sub.ssd_left -= 1;
        let (failed, left, fetched) = (sub.ssd_failed, sub.ssd_left, sub.kind == ReqKind::Clean);
        sub.done |= left == 0;
        if failed && !fetched {
            self.ssd_lost()?;
        }
        if failed && fetched {
            self.excuse_writes(id)?;
        }
        if left > 0 {
            self.pump();
            return Ok(());
        }
        let Some(Sub {
            request: Some(request),
            ..
        }) = self.subs.get(&id)
        else {
            return Err(Fault::Other(format!("request {id} has ended")));
        };
        self.seen.ssd_errors += u64::from(failed);
        if self.engine.state() != State::Bypass {
            self.guard.fresh.remove(&id);
        }
        let (actions, woken) = self.engine.ssd_done(request, !failed);
        self.note_actions(id, "is done on the SSD", actions);
        self.follow_up(id, actions, woken);
        Ok(())
    }
}
