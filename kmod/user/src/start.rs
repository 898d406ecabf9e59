// SPDX-License-Identifier: GPL-3.0-or-later
//! What a start of the module reads before the index: superblocks, and samples of the disk.

use std::ffi::c_void;

use super::{Core, Engine, Geometry};
pub use crate::ffi::{RETIRED_ROOM, Retired};
use crate::ffi::{RawSamples, ReadQuarter, TRACES_MAX, Trace};

/// Sectors of the SSD at which the two copies lie.
pub const COPIES: [u64; 2] = [0, 1024];

/// Sectors of one copy: the superblock, and the samples behind it.
pub const COPY_SECTORS: u64 = 16;

/// Bytes of a superblock, and of a block of samples.
pub const BLOCK_BYTES: usize = 4096;

/// Sectors of a quarter.
const QUARTER_SECTORS: u64 = (BLOCK_BYTES / 512) as u64;

/// One copy.
pub type SuperCopy = [u8; 2 * BLOCK_BYTES];

/// Reads the 4096 bytes of the disk that begin at a sector; `None` if they cannot be read.
pub type Quarter<'a> = &'a dyn Fn(u64) -> Option<[u8; BLOCK_BYTES]>;

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

/// A sound superblock.
#[derive(Clone, Copy, Debug)]
pub struct Superblock {
    /// Which cache this is, and where the regions are.
    pub geometry: Geometry,
    /// Incompatible flags of both copies.
    pub flags: Flags,
    /// Slots in which nothing is stored any more.
    pub retired: Retired,
}

impl Retired {
    /// Of these slots, in ascending order; no more than [`RETIRED_ROOM`] are taken.
    pub fn of(slots: &[u32]) -> Self {
        let mut retired = Self::default();
        let count = slots.len().min(RETIRED_ROOM);
        retired.slots[..count].copy_from_slice(&slots[..count]);
        retired.count = count as u32;
        retired
    }

    /// The slots.
    pub fn slots(&self) -> &[u32] {
        &self.slots[..(self.count as usize).min(RETIRED_ROOM)]
    }
}

/// Checksums of some quarters of the disk, or the note that the cache runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples(RawSamples);

impl Samples {
    /// The note that the cache runs, which replaces `self` and says nothing of the disk.
    pub fn running(&self) -> Self {
        Self(RawSamples {
            sequence: self.0.sequence.wrapping_add(1),
            ..RawSamples::default()
        })
    }

    /// The cache was stopped, and the disk was sampled.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped
    }

    /// Each writing use of the disk changes a place whose trace is known.
    pub fn is_sure(&self) -> bool {
        self.0.sure
    }

    /// The watched places with the two checksums that each of their sectors may have.
    pub fn traces(&self) -> &[Trace] {
        &self.0.trace[..(self.0.traces as usize).min(TRACES_MAX)]
    }

    /// Of two sound copies the higher number counts.
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    pub(crate) fn raw(&self) -> &RawSamples {
        &self.0
    }

    /// How many quarters of the disk have a checksum.
    pub fn count(&self) -> u32 {
        self.0.count
    }
}

unsafe extern "C" fn read_quarter(context: *mut c_void, sector: u64, bytes: *mut u8) -> bool {
    // SAFETY: the context is the reference that the caller below borrows for its call; core's buffer has room for a quarter.
    unsafe {
        let read = *context.cast::<Quarter<'_>>();
        let quarter = read(sector);
        if let Some(quarter) = quarter {
            bytes.copy_from_nonoverlapping(quarter.as_ptr(), BLOCK_BYTES);
        }
        quarter.is_some()
    }
}

const READ: ReadQuarter = read_quarter;

/// The second block of a copy.
fn samples_of(copy: &SuperCopy) -> *const u8 {
    copy[BLOCK_BYTES..].as_ptr()
}

// SAFETY (all calls below): core reads and writes no more of each buffer than its type has, and keeps no pointer.
impl Core {
    /// The newer sound one of the two copies. `block_sectors`: logical block of the SSD.
    ///
    /// # Errors
    /// Core takes neither copy.
    pub fn choose_super(
        &self,
        copies: &[SuperCopy; 2],
        block_sectors: u32,
    ) -> Result<Superblock, SuperError> {
        let mut superblock = Superblock {
            geometry: Geometry {
                block_sectors,
                ..Geometry::default()
            },
            flags: Flags(0),
            retired: Retired::default(),
        };
        let error = unsafe {
            (self.api.super_choose)(
                copies[0].as_ptr(),
                copies[1].as_ptr(),
                &mut superblock.geometry,
                &mut superblock.flags.0,
                &mut superblock.retired,
            )
        };
        SuperError::of(error).map_or(Ok(superblock), Err)
    }

    /// Whether a cache has the identity and the disk's size of `wanted`, and fits on an SSD of its size.
    ///
    /// # Errors
    /// What differs.
    pub fn match_super(&self, found: &Geometry, wanted: &Geometry) -> Result<(), SuperError> {
        let error = unsafe { (self.api.super_match)(found, wanted) };
        SuperError::of(error).map_or(Ok(()), Err)
    }

    /// The geometry and flags that a start with disks of these sizes takes from the two copies.
    ///
    /// # Errors
    /// Core takes neither copy.
    pub fn read_super(
        &self,
        copies: &[SuperCopy; 2],
        wanted: &Geometry,
    ) -> Result<(Geometry, Flags), SuperError> {
        let found = self.choose_super(copies, wanted.block_sectors)?;
        self.match_super(&found.geometry, wanted)?;
        Ok((found.geometry, found.flags))
    }

    /// Which of the two superblocks are sound.
    pub fn sound_supers(&self, copies: &[SuperCopy; 2]) -> [bool; 2] {
        [0, 1].map(|copy| unsafe { (self.api.super_is_sound)(copies[copy].as_ptr(), copy as u32) })
    }

    /// One copy of a superblock.
    pub fn write_super(&self, superblock: &Superblock, copy: u32) -> [u8; BLOCK_BYTES] {
        let Superblock {
            geometry,
            flags,
            retired,
        } = superblock;
        let mut bytes = [0; BLOCK_BYTES];
        unsafe { (self.api.super_write)(geometry, flags.0, retired, copy, bytes.as_mut_ptr()) };
        bytes
    }

    /// One copy of the superblock of a cache without retired slots.
    pub fn encode_super(&self, geometry: &Geometry, flags: Flags, copy: u32) -> [u8; BLOCK_BYTES] {
        let superblock = Superblock {
            geometry: *geometry,
            flags,
            retired: Retired::default(),
        };
        self.write_super(&superblock, copy)
    }

    /// The newer sound samples of the two copies; those of a running cache if none are sound.
    pub fn choose_samples(&self, copies: &[SuperCopy; 2], geometry: &Geometry) -> Samples {
        self.choose_readable_samples([Some(&copies[0]), Some(&copies[1])], geometry)
    }

    /// The same; `None`: a copy with samples that the SSD cannot read. That one may be the newer one.
    pub fn choose_readable_samples(
        &self,
        copies: [Option<&SuperCopy>; 2],
        geometry: &Geometry,
    ) -> Samples {
        let mut samples = Samples::default();
        let [first, second] = copies.map(|copy| copy.map_or(std::ptr::null(), samples_of));
        unsafe { (self.api.samples_choose)(first, second, geometry, &mut samples.0) };
        samples
    }

    /// Whether the disk is as the samples and the traces say.
    pub fn compare(&self, samples: &Samples, mut read: Quarter<'_>) -> Verdict {
        let mut samples = *samples;
        let context = (&raw mut read).cast();
        match unsafe { (self.api.samples_probe)(&mut samples.0, true, READ, context) } {
            0 => Verdict::Same,
            1 => Verdict::Changed,
            _ => Verdict::Unknown,
        }
    }

    /// As a start of the module compares: after a crash, also the places that are always sampled, and the hot ones, with
    /// their clean copies. `ssd` reads a quarter of the SSD.
    pub fn compare_at_start(
        &self,
        samples: &Samples,
        engine: &Engine,
        mut ssd: Quarter<'_>,
        disk: Quarter<'_>,
    ) -> Verdict {
        let mut samples = *samples;
        let context = (&raw mut ssd).cast();
        let (raw, geometry) = (engine.raw.cast_const(), engine.geometry());
        unsafe { (self.api.samples_at_start)(raw, geometry, &mut samples.0, READ, context) };
        self.compare(&samples, disk)
    }

    /// The note that the cache runs, to replace `before`. The note tells a use of the disk from now on: it says what is on the
    /// disk now, and what `will` is there soon, at the places that were watched, and at those that are always sampled as far as
    /// there is room. It does not say that each use changes one of these places.
    pub fn note_of_run(
        &self,
        before: &Samples,
        engine: &Engine,
        disk: Quarter<'_>,
        will: Quarter<'_>,
    ) -> Samples {
        let mut note = before.running();
        unsafe { (self.api.samples_pick)(engine.raw.cast_const(), engine.geometry(), &mut note.0) };
        let sampled = &note.0.sample[..(note.0.count as usize).min(note.0.sample.len())];
        let watched = before.traces().iter().map(|trace| trace.quarter);
        let mut places: Vec<u64> = Vec::new();
        for place in watched.chain(sampled.iter().map(|sample| sample.quarter)) {
            if places.len() < TRACES_MAX && !places.contains(&place) {
                places.push(place);
            }
        }
        for quarter in places {
            let sector = quarter * QUARTER_SECTORS;
            let Some(now) = disk(sector) else { continue };
            note.0.trace[note.0.traces as usize] = Trace {
                quarter,
                was: self.sums_of(&now),
                will: self.sums_of(&will(sector).unwrap_or(now)),
            };
            note.0.traces += 1;
        }
        note
    }

    /// The sums of the sectors of a quarter.
    fn sums_of(&self, quarter: &[u8; BLOCK_BYTES]) -> [u32; 8] {
        let mut sums = [0; 8];
        unsafe { (self.api.sums_of)(quarter.as_ptr(), sums.as_mut_ptr()) };
        sums
    }

    /// Samples of a disk that is flushed, to replace `before`: the usual quarters, and those that the engine wrote.
    pub fn sample(
        &self,
        before: &Samples,
        geometry: &Geometry,
        engine: Option<&Engine>,
        mut read: Quarter<'_>,
    ) -> Samples {
        let mut samples = before.running();
        let context = (&raw mut read).cast();
        let engine = engine.map_or(std::ptr::null(), |engine| engine.raw.cast_const());
        unsafe {
            (self.api.samples_pick)(engine, geometry, &mut samples.0);
            (self.api.samples_probe)(&mut samples.0, false, READ, context);
        }
        samples
    }

    /// The engine takes the places that are sampled for those of most use, before its first request.
    pub fn resume_heat(&self, engine: &Engine, samples: &Samples) {
        unsafe { (self.api.heat_resume)(engine.raw, &samples.0) };
    }

    /// Whether each use of the disk's file system changes a quarter that [`Self::sample`] always takes: that of ext2, ext3 and
    /// ext4, and of Btrfs on one disk. False if a quarter that tells this cannot be read. kmod/FORMAT.md has the exceptions.
    pub fn samples_show_uses(&self, origin_sectors: u64, read: Quarter<'_>) -> bool {
        let homes = [0, 16].map(|quarter| read(quarter * QUARTER_SECTORS));
        let [Some(first), Some(btrfs)] = homes else {
            return false;
        };
        unsafe { (self.api.samples_show_uses)(first.as_ptr(), btrfs.as_ptr(), origin_sectors) }
    }

    /// One copy of these samples.
    pub fn write_samples(
        &self,
        samples: &Samples,
        geometry: &Geometry,
        copy: u32,
    ) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        unsafe { (self.api.samples_write)(&samples.0, geometry, copy, bytes.as_mut_ptr()) };
        bytes
    }

    /// One copy of the samples of a cache: those of the disk if the cache is stopped, else none.
    pub fn encode_samples(
        &self,
        geometry: &Geometry,
        stopped: bool,
        copy: u32,
        read: Quarter<'_>,
    ) -> [u8; BLOCK_BYTES] {
        let before = Samples::default();
        let samples = if stopped {
            self.sample(&before, geometry, None, read)
        } else {
            before.running()
        };
        self.write_samples(&samples, geometry, copy)
    }
}
