// SPDX-License-Identifier: GPL-3.0-or-later
//! The declarations of `shim/shim.h` and of the structures of core that pass through it.

use std::ffi::{c_char, c_uint, c_void};

/// `SIM_API_VERSION`
pub const API_VERSION: u32 = 1;

/// `struct td_layout`: where frames lie on the SSD. Units as in core/layout.h.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Layout {
    pub origin_sectors: u64,
    pub cached_sectors: u64,
    pub data_start: u64,
    pub groups: u32,
    pub lanes: u32,
    pub slots: u32,
    pub run_shift: u32,
    pub run_mask: u32,
    pub way_shift: u32,
    pub block_mask: u32,
}

/// `struct td_look`: what a read without lock found.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Look {
    pub count: u32,
    pub slot: u32,
    pub slots: u32,
    pub ssd_sector: u64,
}

/// `struct td_span`: the private memory that a request wants.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Span {
    pub sector: u64,
    pub quarters: u32,
    pub frames: u32,
}

/// `struct td_extent`: a piece to be stored on the SSD.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Extent {
    pub ssd_sector: u64,
    pub sector: u64,
    pub count: u32,
}

/// `struct sim_woken`: a request that may start now.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Woken {
    pub id: u64,
    pub actions: u32,
}

/// `struct sim_engine`
#[repr(C)]
pub struct RawEngine {
    _opaque: [u8; 0],
}

/// `struct sim_request`
#[repr(C)]
pub struct RawRequest {
    _opaque: [u8; 0],
}

/// Remembers a state of the explorer; true if it was met before.
pub type Met = unsafe extern "C" fn(context: *mut c_void, state: u64) -> bool;

/// `struct sim_api`
#[repr(C)]
#[allow(missing_docs)]
pub struct Api {
    pub version: u32,
    pub shown: u32,
    pub used: u32,
    pub why_memory_read: u32,
    pub why_memory_write: u32,
    pub counter_name: unsafe extern "C" fn(c_uint) -> *const c_char,
    pub plan: unsafe extern "C" fn(u64, u64, u32, *mut Layout) -> bool,
    pub engine_new: unsafe extern "C" fn(*const Layout, u32) -> *mut RawEngine,
    pub engine_free: unsafe extern "C" fn(*mut RawEngine),
    pub set_mode: unsafe extern "C" fn(*mut RawEngine, u32),
    pub active: unsafe extern "C" fn(*mut RawEngine) -> bool,
    pub counter: unsafe extern "C" fn(*mut RawEngine, u32) -> u64,
    pub word: unsafe extern "C" fn(*mut RawEngine, u32) -> u64,
    pub group_of: unsafe extern "C" fn(*mut RawEngine, u64) -> u32,
    pub bucket_of: unsafe extern "C" fn(*mut RawEngine, u64) -> u32,
    pub read_look: unsafe extern "C" fn(*mut RawEngine, u64, u32, *mut Look) -> u32,
    pub write_wants_copy: unsafe extern "C" fn(*mut RawEngine, u64, u32) -> bool,
    pub span_of: unsafe extern "C" fn(*mut RawEngine, u32, u64, u32, *mut Span),
    pub pass: unsafe extern "C" fn(*mut RawEngine, u32, u32, u32),
    pub request_new: unsafe extern "C" fn(u64, u32, u64, u32, u32, bool) -> *mut RawRequest,
    pub request_free: unsafe extern "C" fn(*mut RawRequest),
    pub request_span: unsafe extern "C" fn(*const RawRequest, *mut u64, *mut u32),
    pub begin: unsafe extern "C" fn(*mut RawEngine, *mut RawRequest) -> u32,
    pub disk_done: Done,
    pub ssd_done: Done,
    pub next_extent:
        unsafe extern "C" fn(*mut RawEngine, *const RawRequest, *mut u32, *mut Extent) -> bool,
    pub unpin: unsafe extern "C" fn(*mut RawEngine, u32) -> bool,
    pub drained: unsafe extern "C" fn(*mut RawEngine, u32, u32, *mut u64) -> u32,
    pub fail: unsafe extern "C" fn(*mut RawEngine) -> bool,
    pub hit_failed: unsafe extern "C" fn(*mut RawEngine, u32),
    pub forget_group: unsafe extern "C" fn(*mut RawEngine, u32),
    pub scenarios: unsafe extern "C" fn() -> u32,
    pub scenario_name: unsafe extern "C" fn(u32) -> *const c_char,
    pub scenario_run: unsafe extern "C" fn(
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

/// A completion told to core.
pub type Done = unsafe extern "C" fn(
    *mut RawEngine,
    *mut RawRequest,
    bool,
    *mut Woken,
    usize,
    *mut usize,
) -> u32;
