// SPDX-License-Identifier: GPL-3.0-or-later
//! What applications do: they submit requests, and change buffers while requests are under way.

use super::{FLUSH, Op, Task, World};
use crate::engine::ReqKind;
use crate::stamp::{OpId, Stamp};
use crate::workload::{self, Verb};

impl World {
    /// An application submits a request. During the start this call does nothing.
    pub fn submit(&mut self, request: workload::Request) {
        if self.starting.is_none() {
            self.enter(request);
        }
    }

    /// Flushes both disks before any request is served. After that, what the load gave up cannot come back.
    pub(super) fn start_up(&mut self) {
        self.starting = Some(self.next_op);
        self.enter(FLUSH);
    }

    fn enter(&mut self, request: workload::Request) {
        self.last = "submit";
        let op = self.next_op;
        self.next_op += 1;
        let start = self.tick();
        let workload::Request {
            verb, first, count, ..
        } = request;
        self.trace.note(first, count, || {
            format!("#{op} {verb:?} {first}+{count} begins")
        });
        let buffer = match verb {
            Verb::Read => Some(self.memory.allocate(count as usize)),
            Verb::Write { .. } => {
                let buffer = self.memory.allocate(count as usize);
                for (sector, stamp) in (first..).zip(self.memory.get_mut(buffer)) {
                    *stamp = Stamp::new(op, sector, 0);
                }
                Some(buffer)
            }
            _ => None,
        };
        if !matches!(verb, Verb::Read | Verb::Flush) {
            self.oracle.write_starts(op, first, count, start);
            self.guard.region_written(first, count);
        }
        let idle = self.ops.is_empty() && self.subs.is_empty();
        self.guard.only_flush = (verb == Verb::Flush && idle).then_some(op);
        self.ops.insert(
            op,
            Op {
                request,
                start,
                buffer,
                left: count,
                failed: false,
                excused: false,
                spoiled: false,
                version: 0,
            },
        );
        if verb == Verb::Flush {
            let id = self.add_sub(op, ReqKind::Flush, 0, 0);
            self.add_request(id, 0, false);
            return;
        }
        let run = 32u64 << self.engine.layout().run_shift;
        let mut at = first;
        while at < first + count {
            let end = (first + count).min((at / run + 1) * run);
            self.later(Task::Map {
                op,
                first: at,
                count: end - at,
            });
            at = end;
        }
    }

    /// An application changes the buffer of some request that is under way.
    pub fn disturb(&mut self) {
        let restless =
            |(id, op): (&OpId, &Op)| (op.request.restless && op.buffer.is_some()).then_some(*id);
        let Some(id) = self.ops.iter().filter_map(restless).max() else {
            return;
        };
        let Some(op) = self.ops.get_mut(&id) else {
            return;
        };
        let Some(buffer) = op.buffer else { return };
        let content = self.memory.get_mut(buffer);
        let from = self.rng.usize(..content.len());
        let to = self.rng.usize(from..content.len()) + 1;
        if op.request.verb == Verb::Read {
            op.spoiled = true;
            content[from..to].fill(Stamp::JUNK);
            return;
        }
        op.version = op.version.wrapping_add(1);
        for (sector, stamp) in (op.request.first + from as u64..).zip(&mut content[from..to]) {
            *stamp = Stamp::new(id, sector, op.version);
        }
        let (first, version) = (op.request.first, op.version);
        self.trace
            .note(first + from as u64, (to - from) as u64, || {
                format!("#{id} buffer now has version {version}")
            });
    }
}
