// SPDX-License-Identifier: GPL-3.0-or-later
//! What becomes of the writes of a recording in write-back: how much of them the SSD takes, and what the disk has to do.
//!
//! The requests are served as they were recorded, one after the other, and the devices answer at once. The cleaner goes on
//! from when three eighths of the cache are dirty until a quarter is.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::path::Path;

use crate::hitrate::core::Shape;
use crate::hitrate::{Recording, recording};
use tandem_sim::engine::{
    Actions, Core, Engine, Mode, NewRequest, ReqKind, Request, Seek, Verdict, Waking,
};

/// Sectors of a frame.
const FRAME: u64 = 32;
/// Sectors of a MiB.
const MIB: u64 = 2048;
/// Frames that one cleaning moves at most, and that one search looks at.
const CLEANED: u32 = 64;

/// What the disk did.
#[derive(Clone, Copy, Default)]
struct Disk {
    /// Writes that users waited for, or reads for such writes.
    awaited: u64,
    /// Of the recorded writes, those that needed the disk.
    writes: u64,
    /// Requests of the cleaner, and the sectors that they wrote.
    cleanings: u64,
    cleaned: u64,
}

/// One cache with its requests in flight.
struct Server {
    engine: Engine,
    requests: HashMap<u64, (ReqKind, Request)>,
    due: VecDeque<(u64, Actions)>,
    next: u64,
    disk: Disk,
}

impl Server {
    fn new(core: &Core, mib: u64, frames: u64, streams: bool) -> Server {
        let room = (mib * MIB / FRAME) as usize;
        let geometry = Shape::for_room(room).geometry(room, frames);
        let mut engine = Engine::new(core, geometry, Mode::WriteBack);
        let quarters = u64::from(engine.layout().slots) * 4;
        engine.set_limit(quarters / 4 * 3);
        if !streams {
            engine.set_stream(u32::MAX);
        }
        Server {
            engine,
            requests: HashMap::new(),
            due: VecDeque::new(),
            next: 1,
            disk: Disk::default(),
        }
    }

    fn run_sectors(&self) -> u64 {
        FRAME << self.engine.layout().run_shift
    }

    fn begin(&mut self, new: NewRequest) {
        let id = self.next;
        self.next += 1;
        let request = self.engine.request(id, new);
        let (actions, woken) = self.engine.begin(&request);
        self.requests.insert(id, (new.kind, request));
        self.due.push_back((id, actions));
        self.due.extend(woken);
    }

    /// Carries out what is due, the ledger's own I/O too, until nothing is left.
    fn go_on(&mut self) {
        loop {
            if let Some((id, actions)) = self.due.pop_front() {
                self.carry_out(id, actions);
                continue;
            }
            if self.work() {
                continue;
            }
            if self.requests.is_empty() || !(self.clean(false) || self.tick()) {
                return;
            }
        }
    }

    fn carry_out(&mut self, id: u64, actions: Actions) {
        let Some((kind, request)) = self.requests.get(&id) else {
            return;
        };
        let kind = *kind;
        let mut more = |(actions, woken): (Actions, Waking)| {
            self.due.push_back((id, actions));
            self.due.extend(woken);
        };
        if actions.has(Actions::START) {
            more(self.engine.start(request));
        }
        if actions.has(Actions::MERGE) {
            self.disk.awaited += self.engine.rests(request).len() as u64;
            more(self.engine.rest_read(request, true));
        }
        if actions.has(Actions::DISK) {
            let (_, count) = self.engine.disk_span(request);
            match kind {
                ReqKind::Clean => {
                    self.disk.cleanings += 1;
                    self.disk.cleaned += count;
                }
                ReqKind::Write => self.disk.awaited += 1,
                _ => {}
            }
            more(self.engine.disk_done(request, true));
        }
        if actions.has(Actions::SSD | Actions::FETCH) {
            more(self.engine.ssd_done(request, true));
        }
        if actions.has(Actions::END | Actions::PASS)
            && let Some((_, request)) = self.requests.remove(&id)
        {
            self.engine.end(request);
        }
    }

    /// One piece of the ledger's I/O. False: there is none.
    fn work(&mut self) -> bool {
        let (work, woken) = self.engine.next_io();
        self.due.extend(woken);
        let Some(work) = work else { return false };
        self.due.extend(self.engine.io_done(work.kind, true));
        true
    }

    fn tick(&mut self) -> bool {
        self.engine.tick();
        self.work()
    }

    /// Begins a cleaning, of what a write waits for or of `all`. False: there is nothing to clean.
    fn clean(&mut self, all: bool) -> bool {
        let mut on = false;
        loop {
            match self.engine.clean_seek(all, on, CLEANED) {
                Seek::Found { sector, count } => {
                    self.begin(new_request(ReqKind::Clean, sector, count, CLEANED, false));
                    return true;
                }
                Seek::Further => on = true,
                Seek::Nowhere => return self.work(),
            }
        }
    }

    fn read(&mut self, sector: u64, count: u64) {
        let (mut at, end) = (sector, sector + count);
        while at < end {
            let rest = (end - at).min(self.run_sectors() - at % self.run_sectors());
            let (verdict, look) = self.engine.look(at, rest);
            let count = u64::from(look.count);
            match verdict {
                Verdict::Hit => {
                    for slot in look.slot..look.slot + look.slots {
                        self.engine.unpin(slot);
                    }
                }
                Verdict::Miss => {
                    let frames = self.engine.span(ReqKind::Read, at, count).frames;
                    self.begin(new_request(ReqKind::Read, at, count, frames, false));
                    self.go_on();
                }
                Verdict::Pass | Verdict::Busy => {}
            }
            if matches!(verdict, Verdict::Miss | Verdict::Pass) {
                self.engine.disk_read_ends();
            }
            at += count;
        }
    }

    fn write(&mut self, sector: u64, count: u64) {
        let awaited = self.disk.awaited;
        let (mut at, end) = (sector, sector + count);
        while at < end {
            let rest = (end - at).min(self.run_sectors() - at % self.run_sectors());
            at += self.write_piece(at, rest);
        }
        self.go_on();
        self.disk.writes += u64::from(self.disk.awaited > awaited);
        let slots = u64::from(self.engine.layout().slots);
        if self.engine.facts().dirty > slots * 3 / 2 {
            while self.engine.facts().dirty > slots && self.clean(true) {
                self.go_on();
            }
        }
    }

    /// Begins a write as far as it is one request; returns how far that is.
    fn write_piece(&mut self, sector: u64, count: u64) -> u64 {
        if let Some(slot) = self.engine.write_home(sector, count) {
            self.engine.write_home_done(true);
            self.engine.unpin(slot);
            return count;
        }
        let stream = self.engine.streams(sector, count);
        let copy = !stream && self.engine.wants_copy(sector, count);
        let frames = self.engine.span(ReqKind::Write, sector, count).frames;
        let parts = if copy { frames } else { 0 };
        self.begin(new_request(ReqKind::Write, sector, count, parts, stream));
        count
    }
}

/// A request with this many parts, as [`NewRequest`] says.
pub(crate) fn new_request(
    kind: ReqKind,
    sector: u64,
    count: u64,
    parts: u32,
    stream: bool,
) -> NewRequest {
    NewRequest {
        kind,
        sector,
        count,
        parts,
        no_memory: false,
        stream,
        lent: false,
        fua: false,
    }
}

/// A line for each size of the SSD. `streams`: long writes in order go past the SSD, as in the module.
///
/// # Errors
/// The file is no recording.
pub fn table(
    core: &Core,
    trace: &Path,
    sizes: &[u64],
    streams: bool,
) -> Result<String, recording::Error> {
    let recording = Recording::open(trace, FRAME * 512)?;
    let mut text = String::from(
        "| SSD, MiB | written, MiB | on the SSD | of that write-back | missed | sequential | read | of that hit \
         | writes | at the disk | disk requests for them | cleanings | cleaned, MiB | flushes of the disk |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let names = core.counter_names();
    for &mib in sizes {
        let mut server = Server::new(core, mib, recording.last_block() + 1, streams);
        let mut writes = 0;
        for request in recording.requests() {
            if request.write {
                writes += 1;
                server.write(request.sector, request.count);
            } else {
                server.read(request.sector, request.count);
            }
        }
        let counters = server.engine.counters();
        let counter = |name: &str| {
            let at = names.iter().position(|other| other == name);
            at.map_or(0, |at| counters[at])
        };
        let size = |name: &str| counter(name) / MIB;
        let disk = server.disk;
        let _ = writeln!(
            text,
            "| {mib} | {} | {} | {} | {} | {} | {} | {} | {writes} | {} | {} | {} | {} | {} |",
            size("write_requested"),
            size("write_hit"),
            size("write_back"),
            size("write_missed"),
            size("write_bypassed_sequential"),
            size("read_requested"),
            size("read_hit"),
            disk.writes,
            disk.awaited,
            disk.cleanings,
            disk.cleaned / MIB,
            counter("flushes_disk"),
        );
    }
    Ok(text)
}
