// SPDX-License-Identifier: GPL-3.0-or-later
//! What a message changes while the world runs: the mode, the limits, and what is forgotten.

use std::collections::HashSet;

use super::{Task, Word, World};
use crate::engine::Mode;

impl World {
    /// Changes the mode.
    pub fn set_mode(&mut self, mode: Mode) {
        self.last = "mode";
        self.mode = mode;
        self.mode_changed = self.tick();
        self.engine.set_mode(mode);
        self.pump();
    }

    /// Sets how many quarters may be dirty.
    pub fn set_limit(&mut self, quarters: u64) {
        self.limit = quarters;
        let now = self.tick();
        self.flushing = (quarters == 0).then(|| self.flushing.unwrap_or(now));
        self.engine.set_limit(quarters);
    }

    /// Says whether frames that have no slot may get one. Off is checked until the next start; call it at rest.
    pub fn set_promotion(&mut self, on: bool) {
        self.last = "promotion";
        self.closed = (!on).then(|| (self.frames(), self.failures()));
        self.engine.set_promotion(on);
    }

    /// Frames written in a row that are a stream; in write-back four times as many.
    pub fn set_stream(&mut self, frames: u32) {
        self.stream = frames;
        self.engine.set_stream(frames);
    }

    /// Errors of both devices in this life.
    pub(crate) fn failures(&self) -> u64 {
        self.seen.ssd_errors + self.seen.disk_errors
    }

    /// Frames that have a slot.
    pub(crate) fn frames(&self) -> HashSet<u64> {
        let words = self.engine.words().into_iter().map(Word::of);
        words
            .filter(|word| word.state != 0)
            .map(|word| word.tag)
            .collect()
    }

    /// Forgets the clean copies of a group.
    pub fn forget_group(&mut self, group: u32) {
        self.last = "drop";
        self.guard.only_flush = None;
        self.engine.forget_group(group);
        self.pump();
    }

    /// Begins to forget the clean copies of all groups. Other tasks may come between two groups.
    pub fn forget_all(&mut self) {
        let under_way = |(task, _): &(Task, bool)| matches!(task, Task::Forget { .. });
        if self.starting.is_some() || self.tasks.iter().any(under_way) {
            return;
        }
        self.engine.sweep_at_once_begin();
        self.later(Task::Forget { group: 0 });
    }

    /// Forgets the clean copies of `group`, as a part of all.
    pub(super) fn forget_next(&mut self, group: u32) {
        if group == self.engine.layout().groups {
            self.engine.sweep_at_once_end();
            self.pump();
            return;
        }
        self.forget_group(group);
        self.later(Task::Forget { group: group + 1 });
    }
}
