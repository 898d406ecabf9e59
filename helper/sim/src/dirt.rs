// SPDX-License-Identifier: GPL-3.0-or-later
//! What is on a simulated SSD only: it grows with what is written in write-back, and goes to the disk
//! at a rate, all at once in a flush, otherwise beside the work.

use super::counters::Flow;
use super::world::{Map, Scene, number};
use tandem_api::{CacheState, Failure, Kind, Mode, SECTOR_BYTES};
use tandem_helper::dm::message::{Flush, Message};

/// Bytes a second that the disk takes.
pub const RATE: u64 = 50_000_000;
/// Seconds to drain at which no more stays on the SSD, as the module has it.
const LIMIT_SECONDS: u64 = 30;
/// What a file system writes while it is unmounted: superblock, journal, and what was not flushed.
const UNMOUNT_SECTORS: u64 = 64;
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
    /// The disk takes no writes, and has said so often.
    pub refused: bool,
    pub disk_errors: u64,
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
            refused: false,
            disk_errors: 0,
        }
    }

    /// What the module makes of a message.
    pub fn send_message(&mut self, message: Message) {
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

    /// Sectors are stored on the SSD, and in write-back there only as long as there is room.
    pub fn written(&mut self, sectors: u64) {
        let writes = self.mode == Mode::Writeback && self.flush.is_none();
        if writes && self.seconds() < LIMIT_SECONDS {
            self.dirty += sectors;
            self.accepted += sectors;
            self.commits += 1;
        }
    }

    /// One of `ticks` parts of a second passes, in which this many sectors are stored on the SSD.
    pub fn tick(&mut self, stored: u64, ticks: u64) {
        let all = self.rate / SECTOR_BYTES / ticks;
        let writes = self.mode == Mode::Writeback && self.flush.is_none();
        self.written(stored);
        let rate = match self.flush {
            Some(true) => 0,
            Some(false) => all,
            // Beside the work, and slower than data comes, until the limit is near.
            None if writes && self.seconds() < LIMIT_SECONDS => stored / 2,
            None => all / 4,
        };
        let tried = rate.min(self.dirty);
        self.disk_errors += u64::from(self.refused && tried > 0);
        let written = if self.refused { 0 } else { tried };
        self.dirty -= written;
        self.drained += written;
    }

    /// Seconds until all is on the disk.
    pub fn seconds(&self) -> u64 {
        (self.dirty * SECTOR_BYTES).div_ceil(self.rate.max(1))
    }
}

impl Map {
    /// Its SSD is gone: it is frozen where it was.
    pub fn lose_ssd(&mut self) {
        self.load.catch_up();
        self.load.dirt.send_message(Message::Flush(Flush::Start));
        self.load.dirt.send_message(Message::Flush(Flush::Pause));
        let dirty = self.load.dirt.dirty > 0;
        let reason = if dirty { "ssd-gone-dirty" } else { "ssd-error" };
        self.set_state(CacheState::Bypass, reason);
    }

    /// Changes the state, and what becomes of requests.
    pub fn set_state(&mut self, state: CacheState, reason: &str) {
        self.load.set_flow(Flow::of(state, reason));
        self.state = state;
        self.reason = reason.to_owned();
    }
}

impl Scene {
    /// What the module makes of a message.
    pub fn send_message(&mut self, uuid: &str, message: Message) -> Result<(), Failure> {
        let map = self.maps.get_mut(uuid).filter(|map| map.attached);
        let map = map.ok_or_else(|| Failure::new(Kind::StepFailed).detail("no such mapping"))?;
        map.load.catch_up();
        map.load.dirt.send_message(message);
        Ok(())
    }

    /// A file system writes while it is unmounted, through the mapping that this device is.
    pub fn written_by_unmount(&mut self, name: &str) {
        if let Some(map) = self.maps.values_mut().find(|map| map.dm == name)
            && map.attached
            && map.state == CacheState::Active
        {
            map.load.catch_up();
            map.load.dirt.written(UNMOUNT_SECTORS);
        }
    }

    /// A mapping whose disk was pulled serves no request any more, also if the disk is plugged in again: then the disk is
    /// another device.
    pub fn halt_orphans(&mut self) {
        let there: Vec<String> = self.blocks.values().map(number).collect();
        let orphans = self.maps.values_mut();
        for map in orphans.filter(|map| !there.contains(&map.origin)) {
            map.load.set_flow(Flow::Halted);
        }
    }

    /// What is on the SSD only stays there when its mapping goes.
    pub fn keep_dirt(&mut self, uuid: &str) {
        let Some(map) = self.maps.get_mut(uuid).filter(|map| map.attached) else {
            return;
        };
        map.load.catch_up();
        let dirty = std::mem::take(&mut map.load.dirt.dirty);
        let warm = map.load.frames();
        let ssd = map.pair.ssd.clone();
        // Plugged in again, it is another device of the same name.
        let name = self.locate(&ssd).unwrap_or(ssd.text.name);
        match self.blocks.get_mut(&name) {
            Some(block) => (block.dirty, block.warm) = (dirty, warm),
            None => self.lost += dirty,
        }
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
        dirt.send_message(Message::Mode(Mode::Writeback));
        for _ in 0..100 {
            dirt.tick(1_000, 10);
        }
        assert_eq!(dirt.dirty, 50_000);
        dirt.send_message(Message::Flush(Flush::Start));
        dirt.send_message(Message::Flush(Flush::Pause));
        dirt.tick(1_000, 10);
        assert_eq!(dirt.dirty, 50_000);
        // Saying it again does not end the pause.
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
