// SPDX-License-Identifier: GPL-3.0-or-later
//! The checks in C, of a linked core or of a loaded one; the declarations of `shim/checks.h`.

use std::ffi::{c_char, c_void};

use crate::engine::{Core, Geometry, text};

/// A function that remembers a state of the explorer; true if it was met before.
type Met = unsafe extern "C" fn(context: *mut c_void, state: u64) -> bool;

/// `struct sim_full`
#[repr(C)]
struct RawFull {
    _opaque: [u8; 0],
}

/// `struct sim_checks`
#[repr(C)]
struct Table {
    torn: unsafe extern "C" fn(u64) -> u64,
    identity: unsafe extern "C" fn(u64) -> u64,
    lives: unsafe extern "C" fn(u64) -> u64,
    places: unsafe extern "C" fn(u64) -> u64,
    resized: unsafe extern "C" fn(u64) -> u64,
    full_new: unsafe extern "C" fn(*const Geometry) -> *mut RawFull,
    full_read: unsafe extern "C" fn(*const RawFull, u64, u32, *mut u8),
    full_free: unsafe extern "C" fn(*mut RawFull),
    scenarios: unsafe extern "C" fn() -> u32,
    scenario_name: unsafe extern "C" fn(u32) -> *const c_char,
    scenario_run: unsafe extern "C" fn(
        u32,
        *mut u8,
        *mut u8,
        usize,
        usize,
        Met,
        *mut c_void,
        *mut usize,
        *mut *const c_char,
    ) -> u32,
}

unsafe extern "C" {
    fn tandem_sim_checks() -> *const Table;
}

/// The checks that were built with a core. The core keeps its library loaded.
pub struct Checks {
    table: *const Table,
    _core: Core,
}

impl Checks {
    /// The checks of this core.
    ///
    /// # Panics
    /// If the core was loaded from a library that was built without checks.
    #[allow(clippy::expect_used, reason = "a test tool")]
    pub fn of(core: &Core) -> Checks {
        // SAFETY: the symbol has this type in checks.h, and returns a constant of the library, which the core keeps.
        let table = unsafe {
            match core.library() {
                None => tandem_sim_checks(),
                Some(library) => library
                    .get::<unsafe extern "C" fn() -> *const Table>(b"tandem_sim_checks\0")
                    .expect("native::library() builds core with the checks")(
                ),
            }
        };
        Checks {
            table,
            _core: core.clone(),
        }
    }

    fn table(&self) -> &Table {
        // SAFETY: a constant of the program, or of the library that the core keeps.
        unsafe { &*self.table }
    }

    /// Cuts each write of metadata at each sector; returns how many cuts. As the next two, ends the program if something differs.
    pub fn torn(&self, seed: u64) -> u64 {
        // SAFETY: takes a number, and shares nothing between threads.
        unsafe { (self.table().torn)(seed) }
    }

    /// Takes and compares samples of a disk; returns how many.
    pub fn identity(&self, seed: u64) -> u64 {
        // SAFETY: as above.
        unsafe { (self.table().identity)(seed) }
    }

    /// Superblocks and samples through several lives, each of their writes cut at each sector, the disk exchanged in between;
    /// returns how many cuts.
    pub fn lives(&self, seed: u64) -> u64 {
        // SAFETY: as above.
        unsafe { (self.table().lives)(seed) }
    }

    /// A cache that gets other sizes of its SSD, each write of it cut; returns how many cuts.
    pub fn resized(&self, seed: u64) -> u64 {
        // SAFETY: as above.
        unsafe { (self.table().resized)(seed) }
    }

    /// Superblocks of file systems; returns how many were known.
    pub fn places(&self, seed: u64) -> u64 {
        // SAFETY: as above.
        unsafe { (self.table().places)(seed) }
    }

    /// Names of the scenarios of the explorer.
    pub fn scenario_names(&self) -> Vec<String> {
        // SAFETY: in range, and the names are constants.
        unsafe {
            (0..(self.table().scenarios)())
                .map(|which| text((self.table().scenario_name)(which)))
                .collect()
        }
    }

    /// Runs a scenario with the first `given` decisions of `choices`; returns the decisions taken and what was wrong. `met` is asked at each new decision whether its state was met before.
    pub fn scenario_run<F: FnMut(u64) -> bool>(
        &self,
        scenario: u32,
        choices: &mut [u8],
        widths: &mut [u8],
        given: usize,
        mut met: F,
    ) -> (usize, Option<String>) {
        unsafe extern "C" fn call<F: FnMut(u64) -> bool>(context: *mut c_void, state: u64) -> bool {
            // SAFETY: the context is the closure below, borrowed for the run only.
            unsafe { (*context.cast::<F>())(state) }
        }
        let room = choices.len().min(widths.len());
        let mut taken = 0;
        let mut why = std::ptr::null();
        // SAFETY: both arrays have `room` elements; one scenario runs at a time since the caller is one thread: the explorer
        // locks.
        unsafe {
            (self.table().scenario_run)(
                scenario,
                choices.as_mut_ptr(),
                widths.as_mut_ptr(),
                given,
                room,
                call::<F>,
                (&raw mut met).cast(),
                &mut taken,
                &mut why,
            );
        }
        // SAFETY: a constant or NULL.
        let why = if why.is_null() {
            None
        } else {
            Some(unsafe { text(why) })
        };
        (taken, why)
    }
}

/// The index of a cache that is full, as the SSD has it.
pub struct Full {
    checks: Checks,
    raw: *mut RawFull,
}

// SAFETY (all calls below): the raw pointer is good until it is dropped, and the buffer has room for what is read.
impl Full {
    /// Of a cache of these sizes.
    pub fn new(core: &Core, geometry: &Geometry) -> Full {
        let checks = Checks::of(core);
        let raw = unsafe { (checks.table().full_new)(geometry) };
        Full { checks, raw }
    }

    /// Fills `bytes` with what is from this sector on.
    pub fn read(&self, sector: u64, bytes: &mut [u8]) {
        let sectors = (bytes.len() / 512) as u32;
        unsafe { (self.checks.table().full_read)(self.raw, sector, sectors, bytes.as_mut_ptr()) }
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        unsafe { (self.checks.table().full_free)(self.raw) }
    }
}
