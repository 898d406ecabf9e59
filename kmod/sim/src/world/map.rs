// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks core where a part of a request goes, as the map function of the device-mapper target does.

use super::io::{Role, token};
use super::{Fault, Hit, Sub, Task, World, ensure};
use crate::engine::{Look, Mode, NewRequest, ReqKind, State, Verdict};
use crate::queue::{Buffer, Side};
use crate::stamp::OpId;
use crate::workload::Verb;

impl World {
    pub(super) fn map(&mut self, op: OpId, first: u64, count: u64) -> Result<(), Fault> {
        let Some(verb) = self.ops.get(&op).map(|op| op.request.verb) else {
            return Ok(());
        };
        match verb {
            Verb::Read => self.map_read(op, first, count),
            Verb::Write { .. } => self.map_write(op, first, count),
            _ => {
                self.seen.written += count;
                let id = self.add_sub(op, ReqKind::Discard, first, count);
                self.add_request(id, 0, false);
                Ok(())
            }
        }
    }

    fn map_read(&mut self, op: OpId, first: u64, asked: u64) -> Result<(), Fault> {
        let (verdict, look) = self.engine.look(first, asked);
        if verdict == Verdict::Busy {
            self.later(Task::Map {
                op,
                first,
                count: asked,
            });
            return Ok(());
        }
        let count = u64::from(look.count);
        ensure!(
            count > 0 && count <= asked,
            "#{op} asked for {asked} sectors at {first}; core answers for {count}"
        );
        if count < asked {
            self.later(Task::Map {
                op,
                first: first + count,
                count: asked - count,
            });
        }
        self.seen.read += count;
        self.trace.note(first, count, || {
            format!("#{op} part {first}+{count}: {verdict:?} {look:?}")
        });
        let id = self.add_sub(op, ReqKind::Read, first, count);
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.disk_read = matches!(verdict, Verdict::Miss | Verdict::Pass);
        }
        match verdict {
            Verdict::Hit => self.read_hit(id, look),
            Verdict::Pass | Verdict::Busy => {
                self.check_undone(first, count)?;
                self.read_direct(id)
            }
            Verdict::Miss if self.engine.may_join(first) => {
                self.later(Task::Join { sub: id });
                Ok(())
            }
            Verdict::Miss => self.begin_fill(id),
        }
    }

    fn map_write(&mut self, op: OpId, first: u64, count: u64) -> Result<(), Fault> {
        self.seen.written += count;
        let id = self.add_sub(op, ReqKind::Write, first, count);
        let fua = self.is_fua(op);
        if !fua && let Some(slot) = self.engine.write_home(first, count) {
            ensure!(
                self.flushing.is_none(),
                "sector {first} goes home during a flush"
            );
            return self.write_home(id, slot);
        }
        let stream = !fua && self.engine.streams(first, count);
        let wanted = !stream && self.engine.wants_copy(first, count);
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.stream = stream;
        }
        // Not all, so that copies are tried as well. No random number is drawn, so that runs stay as they were.
        let lent = wanted
            && (u64::from(op) + first / 8).is_multiple_of(2)
            && self.engine.may_lend(first, count);
        if lent {
            self.trace
                .note(first, count, || format!("#{op} part {first}+{count}: lent"));
            if let Some(sub) = self.subs.get_mut(&id) {
                sub.lent = true;
            }
            self.add_request(id, 1, false);
            return Ok(());
        }
        self.begin_copied(id, wanted)
    }

    /// Core ended a part that was lent: now with a copy.
    pub(super) fn copy_instead(&mut self, id: u64) -> Result<(), Fault> {
        self.forget_request(id);
        let Some(sub) = self.subs.get_mut(&id) else {
            return Err(Fault::Other(format!("request {id} is unknown")));
        };
        sub.lent = false;
        self.begin_copied(id, true)
    }

    fn is_fua(&self, op: OpId) -> bool {
        let fua = |op: &super::Op| op.request.verb == Verb::Write { fua: true };
        // The flush of a start or a stop waits for all that was forgotten.
        self.starting == Some(op) || self.stopping == Some(op) || self.ops.get(&op).is_some_and(fua)
    }

    /// Begins a part of a write, with a copy if that is `wanted` and there is memory.
    fn begin_copied(&mut self, id: u64, wanted: bool) -> Result<(), Fault> {
        let sub = self.sub(id)?;
        let (op, first, count, stream) = (sub.op, sub.first, sub.count, sub.stream);
        let (mut frames, mut no_memory) = (0, false);
        if wanted && self.memory_is_short() {
            if !self.is_fua(op)
                && let Some(slot) = self.engine.write_in_place(first, count)
            {
                return self.write_home(id, slot);
            }
            no_memory = true;
        } else if wanted {
            let span = self.engine.span(ReqKind::Write, first, count);
            frames = span.frames;
            let memory = self.memory.allocate(span.quarters as usize * 8);
            let source = self.user_slice(id)?;
            self.memory
                .copy(source, (memory, first - span.sector), count);
            if let Some(sub) = self.subs.get_mut(&id) {
                sub.private = Some((memory, span.sector));
            }
        }
        self.trace.note(first, count, || {
            format!(
                "#{op} part {first}+{count}: copied {}, of a stream {stream}",
                frames > 0
            )
        });
        self.add_request(id, frames, no_memory);
        Ok(())
    }

    /// Writes the application's memory to the SSD as it is.
    fn write_home(&mut self, id: u64, slot: u32) -> Result<(), Fault> {
        let (first, count) = (self.sub(id)?.first, self.sub(id)?.count);
        ensure!(
            self.mode == Mode::WriteBack && self.engine.state() == State::Active,
            "sector {first} goes home, in {:?}, {:?}",
            self.mode,
            self.engine.state()
        );
        let place = self.user_slice(id)?;
        let range = (
            self.engine.layout().data_start + u64::from(slot) * 32 + first % 32,
            count,
        );
        self.check_ssd(range)?;
        self.check_store(self.sub(id)?, range.0, first, count)?;
        self.seen.stored_for_writes += count;
        self.trace
            .note(first, count, || format!("{first}+{count} goes home"));
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.hit = Some(Hit {
                slot,
                slots: 1,
                dirty: 0,
                was_dirty: true,
            });
        }
        self.write(Side::Ssd, range, place, token(id, Role::Home));
        Ok(())
    }

    pub(super) fn memory_is_short(&mut self) -> bool {
        self.memory_shortage > 0 && self.rng.u8(..) < self.memory_shortage
    }

    pub(super) fn add_sub(&mut self, op: OpId, kind: ReqKind, first: u64, count: u64) -> u64 {
        let id = self.next_sub;
        self.next_sub += 1;
        let sub = Sub {
            op,
            kind,
            first,
            count,
            request: None,
            private: None,
            hit: None,
            ssd_left: 0,
            ssd_failed: false,
            failed: false,
            done: false,
            disk_read: false,
            to_disk: false,
            stream: false,
            lent: false,
            rests: (0, false),
            merged: false,
            joined: Vec::new(),
            begun: self.now,
            answered: false,
        };
        self.subs.insert(id, sub);
        id
    }

    pub(super) fn add_request(&mut self, id: u64, frames: u32, no_memory: bool) {
        let Some(op) = self.subs.get(&id).map(|sub| sub.op) else {
            return;
        };
        let fua = self.is_fua(op);
        let Some(sub) = self.subs.get_mut(&id) else {
            return;
        };
        let new = NewRequest {
            kind: sub.kind,
            sector: sub.first,
            count: sub.count,
            parts: frames,
            no_memory,
            stream: sub.stream,
            lent: sub.lent,
            fua,
        };
        sub.request = Some(self.engine.request(id, new));
        self.later(Task::Begin { sub: id });
    }

    /// Where the application's memory for this part is.
    pub(super) fn user_slice(&self, id: u64) -> Result<(Buffer, u64), Fault> {
        let sub = self.sub(id)?;
        let place = self
            .ops
            .get(&sub.op)
            .and_then(|op| Some((op.buffer?, sub.first - op.request.first)));
        place.ok_or_else(|| Fault::Other(format!("#{} was answered, its buffer is gone", sub.op)))
    }

    fn read_hit(&mut self, id: u64, look: Look) -> Result<(), Fault> {
        let place = self.user_slice(id)?;
        let range = (look.ssd_sector, u64::from(look.count));
        self.check_ssd(range)?;
        let hit = Hit {
            slot: look.slot,
            slots: look.slots,
            dirty: look.dirty,
            was_dirty: self.is_dirty(self.sub(id)?.first, range.1),
        };
        ensure!(
            (hit.dirty != 0) == hit.was_dirty,
            "core says {:#x} of what is dirty of {look:?}",
            hit.dirty
        );
        // Promise 18: else a bad clean block would fail a read of the dirty one beside it.
        let first = self.sub(id)?.first;
        let asked = (first + range.1).div_ceil(8) - first / 8;
        ensure!(
            hit.slots == 1
                || !hit.was_dirty
                || self.dirty_quarters(first, range.1).len() as u64 == asked,
            "sector {first}+{}: dirty and clean slots are read at once",
            range.1
        );
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.hit = Some(hit);
        }
        self.read(Side::Ssd, range, place, token(id, Role::Hit));
        Ok(())
    }
}
