// SPDX-License-Identifier: GPL-3.0-or-later
//! What a rescue needs of a disk. Tests put disks in between that fail or lose power.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a sector, the unit of all places and lengths.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of a quarter, the smallest piece that is on the SSD or not, and of a block of metadata.
pub const BLOCK_BYTES: usize = 4096;

/// A disk or an image of one. Places are in sectors.
pub trait Medium {
    /// What the user calls it, for messages.
    fn name(&self) -> &str;

    /// Length.
    fn sectors(&self) -> u64;

    /// Fills `bytes` from this sector on.
    ///
    /// # Errors
    /// If one of the sectors cannot be read.
    fn read(&self, sector: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` from this sector on. They are durable after the next flush.
    ///
    /// # Errors
    /// If the medium refuses. A medium may report the error at the next flush instead.
    fn write(&self, sector: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// If something that was written is not durable.
    fn flush(&self) -> io::Result<()>;
}

/// An open device or image.
pub struct Opened {
    /// The file.
    pub file: File,
    /// Length in sectors.
    pub sectors: u64,
    /// As the user named it.
    pub name: String,
}

impl Medium for Opened {
    fn name(&self) -> &str {
        &self.name
    }

    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read(&self, sector: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, sector * SECTOR_BYTES)
    }

    fn write(&self, sector: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, sector * SECTOR_BYTES)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
