// SPDX-License-Identifier: GPL-3.0-or-later
//! A simulated disk: sectors of 512 bytes in memory, a volatile write cache that only remembers what is not durable yet, and
//! errors on demand. Requests to it live in [`crate::queue`].

use crate::oracle::Time;
use crate::stamp::Stamp;

/// How far the last write to a sector has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Durable,
    /// Stored by this write, which is under way.
    Moving(u64),
    Completed(Time),
}

/// One disk.
pub struct Disk {
    content: Vec<Stamp>,
    state: Vec<State>,
    /// All sectors that are not durable, and perhaps a few more.
    volatile: Vec<u32>,
    /// Of 65536 requests this many fail.
    pub failing: u32,
    /// Every request fails.
    pub dead: bool,
}

impl Disk {
    /// A disk whose sector `n` holds `content(n)`.
    pub fn new(sectors: u64, content: impl Fn(u64) -> Stamp) -> Disk {
        Disk {
            content: (0..sectors).map(content).collect(),
            state: vec![State::Durable; sectors as usize],
            volatile: Vec::new(),
            failing: 0,
            dead: false,
        }
    }

    /// All sectors.
    pub fn content(&self) -> &[Stamp] {
        &self.content
    }

    /// Copies sectors from `first` on into `buffer`.
    pub fn read(&self, first: u64, buffer: &mut [Stamp]) {
        let first = first as usize;
        buffer.copy_from_slice(&self.content[first..first + buffer.len()]);
    }

    /// The write `writer` stores `buffer` from sector `first` on; it is not completed yet.
    pub fn write(&mut self, first: u64, buffer: &[Stamp], writer: u64) {
        let from = first as usize;
        self.content[from..from + buffer.len()].copy_from_slice(buffer);
        for sector in from..from + buffer.len() {
            if self.state[sector] == State::Durable {
                self.volatile.push(sector as u32);
            }
            self.state[sector] = State::Moving(writer);
        }
    }

    /// The write `writer` to `count` sectors from `first` was completed at `now`; what no other write has replaced is durable
    /// at once if `fua`.
    pub fn write_completed(&mut self, first: u64, count: u64, writer: u64, fua: bool, now: Time) {
        for sector in first..first + count {
            let state = &mut self.state[sector as usize];
            if *state == State::Moving(writer) {
                // A sector that FUA makes durable stays in the list until the next flush.
                *state = if fua {
                    State::Durable
                } else {
                    State::Completed(now)
                };
            }
        }
    }

    /// A flush that began at `start` was completed: what was completed before it is durable.
    pub fn flush_completed(&mut self, start: Time) {
        let state = &mut self.state;
        self.volatile.retain(|&sector| {
            let state = &mut state[sector as usize];
            if matches!(*state, State::Completed(at) if at <= start) {
                *state = State::Durable;
            }
            *state != State::Durable
        });
    }

    /// Sectors whose content would be lost now, with what they hold.
    pub fn volatile(&self) -> impl Iterator<Item = (u64, Stamp)> {
        self.volatile
            .iter()
            .map(|&sector| u64::from(sector))
            .filter(|&sector| self.is_volatile(sector))
            .map(|sector| (sector, self.content[sector as usize]))
    }

    /// The content of this sector would be lost now.
    pub fn is_volatile(&self, sector: u64) -> bool {
        self.state[sector as usize] != State::Durable
    }
}
