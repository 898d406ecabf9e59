// SPDX-License-Identifier: GPL-3.0-or-later
//! Serves many requests side by side, and holds the lock as the module does: `kmod/linux` has what is under one hold.

use std::collections::{HashMap, VecDeque};

use super::Error;
use super::holds::Holds;
use tandem_sim::engine::{Actions, Engine, Mode, NewRequest, ReqKind, Request, Seek, WorkKind};

/// What the module's sources define.
pub fn defined(source: &str, name: &'static str) -> Result<u32, Error> {
    let mut lines = source.lines().map(str::split_whitespace);
    let value = lines.find_map(|mut words| {
        (words.next() == Some("#define") && words.next() == Some(name)).then(|| words.next())
    });
    let number = value
        .flatten()
        .and_then(|value| value.trim_end_matches('u').parse().ok());
    number.ok_or(Error::Undefined(name))
}

/// Frames that the cleaner asks core to look at under one hold.
fn looks() -> Result<u32, Error> {
    defined(include_str!("../../../../../kmod/linux/cleaner.c"), "LOOKS")
}

/// Sectors of the longest request that takes a slot for each of its frames.
fn takes() -> Result<u64, Error> {
    let source = include_str!("../../../../../kmod/linux/map.h");
    defined(source, "TANDEM_TAKES").map(u64::from)
}

/// What is to be cleaned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Places {
    /// What is dirty.
    All,
    /// What a write waits for.
    Awaited,
}

/// `JOB_PARTS` of cleaner.c
const CLEANED: u32 = 2;

/// What is under one hold when a request begins.
fn begin_name(kind: ReqKind) -> &'static str {
    match kind {
        ReqKind::Read => "begin: read miss",
        ReqKind::Write => "begin: write",
        ReqKind::Discard => "begin: run of a discard",
        ReqKind::Flush => "begin: flush",
        ReqKind::Clean => "seek and begin: cleaning",
    }
}

/// What is under one hold when the ledger's I/O has ended.
fn done_name(kind: WorkKind) -> &'static str {
    match kind {
        WorkKind::Group | WorkKind::FlushSsd => "done: group",
        WorkKind::FlushDisk => "done: flush of the disk",
        WorkKind::Marks => "done: marks",
        WorkKind::Note => "done: note",
        _ => "done: checkpoint",
    }
}

/// What is under one hold when the ledger's I/O is taken.
fn next_name(kind: Option<WorkKind>) -> &'static str {
    match kind {
        None => "next: nothing",
        Some(WorkKind::Step) => "next: step",
        Some(WorkKind::Group | WorkKind::FlushSsd) => "next: group",
        Some(WorkKind::FlushDisk) => "next: flush of the disk",
        Some(WorkKind::Marks) => "next: marks",
        Some(WorkKind::Note) => "next: note",
        Some(_) => "next: checkpoint",
    }
}

fn new_request(
    engine: &Engine,
    kind: ReqKind,
    sector: u64,
    count: u64,
    stream: bool,
) -> NewRequest {
    let parts = match kind {
        ReqKind::Clean => CLEANED,
        ReqKind::Read | ReqKind::Write if !stream => engine.span(kind, sector, count).frames,
        _ => 0,
    };
    crate::writes::new_request(kind, sector, count, parts, stream)
}

/// One cache with its requests in flight. The devices answer when [`Server::go_on`] runs.
pub struct Server<'a> {
    /// The cache.
    pub engine: Engine,
    /// The times.
    pub holds: &'a mut Holds,
    /// Bytes of metadata for the SSD so far.
    pub bytes: u64,
    requests: HashMap<u64, (ReqKind, Request)>,
    due: VecDeque<(u64, Actions)>,
    works: VecDeque<WorkKind>,
    next: u64,
    looks: u32,
    takes: u64,
    mode: Mode,
}

impl<'a> Server<'a> {
    /// Nothing is in flight.
    pub fn new(engine: Engine, mode: Mode, holds: &'a mut Holds) -> Result<Server<'a>, Error> {
        Ok(Server {
            engine,
            holds,
            bytes: 0,
            requests: HashMap::new(),
            due: VecDeque::new(),
            works: VecDeque::new(),
            next: 1,
            looks: looks()?,
            takes: takes()?,
            mode,
        })
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: Mode) {
        self.engine.set_mode(mode);
        self.mode = mode;
    }

    /// A request that is not begun yet.
    fn request(&mut self, kind: ReqKind, sector: u64, count: u64, stream: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        let new = new_request(&self.engine, kind, sector, count, stream);
        self.requests
            .insert(id, (kind, self.engine.request(id, new)));
        id
    }

    /// Begins a request, in pieces as the module does.
    pub fn begin(&mut self, kind: ReqKind, sector: u64, count: u64) {
        let takes = match kind {
            ReqKind::Read => self.takes,
            ReqKind::Write if self.mode == Mode::WriteBack => self.takes,
            _ => u64::MAX,
        };
        let end = sector + count;
        let mut at = sector;
        // A flush has no sectors and is one piece.
        loop {
            let piece = (end - at).min(takes - at % takes);
            let id = self.request(kind, at, piece, false);
            self.begin_request(kind, id);
            at += piece;
            if at == end {
                break;
            }
        }
    }

    /// Begins a write that goes on a stream, without a copy.
    pub fn stream(&mut self, sector: u64, count: u64) {
        let id = self.request(ReqKind::Write, sector, count, true);
        self.begin_request(ReqKind::Write, id);
    }

    fn begin_request(&mut self, kind: ReqKind, id: u64) {
        let (engine, (_, request)) = (&mut self.engine, &self.requests[&id]);
        let (actions, woken) = self.holds.time(begin_name(kind), || engine.begin(request));
        self.due.push_back((id, actions));
        self.due.extend(woken);
    }

    /// Begins a cleaning. False: there is nothing to clean now.
    pub fn clean(&mut self, places: Places) -> bool {
        let (id, mut on) = (self.next, false);
        self.next += 1;
        loop {
            let (engine, looks) = (&mut self.engine, self.looks);
            let (seek, begun) = self.holds.time(begin_name(ReqKind::Clean), || {
                let seek = engine.clean_seek(places == Places::All, on, looks);
                let Seek::Found { sector, count } = seek else {
                    return (seek, None);
                };
                let new = new_request(engine, ReqKind::Clean, sector, count, false);
                let request = engine.request(id, new);
                let (actions, woken) = engine.begin(&request);
                (seek, Some((request, actions, woken)))
            });
            if let Some((request, actions, woken)) = begun {
                self.requests.insert(id, (ReqKind::Clean, request));
                self.due.push_back((id, actions));
                self.due.extend(woken);
            }
            match seek {
                Seek::Found { .. } => return true,
                Seek::Further => on = true,
                Seek::Nowhere => return false,
            }
        }
    }

    /// A second passes.
    pub fn tick(&mut self) {
        let engine = &mut self.engine;
        self.holds.time("tick", || engine.tick());
        self.go_on();
    }

    /// The SSD fails.
    pub fn fail(&mut self) {
        let engine = &mut self.engine;
        let woken = self.holds.time("fail", || engine.fail());
        self.due.extend(woken);
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// All that is due is carried out, and all I/O ends, until nothing is left.
    pub fn go_on(&mut self) {
        while self.step() {}
    }

    /// Carries something out, takes an I/O of the ledger, or ends one. False: nothing is left.
    pub fn step(&mut self) -> bool {
        self.carry_out_next()
            || self.work()
            || self.work_ends()
            || (!self.requests.is_empty() && self.clean(Places::Awaited))
    }

    /// Forgets all clean copies, as `tandem_index_drop()` does.
    pub fn drop_all(&mut self) {
        let engine = &mut self.engine;
        self.holds
            .time("begin to forget", || engine.sweep_at_once_begin());
        for group in 0..engine.layout().groups {
            self.holds.time("forget", || engine.forget_group(group));
        }
        self.holds
            .time("end to forget", || engine.sweep_at_once_end());
    }

    /// What requests are due to do, and no I/O of the ledger ends.
    pub fn carry_out(&mut self) {
        while self.carry_out_next() {}
    }

    fn carry_out_next(&mut self) -> bool {
        let Some((id, actions)) = self.due.pop_front() else {
            return false;
        };
        let Some((kind, request)) = self.requests.get(&id) else {
            return true;
        };
        let (engine, holds) = (&mut self.engine, &mut *self.holds);
        let mut done = Vec::new();
        if actions.has(Actions::START) {
            done.push(holds.time("start", || engine.start(request)));
        }
        if actions.has(Actions::DISK) {
            let name = match kind {
                ReqKind::Read => "done: disk, read",
                ReqKind::Write => "done: disk, write",
                ReqKind::Clean => "done: disk, cleaning",
                _ => "done: disk, run of a discard",
            };
            done.push(holds.time(name, || engine.disk_done(request, true)));
        }
        if actions.has(Actions::SSD | Actions::FETCH) {
            let name = match kind {
                ReqKind::Read => "done: SSD, fill",
                ReqKind::Write => "done: SSD, write",
                _ => "done: SSD, cleaning",
            };
            done.push(holds.time(name, || engine.ssd_done(request, true)));
        }
        for (actions, woken) in done {
            self.due.push_back((id, actions));
            self.due.extend(woken);
        }
        if actions.has(Actions::END | Actions::PASS)
            && let Some((_, request)) = self.requests.remove(&id)
        {
            self.engine.end(request);
        }
        true
    }

    /// Takes one I/O of the ledger, or makes a step. False: there is none now.
    fn work(&mut self) -> bool {
        let engine = &mut self.engine;
        let mut kind = None;
        let (work, woken) = self.holds.named(|| {
            let (work, woken) = engine.work_next();
            kind = work.map(|work| work.kind);
            ((work, woken), next_name(kind))
        });
        self.due.extend(woken);
        let Some(work) = work else { return false };
        if work.kind != WorkKind::Step {
            self.engine.work_fill(work.kind);
            if work.kind != WorkKind::FlushDisk {
                self.bytes += work.count * 512;
            }
            self.works.push_back(work.kind);
        }
        true
    }

    /// The oldest I/O of the ledger ends. False: none is under way.
    fn work_ends(&mut self) -> bool {
        let Some(kind) = self.works.pop_front() else {
            return false;
        };
        let mut again = true;
        while again {
            let engine = &mut self.engine;
            let woken;
            (again, woken) = self
                .holds
                .time(done_name(kind), || engine.work_done(kind, true));
            self.due.extend(woken);
        }
        true
    }
}
