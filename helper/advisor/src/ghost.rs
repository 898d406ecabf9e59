// SPDX-License-Identifier: GPL-3.0-or-later
//! `shim/ghost.h` behind safe calls: core's index and policy for a sample of the groups of a cache that does not exist.

use std::ffi::c_void;
use std::ptr::NonNull;

// The shim calls core, which this crate links.
use tandem_core as _;

/// Sectors of a frame.
pub const FRAME: u64 = 32;
/// `TD_FRAMES_MAX`
const FRAMES_MAX: usize = 64;

/// `struct tdg_shape`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostShape {
    pub disk_sectors: u64,
    pub groups: u32,
    pub kept: u32,
    pub run_shift: u32,
    pub way_shift: u32,
}

/// `struct tdg_missed`: the pieces of a read that missed.
#[repr(C)]
#[derive(Clone)]
pub struct Missed {
    count: u32,
    first: [u64; FRAMES_MAX],
    last: [u64; FRAMES_MAX],
}

impl Missed {
    /// All of a range.
    pub fn all(sector: u64, count: u32) -> Self {
        let mut missed = Self {
            count: 1,
            first: [0; FRAMES_MAX],
            last: [0; FRAMES_MAX],
        };
        missed.first[0] = sector / FRAME;
        missed.last[0] = (sector + u64::from(count) - 1) / FRAME;
        missed
    }
}

unsafe extern "C" {
    fn tdg_new(shape: *const GhostShape) -> *mut c_void;
    fn tdg_free(ghost: *mut c_void);
    fn tdg_double(ghost: *const c_void) -> *mut c_void;
    fn tdg_group(ghost: *const c_void, sector: u64) -> u32;
    fn tdg_has_room(ghost: *const c_void, sector: u64, count: u32) -> bool;
    fn tdg_read(ghost: *mut c_void, sector: u64, count: u32, missed: *mut Missed) -> u32;
    fn tdg_write(ghost: *mut c_void, sector: u64, count: u32, stream: bool);
    fn tdg_streams(ghost: *mut c_void, sector: u64, count: u32) -> bool;
    fn tdg_discard(ghost: *mut c_void, sector: u64, end: u64);
    fn tdg_pass(ghost: *mut c_void, missed: *const Missed) -> bool;
    fn tdg_saved_count(ghost: *const c_void) -> u64;
    fn tdg_save(ghost: *const c_void, numbers: *mut u64);
    fn tdg_restore(ghost: *mut c_void, numbers: *const u64) -> bool;
    fn tdg_memory(ghost: *const c_void) -> u64;
}

/// A sample of a cache.
pub struct Ghost {
    raw: NonNull<c_void>,
    shape: GhostShape,
}

// SAFETY: the shim has no state outside the ghost, which has one owner.
unsafe impl Send for Ghost {}

impl Drop for Ghost {
    fn drop(&mut self) {
        // SAFETY: made by the shim, used no more.
        unsafe { tdg_free(self.raw.as_ptr()) }
    }
}

/// A range in one run of the disk.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub sector: u64,
    pub count: u32,
}

// SAFETY (all calls below): the ghost lives and one thread uses it. `Advisor` cuts requests at the ends of runs and at the end
// of the disk; `group()` is asked before what needs a kept group.
impl Ghost {
    /// An empty one; `None` without memory.
    pub fn new(shape: GhostShape) -> Option<Self> {
        let raw = NonNull::new(unsafe { tdg_new(&shape) })?;
        Some(Self { raw, shape })
    }

    /// Of a cache of twice the groups, with what this one has of those that are kept, which are as many; `None` without memory.
    pub fn double(&self) -> Option<Self> {
        let raw = NonNull::new(unsafe { tdg_double(self.raw.as_ptr()) })?;
        let shape = GhostShape {
            groups: self.shape.groups * 2,
            ..self.shape
        };
        Some(Self { raw, shape })
    }

    pub fn shape(&self) -> &GhostShape {
        &self.shape
    }

    /// Sectors of the whole cache.
    pub fn sectors(&self) -> u64 {
        let frames = u64::from(self.shape.groups) << (self.shape.run_shift + self.shape.way_shift);
        frames * FRAME
    }

    /// The share of all runs that it keeps.
    pub fn rate(&self) -> f64 {
        f64::from(self.shape.kept) / f64::from(self.shape.groups)
    }

    /// The kept group that the run of a sector belongs to.
    pub fn group(&self, sector: u64) -> Option<usize> {
        let group = unsafe { tdg_group(self.raw.as_ptr(), sector) };
        (group < self.shape.kept).then_some(group as usize)
    }

    /// All of a piece of a kept group can be stored without giving up anything.
    pub fn has_room(&self, piece: Piece) -> bool {
        unsafe { tdg_has_room(self.raw.as_ptr(), piece.sector, piece.count) }
    }

    /// Reads a piece of a kept group; returns the sectors that hit.
    pub fn read(&mut self, piece: Piece, missed: &mut Missed) -> u32 {
        unsafe { tdg_read(self.raw.as_ptr(), piece.sector, piece.count, missed) }
    }

    /// Writes a piece of a kept group.
    pub fn write(&mut self, piece: Piece, stream: bool) {
        unsafe { tdg_write(self.raw.as_ptr(), piece.sector, piece.count, stream) }
    }

    /// Forgets any range of the disk.
    pub fn discard(&mut self, sector: u64, end: u64) {
        if sector < end {
            unsafe { tdg_discard(self.raw.as_ptr(), sector, end) }
        }
    }

    /// The detector of streams sees reads of other groups; true if the last is part of a stream.
    pub fn pass(&mut self, missed: &Missed) -> bool {
        unsafe { tdg_pass(self.raw.as_ptr(), missed) }
    }

    /// The detector of streams sees a write of any group; true if the write goes past the SSD as part of a stream.
    pub fn streams(&mut self, piece: Piece) -> bool {
        unsafe { tdg_streams(self.raw.as_ptr(), piece.sector, piece.count) }
    }

    /// How many numbers [`Ghost::save`] gives.
    pub fn saved_count(&self) -> usize {
        unsafe { tdg_saved_count(self.raw.as_ptr()) as usize }
    }

    /// All that it knows.
    pub fn save(&self) -> Vec<u64> {
        let mut numbers = vec![0; self.saved_count()];
        unsafe { tdg_save(self.raw.as_ptr(), numbers.as_mut_ptr()) };
        numbers
    }

    /// A ghost of this shape from what [`Ghost::save`] gave; `None` if that cannot be.
    pub fn restore(shape: GhostShape, numbers: &[u64]) -> Option<Self> {
        let ghost = Self::new(shape)?;
        let fits = numbers.len() == ghost.saved_count();
        (fits && unsafe { tdg_restore(ghost.raw.as_ptr(), numbers.as_ptr()) }).then_some(ghost)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> u64 {
        unsafe { tdg_memory(self.raw.as_ptr()) }
    }
}
