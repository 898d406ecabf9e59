// SPDX-License-Identifier: GPL-3.0-or-later
//! The dirty data of a simulated cache. Writes in write-back add to it. The cache writes it to the disk at a limited
//! rate: at the full rate during a flush, otherwise at a part of the rate.

use tandem_api::{DirtyLimit, Mode, SECTOR_BYTES};
use tandem_helper::machine::dm::message::{Flush, Message};

/// Bytes a second that a disk accepts at first.
pub const RATE: u64 = 50_000_000;
/// Blocks of the simulated journal.
pub const JOURNAL_BLOCKS: u64 = 4_096;

/// The dirty data of one cache.
#[derive(Debug, Clone)]
pub struct Dirt {
    pub mode: Mode,
    /// `Some`: a flush is under way; true: it is paused.
    pub flush: Option<bool>,
    /// Bytes a second that the disk accepts.
    pub rate: u64,
    /// Sectors that are on the SSD only.
    pub dirty: u64,
    /// Sectors that were written to the disk after they had been on the SSD only.
    pub drained: u64,
    /// Sectors of writes that were acknowledged when only the SSD had them.
    pub accepted: u64,
    pub commits: u64,
    pub limit: DirtyLimit,
    /// The cache stores nothing new.
    pub paused: bool,
    /// The disk fails every write.
    pub refused: bool,
    pub disk_errors: u64,
}

impl Dirt {
    /// A cache that is assembled now, with so many dirty sectors on its SSD.
    pub fn new(mode: Mode, dirty: u64, rate: u64) -> Self {
        Self {
            mode,
            flush: None,
            rate,
            dirty,
            drained: 0,
            accepted: 0,
            commits: 0,
            limit: DirtyLimit::default(),
            paused: false,
            refused: false,
            disk_errors: 0,
        }
    }

    /// Changes the state as the module does at this message.
    pub fn send_message(&mut self, message: Message) {
        match message {
            Message::Mode(mode) => self.mode = mode,
            Message::Flush(Flush::Start) => {
                self.flush.get_or_insert(false);
            }
            Message::Flush(Flush::Pause) => self.flush = self.flush.map(|_| true),
            Message::Flush(Flush::Resume) => self.flush = self.flush.map(|_| false),
            Message::Flush(Flush::Stop) => self.flush = None,
            Message::DirtyLimit(limit) => self.limit = limit,
            Message::Promotion(on) => self.paused = !on,
            // No write to a simulated cache waits for the record of a loss.
            Message::LossRecorded => {}
        }
    }

    /// The SSD stores so many sectors. In write-back they are dirty, as long as the limit is not reached.
    pub fn written(&mut self, sectors: u64) {
        let writes = self.mode == Mode::Writeback && self.flush.is_none();
        if writes && self.is_below_limit() {
            self.dirty += sectors;
            self.accepted += sectors;
            self.commits += 1;
        }
    }

    /// A tick passes, in which the SSD stores `stored` sectors. A second has `ticks` ticks.
    pub fn tick(&mut self, stored: u64, ticks: u64) {
        let all = self.rate / SECTOR_BYTES / ticks;
        let writes = self.mode == Mode::Writeback && self.flush.is_none();
        self.written(stored);
        let rate = match self.flush {
            Some(true) => 0,
            Some(false) => all,
            // Below the limit, the cache writes back less than it stores.
            None if writes && self.is_below_limit() => stored / 2,
            None => all / 4,
        };
        let tried = rate.min(self.dirty);
        self.disk_errors += u64::from(self.refused && tried > 0);
        let written = if self.refused { 0 } else { tried };
        self.dirty -= written;
        self.drained += written;
    }

    /// Whether more may get dirty. Beyond the limit writes go to the disk as well.
    fn is_below_limit(&self) -> bool {
        let DirtyLimit { seconds, bytes, .. } = self.limit;
        self.seconds() < u64::from(seconds) && (bytes == 0 || self.dirty * SECTOR_BYTES < bytes)
    }

    /// Seconds that a drain would take.
    pub fn seconds(&self) -> u64 {
        (self.dirty * SECTOR_BYTES).div_ceil(self.rate.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_data_grows_in_write_back_only_and_a_flush_ends() {
        let mut dirt = Dirt::new(Mode::Writethrough, 0, RATE);
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 0);
        dirt.send_message(Message::Mode(Mode::Writeback));
        for _ in 0..100 {
            dirt.tick(1_000, 10);
        }
        assert_eq!(dirt.dirty, 50_000);
        dirt.send_message(Message::Flush(Flush::Start));
        dirt.send_message(Message::Flush(Flush::Pause));
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 50_000);
        // A second start of the flush does not end the pause.
        dirt.send_message(Message::Flush(Flush::Start));
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 50_000);
        dirt.send_message(Message::Flush(Flush::Resume));
        for _ in 0..10 {
            dirt.tick(1_000, 10);
        }
        assert_eq!((dirt.dirty, dirt.drained), (0, 100_000));
        dirt.send_message(Message::Flush(Flush::Stop));
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 500);
    }
}
