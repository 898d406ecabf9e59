// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads that miss: a fill begins, or the read is answered from the memory of one that is in flight.

use super::{Fault, Task, World, ensure};
use crate::engine::ReqKind;

impl World {
    /// Begins a fill for a part of a read, if there is memory.
    pub(super) fn begin_fill(&mut self, id: u64) -> Result<(), Fault> {
        let (first, count) = (self.sub(id)?.first, self.sub(id)?.count);
        let span = self.engine.span(ReqKind::Read, first, count);
        if self.memory_is_short() {
            self.engine.pass_for_memory(ReqKind::Read, count);
            return self.read_direct(id);
        }
        let memory = self.memory.allocate(span.quarters as usize * 8);
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.private = Some((memory, span.sector));
        }
        self.add_request(id, span.frames, false);
        Ok(())
    }

    /// Looks for a fill that a part of a read can join.
    pub(super) fn join(&mut self, id: u64) -> Result<(), Fault> {
        let (first, count) = (self.sub(id)?.first, self.sub(id)?.count);
        let Some(joined) = self.engine.join_fill(first, count) else {
            return self.begin_fill(id);
        };
        ensure!(
            joined.count > 0 && joined.count <= count,
            "{count} sectors at {first} are read, and {joined:?}"
        );
        if joined.count < count {
            self.cut_for_join(id, joined.count)?;
        }
        self.last = "join";
        self.trace.note(first, count, || {
            format!("part {first}+{count} joins, request {joined:?}")
        });
        if joined.answered {
            return self.copy_joined(joined.fill, id);
        }
        match self.subs.get_mut(&joined.fill) {
            Some(fill) => fill.joined.push(id),
            None => return Err(Fault::Other(format!("{joined:?} is unknown"))),
        }
        Ok(())
    }

    /// The part `id` of a read keeps `count` sectors. The rest is mapped again.
    fn cut_for_join(&mut self, id: u64, count: u64) -> Result<(), Fault> {
        let sub = self.sub(id)?;
        let (op, first, rest) = (sub.op, sub.first + count, sub.count - count);
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.count = count;
        }
        self.seen.read -= rest;
        self.later(Task::Map {
            op,
            first,
            count: rest,
        });
        Ok(())
    }

    /// The disk has answered the fill `id`, so the reads that joined go on.
    pub(super) fn joined_go_on(&mut self, id: u64, failed: bool) -> Result<(), Fault> {
        let joined = match self.subs.get_mut(&id) {
            Some(sub) => std::mem::take(&mut sub.joined),
            None => return Ok(()),
        };
        for other in joined {
            if failed {
                self.read_direct(other)?;
            } else {
                self.copy_joined(id, other)?;
            }
        }
        Ok(())
    }

    /// Copies what the read `id` asks for from the memory of the fill. The answer comes later.
    fn copy_joined(&mut self, fill: u64, id: u64) -> Result<(), Fault> {
        let Some((memory, base)) = self.sub(fill)?.private else {
            return Err(Fault::Other(format!("request {fill} has no memory")));
        };
        let place = self.user_slice(id)?;
        let (first, count) = (self.sub(id)?.first, self.sub(id)?.count);
        let end = base + self.memory.get(memory).len() as u64;
        ensure!(
            base <= first && first + count <= end,
            "{first}+{count} is to come from a fill whose memory has {base} to {end}"
        );
        self.memory.copy((memory, first - base), place, count);
        self.later(Task::Joined { sub: id });
        Ok(())
    }
}
