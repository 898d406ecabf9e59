// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether dm-cache may go on with the copies of before. dm-cache does not notice that its disk was written without it.
//! So a stop in order notes samples of the disk on the SSD, where dm-tandem has its own (kmod/FORMAT.md, "Identity of the
//! disk"), and a start compares them with the disk. The module's own code makes and compares them.
//!
//! Samples have to show each use of the disk, and without the module nobody knows which quarters are written often. So only
//! file systems count that change a fixed quarter with each use.

use super::dm_cache::Layout;
use crate::machine::superblock::OFFSETS;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use tandem_api::SECTOR_BYTES;
use tandem_core::start::{BLOCK_BYTES, SuperCopy, Verdict};
use tandem_core::{Core, Geometry};

/// Bytes of the first block of dm-cache's metadata.
pub const METADATA_HEAD: usize = 4096;
/// What dm-cache writes there (drivers/md/dm-cache-metadata.c, `cache_disk_superblock`): place and value of the magic number, which is octal.
const MAGIC: (usize, u64) = (32, 0o6_142_003);
/// Place of the flags; the value if the target was stopped in order and asks for no check.
const FLAGS: (usize, u32) = (4, 1);
/// Places of the sectors of a block and of the number of blocks.
const BLOCK: usize = 232;
const BLOCKS: usize = 240;

/// Whether the metadata says that the target was stopped in order, with these areas.
pub fn was_closed(head: &[u8; METADATA_HEAD], layout: &Layout) -> bool {
    let word = |at: usize| {
        let bytes = head.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
    let blocks = layout.data.1 / layout.block;
    long(MAGIC.0) == Some(MAGIC.1)
        && word(FLAGS.0) == Some(FLAGS.1)
        && word(BLOCK).map(u64::from) == Some(layout.block)
        && word(BLOCKS).map(u64::from) == Some(blocks)
}

/// A cache: its UUID (32 hex digits), and the length of its disk in sectors.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    /// The UUID.
    pub uuid: &'a str,
    /// The length.
    pub sectors: u64,
}

impl Of<'_> {
    fn geometry(&self) -> Geometry {
        let mut geometry = Geometry {
            origin_sectors: self.sectors,
            ..Geometry::default()
        };
        let bytes = crate::unhex(self.uuid);
        geometry
            .uuid
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, byte)| *to = byte);
        geometry
    }
}

/// Memory for direct reads.
#[repr(align(4096))]
struct Aligned([u8; BLOCK_BYTES]);

/// A quarter of the disk, read past the page cache if the file does that.
fn quarter(disk: &File, sector: u64) -> io::Result<[u8; BLOCK_BYTES]> {
    let mut memory = Aligned([0; BLOCK_BYTES]);
    disk.read_exact_at(&mut memory.0, sector * SECTOR_BYTES)?;
    Ok(memory.0)
}

/// The disk as the module's code reads it, and whether a read has failed.
struct Disk<'a> {
    file: &'a File,
    failed: Cell<bool>,
}

impl<'a> Disk<'a> {
    fn new(file: &'a File) -> Self {
        Self {
            file,
            failed: Cell::new(false),
        }
    }

    fn quarter(&self, sector: u64) -> Option<[u8; BLOCK_BYTES]> {
        let read = quarter(self.file, sector);
        self.failed.set(self.failed.get() || read.is_err());
        read.ok()
    }

    /// # Errors
    /// If a read has failed.
    fn all_read(&self) -> io::Result<()> {
        match self.failed.get() {
            true => Err(io::Error::other("the disk cannot be read")),
            false => Ok(()),
        }
    }
}

/// What each mount of ext2, ext3 and ext4 for writing changes, and nothing else does but a repair: the time of the last mount, and how
/// often the file system was mounted since its last check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastMount {
    time: u32,
    count: u16,
}

/// The last mount of the file system on a disk; nothing for another file system than ext.
///
/// # Errors
/// If the disk cannot be read.
pub fn last_mount(disk: &File) -> io::Result<Option<LastMount>> {
    let first = quarter(disk, 0)?;
    // The superblock is at byte 1024: `s_mtime`, `s_mnt_count` and `s_magic`.
    let bytes = first.get(1024 + 44..1024 + 58);
    let &[t0, t1, t2, t3, .., c0, c1, _, _, 0x53, 0xef] = bytes.unwrap_or_default() else {
        return Ok(None);
    };
    Ok(Some(LastMount {
        time: u32::from_le_bytes([t0, t1, t2, t3]),
        count: u16::from_le_bytes([c0, c1]),
    }))
}

/// Where a copy of the samples begins.
fn places() -> [u64; 2] {
    OFFSETS.map(|offset| offset + BLOCK_BYTES as u64)
}

/// Whether a file system of ext was left in order, or it is another file system. A mount for writing clears this state, and an
/// unmount or a remount as read-only sets it again, but not after an error: then copies and disk may differ.
fn is_in_order(first: &[u8; BLOCK_BYTES]) -> bool {
    // `s_magic`, `s_state` and `s_feature_incompat` of the superblock at byte 1024.
    let (Some(state), Some(features)) = (
        first.get(1024 + 56..1024 + 60),
        first.get(1024 + 96..1024 + 100),
    ) else {
        return false;
    };
    const VALID: u8 = 1;
    const ERROR: u8 = 2;
    const RECOVER: u8 = 4;
    match (state, features) {
        (&[0x53, 0xef, state, _], &[features, ..]) => {
            state & (VALID | ERROR) == VALID && features & RECOVER == 0
        }
        _ => true,
    }
}

/// Notes what is on the disk. The cache was stopped in order, and all that was written is durable on the disk. False: a use
/// of this disk's content may change none of the samples, or its file system was not left in order, and nothing is noted.
///
/// # Errors
/// If the disk cannot be read, or the SSD cannot be written.
pub fn note(disk: &File, ssd: &File, cache: Of<'_>) -> io::Result<bool> {
    let (core, geometry, disk) = (Core::linked(), cache.geometry(), Disk::new(disk));
    let read = |sector| disk.quarter(sector);
    let in_order = read(0).is_some_and(|first| is_in_order(&first));
    let shows = in_order && core.samples_show_uses(cache.sectors, &read);
    let copies = [0, 1].map(|copy| core.encode_samples(&geometry, true, copy, &read));
    disk.all_read()?;
    if !shows {
        return Ok(false);
    }
    for (bytes, at) in copies.iter().zip(places()) {
        ssd.write_all_at(bytes, at)?;
        ssd.sync_all()?;
    }
    Ok(true)
}

/// Forgets what was noted, durably: the cache gets into use.
///
/// # Errors
/// If the SSD cannot be written.
pub fn forget(ssd: &File) -> io::Result<()> {
    for at in places() {
        ssd.write_all_at(&[0; BLOCK_BYTES], at)?;
    }
    ssd.sync_all()
}

/// Whether the disk is as a stop in order has noted.
///
/// # Errors
/// If the disk or the SSD cannot be read.
pub fn is_as_noted(disk: &File, ssd: &File, cache: Of<'_>) -> io::Result<bool> {
    let (core, geometry, disk) = (Core::linked(), cache.geometry(), Disk::new(disk));
    let mut copies: [SuperCopy; 2] = [[0; 2 * BLOCK_BYTES]; 2];
    for (copy, at) in copies.iter_mut().zip(OFFSETS) {
        ssd.read_exact_at(copy, at)?;
    }
    let samples = core.choose_samples(&copies, &geometry);
    let read = |sector| disk.quarter(sector);
    let same = samples.is_stopped()
        && core.samples_show_uses(cache.sectors, &read)
        && core.compare(&samples, &read) == Verdict::Same;
    disk.all_read()?;
    Ok(same)
}

#[cfg(test)]
pub(super) mod tests;
