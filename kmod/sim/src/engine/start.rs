// SPDX-License-Identifier: GPL-3.0-or-later
//! What a start of the module reads before the index: superblocks, and samples of the disk.

use std::ffi::c_void;

use super::{Core, Geometry};
use crate::ffi::ReadQuarter;

/// Sectors of the SSD at which the two copies lie.
pub const COPIES: [u64; 2] = [0, 1024];

/// Sectors of one copy: the superblock, and the samples behind it.
pub const COPY_SECTORS: u64 = 16;

/// Bytes of a superblock, and of a block of samples.
pub const BLOCK_BYTES: usize = 4096;

/// One copy.
pub type SuperCopy = [u8; 2 * BLOCK_BYTES];

/// Reads the 4096 bytes of the disk that begin at a sector.
pub type Quarter<'a> = &'a dyn Fn(u64) -> [u8; BLOCK_BYTES];

/// `enum td_super_error`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum SuperError {
    Blank,
    Foreign,
    Overwritten,
    Damaged,
    Version,
    Feature,
    Geometry,
    SsdSize,
    OtherCache,
    OtherDisk,
    DiskSize,
    /// A number that is not in this list.
    Unknown,
}

impl SuperError {
    fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => return None,
            1 => Self::Blank,
            2 => Self::Foreign,
            3 => Self::Overwritten,
            4 => Self::Damaged,
            5 => Self::Version,
            6 => Self::Feature,
            7 => Self::Geometry,
            8 => Self::SsdSize,
            9 => Self::OtherCache,
            10 => Self::OtherDisk,
            11 => Self::DiskSize,
            _ => Self::Unknown,
        })
    }
}

/// Incompatible flags of a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(pub u32);

#[allow(missing_docs)]
impl Flags {
    pub const CLEAN: u32 = 1;
    pub const COLD: u32 = 2;

    pub fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}

/// What the samples on the SSD say of the disk: `enum td_verdict_of_disk`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Verdict {
    Same,
    Changed,
    /// The cache was not stopped, or has no samples.
    Unknown,
}

unsafe extern "C" fn read_quarter(context: *mut c_void, sector: u64, bytes: *mut u8) {
    // SAFETY: the context is the reference that the caller below borrows for its call; core's buffer has room for a quarter.
    unsafe {
        let read = *context.cast::<Quarter<'_>>();
        let quarter = read(sector);
        bytes.copy_from_nonoverlapping(quarter.as_ptr(), BLOCK_BYTES);
    }
}

const READ: ReadQuarter = read_quarter;

// SAFETY (all calls below): core reads and writes no more of each buffer than its type has, and keeps no pointer.
impl Core {
    /// The geometry and flags that a start with disks of these sizes takes from the two copies.
    ///
    /// # Errors
    /// Core takes neither copy.
    pub fn read_super(
        &self,
        copies: &[SuperCopy; 2],
        wanted: &Geometry,
    ) -> Result<(Geometry, Flags), SuperError> {
        let mut geometry = *wanted;
        let mut flags = 0;
        let error = unsafe {
            (self.api.super_read)(
                copies[0].as_ptr(),
                copies[1].as_ptr(),
                wanted.origin_sectors,
                wanted.ssd_sectors,
                &mut geometry,
                &mut flags,
            )
        };
        match SuperError::of(error) {
            None => Ok((geometry, Flags(flags))),
            Some(error) => Err(error),
        }
    }

    /// Which of the two superblocks are sound.
    pub fn sound_supers(&self, copies: &[SuperCopy; 2]) -> [bool; 2] {
        [0, 1].map(|copy| unsafe { (self.api.super_is_sound)(copies[copy].as_ptr(), copy as u32) })
    }

    /// One copy of the superblock of a cache.
    pub fn encode_super(&self, geometry: &Geometry, flags: Flags, copy: u32) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        unsafe { (self.api.super_write)(geometry, flags.0, copy, bytes.as_mut_ptr()) };
        bytes
    }

    /// Whether the disk is the one that the samples of the two copies were taken of.
    pub fn compare_samples(
        &self,
        copies: &[SuperCopy; 2],
        geometry: &Geometry,
        mut read: Quarter<'_>,
    ) -> Verdict {
        let context = (&raw mut read).cast();
        match unsafe {
            (self.api.samples_compare)(
                copies[0].as_ptr(),
                copies[1].as_ptr(),
                geometry,
                READ,
                context,
            )
        } {
            0 => Verdict::Same,
            1 => Verdict::Changed,
            _ => Verdict::Unknown,
        }
    }

    /// One copy of the samples of a cache: those of the disk if the cache is stopped, else none.
    pub fn encode_samples(
        &self,
        geometry: &Geometry,
        stopped: bool,
        copy: u32,
        mut read: Quarter<'_>,
    ) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        let context = (&raw mut read).cast();
        unsafe {
            (self.api.samples_write)(geometry, stopped, copy, READ, context, bytes.as_mut_ptr());
        }
        bytes
    }
}
