// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers to applications, and what each answer must be.

use super::{Fault, World, ensure};
use crate::oracle::Time;
use crate::stamp::OpId;
use crate::workload::{self, Verb};

impl World {
    /// Answers a part of a request, and forgets the part if core does not need it any more.
    pub(super) fn answer(&mut self, id: u64) -> Result<(), Fault> {
        let now = self.tick();
        self.idle = 0;
        self.last = "answer";
        let Some(sub) = self.subs.get_mut(&id) else {
            return Err(Fault::Other(format!("answer for unknown part {id}")));
        };
        ensure!(!sub.answered, "#{} is answered twice", sub.op);
        sub.answered = true;
        if std::mem::take(&mut sub.disk_read) {
            self.engine.disk_read_ends();
        }
        let (op_id, count) = (sub.op, sub.count);
        self.trace.note(sub.first, count, || {
            format!("#{op_id} part {}+{count} answered", sub.first)
        });
        let Some(op) = self.ops.get_mut(&op_id) else {
            return Err(Fault::Other(format!("#{op_id} is unknown")));
        };
        op.failed |= sub.failed;
        op.left -= count;
        if op.left == 0 {
            self.ended(op_id, now)?;
        }
        self.drop_if_over(id);
        Ok(())
    }

    /// Answers a request, all of whose parts are answered.
    fn ended(&mut self, id: OpId, now: Time) -> Result<(), Fault> {
        let Some(op) = self.ops.remove(&id) else {
            return Ok(());
        };
        let workload::Request {
            verb, first, count, ..
        } = op.request;
        self.trace.note(first, count, || {
            format!("#{id} ends, {}", if op.failed { "failed" } else { "good" })
        });
        self.failed_requests += u64::from(op.failed);
        let excused = op.excused || self.engine.state() == crate::engine::State::Stranded;
        ensure!(
            !op.failed || excused,
            "#{id} {verb:?} {first}+{count} failed though no disk did"
        );
        if !op.failed {
            let oldest = self.ops.values().map(|op| op.start).min();
            let oldest = oldest.unwrap_or(now);
            match verb {
                Verb::Read if !op.spoiled => {
                    let content = op
                        .buffer
                        .map(|buffer| self.memory.get(buffer))
                        .unwrap_or_default();
                    for (sector, &stamp) in (first..).zip(content) {
                        self.oracle.saw(sector, stamp, op.start, now)?;
                    }
                }
                Verb::Read => {}
                Verb::Flush => {
                    self.oracle.flushed(op.start, now, oldest);
                    self.remember_warm(id);
                }
                _ => self.oracle.write_ends(id, first, count, now)?,
            }
            if verb == (Verb::Write { fua: true }) {
                self.oracle.forced(id, first, count, now, oldest);
            }
        }
        if let Some(buffer) = op.buffer {
            self.memory.release(buffer);
        }
        if self.starting == Some(id) {
            self.starting = None;
            self.written_elsewhere &= op.failed;
            self.lost &= op.failed;
            if op.failed && self.engine.state() == crate::engine::State::Active {
                self.start_up();
            }
            if !op.failed {
                self.look_at_start();
                self.pump();
            }
        }
        Ok(())
    }
}
