// SPDX-License-Identifier: GPL-3.0-or-later
//! Core behind safe calls. The only place with `unsafe`.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::rc::Rc;

use crate::ffi::{API_VERSION, Api, Done, RawEngine, RawRequest, Woken};
pub use crate::ffi::{Extent, Layout, Look, Span};

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

    pub fn has(self, action: u32) -> bool {
        self.0 & action != 0
    }
}

/// `enum td_mode`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Mode {
    WriteThrough = 0,
    WriteAround = 1,
}

/// `enum td_kind`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ReqKind {
    Read = 0,
    Write = 1,
    Discard = 2,
}

/// `enum td_verdict`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Verdict {
    Hit,
    Miss,
    Pass,
}

unsafe extern "C" {
    fn tandem_sim_api() -> *const Api;
}

/// A build of core.
#[derive(Clone)]
pub struct Core {
    api: &'static Api,
    _library: Option<Rc<libloading::Library>>,
}

/// A build of core cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The dynamic linker refused.
    #[error("cannot load: {0}")]
    Load(#[from] libloading::Error),
    /// It was built from another shim.h.
    #[error("built from another version of the simulator")]
    Version,
}

impl Core {
    /// The one that this program was linked with.
    pub fn linked() -> Core {
        // SAFETY: returns a pointer to a constant.
        Core {
            api: unsafe { &*tandem_sim_api() },
            _library: None,
        }
    }

    /// One built by [`crate::native`].
    ///
    /// # Errors
    /// It is no such thing.
    pub fn load(path: &Path) -> Result<Core, LoadError> {
        // SAFETY: the library has no constructors; the symbol has this type in shim.h; the constant that it returns lives as
        // long as the library, which every copy of this structure keeps.
        unsafe {
            let library = libloading::Library::new(path)?;
            let symbol =
                library.get::<unsafe extern "C" fn() -> *const Api>(b"tandem_sim_api\0")?;
            let api = &*symbol();
            if api.version != API_VERSION {
                return Err(LoadError::Version);
            }
            Ok(Core {
                api,
                _library: Some(Rc::new(library)),
            })
        }
    }

    /// The layout that a superblock for disks of these sizes (in sectors) gives; `None` if core refuses.
    pub fn plan(
        &self,
        origin_sectors: u64,
        ssd_sectors: u64,
        block_sectors: u32,
    ) -> Option<Layout> {
        let mut layout = Layout::default();
        // SAFETY: a plain function of numbers that fills `layout`.
        unsafe { (self.api.plan)(origin_sectors, ssd_sectors, block_sectors, &mut layout) }
            .then_some(layout)
    }

    /// Names of the counters that status shows, in order.
    pub fn counter_names(&self) -> Vec<String> {
        // SAFETY: in range, and the names are constants.
        (0..self.api.shown)
            .map(|which| unsafe { text((self.api.counter_name)(which)) })
            .collect()
    }

    /// Names of the scenarios of the explorer.
    pub fn scenario_names(&self) -> Vec<String> {
        // SAFETY: in range, and the names are constants.
        unsafe {
            (0..(self.api.scenarios)())
                .map(|which| text((self.api.scenario_name)(which)))
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
            (self.api.scenario_run)(
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

/// # Safety
/// `string` is NULL or ends in a zero.
unsafe fn text(string: *const c_char) -> String {
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

/// One cache.
pub struct Engine {
    core: Core,
    raw: *mut RawEngine,
    layout: Layout,
    woken: Vec<Woken>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: made by engine_new, used no more.
        unsafe { (self.core.api.engine_free)(self.raw) }
    }
}

/// Most requests that one completion may wake.
const WOKEN_ROOM: usize = 4096;

// SAFETY (all calls below): the engine lives, one thread uses it, and numbers are in the ranges that engine.h names, which
// the simulator sees to and the sanitizers check.
impl Engine {
    /// An empty cache.
    pub fn new(core: &Core, layout: Layout, mode: Mode) -> Engine {
        let raw = unsafe { (core.api.engine_new)(&layout, mode as u32) };
        Engine {
            core: core.clone(),
            raw,
            layout,
            woken: vec![Woken::default(); WOKEN_ROOM],
        }
    }

    /// Where frames lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: Mode) {
        unsafe { (self.core.api.set_mode)(self.raw, mode as u32) }
    }

    /// The SSD is in use.
    pub fn active(&self) -> bool {
        unsafe { (self.core.api.active)(self.raw) }
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

    /// The word of a slot.
    pub fn word(&self, slot: u32) -> u64 {
        assert!(slot < self.layout.slots);
        unsafe { (self.core.api.word)(self.raw, slot) }
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
                _ => Verdict::Pass,
            };
        (verdict, look)
    }

    /// A write should bring private memory.
    pub fn wants_copy(&mut self, sector: u64, count: u64) -> bool {
        unsafe { (self.core.api.write_wants_copy)(self.raw, sector, count as u32) }
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

    /// A request that [`Engine::begin`] will take; `parts` 0 means no private memory,
    /// `no_memory` that there should have been some.
    pub fn request(
        &self,
        id: u64,
        kind: ReqKind,
        sector: u64,
        count: u64,
        parts: u32,
        no_memory: bool,
    ) -> Request {
        Request(unsafe {
            (self.core.api.request_new)(id, kind as u32, sector, count as u32, parts, no_memory)
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

    /// Hands the request to core.
    pub fn begin(&mut self, request: &Request) -> Actions {
        Actions(unsafe { (self.core.api.begin)(self.raw, request.0) })
    }

    /// Its disk I/O ended. Also returns requests that may start now.
    pub fn disk_done(&mut self, request: &Request, ok: bool) -> (Actions, Vec<(u64, Actions)>) {
        self.done(self.core.api.disk_done, request, ok)
    }

    /// All its SSD I/O ended. Also returns requests that may start now.
    pub fn ssd_done(&mut self, request: &Request, ok: bool) -> (Actions, Vec<(u64, Actions)>) {
        self.done(self.core.api.ssd_done, request, ok)
    }

    fn done(&mut self, done: Done, request: &Request, ok: bool) -> (Actions, Vec<(u64, Actions)>) {
        let mut count = 0;
        let actions = unsafe {
            done(
                self.raw,
                request.0,
                ok,
                self.woken.as_mut_ptr(),
                WOKEN_ROOM,
                &mut count,
            )
        };
        (
            Actions(actions),
            self.woken[..count]
                .iter()
                .map(|woken| (woken.id, Actions(woken.actions)))
                .collect(),
        )
    }

    /// What the request stores on the SSD.
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

    /// The last pin of a slot that was read at `sector` went. Returns whose turn it is, with its actions.
    pub fn drained(&mut self, sector: u64, slot: u32) -> Option<(u64, Actions)> {
        let mut owner = 0;
        let actions = unsafe {
            let bucket = (self.core.api.bucket_of)(self.raw, sector);
            (self.core.api.drained)(self.raw, bucket, slot, &mut owner)
        };
        (actions != 0).then_some((owner, Actions(actions)))
    }

    /// The SSD failed.
    pub fn fail(&mut self) -> bool {
        unsafe { (self.core.api.fail)(self.raw) }
    }

    /// A hit of `count` sectors failed and was read from the disk.
    pub fn hit_failed(&mut self, count: u64) {
        unsafe { (self.core.api.hit_failed)(self.raw, count as u32) }
    }

    /// Forgets all copies of a group.
    pub fn forget_group(&mut self, group: u32) {
        unsafe { (self.core.api.forget_group)(self.raw, group) }
    }
}
