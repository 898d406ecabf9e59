// SPDX-License-Identifier: GPL-3.0-or-later
//! A simulated disk: sectors of 512 bytes in memory, a volatile write cache that only remembers what is not durable yet, and
//! errors on demand. Requests to it live in [`crate::queue`].

use crate::oracle::Time;
use crate::stamp::Stamp;

/// One disk.
pub struct Disk {
    content: Vec<Stamp>,
    /// When the last write to each sector was completed; 0 if that write is durable.
    completed: Vec<Time>,
    volatile: Vec<u32>,
    /// Of 65536 requests this many fail.
    pub failing: u32,
    /// Every request fails.
    pub dead: bool,
    /// Requests completed with success.
    pub flushes: u64,
    /// Requests completed with an error.
    pub errors: u64,
}

impl Disk {
    /// A disk whose sector `n` holds `content(n)`.
    pub fn new(sectors: u64, content: impl Fn(u64) -> Stamp) -> Disk {
        Disk {
            content: (0..sectors).map(content).collect(),
            completed: vec![0; sectors as usize],
            volatile: Vec::new(),
            failing: 0,
            dead: false,
            flushes: 0,
            errors: 0,
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

    /// Stores `buffer` from sector `first` on.
    pub fn write(&mut self, first: u64, buffer: &[Stamp]) {
        let first = first as usize;
        self.content[first..first + buffer.len()].copy_from_slice(buffer);
    }

    /// A write to `count` sectors from `first` was completed at `now`; it is durable at once if `fua`.
    pub fn write_completed(&mut self, first: u64, count: u64, fua: bool, now: Time) {
        for sector in first..first + count {
            let completed = &mut self.completed[sector as usize];
            if *completed == 0 && !fua {
                self.volatile.push(sector as u32);
            }
            // A sector that FUA made durable stays in the list until the next flush; 0 tells it apart.
            *completed = if fua { 0 } else { now };
        }
    }

    /// A flush that began at `start` was completed: what was completed before it is durable.
    pub fn flush_completed(&mut self, start: Time) {
        self.flushes += 1;
        let completed = &mut self.completed;
        self.volatile.retain(|&sector| {
            let at = &mut completed[sector as usize];
            if *at <= start {
                *at = 0;
            }
            *at != 0
        });
    }

    /// Sectors whose last write would be lost now, with what they hold.
    pub fn volatile(&self) -> impl Iterator<Item = (u64, Stamp)> {
        self.volatile
            .iter()
            .filter(|&&sector| self.completed[sector as usize] != 0)
            .map(|&sector| (u64::from(sector), self.content[sector as usize]))
    }

    /// The last write to this sector would be lost now.
    pub fn is_volatile(&self, sector: u64) -> bool {
        self.completed[sector as usize] != 0
    }
}
