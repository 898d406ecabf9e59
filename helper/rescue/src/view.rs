// SPDX-License-Identifier: GPL-3.0-or-later
//! What the cached device would show: the disk, with the dirty data of the SSD over it.

use std::io;

use crate::order::{FRAME_SECTORS, QUARTER_SECTORS};
use crate::{Cache, Medium, SECTOR_BYTES};

/// A disk and its SSD as one device. Nothing is written.
pub struct View<'a> {
    cache: &'a Cache,
    ssd: &'a dyn Medium,
    disk: &'a dyn Medium,
}

impl<'a> View<'a> {
    /// What both show together.
    pub fn new(cache: &'a Cache, ssd: &'a dyn Medium, disk: &'a dyn Medium) -> Self {
        Self { cache, ssd, disk }
    }

    /// Length in sectors: that of the disk when the cache was made.
    pub fn sectors(&self) -> u64 {
        self.cache.disk_sectors()
    }

    /// Fills `bytes`, a whole number of sectors within the device, from this sector on.
    ///
    /// # Errors
    /// If the disk cannot be read, or the SSD where it has the only copy.
    pub fn read(&self, sector: u64, bytes: &mut [u8]) -> io::Result<()> {
        let end = sector + bytes.len() as u64 / SECTOR_BYTES;
        let mut at = sector;
        while at < end {
            let (place, next) = self.piece(at, end);
            let from = ((at - sector) * SECTOR_BYTES) as usize;
            let to = ((next - sector) * SECTOR_BYTES) as usize;
            match place {
                Some(on_ssd) => self.ssd.read(on_ssd, &mut bytes[from..to])?,
                None => self.disk.read(at, &mut bytes[from..to])?,
            }
            at = next;
        }
        Ok(())
    }

    /// Where `at` lies on the SSD, if it is dirty, and the first sector behind it that lies elsewhere, at most `end`.
    fn piece(&self, at: u64, end: u64) -> (Option<u64>, u64) {
        let first = self.place(at);
        let mut next = behind_quarter(at);
        while next < end {
            let expected = first.map(|first| first + (next - at));
            if self.place(next) != expected {
                break;
            }
            next = behind_quarter(next);
        }
        (first, next.min(end))
    }

    /// Where a sector lies on the SSD, if it is dirty.
    fn place(&self, sector: u64) -> Option<u64> {
        let slot = self.cache.engine.find(sector / FRAME_SECTORS)?;
        let inside = sector % FRAME_SECTORS;
        let dirty = self.cache.engine.word(slot).dirty >> (inside / QUARTER_SECTORS) & 1 != 0;
        let start = self.cache.engine.layout().data_start;
        dirty.then(|| start + u64::from(slot) * FRAME_SECTORS + inside)
    }
}

fn behind_quarter(sector: u64) -> u64 {
    (sector / QUARTER_SECTORS + 1) * QUARTER_SECTORS
}
