// SPDX-License-Identifier: GPL-3.0-or-later
//! Carries out what core decides, as the device-mapper target does.

use super::check::Fresh;
use super::durable::REGION_SHIFT;
use super::io::{Role, token};
use super::{Fault, Sub, Task, World, ensure};
use crate::engine::{Actions, Engine, Mode, ReqKind, Request, State, Waking};
use crate::queue::{Io, Kind, Side};
use crate::workload::Verb;

/// Sectors behind the region of a stream's write where marks may be set ahead, and that region.
const AHEAD: u64 = (16 << 11) + (1 << REGION_SHIFT);

/// Waits of writes, since the last flush or tick, for sweeps of their own.
const LONE: u32 = 0;

/// The order in which the actions of one answer are carried out.
const ORDER: [u32; 11] = [
    Actions::SUM,
    Actions::MERGE,
    Actions::COPY,
    Actions::PASS,
    Actions::START,
    Actions::DISK,
    Actions::ANSWER,
    Actions::SSD,
    Actions::FETCH,
    Actions::RETRY,
    Actions::END,
];

impl World {
    pub(super) fn run(&mut self, task: Task) -> Result<(), Fault> {
        self.tick();
        if let Some(why) = self.refused.take() {
            return Err(Fault::Other(why));
        }
        match task {
            Task::Map { op, first, count } => self.map(op, first, count),
            Task::Join { sub } => self.join(sub),
            Task::Joined { sub } => self.answer(sub),
            Task::Begin { sub } => self.begin(sub),
            Task::CarryOut { sub, actions } => self.carry_out(sub, actions),
            Task::Drained { sector, slot } => {
                let (turn, woken) = self.engine.drained(sector, slot);
                self.trace.note(sector, 1, || {
                    format!("slot {slot} has drained, wakes {turn:?} and {woken:?}")
                });
                self.wake(woken);
                if let Some((sub, actions)) = turn {
                    self.later(Task::CarryOut { sub, actions });
                }
                self.pump();
                Ok(())
            }
            Task::Work => self.take_work(),
            Task::Submit { work } => self.carry_work(work),
            Task::Apply { kind, ok } => self.apply_work(kind, ok),
            Task::Forget { group } => {
                self.forget_next(group);
                Ok(())
            }
            Task::RecordRetired => {
                self.retired.recorded = self.engine.retired();
                Ok(())
            }
            Task::TellCore { io } => self.tell_core(&io, false),
            Task::Clean => {
                self.clean_due = false;
                self.clean(false)
            }
        }
    }

    pub(super) fn sub(&self, id: u64) -> Result<&Sub, Fault> {
        self.subs
            .get(&id)
            .ok_or_else(|| Fault::Other(format!("core names request {id}, which has ended")))
    }

    pub(super) fn request(&self, id: u64) -> Result<&Request, Fault> {
        self.sub(id)?
            .request
            .as_ref()
            .ok_or_else(|| Fault::Other(format!("core names request {id}, which has ended")))
    }

    /// A request begins, or starts again. If more writes have come since the last flush or tick than get a sweep of their
    /// own, marks may be set around this one too: in twice as many regions for each.
    fn guard_lone(&mut self, id: u64) -> Result<(), Fault> {
        let Sub { kind, first, .. } = *self.sub(id)?;
        match kind {
            ReqKind::Flush => self.guard.lone = 0,
            ReqKind::Write if self.mode == Mode::WriteBack => {
                let shift = REGION_SHIFT + self.guard.lone.saturating_sub(LONE).min(32);
                self.guard.lone += 1;
                let sectors = self.engine.layout().origin_sectors;
                let start = first >> shift << shift;
                let end = sectors.min(start + (1 << shift));
                self.guard.region_written(start, end - start);
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, id: u64) -> Result<(), Fault> {
        if let Some(sub) = self.subs.get(&id).filter(|sub| sub.stream) {
            // Marks are set ahead of a stream, for as long as a stream that nothing stops may need them.
            let left = self.engine.layout().origin_sectors - sub.first;
            self.guard.region_written(sub.first, left.min(AHEAD));
        }
        if let Some(sub) = self
            .subs
            .get(&id)
            .filter(|sub| sub.kind == ReqKind::Discard)
        {
            let sectors = self.engine.layout().origin_sectors;
            self.guard.discarded(sub.first, sub.count, sectors);
        }
        let dirty = self.engine.facts().dirty;
        self.guard_lone(id)?;
        let Some(request) = self.subs.get(&id).and_then(|sub| sub.request.as_ref()) else {
            return Err(Fault::Other(format!("request {id} is unknown")));
        };
        let (actions, woken) = self.engine.begin(request);
        self.note_begun(id, dirty);
        self.last = "begin";
        self.note_actions(id, "begins", actions);
        self.follow_up(id, actions, woken);
        Ok(())
    }

    /// Carries out what core answered about a request: its actions, and the requests that it woke.
    pub(super) fn follow_up(&mut self, id: u64, actions: Actions, woken: crate::engine::Waking) {
        self.plan_actions(id, actions);
        self.wake(woken);
        self.pump();
    }

    fn restart(&mut self, id: u64) -> Result<(), Fault> {
        self.restart_with(id, "starts", Engine::start)
    }

    /// A request starts again, by this call of core.
    pub(super) fn restart_with(
        &mut self,
        id: u64,
        what: &str,
        call: impl FnOnce(&mut Engine, &Request) -> (Actions, Waking),
    ) -> Result<(), Fault> {
        let dirty = self.engine.facts().dirty;
        self.guard_lone(id)?;
        let Some(request) = self.subs.get(&id).and_then(|sub| sub.request.as_ref()) else {
            return Err(Fault::Other(format!("request {id} is unknown")));
        };
        let (actions, woken) = call(&mut self.engine, request);
        self.note_begun(id, dirty);
        self.last = "start";
        self.note_actions(id, what, actions);
        self.follow_up(id, actions, woken);
        Ok(())
    }

    /// Notes that part `id` of a request has begun. `before` is the number of dirty quarters before that.
    pub(super) fn note_begun(&mut self, id: u64, before: u64) {
        let count = self.engine.facts().dirty.saturating_sub(before);
        let Some(sub) = self.subs.get_mut(&id) else {
            return;
        };
        sub.begun = self.now;
        if count > 0 {
            let (first, sectors) = (sub.first, sub.count);
            let shown = self.dirty_quarters(first, sectors);
            self.guard.fresh.insert(id, Fresh { count, shown });
        }
    }

    pub(super) fn note_actions(&mut self, id: u64, what: &str, actions: Actions) {
        if let Some(sub) = self.subs.get(&id) {
            let (op, first, count) = (sub.op, sub.first, sub.count);
            self.trace.note(first, count, || {
                format!(
                    "#{op} part {first}+{count} {what}: actions {:#x}",
                    actions.0
                )
            });
        }
    }

    /// Promise 18: overwriting heals what cannot be read. A write of whole quarters may fail only if the SSD fails,
    /// provided that the write has private memory and that each of its frames has a dirty quarter.
    fn check_overwriting(&mut self, id: u64) {
        let Some(sub) = self.subs.get(&id) else {
            return;
        };
        let (first, count) = (sub.first, sub.count);
        let unchanged = |op: &super::Op| op.start > self.mode_changed;
        let whole = (first | count) % 8 == 0;
        if !sub.failed
            || sub.kind != ReqKind::Write
            || sub.to_disk
            || sub.private.is_none()
            || !whole
            || first + count > self.engine.layout().cached_sectors
            || self.mode != Mode::WriteBack
            || self.engine.state() != State::Active
            || !self.ops.get(&sub.op).is_some_and(unchanged)
        {
            return;
        }
        let dirty = self.dirty_quarters(first, count);
        let is_dirty = |frame| dirty.iter().any(|at| at / 32 == frame);
        if sub.frames().all(is_dirty) {
            self.refused = Some(format!(
                "#{} of {first}+{count} failed, though the SSD has room for it",
                sub.op
            ));
        }
    }

    pub(super) fn plan_actions(&mut self, id: u64, actions: Actions) {
        // The result is read now, under the lock: when the answer is given, the request may have ended.
        if actions.has(Actions::ANSWER)
            && let Some(sub) = self.subs.get_mut(&id)
            && let Some(request) = &sub.request
        {
            sub.failed = self.engine.failed(request);
            self.check_overwriting(id);
        }
        if actions.has(Actions::DISK)
            && let Some(sub) = self.subs.get_mut(&id)
        {
            sub.to_disk = true;
        }
        if actions.0 != 0 {
            self.later(Task::CarryOut { sub: id, actions });
        }
    }

    /// Carries out the first of `actions`. The others follow later, perhaps after other tasks.
    fn carry_out(&mut self, id: u64, actions: Actions) -> Result<(), Fault> {
        let Some(first) = ORDER.into_iter().find(|&action| actions.has(action)) else {
            return Err(Fault::Other(format!("unknown actions {:#x}", actions.0)));
        };
        self.plan_actions(id, Actions(actions.0 & !first));
        match first {
            Actions::SUM => self.sum(id),
            Actions::MERGE => self.merge(id),
            Actions::COPY => self.copy_instead(id),
            Actions::PASS => self.pass(id),
            Actions::START => self.restart(id),
            Actions::DISK => self.disk(id),
            Actions::ANSWER => self.answer_request(id),
            Actions::SSD => self.store(id),
            Actions::FETCH => self.fetch(id),
            Actions::RETRY => self.read_direct(id),
            _ => self.end_request(id),
        }
    }

    fn pass(&mut self, id: u64) -> Result<(), Fault> {
        self.forget_request(id);
        match self.sub(id)?.kind {
            ReqKind::Read => return self.read_direct(id),
            ReqKind::Flush => {
                self.io(Io {
                    side: Side::Origin,
                    kind: Kind::Flush,
                    first: 0,
                    count: 0,
                    buffer: None,
                    preflush: false,
                    fua: false,
                    token: token(id, Role::Direct),
                });
                return Ok(());
            }
            _ => {}
        }
        let (first, count) = (self.sub(id)?.first, self.sub(id)?.count);
        self.write_disk(id, Role::Direct, first, count)
    }

    /// Gives back core's request once core has forgotten it, and the private memory if the part is answered.
    pub(super) fn forget_request(&mut self, id: u64) {
        if let Some(sub) = self.subs.get_mut(&id) {
            if let Some(request) = sub.request.take() {
                self.engine.end(request);
            }
            let answered = sub.answered || sub.kind == ReqKind::Clean;
            if answered && let Some((memory, _)) = sub.private.take() {
                self.memory.release(memory);
            }
        }
    }

    fn end_request(&mut self, id: u64) -> Result<(), Fault> {
        self.request(id)?;
        self.forget_request(id);
        self.last = "end";
        if self.sub(id)?.kind == ReqKind::Clean {
            self.cleanings -= 1;
            self.subs.remove(&id);
        }
        self.pump();
        self.drop_if_over(id);
        Ok(())
    }

    fn disk(&mut self, id: u64) -> Result<(), Fault> {
        let (first, count) = self.engine.disk_span(self.request(id)?);
        let sub = self.sub(id)?;
        if sub.kind == ReqKind::Clean {
            return self.write_cleaned(id, first, count);
        }
        if sub.kind != ReqKind::Read {
            ensure!(
                (first, count) == (sub.first, sub.count),
                "#{} must be written as it is",
                sub.op
            );
            return self.write_disk(id, Role::Span, first, count);
        }
        let Some((memory, base)) = sub.private else {
            return Err(Fault::Other(format!("#{} has no private memory", sub.op)));
        };
        let inside =
            first >= base && (first - base + count) as usize <= self.memory.get(memory).len();
        ensure!(
            inside,
            "#{} reads {first}+{count} into memory that begins at {base}",
            sub.op
        );
        ensure!(
            first + count <= self.engine.layout().origin_sectors,
            "#{} reads beyond the disk",
            sub.op
        );
        let place = (memory, first - base);
        self.read(Side::Origin, (first, count), place, token(id, Role::Span));
        Ok(())
    }

    pub(super) fn write_disk(
        &mut self,
        id: u64,
        role: Role,
        first: u64,
        count: u64,
    ) -> Result<(), Fault> {
        self.check_disk_write(id, first, count)?;
        let sub = self.sub(id)?;
        let Some(op) = self.ops.get(&sub.op) else {
            return Err(Fault::Other(format!(
                "#{} is written after its answer",
                sub.op
            )));
        };
        let fua = op.request.verb == Verb::Write { fua: true };
        let kind = match op.request.verb {
            Verb::Discard => Kind::Discard(sub.op),
            Verb::Zeroes => Kind::Zeroes(sub.op),
            _ => Kind::Write,
        };
        let source = match sub.private {
            _ if kind != Kind::Write => None,
            Some((memory, base)) => Some((memory, first - base)),
            None => Some(self.user_slice(id)?),
        };
        self.io(Io {
            side: Side::Origin,
            kind,
            first,
            count,
            buffer: source,
            preflush: false,
            fua,
            token: token(id, role),
        });
        Ok(())
    }

    pub(super) fn read_direct(&mut self, id: u64) -> Result<(), Fault> {
        let place = self.user_slice(id)?;
        let (first, count) = (self.sub(id)?.first, self.sub(id)?.count);
        self.read(Side::Origin, (first, count), place, token(id, Role::Direct));
        Ok(())
    }

    /// Checks that the sectors that core wants of the SSD lie within the data region and are whole blocks.
    pub(super) fn check_ssd(&self, (first, count): (u64, u64)) -> Result<(), Fault> {
        let layout = self.engine.layout();
        let end = layout.data_start + u64::from(layout.slots) * 32;
        let inside = count > 0 && first >= layout.data_start && first + count <= end;
        ensure!(
            inside,
            "SSD {first}+{count} is not within {}..{end}",
            layout.data_start
        );
        let whole = (first | count) & u64::from(layout.block_mask) == 0;
        ensure!(whole, "SSD {first}+{count} are not whole blocks");
        Ok(())
    }

    fn store(&mut self, id: u64) -> Result<(), Fault> {
        let extents = self.engine.extents(self.request(id)?);
        let sub = self.sub(id)?;
        let (op, kind) = (sub.op, sub.kind);
        let (memory, base) = match sub.private {
            Some(private) => private,
            None if sub.lent && !sub.to_disk => {
                let (memory, offset) = self.user_slice(id)?;
                (memory, sub.first - offset)
            }
            None => {
                return Err(Fault::Other(format!(
                    "#{op} is stored without private memory"
                )));
            }
        };
        ensure!(!extents.is_empty(), "#{op} has nothing to store");
        // Promise 30: without this rule a quarter that is written again and again would stay dirty for ever. A write
        // that waited for a cleaning that failed is excused.
        ensure!(
            kind != ReqKind::Write
                || sub.to_disk
                || self.flushing.is_none_or(|since| sub.begun < since)
                || self.ops.get(&op).is_some_and(|op| op.excused),
            "#{op} was begun during a flush, but does not go to the disk"
        );
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.ssd_left = extents.len();
        }
        for extent in extents {
            let range = (extent.ssd_sector, u64::from(extent.count));
            self.check_ssd(range)?;
            self.check_store(self.sub(id)?, range.0, extent.sector, range.1)?;
            if kind == ReqKind::Write {
                // The rest of a quarter is nobody's request.
                let (first, end) = (
                    self.sub(id)?.first,
                    self.sub(id)?.first + self.sub(id)?.count,
                );
                let to = (extent.sector + range.1).min(end);
                self.seen.stored_for_writes += to - extent.sector.max(first);
            }
            let inside = extent.sector >= base
                && (extent.sector - base) as usize + extent.count as usize
                    <= self.memory.get(memory).len();
            ensure!(
                inside,
                "#{op} stores {extent:?} from memory that begins at {base}"
            );
            self.trace.note(extent.sector, range.1, || {
                format!("#{op} stores {extent:?}")
            });
            let slots = range.0 - self.engine.layout().data_start;
            self.guard.slots_written(slots, range.1);
            let source = (memory, extent.sector - base);
            self.store_extent(id, range, source);
        }
        Ok(())
    }

    /// Gives the answer that core asked for.
    fn answer_request(&mut self, id: u64) -> Result<(), Fault> {
        let sub = self.sub(id)?;
        let failed = sub.failed;
        ensure!(
            sub.done || failed || sub.kind == ReqKind::Flush,
            "#{} is answered before a disk is done",
            sub.op
        );
        let (op, kind, private, first, count) =
            (sub.op, sub.kind, sub.private, sub.first, sub.count);
        if kind == ReqKind::Read && !failed {
            let Some((memory, base)) = private else {
                return Err(Fault::Other(format!("#{op} has no private memory")));
            };
            let place = self.user_slice(id)?;
            self.memory.copy((memory, first - base), place, count);
        }
        self.answer(id)
    }

    /// Forgets the part if neither core nor the application waits for it.
    pub(super) fn drop_if_over(&mut self, id: u64) {
        if let Some(sub) = self.subs.get(&id)
            && sub.answered
            && sub.request.is_none()
        {
            if let Some((memory, _)) = sub.private {
                self.memory.release(memory);
            }
            self.subs.remove(&id);
        }
    }
}
