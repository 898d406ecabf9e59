// SPDX-License-Identifier: GPL-3.0-or-later
//! Core, the engine of the kernel module, in user space and behind safe calls. Only here and in [`start`] is `unsafe`.
//!
//! Core decides what is read and written and in which order; the caller carries it out. The simulator runs core on simulated
//! disks, the rescue program on real ones without the module.

mod ffi;
pub mod start;

use std::ffi::{CStr, c_char};
#[cfg(feature = "load")]
use std::{path::Path, rc::Rc};

#[cfg(feature = "load")]
use crate::ffi::API_VERSION;
use crate::ffi::{Api, Done, Enter, List, RawEngine, RawLoad, RawRequest, Woken};
pub use crate::ffi::{
    Extent, Facts, Geometry, Layout, Look, ORIGIN_ID_ROOM, RETIRED_ROOM, Region, Span,
};

/// What core wants done: bits of `TD_DO_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actions(pub u32);

#[allow(missing_docs)]
impl Actions {
    pub const DISK: u32 = 0x01;
    pub const SSD: u32 = 0x02;
    pub const ANSWER: u32 = 0x04;
    pub const RETRY: u32 = 0x08;
    pub const END: u32 = 0x10;
    pub const PASS: u32 = 0x20;
    pub const FETCH: u32 = 0x40;
    pub const START: u32 = 0x80;

    pub fn has(self, action: u32) -> bool {
        self.0 & action != 0
    }
}

/// The part of a word that the record repeats: tag, valid, dirty.
const RECORD: u64 = (1 << 44) - 1;

/// The fields of core's word, as core/word.h documents them.
#[allow(missing_docs)]
pub struct Word {
    pub tag: u64,
    pub valid: u64,
    pub dirty: u64,
    pub pins: u64,
    pub state: u64,
    pub held: bool,
    pub pending: bool,
    bits: u64,
}

impl Word {
    /// Takes these bits apart.
    pub fn of(bits: u64) -> Word {
        Word {
            tag: bits & 0xf_ffff_ffff,
            valid: bits >> 36 & 0xf,
            dirty: bits >> 40 & 0xf,
            pins: bits >> 44 & 0xfff,
            state: bits >> 58 & 3,
            held: bits >> 60 & 1 != 0,
            pending: bits >> 61 & 1 != 0,
            bits,
        }
    }

    /// What the record of the slot should say.
    pub fn record(&self) -> u64 {
        if self.valid == 0 {
            0
        } else {
            self.bits & RECORD
        }
    }

    /// How many quarters are newer than the disk.
    pub fn dirty_quarters(&self) -> u64 {
        u64::from(self.dirty.count_ones())
    }
}

/// `enum td_mode`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Mode {
    WriteThrough = 0,
    WriteAround = 1,
    WriteBack = 2,
}

/// `enum td_state`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum State {
    Active,
    Bypass,
    Stranded,
}

/// `enum td_kind`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ReqKind {
    Read = 0,
    Write = 1,
    Discard = 2,
    Flush = 3,
    Clean = 4,
}

/// `enum td_verdict`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Verdict {
    Hit,
    Miss,
    Pass,
    Busy,
}

/// `enum td_work_kind`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum WorkKind {
    Group,
    FlushSsd,
    FlushDisk,
    Marks,
    Pages,
    Head,
}

/// All kinds of work, in core's order.
pub const WORK_KINDS: [WorkKind; 6] = [
    WorkKind::Group,
    WorkKind::FlushSsd,
    WorkKind::FlushDisk,
    WorkKind::Marks,
    WorkKind::Pages,
    WorkKind::Head,
];

/// I/O of the ledger's own; sectors of the SSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Work {
    pub kind: WorkKind,
    pub first: u64,
    pub count: u64,
}

/// `enum td_load_error`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Loaded {
    Good,
    Damaged,
    Impossible,
}

/// `enum td_seek`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Seek {
    Nowhere,
    /// Sectors of the disk; 0 sectors: to the end of the run.
    Found {
        sector: u64,
        count: u64,
    },
    Further,
}

/// Requests that may go on, with their actions.
pub type Waking = Vec<(u64, Actions)>;

unsafe extern "C" {
    fn tandem_user_api() -> *const Api;
}

/// A build of core.
#[derive(Clone)]
pub struct Core {
    api: &'static Api,
    #[cfg(feature = "load")]
    library: Option<Rc<libloading::Library>>,
}

/// A build of core cannot be used.
#[cfg(feature = "load")]
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The dynamic linker refused.
    #[error("cannot load: {0}")]
    Load(#[from] libloading::Error),
    /// The library was built from another user.h.
    #[error("built from another version of this program")]
    Version,
}

impl Core {
    /// The one that this program was linked with.
    pub fn linked() -> Core {
        // SAFETY: returns a pointer to a constant.
        Core {
            api: unsafe { &*tandem_user_api() },
            #[cfg(feature = "load")]
            library: None,
        }
    }

    /// One in a library of its own.
    ///
    /// # Errors
    /// It is no such thing.
    #[cfg(feature = "load")]
    pub fn load(path: &Path) -> Result<Core, LoadError> {
        // SAFETY: the library has no constructors; the symbol has this type in user.h; the constant that it returns lives as
        // long as the library, which every copy of this structure keeps.
        unsafe {
            let library = libloading::Library::new(path)?;
            let symbol =
                library.get::<unsafe extern "C" fn() -> *const Api>(b"tandem_user_api\0")?;
            let api = &*symbol();
            if api.version != API_VERSION {
                return Err(LoadError::Version);
            }
            Ok(Core {
                api,
                library: Some(Rc::new(library)),
            })
        }
    }

    /// Completes `geometry`, which says the sizes of the disks, as a new superblock would; false if core refuses.
    pub fn plan(&self, geometry: &mut Geometry) -> bool {
        // SAFETY: a plain function of numbers that fills `geometry`.
        unsafe { (self.api.plan)(geometry) }
    }

    /// Where frames lie.
    pub fn layout(&self, geometry: &Geometry) -> Layout {
        let mut layout = Layout::default();
        // SAFETY: a plain function of numbers that fills `layout`.
        unsafe { (self.api.layout)(geometry, &mut layout) };
        layout
    }

    /// What has to be written for a new cache: first sector and bytes of each write.
    pub fn format(&self, geometry: &Geometry) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        let (mut sector, mut sectors, mut bytes) = (0, 0, std::ptr::null());
        // SAFETY: `bytes` has `sectors` sectors until the next call.
        while let step = all.len() as u32
            && unsafe {
                (self.api.format_next)(geometry, step, &mut sector, &mut sectors, &mut bytes)
            }
        {
            let bytes = unsafe { std::slice::from_raw_parts(bytes, sectors as usize * 512) };
            all.push((sector, bytes.to_vec()));
        }
        all
    }

    /// Names of the counters that status shows, in order.
    pub fn counter_names(&self) -> Vec<String> {
        // SAFETY: in range, and the names are constants.
        (0..self.api.shown)
            .map(|which| unsafe { text((self.api.counter_name)(which)) })
            .collect()
    }

    /// The library that this core was loaded from; `None` for the linked one.
    #[cfg(feature = "load")]
    pub fn library(&self) -> Option<&libloading::Library> {
        self.library.as_deref()
    }
}

/// A text of the library; empty for NULL.
///
/// # Safety
/// `string` is NULL or ends in a zero.
pub unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}

/// A request known to core. To be given back by [`Engine::end`].
pub struct Request(*mut RawRequest);

/// What a new request is.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct NewRequest {
    pub kind: ReqKind,
    pub sector: u64,
    pub count: u64,
    /// 0 means no private memory.
    pub parts: u32,
    /// There should have been some.
    pub no_memory: bool,
    pub fua: bool,
}

/// One cache.
pub struct Engine {
    core: Core,
    raw: *mut RawEngine,
    geometry: Geometry,
    layout: Layout,
    woken: Vec<Woken>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: made by engine_new, used no more.
        unsafe { (self.core.api.engine_free)(self.raw) }
    }
}

/// `TD_NO_SLOT`
const NO_SLOT: u32 = u32::MAX;

/// `TD_RETIRED_LIFE`
pub const RETIRED_LIFE: usize = 16;

/// Most requests that one completion may wake.
const WOKEN_ROOM: usize = 4096;

// SAFETY (all calls below): the engine lives, one thread uses it, and numbers are in the ranges that engine.h names, which
// the simulator sees to and the sanitizers check.
impl Engine {
    /// An empty cache.
    pub fn new(core: &Core, geometry: Geometry, mode: Mode) -> Engine {
        let raw = unsafe { (core.api.engine_new)(&geometry, mode as u32) };
        Engine {
            core: core.clone(),
            raw,
            geometry,
            layout: core.layout(&geometry),
            woken: vec![Woken::default(); WOKEN_ROOM],
        }
    }

    /// Which core this is.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// What its superblock says.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where frames lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: Mode) {
        unsafe { (self.core.api.set_mode)(self.raw, mode as u32) }
    }

    /// So many quarters may be dirty.
    pub fn set_limit(&mut self, quarters: u64) {
        unsafe { (self.core.api.set_limit)(self.raw, quarters) }
    }

    /// The ledger's state.
    pub fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        unsafe { (self.core.api.facts)(self.raw, &mut facts) };
        facts
    }

    /// Whether the SSD is in use.
    pub fn state(&self) -> State {
        match self.facts().state {
            0 => State::Active,
            1 => State::Bypass,
            _ => State::Stranded,
        }
    }

    /// A number for core's state, without counters and policy.
    pub fn digest(&self) -> u64 {
        unsafe { (self.core.api.digest)(self.raw) }
    }

    /// Values of the counters that status shows.
    pub fn counters(&self) -> Vec<u64> {
        (0..self.core.api.shown)
            .map(|which| unsafe { (self.core.api.counter)(self.raw, which) })
            .collect()
    }

    /// Slots in use, as core counts.
    pub fn used(&self) -> u64 {
        unsafe { (self.core.api.counter)(self.raw, self.core.api.used) }
    }

    /// The words of all slots.
    pub fn words(&self) -> Vec<u64> {
        let mut words = vec![0; self.layout.slots as usize];
        unsafe { (self.core.api.words)(self.raw, words.as_mut_ptr()) };
        words
    }

    /// The slot that holds a frame of the disk.
    pub fn find(&self, frame: u64) -> Option<u32> {
        let slot = unsafe { (self.core.api.find)(self.raw, frame) };
        (slot != NO_SLOT).then_some(slot)
    }

    /// The word of a slot.
    pub fn word(&self, slot: u32) -> Word {
        assert!(slot < self.layout.slots);
        Word::of(unsafe { (self.core.api.word)(self.raw, slot) })
    }

    /// The group of a sector's run.
    pub fn group_of(&self, sector: u64) -> u32 {
        unsafe { (self.core.api.group_of)(self.raw, sector) }
    }

    /// Looks a read up.
    pub fn look(&mut self, sector: u64, count: u64) -> (Verdict, Look) {
        let mut look = Look::default();
        let verdict =
            match unsafe { (self.core.api.read_look)(self.raw, sector, count as u32, &mut look) } {
                0 => Verdict::Hit,
                1 => Verdict::Miss,
                2 => Verdict::Pass,
                _ => Verdict::Busy,
            };
        (verdict, look)
    }

    /// A read is answered of which [`Engine::look`] said that the disk may answer it.
    pub fn disk_read_ends(&mut self) {
        unsafe { (self.core.api.disk_read_ends)(self.raw) }
    }

    /// A write should bring private memory.
    pub fn wants_copy(&mut self, sector: u64, count: u64) -> bool {
        unsafe { (self.core.api.write_wants_copy)(self.raw, sector, count as u32) }
    }

    /// The slot that a whole write may go to as it is, if there is no memory for a copy; it is pinned.
    pub fn write_in_place(&mut self, sector: u64, count: u64) -> Option<u32> {
        let mut slot = 0;
        unsafe { (self.core.api.write_in_place)(self.raw, sector, count as u32, &mut slot) }
            .then_some(slot)
    }

    /// The slot that a whole write may go to as it is; it is pinned.
    pub fn write_home(&mut self, sector: u64, count: u64) -> Option<u32> {
        let mut slot = 0;
        unsafe { (self.core.api.write_home)(self.raw, sector, count as u32, &mut slot) }
            .then_some(slot)
    }

    /// Such a write has come back from the SSD.
    pub fn write_home_done(&mut self, ok: bool) {
        unsafe { (self.core.api.write_home_done)(self.raw, ok) }
    }

    /// The private memory for a request.
    pub fn span(&self, kind: ReqKind, sector: u64, count: u64) -> Span {
        let mut span = Span::default();
        unsafe { (self.core.api.span_of)(self.raw, kind as u32, sector, count as u32, &mut span) };
        span
    }

    /// There was no memory for this request; it goes past the cache.
    pub fn pass_for_memory(&mut self, kind: ReqKind, count: u64) {
        let api = self.core.api;
        let why = if kind == ReqKind::Read {
            api.why_memory_read
        } else {
            api.why_memory_write
        };
        unsafe { (api.pass)(self.raw, kind as u32, count as u32, why) }
    }

    /// A request that [`Engine::begin`] will take.
    pub fn request(&self, id: u64, new: NewRequest) -> Request {
        let NewRequest {
            kind,
            sector,
            count,
            parts,
            no_memory,
            fua,
        } = new;
        Request(unsafe {
            (self.core.api.request_new)(
                id,
                kind as u32,
                sector,
                count as u32,
                parts,
                no_memory,
                fua,
            )
        })
    }

    /// Frees a request that core has forgotten.
    pub fn end(&self, request: Request) {
        unsafe { (self.core.api.request_free)(request.0) }
    }

    /// What it reads from or writes to the disk: first sector and count.
    pub fn disk_span(&self, request: &Request) -> (u64, u64) {
        let (mut sector, mut count) = (0, 0);
        unsafe { (self.core.api.request_span)(request.0, &mut sector, &mut count) };
        (sector, u64::from(count))
    }

    /// It has to be answered with an error.
    pub fn failed(&self, request: &Request) -> bool {
        unsafe { (self.core.api.request_failed)(request.0) }
    }

    /// Calls with a list of requests to be woken.
    fn waking<T>(
        &mut self,
        call: impl FnOnce(&Api, *mut RawEngine, &mut List) -> T,
    ) -> (T, Waking) {
        let mut list = List {
            woken: self.woken.as_mut_ptr(),
            room: WOKEN_ROOM as u64,
            count: 0,
        };
        let result = call(self.core.api, self.raw, &mut list);
        let woken = &self.woken[..list.count as usize];
        let woken = woken.iter().map(|woken| (woken.id, Actions(woken.actions)));
        (result, woken.collect())
    }

    /// Hands the request to core.
    pub fn begin(&mut self, request: &Request) -> (Actions, Waking) {
        self.enter(self.core.api.begin, request)
    }

    /// The request that was woken with START goes on.
    pub fn start(&mut self, request: &Request) -> (Actions, Waking) {
        self.enter(self.core.api.start, request)
    }

    fn enter(&mut self, enter: Enter, request: &Request) -> (Actions, Waking) {
        self.waking(|_, raw, list| Actions(unsafe { enter(raw, request.0, list) }))
    }

    /// Its disk I/O ended.
    pub fn disk_done(&mut self, request: &Request, ok: bool) -> (Actions, Waking) {
        self.done(self.core.api.disk_done, request, ok)
    }

    /// All its SSD I/O ended.
    pub fn ssd_done(&mut self, request: &Request, ok: bool) -> (Actions, Waking) {
        self.done(self.core.api.ssd_done, request, ok)
    }

    fn done(&mut self, done: Done, request: &Request, ok: bool) -> (Actions, Waking) {
        self.waking(|_, raw, list| Actions(unsafe { done(raw, request.0, ok, list) }))
    }

    /// What the request stores on the SSD, or fetches from there.
    pub fn extents(&self, request: &Request) -> Vec<Extent> {
        let mut cursor = 0;
        let mut all = Vec::new();
        let mut extent = Extent::default();
        while unsafe { (self.core.api.next_extent)(self.raw, request.0, &mut cursor, &mut extent) }
        {
            all.push(extent);
        }
        all
    }

    /// A read of the slot ended; true if [`Engine::drained`] must be told.
    pub fn unpin(&mut self, slot: u32) -> bool {
        assert!(slot < self.layout.slots);
        unsafe { (self.core.api.unpin)(self.raw, slot) }
    }

    /// The last pin went from a slot that was read at `sector`. Returns the request whose turn it is, if any, with its
    /// actions, and the requests that were woken.
    pub fn drained(&mut self, sector: u64, slot: u32) -> (Option<(u64, Actions)>, Waking) {
        let mut owner = 0;
        let (actions, woken) = self
            .waking(|api, raw, list| unsafe { (api.drained)(raw, sector, slot, &mut owner, list) });
        ((actions != 0).then_some((owner, Actions(actions))), woken)
    }

    /// Searches for data to clean, and looks at no more than `looks` frames. With `all` the search is not limited to
    /// data that a write waits for. With `on` the search continues after the answer "further".
    pub fn clean_seek(&mut self, all: bool, on: bool, looks: u32) -> Seek {
        let (mut sector, mut count) = (0, 0);
        let seek = unsafe {
            (self.core.api.clean_seek)(self.raw, all, on, looks, &mut sector, &mut count)
        };
        match seek {
            0 => Seek::Nowhere,
            1 => Seek::Found {
                sector,
                count: u64::from(count),
            },
            _ => Seek::Further,
        }
    }

    /// The writes that wait for a cleaning.
    pub fn urgent(&self) -> Vec<u64> {
        let mut ids = vec![0; WOKEN_ROOM];
        let room = ids.len() as u64;
        let count = unsafe { (self.core.api.urgent)(self.raw, ids.as_mut_ptr(), room) };
        ids.truncate(count as usize);
        ids
    }

    /// The SSD failed.
    pub fn fail(&mut self) -> Waking {
        self.waking(|api, raw, list| unsafe { (api.fail)(raw, list) })
            .1
    }

    /// A hit of `count` sectors failed, its slots from `slot` on are still pinned; true if the disk is to be read instead.
    pub fn hit_failed(&mut self, sector: u64, count: u64, slot: u32, dirty: u64) -> (bool, Waking) {
        let count = count as u32;
        self.waking(|api, raw, list| unsafe {
            (api.hit_failed)(raw, sector, count, slot, dirty, list)
        })
    }

    /// Slots in which nothing is stored any more, as the superblocks say; before the index is loaded.
    pub fn set_retired(&mut self, slots: &[u32]) {
        assert!(slots.len() <= RETIRED_ROOM);
        unsafe { (self.core.api.set_retired)(self.raw, slots.as_ptr(), slots.len() as u32) }
    }

    /// Slots in which nothing is stored any more.
    pub fn retired(&self) -> Vec<u32> {
        let mut slots = vec![0; RETIRED_ROOM];
        let count = unsafe { (self.core.api.retired)(self.raw, slots.as_mut_ptr()) };
        slots.truncate(count as usize);
        slots
    }

    /// Forgets all clean copies of a group.
    pub fn forget_group(&mut self, group: u32) {
        unsafe { (self.core.api.forget_group)(self.raw, group) }
    }

    /// The ledger has I/O of its own.
    pub fn work_due(&self) -> bool {
        unsafe { (self.core.api.work_due)(self.raw) }
    }

    /// The ledger's next I/O.
    pub fn work_next(&mut self) -> (Option<Work>, Waking) {
        self.waking(|api, raw, list| {
            let (mut kind, mut sector, mut sectors) = (0, 0, 0);
            unsafe { (api.work_next)(raw, &mut kind, &mut sector, &mut sectors, list) }.then(|| {
                Work {
                    kind: WORK_KINDS[kind as usize],
                    first: sector,
                    count: u64::from(sectors),
                }
            })
        })
    }

    /// What the work under way is to write, from its sector `from` on.
    pub fn work_bytes(&self, kind: WorkKind, from: u64, bytes: &mut [[u8; 512]]) {
        let count = bytes.len() as u32;
        let room = bytes.as_mut_ptr().cast();
        unsafe { (self.core.api.work_bytes)(self.raw, kind as u32, from as u32, count, room) }
    }

    /// The work of this kind ended.
    pub fn work_done(&mut self, kind: WorkKind, ok: bool) -> Waking {
        self.waking(|api, raw, list| unsafe { (api.work_done)(raw, kind as u32, ok, list) })
            .1
    }

    /// A second passed.
    pub fn tick(&mut self) {
        unsafe { (self.core.api.tick)(self.raw) }
    }

    /// Begins to load the index; the engine must be new.
    pub fn load(&mut self) -> Load<'_> {
        Load {
            raw: unsafe { (self.core.api.load_new)(self.raw) },
            engine: self,
            ended: false,
        }
    }
}

/// An index on its way from the SSD into memory.
pub struct Load<'a> {
    engine: &'a mut Engine,
    raw: *mut RawLoad,
    ended: bool,
}

// SAFETY (all calls below): the engine is borrowed, and the raw pointer is good until `load_end`, which is called once.
impl Load<'_> {
    /// What is to be read next: first sector and count.
    pub fn wants(&mut self) -> Option<(u64, u64)> {
        let (mut sector, mut sectors) = (0, 0);
        unsafe { (self.engine.core.api.load_next)(self.raw, &mut sector, &mut sectors) }
            .then_some((sector, u64::from(sectors)))
    }

    /// The content of what was wanted; `None` if it could not be read.
    pub fn feed(&mut self, bytes: Option<&[u8]>) {
        let bytes = bytes.map_or(std::ptr::null(), <[u8]>::as_ptr);
        unsafe { (self.engine.core.api.load_feed)(self.raw, bytes) }
    }

    /// The verdict.
    pub fn end(mut self) -> Loaded {
        self.ended = true;
        match unsafe { (self.engine.core.api.load_end)(self.raw) } {
            0 => Loaded::Good,
            1 => Loaded::Damaged,
            _ => Loaded::Impossible,
        }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if !self.ended {
            unsafe { (self.engine.core.api.load_end)(self.raw) };
        }
    }
}
