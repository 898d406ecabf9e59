// SPDX-License-Identifier: GPL-3.0-or-later
//! The ledger's own I/O: groups, marks, checkpoints and flushes.

use super::io::{Role, token};
use super::{Fault, Task, World, ensure};
use crate::engine::{Work, WorkKind};
use crate::queue::{Io, Kind, Side};

impl World {
    /// A second passed.
    pub fn second(&mut self) {
        self.last = "tick";
        self.trace.all(|| "tick".to_owned());
        self.engine.tick();
        self.allow_trim();
        self.guard.lone = 0;
        self.watch();
        self.pump();
    }

    /// Makes a task due if core's lock was released with something to do: the ledger's I/O, or a cleaning that a write
    /// waits for.
    pub(super) fn pump(&mut self) {
        self.pump_work();
        if !self.clean_due && self.cleanings == 0 && self.engine.facts().urgent {
            self.clean_due = true;
            self.later(Task::Clean);
        }
    }

    pub(super) fn pump_work(&mut self) {
        if !self.work_due && self.engine.work_due() {
            self.work_due = true;
            self.later(Task::Work);
        }
    }

    pub(super) fn take_work(&mut self) -> Result<(), Fault> {
        self.work_due = false;
        let asked = std::mem::take(&mut self.asked_for_work);
        let mut any = false;
        loop {
            let (work, woken) = self.engine.work_next();
            self.wake(woken);
            let Some(work) = work else { break };
            any = true;
            self.asked_in_vain = 0;
            match work.kind {
                WorkKind::Step => {
                    self.work_due = true;
                    // Half of the steps are slow, so that much comes in between.
                    let slow = self.rng.bool();
                    self.tasks.push((Task::Work, slow));
                    break;
                }
                // What is printed without the lock meets what comes in between.
                WorkKind::Group | WorkKind::Pages | WorkKind::Head => {
                    self.later(Task::Submit { work });
                }
                _ => self.carry_work(work)?,
            }
        }
        // A look for work ends with a release of the lock. While a write waits for a cleaning, that makes the cleaner
        // look again.
        self.asked_in_vain += u32::from(asked && !any);
        ensure!(
            self.asked_in_vain < 2,
            "the cleaner asks for work again, though there was none and nothing ended since"
        );
        Ok(())
    }

    pub(super) fn carry_work(&mut self, work: Work) -> Result<(), Fault> {
        let Work {
            kind,
            mut first,
            count,
            flush,
        } = work;
        self.engine.work_fill(kind);
        let (side, does, preflush, fua) = match kind {
            WorkKind::Group => (Side::Ssd, Kind::Write, flush, true),
            WorkKind::Head => (Side::Ssd, Kind::Write, true, true),
            WorkKind::Marks | WorkKind::Note => (Side::Ssd, Kind::Write, false, true),
            WorkKind::Pages => (Side::Ssd, Kind::Write, false, false),
            WorkKind::FlushSsd => (Side::Ssd, Kind::Flush, false, false),
            WorkKind::FlushDisk => (Side::Origin, Kind::Flush, false, false),
            WorkKind::Trim => (Side::Ssd, Kind::Discard(0), false, false),
            WorkKind::Step => return Err(Fault::Other("a step is no I/O".to_owned())),
        };
        self.last = "work";
        if kind == WorkKind::Note {
            first = self.place_of_note(first)?;
        } else if does == Kind::Write {
            let geometry = self.engine.geometry();
            let region = match kind {
                WorkKind::Group => geometry.journal,
                WorkKind::Marks => geometry.intent,
                _ => geometry.checkpoint,
            };
            let inside = count > 0
                && first >= region.start
                && first + count <= region.start + region.length
                && (first | count) & 7 == 0;
            ensure!(inside, "{work:?} is not within {region:?}");
            self.metadata_begins(kind, first, count)?;
        }
        if kind == WorkKind::FlushDisk {
            self.check_promise_5()?;
        }
        if kind == WorkKind::Trim {
            self.check_trim(first, count)?;
        }
        self.io(Io {
            side,
            kind: does,
            first,
            count,
            buffer: None,
            preflush,
            fua,
            token: token(kind as u64, Role::Work),
        });
        Ok(())
    }

    pub(super) fn work_ended(&mut self, kind: WorkKind, failed: bool) -> Result<(), Fault> {
        self.last = match kind {
            WorkKind::Group => "group done",
            WorkKind::FlushSsd => "SSD flush done",
            WorkKind::FlushDisk => "disk flush done",
            WorkKind::Marks => "marks done",
            WorkKind::Pages => "pages done",
            WorkKind::Head => "head done",
            WorkKind::Note => "note done",
            WorkKind::Trim => "trim done",
            WorkKind::Step => "step",
        };
        if kind == WorkKind::FlushDisk {
            self.seen.disk_errors += u64::from(failed);
        } else if kind != WorkKind::Trim {
            self.seen.ssd_errors += u64::from(failed);
            self.seen.ssd_lost += u64::from(failed);
        }
        if kind == WorkKind::FlushDisk && failed {
            self.excuse_all();
        }
        if !failed {
            self.metadata_written(kind);
        }
        self.asked_in_vain = 0;
        self.apply_work(kind, !failed)?;
        if kind == WorkKind::Trim {
            self.allow_trim();
            self.pump();
        }
        Ok(())
    }

    /// Core applies what it learned by the end of an I/O of its own, or the next part of that.
    pub(super) fn apply_work(&mut self, kind: WorkKind, ok: bool) -> Result<(), Fault> {
        let was = self.engine.state();
        let (again, woken) = self.engine.work_done(kind, ok);
        if again {
            self.later(Task::Apply { kind, ok });
        }
        self.wake(woken);
        self.check_state(was)?;
        self.pump();
        Ok(())
    }
}
