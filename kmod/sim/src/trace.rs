// SPDX-License-Identifier: GPL-3.0-or-later
//! The last things that happened near one place of the disk, kept only when a failing seed is played again.

use std::collections::VecDeque;

use crate::queue::{Io, Side};

/// Lines kept.
const ROOM: usize = 150;

/// A log that costs nothing unless it is wanted.
#[derive(Default)]
pub struct Trace {
    wanted: Option<(u64, u64)>,
    lines: VecDeque<String>,
}

impl Trace {
    /// Keeps what concerns the sectors `first..end` of the disk, and all that happens on the SSD to slots of theirs as far
    /// as completions tell.
    pub fn of(first: u64, end: u64) -> Trace {
        Trace {
            wanted: Some((first, end)),
            lines: VecDeque::new(),
        }
    }

    /// Something happened to `count` sectors of the disk; 0 if to all.
    pub fn note(&mut self, first: u64, count: u64, line: impl FnOnce() -> String) {
        if let Some((low, high)) = self.wanted
            && (count == 0 || first < high && low < first + count)
        {
            self.push(line());
        }
    }

    /// Something happened that concerns all.
    pub fn all(&mut self, line: impl FnOnce() -> String) {
        if self.wanted.is_some() {
            self.push(line());
        }
    }

    /// Something happened to the SSD.
    pub fn ssd(&mut self, _first: u64, _count: u64, line: impl FnOnce() -> String) {
        if self.wanted.is_some() {
            self.push(line());
        }
    }

    /// Something happened to an I/O.
    pub fn io(&mut self, io: &Io, line: impl FnOnce() -> String) {
        match io.side {
            _ if io.count == 0 => self.all(line),
            Side::Origin => self.note(io.first, io.count, line),
            Side::Ssd => self.ssd(io.first, io.count, line),
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == ROOM {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// What was kept, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
