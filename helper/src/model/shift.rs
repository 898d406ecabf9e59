// SPDX-License-Identifier: GPL-3.0-or-later
//! A partition that is to begin later: at the file system of a bcache device, which lies behind the superblock of bcache.

use serde::{Deserialize, Serialize};

/// How the start of a partition moves. Its end, its number and all other words of the partition table stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shift {
    /// Number of the partition in its table.
    pub number: u32,
    /// Bytes of a sector of the table, which is the logical block of the disk. The other places are in such sectors.
    pub sector_bytes: u64,
    /// First sector now.
    pub start: u64,
    /// Sectors now.
    pub size: u64,
    /// Sectors by which the start moves: all of them are before the file system.
    pub by: u64,
    /// What lies there, and is found there before and after the move.
    pub content: Content,
}

/// A file system or another format, as blkid names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The type, such as `ext4`.
    pub format: String,
    /// The UUID in the format; never empty.
    pub uuid: String,
}

impl Shift {
    /// First sector and sectors of the partition, as it is moved.
    pub fn moved(&self) -> (u64, u64) {
        (self.start + self.by, self.size - self.by)
    }

    /// Bytes by which the start moves.
    pub fn bytes(&self) -> u64 {
        self.by * self.sector_bytes
    }
}
