// SPDX-License-Identifier: GPL-3.0-or-later
//! One cache, and the requests that core knows.

use crate::ffi::{
    Api, Done, Enter, Extent, Facts, Geometry, Layout, List, RETIRED_ROOM, RawEngine, RawRequest,
    Span, Woken,
};
use crate::library::Core;
use crate::load::Load;
use crate::types::{Actions, Mode, ReqKind, Seek, State, WORK_KINDS, Waking, Word};

/// A request known to core. To be given back by [`Engine::end`].
pub struct Request(pub(crate) *mut RawRequest);

/// What a new request is.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct NewRequest {
    pub kind: ReqKind,
    pub sector: u64,
    pub count: u64,
    /// 0 means no private memory.
    pub parts: u32,
    /// Private memory was wanted, but there is none.
    pub no_memory: bool,
    /// [`Engine::streams`] said so.
    pub stream: bool,
    /// [`Engine::may_lend`] said so; with one part, and no private memory.
    pub lent: bool,
    /// Of a flush: the flush waits until all that was forgotten is recorded, too.
    pub fua: bool,
}

/// One cache.
pub struct Engine {
    pub(crate) core: Core,
    pub(crate) raw: *mut RawEngine,
    geometry: Geometry,
    layout: Layout,
    woken: Vec<Woken>,
    /// Sectors of the last work of each kind.
    pub(crate) work_sectors: [u64; WORK_KINDS.len()],
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
            work_sectors: [0; WORK_KINDS.len()],
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

    /// Sets how many quarters may be dirty.
    pub fn set_limit(&mut self, quarters: u64) {
        unsafe { (self.core.api.set_limit)(self.raw, quarters) }
    }

    /// Says whether frames that have no slot may get one.
    pub fn set_promotion(&mut self, on: bool) {
        unsafe { (self.core.api.set_promotion)(self.raw, on) }
    }

    /// Frames written in a row that are a stream; in write-back four times as many.
    pub fn set_stream(&mut self, frames: u32) {
        unsafe { (self.core.api.set_stream)(self.raw, frames) }
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

    /// How many slots core counts for the frames of each region.
    pub fn region_slots(&self) -> Vec<u32> {
        let mut slots = vec![0; self.facts().regions as usize];
        unsafe { (self.core.api.region_slots)(self.raw, slots.as_mut_ptr()) };
        slots
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

    /// A write goes on a long stream, so it goes to the disk alone.
    pub fn streams(&mut self, sector: u64, count: u64) -> bool {
        unsafe { (self.core.api.write_streams)(self.raw, sector, count as u32) }
    }

    /// A write should bring private memory.
    pub fn wants_copy(&mut self, sector: u64, count: u64) -> bool {
        unsafe { (self.core.api.write_wants_copy)(self.raw, sector, count as u32) }
    }

    /// Whether this write may go to the SSD alone with the user's own memory.
    pub fn may_lend(&self, sector: u64, count: u64) -> bool {
        unsafe { (self.core.api.write_may_lend)(self.raw, sector, count as u32) }
    }

    /// The slot that a whole write may go to without a copy, though a copy was wanted. The slot is pinned.
    pub fn write_in_place(&mut self, sector: u64, count: u64) -> Option<u32> {
        let mut slot = 0;
        unsafe { (self.core.api.write_in_place)(self.raw, sector, count as u32, &mut slot) }
            .then_some(slot)
    }

    /// The slot that a whole write may go to without a copy. The slot is pinned.
    pub fn write_home(&mut self, sector: u64, count: u64) -> Option<u32> {
        let mut slot = 0;
        unsafe { (self.core.api.write_home)(self.raw, sector, count as u32, &mut slot) }
            .then_some(slot)
    }

    /// The SSD has ended a write that [`Engine::write_home`] or [`Engine::write_in_place`] allowed.
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
            stream,
            lent,
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
                stream,
                lent,
                fua,
            )
        })
    }

    /// Frees a request that core has forgotten.
    pub fn end(&self, request: Request) {
        unsafe { (self.core.api.request_free)(request.0) }
    }

    /// What a request reads from or writes to the disk: first sector and count.
    pub fn disk_span(&self, request: &Request) -> (u64, u64) {
        let (mut sector, mut count) = (0, 0);
        unsafe { (self.core.api.request_span)(request.0, &mut sector, &mut count) };
        (sector, u64::from(count))
    }

    /// Whether the request has to be answered with an error.
    pub fn failed(&self, request: &Request) -> bool {
        unsafe { (self.core.api.request_failed)(request.0) }
    }

    /// Calls with a list of requests to be woken.
    pub(crate) fn waking<T>(
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

    /// The disk I/O of a request ended.
    pub fn disk_done(&mut self, request: &Request, ok: bool) -> (Actions, Waking) {
        self.done(self.core.api.disk_done, request, ok)
    }

    /// All its SSD I/O ended.
    pub fn ssd_done(&mut self, request: &Request, ok: bool) -> (Actions, Waking) {
        self.done(self.core.api.ssd_done, request, ok)
    }

    pub(crate) fn done(&mut self, done: Done, request: &Request, ok: bool) -> (Actions, Waking) {
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

    /// Whether what the request stores there must be durable when it is stored.
    pub fn stores_durably(&self, request: &Request) -> bool {
        unsafe { (self.core.api.stores_durably)(request.0) }
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

    /// All groups are about to be forgotten.
    pub fn sweep_at_once_begin(&mut self) {
        unsafe { (self.core.api.sweep_at_once_begin)(self.raw) }
    }

    /// All groups are forgotten.
    pub fn sweep_at_once_end(&mut self) {
        unsafe { (self.core.api.sweep_at_once_end)(self.raw) }
    }

    /// Forgets all clean copies at once.
    pub fn forget_all(&mut self) {
        self.sweep_at_once_begin();
        for group in 0..self.layout().groups {
            self.forget_group(group);
        }
        self.sweep_at_once_end();
    }

    /// Forgets all clean copies of a group.
    pub fn forget_group(&mut self, group: u32) {
        unsafe { (self.core.api.forget_group)(self.raw, group) }
    }

    /// Begins to load the index; the engine must be new.
    pub fn load(&mut self) -> Load<'_> {
        Load::new(self)
    }
}
