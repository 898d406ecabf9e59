// SPDX-License-Identifier: GPL-3.0-or-later
//! What is on a simulated SSD only: it grows with what is written in write-back, and goes to the disk
//! at a rate, all at once in a flush, otherwise beside the work.

use crate::dm::message::{Flush, Message};
use tandem_api::{Mode, SECTOR_BYTES};

/// Bytes a second that the disk takes.
pub const RATE: u64 = 50_000_000;
/// Seconds to drain at which no more stays on the SSD, as the module has it.
const LIMIT_SECONDS: u64 = 30;
/// Blocks of the simulated journal.
pub const JOURNAL_BLOCKS: u64 = 4_096;

/// State of one cache.
#[derive(Debug, Clone)]
pub struct Dirt {
    pub mode: Mode,
    /// A flush is under way, and whether it waits.
    pub flush: Option<bool>,
    /// Bytes a second.
    pub rate: u64,
    /// Sectors.
    pub dirty: u64,
    pub drained: u64,
    pub accepted: u64,
    pub commits: u64,
}

impl Dirt {
    /// As the SSD has it when the cache is assembled.
    pub fn new(mode: Mode, dirty: u64, rate: u64) -> Self {
        Self {
            mode,
            flush: None,
            rate,
            dirty,
            drained: 0,
            accepted: 0,
            commits: 0,
        }
    }

    /// What the module makes of a message.
    pub fn tell(&mut self, message: Message) {
        match message {
            Message::Mode(mode) => self.mode = mode,
            Message::Flush(Flush::Start) => {
                self.flush.get_or_insert(false);
            }
            Message::Flush(Flush::Pause) => self.flush = self.flush.map(|_| true),
            Message::Flush(Flush::Resume) => self.flush = self.flush.map(|_| false),
            Message::Flush(Flush::Stop) => self.flush = None,
            // Nothing is written past a simulated SSD.
            Message::LossRecorded => {}
        }
    }

    /// One of `ticks` parts of a second passes, in which this many sectors are stored on the SSD.
    pub fn tick(&mut self, stored: u64, ticks: u64) {
        let all = self.rate / SECTOR_BYTES / ticks;
        let writes = self.mode == Mode::Writeback && self.flush.is_none();
        if writes && self.seconds() < LIMIT_SECONDS {
            self.dirty += stored;
            self.accepted += stored;
            self.commits += 1;
        }
        let rate = match self.flush {
            Some(true) => 0,
            Some(false) => all,
            // Beside the work, and slower than data comes, until the limit is near.
            None if writes && self.seconds() < LIMIT_SECONDS => stored / 2,
            None => all / 4,
        };
        let written = rate.min(self.dirty);
        self.dirty -= written;
        self.drained += written;
    }

    /// Seconds until all is on the disk.
    pub fn seconds(&self) -> u64 {
        (self.dirty * SECTOR_BYTES).div_ceil(self.rate.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_in_write_back_only_and_a_flush_ends() {
        let mut dirt = Dirt::new(Mode::Writethrough, 0, RATE);
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 0);
        dirt.tell(Message::Mode(Mode::Writeback));
        for _ in 0..100 {
            dirt.tick(1_000, 10);
        }
        assert_eq!(dirt.dirty, 50_000);
        dirt.tell(Message::Flush(Flush::Start));
        dirt.tell(Message::Flush(Flush::Pause));
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 50_000);
        // Saying it again does not end the pause.
        dirt.tell(Message::Flush(Flush::Start));
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 50_000);
        dirt.tell(Message::Flush(Flush::Resume));
        for _ in 0..10 {
            dirt.tick(1_000, 10);
        }
        assert_eq!((dirt.dirty, dirt.drained), (0, 100_000));
        dirt.tell(Message::Flush(Flush::Stop));
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 500);
    }
}
