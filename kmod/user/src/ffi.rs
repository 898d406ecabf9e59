// SPDX-License-Identifier: GPL-3.0-or-later
//! The declarations of `shim/user.h` and of the structures of core that pass through it.

use std::ffi::{c_char, c_uint, c_void};

/// `TDU_API_VERSION`
#[cfg(feature = "load")]
pub const API_VERSION: u32 = 26;

/// `struct td_region`: sectors of the SSD.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Region {
    pub start: u64,
    pub length: u64,
}

/// `TD_ORIGIN_ID_BYTES`
pub const ORIGIN_ID_ROOM: usize = 64;

/// `struct tdu_geometry`: what a superblock says.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Geometry {
    pub origin_sectors: u64,
    pub ssd_sectors: u64,
    pub journal: Region,
    pub checkpoint: Region,
    pub intent: Region,
    pub data: Region,
    pub block_sectors: u32,
    pub groups: u32,
    pub run_shift: u32,
    pub way_shift: u32,
    pub sequence: u64,
    /// Whether a checkpoint writes only the pages that changed.
    pub parts: u32,
    /// Of the cache when it was made, before the SSD got another size; 0: the same as `groups`.
    pub made_groups: u32,
    /// 1 to [`ORIGIN_ID_ROOM`].
    pub origin_id_bytes: u32,
    pub uuid: [u8; 16],
    pub origin_id: [u8; ORIGIN_ID_ROOM],
}

/// No regions; the identity that all caches of the simulator have.
impl Default for Geometry {
    fn default() -> Self {
        let mut origin_id = [0; ORIGIN_ID_ROOM];
        origin_id[0] = 1;
        let mut uuid = [0; 16];
        uuid[0] = 1;
        let none = Region::default();
        Self {
            origin_sectors: 0,
            ssd_sectors: 0,
            journal: none,
            checkpoint: none,
            intent: none,
            data: none,
            block_sectors: 0,
            groups: 0,
            run_shift: 0,
            way_shift: 0,
            sequence: 1,
            parts: 1,
            made_groups: 0,
            origin_id_bytes: 1,
            uuid,
            origin_id,
        }
    }
}

/// `TD_PLACES_MAX`
pub(crate) const PLACES_ROOM: usize = 3;

/// `TD_RETIRED_MAX`
pub const RETIRED_ROOM: usize = 64;

/// `struct td_retired`: the slots in which nothing is stored any more.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    pub(crate) count: u32,
    pub(crate) slots: [u32; RETIRED_ROOM],
}

impl Default for Retired {
    fn default() -> Self {
        Self {
            count: 0,
            slots: [0; RETIRED_ROOM],
        }
    }
}

/// `struct td_sample`
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Sample {
    pub(crate) quarter: u64,
    sum: u32,
    heat: u32,
    unknown: bool,
}

/// `TD_SAMPLES_MAX`
const SAMPLES_MAX: usize = 96;

/// `TD_TRACES_MAX`
pub(crate) const TRACES_MAX: usize = 8;

/// `struct td_trace_sums`: a watched place, and the checksums that its sectors may have.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Trace {
    pub quarter: u64,
    pub was: [u32; 8],
    pub will: [u32; 8],
}

/// `struct td_samples`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawSamples {
    pub(crate) sequence: u64,
    pub(crate) stopped: bool,
    pub(crate) sure: bool,
    pub(crate) of_crcs: bool,
    pub(crate) count: u32,
    pub(crate) traces: u32,
    pub(crate) mark: u32,
    pub(crate) head: u32,
    pub(crate) sample: [Sample; SAMPLES_MAX],
    pub(crate) trace: [Trace; TRACES_MAX],
}

impl Default for RawSamples {
    fn default() -> Self {
        Self {
            sequence: 0,
            stopped: false,
            sure: false,
            of_crcs: false,
            count: 0,
            traces: 0,
            mark: 0,
            head: 0,
            sample: [Sample::default(); SAMPLES_MAX],
            trace: [Trace::default(); TRACES_MAX],
        }
    }
}

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
    pub made_lanes: u32,
    pub slots: u32,
    pub run_shift: u32,
    pub run_mask: u32,
    pub way_shift: u32,
    pub block_mask: u32,
    pub unusual: u32,
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
    pub dirty: u64,
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

/// `struct tdu_facts`: the ledger's state.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Facts {
    pub dirty: u64,
    pub group: u64,
    pub checkpoint: u64,
    pub ring_blocks: u32,
    pub head: u32,
    pub used: u32,
    pub pending: u32,
    pub marks_set: u32,
    pub inflight: u32,
    pub state: u32,
    pub urgent_frames: u64,
    pub urgent_left: u64,
    pub clean_frame: u64,
    pub clean_left: u64,
    pub regions: u32,
    pub region_frames: u32,
    pub sweep_on: bool,
    pub checkpoint_on: bool,
    pub urgent: bool,
}

/// `struct tdu_woken`: a request that may go on now.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Woken {
    pub id: u64,
    pub actions: u32,
}

/// `struct tdu_list`
#[repr(C)]
#[allow(missing_docs)]
pub struct List {
    pub woken: *mut Woken,
    pub room: u64,
    pub count: u64,
}

/// `struct tdu_engine`
#[repr(C)]
pub struct RawEngine {
    _opaque: [u8; 0],
}

/// `struct tdu_request`
#[repr(C)]
pub struct RawRequest {
    _opaque: [u8; 0],
}

/// `struct tdu_load`
#[repr(C)]
pub struct RawLoad {
    _opaque: [u8; 0],
}

/// Fills `bytes` with the 4096 bytes of the disk that begin at `sector`; false: they cannot be read.
pub type ReadQuarter =
    unsafe extern "C" fn(context: *mut c_void, sector: u64, bytes: *mut u8) -> bool;

/// A function of core that takes a request.
pub type Enter = unsafe extern "C" fn(*mut RawEngine, *mut RawRequest, *mut List) -> u32;

/// A completion told to core.
pub type Done = unsafe extern "C" fn(*mut RawEngine, *mut RawRequest, bool, *mut List) -> u32;

/// `struct tdu_api`
#[repr(C)]
#[allow(missing_docs)]
pub struct Api {
    pub version: u32,
    pub shown: u32,
    pub used: u32,
    pub why_memory_read: u32,
    pub why_memory_write: u32,
    pub counter_name: unsafe extern "C" fn(c_uint) -> *const c_char,
    pub plan: unsafe extern "C" fn(*mut Geometry) -> bool,
    pub layout: unsafe extern "C" fn(*const Geometry, *mut Layout),
    pub engine_new: unsafe extern "C" fn(*const Geometry, u32) -> *mut RawEngine,
    pub engine_free: unsafe extern "C" fn(*mut RawEngine),
    pub set_mode: unsafe extern "C" fn(*mut RawEngine, u32),
    pub set_limit: unsafe extern "C" fn(*mut RawEngine, u64),
    pub set_promotion: unsafe extern "C" fn(*mut RawEngine, bool),
    pub set_stream: unsafe extern "C" fn(*mut RawEngine, u32),
    pub facts: unsafe extern "C" fn(*mut RawEngine, *mut Facts),
    pub digest: unsafe extern "C" fn(*mut RawEngine) -> u64,
    pub counter: unsafe extern "C" fn(*mut RawEngine, u32) -> u64,
    pub words: unsafe extern "C" fn(*mut RawEngine, *mut u64),
    pub region_slots: unsafe extern "C" fn(*mut RawEngine, *mut u32),
    pub find: unsafe extern "C" fn(*mut RawEngine, u64) -> u32,
    pub word: unsafe extern "C" fn(*mut RawEngine, u32) -> u64,
    pub group_of: unsafe extern "C" fn(*mut RawEngine, u64) -> u32,
    pub read_look: unsafe extern "C" fn(*mut RawEngine, u64, u32, *mut Look) -> u32,
    pub disk_read_ends: unsafe extern "C" fn(*mut RawEngine),
    pub may_join: unsafe extern "C" fn(*mut RawEngine, u64) -> bool,
    pub join_fill: unsafe extern "C" fn(*mut RawEngine, u64, *mut u32, *mut u64, *mut bool) -> bool,
    pub write_streams: unsafe extern "C" fn(*mut RawEngine, u64, u32) -> bool,
    pub write_wants_copy: unsafe extern "C" fn(*mut RawEngine, u64, u32) -> bool,
    pub write_may_lend: unsafe extern "C" fn(*mut RawEngine, u64, u32) -> bool,
    pub write_in_place: unsafe extern "C" fn(*mut RawEngine, u64, u32, *mut u32) -> bool,
    pub write_home: unsafe extern "C" fn(*mut RawEngine, u64, u32, *mut u32) -> bool,
    pub write_home_done: unsafe extern "C" fn(*mut RawEngine, bool),
    pub span_of: unsafe extern "C" fn(*mut RawEngine, u32, u64, u32, *mut Span),
    pub pass: unsafe extern "C" fn(*mut RawEngine, u32, u32, u32),
    pub request_new:
        unsafe extern "C" fn(u64, u32, u64, u32, u32, bool, bool, bool, bool) -> *mut RawRequest,
    pub request_free: unsafe extern "C" fn(*mut RawRequest),
    pub request_span: unsafe extern "C" fn(*const RawRequest, *mut u64, *mut u32),
    pub request_failed: unsafe extern "C" fn(*const RawRequest) -> bool,
    pub begin: Enter,
    pub start: Enter,
    pub disk_done: Done,
    pub ssd_done: Done,
    pub next_rest: unsafe extern "C" fn(
        *mut RawEngine,
        *const RawRequest,
        *mut u32,
        *mut u64,
        *mut u32,
    ) -> bool,
    pub rest_read: Done,
    pub next_extent:
        unsafe extern "C" fn(*mut RawEngine, *const RawRequest, *mut u32, *mut Extent) -> bool,
    pub stores_durably: unsafe extern "C" fn(*const RawRequest) -> bool,
    pub unpin: unsafe extern "C" fn(*mut RawEngine, u32) -> bool,
    pub drained: unsafe extern "C" fn(*mut RawEngine, u64, u32, *mut u64, *mut List) -> u32,
    pub clean_seek:
        unsafe extern "C" fn(*mut RawEngine, bool, bool, u32, *mut u64, *mut u32) -> u32,
    pub urgent: unsafe extern "C" fn(*mut RawEngine, *mut u64, u64) -> u64,
    pub fail: unsafe extern "C" fn(*mut RawEngine, *mut List) -> bool,
    pub hit_failed: unsafe extern "C" fn(*mut RawEngine, u64, u32, u32, u64, *mut List) -> bool,
    pub set_retired: unsafe extern "C" fn(*mut RawEngine, *const u32, u32),
    pub retired: unsafe extern "C" fn(*mut RawEngine, *mut u32) -> u32,
    pub forget_group: unsafe extern "C" fn(*mut RawEngine, u32),
    pub sweep_at_once_begin: unsafe extern "C" fn(*mut RawEngine),
    pub sweep_at_once_end: unsafe extern "C" fn(*mut RawEngine),
    pub work_due: unsafe extern "C" fn(*mut RawEngine) -> bool,
    pub work_next: unsafe extern "C" fn(
        *mut RawEngine,
        *mut u32,
        *mut u64,
        *mut u32,
        *mut bool,
        *mut List,
    ) -> bool,
    pub work_fill: unsafe extern "C" fn(*mut RawEngine, u32),
    pub work_bytes: unsafe extern "C" fn(*mut RawEngine, u32, u32, u32, *mut u8),
    pub work_done: unsafe extern "C" fn(*mut RawEngine, u32, bool, *mut List) -> bool,
    pub tick: unsafe extern "C" fn(*mut RawEngine),
    pub trim_allow: unsafe extern "C" fn(*mut RawEngine, u32),
    pub summing: unsafe extern "C" fn(*const RawRequest) -> u64,
    pub summed:
        unsafe extern "C" fn(*mut RawEngine, *mut RawRequest, u32, *const u32, *mut List) -> u32,
    pub watch_resume: unsafe extern "C" fn(*mut RawEngine, *const RawSamples, bool),
    pub watch_asks: unsafe extern "C" fn(*mut RawEngine) -> bool,
    pub look_begin: unsafe extern "C" fn(*mut RawEngine) -> bool,
    pub look_end: unsafe extern "C" fn(*mut RawEngine, *const u64, u32) -> bool,
    pub learn_begin: unsafe extern "C" fn(*mut RawEngine, *mut u64) -> bool,
    pub learn_end: unsafe extern "C" fn(*mut RawEngine, u64, *const u32),
    pub load_new: unsafe extern "C" fn(*mut RawEngine) -> *mut RawLoad,
    pub load_next: unsafe extern "C" fn(*mut RawLoad, *mut u64, *mut u32) -> bool,
    pub load_feed: unsafe extern "C" fn(*mut RawLoad, *const u8),
    pub load_end: unsafe extern "C" fn(*mut RawLoad) -> u32,
    pub format_next:
        unsafe extern "C" fn(*const Geometry, u32, *mut u64, *mut u32, *mut *const u8) -> bool,
    pub super_choose:
        unsafe extern "C" fn(*const u8, *const u8, *mut Geometry, *mut u32, *mut Retired) -> u32,
    pub super_match: unsafe extern "C" fn(*const Geometry, *const Geometry) -> u32,
    pub super_is_sound: unsafe extern "C" fn(*const u8, u32) -> bool,
    pub super_write: unsafe extern "C" fn(*const Geometry, u32, *const Retired, u32, *mut u8),
    pub samples_choose:
        unsafe extern "C" fn(*const u8, *const u8, *const Geometry, *mut RawSamples),
    pub heat_resume: unsafe extern "C" fn(*mut RawEngine, *const RawSamples),
    pub samples_pick: unsafe extern "C" fn(*const RawEngine, *const Geometry, *mut RawSamples),
    pub samples_probe: unsafe extern "C" fn(*mut RawSamples, bool, ReadQuarter, *mut c_void) -> u32,
    pub samples_at_start: unsafe extern "C" fn(
        *const RawEngine,
        *const Geometry,
        *mut RawSamples,
        ReadQuarter,
        *mut c_void,
    ),
    pub sums_of: unsafe extern "C" fn(*const u8, *mut u32),
    pub samples_write: unsafe extern "C" fn(*const RawSamples, *const Geometry, u32, *mut u8),
    pub samples_show_uses: unsafe extern "C" fn(*const u8, *const u8, u64) -> bool,
}
