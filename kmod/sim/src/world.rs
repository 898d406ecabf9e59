// SPDX-License-Identifier: GPL-3.0-or-later
//! The kernel's part in miniature: the world takes the applications' requests, asks core, carries core's actions out,
//! and tells core of completions.
//!
//! The kernel may do several things at the same time on several processors. Here they are done one after the other, in
//! any order: each step that the kernel takes without a lock held, or between two locks, is a [`Task`] of its own.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::disk::Disk;
use crate::engine::{
    Actions, Core, Engine, Geometry, Mode, ReqKind, Request, Waking, Work, WorkKind,
};
use crate::flaw::Flaw;
use crate::oracle::{Oracle, Time, Violation};
use crate::queue::{Buffer, Io, Memory, Queue};
use crate::stamp::{Bytes, OpId, Stamp};
use crate::trace::Trace;
use crate::workload::{self, Verb};

mod answer;
mod carry;
mod check;
mod clean;
mod durable;
mod edge;
mod elsewhere;
mod exact;
mod flawed;
mod io;
mod join;
mod ledger;
mod life;
mod map;
mod messages;
mod retired;
mod settle;
mod submit;
mod trim;
mod watch;

pub use check::Word;
pub use life::Cut;

/// Something is wrong with core (or with the simulator).
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A sector showed a value that it must not show.
    #[error("{0}")]
    Violation(#[from] Violation),
    /// Anything else is wrong.
    #[error("{0}")]
    Other(String),
}

/// Makes a [`Fault`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($why:tt)*) => {
        if !$condition {
            return Err($crate::world::Fault::Other(format!($($why)*)));
        }
    };
}
pub(crate) use ensure;

const FLUSH: workload::Request = workload::Request {
    verb: Verb::Flush,
    first: 0,
    count: 0,
    restless: false,
};

/// A request of an application.
struct Op {
    request: workload::Request,
    start: Time,
    buffer: Option<Buffer>,
    left: u64,
    failed: bool,
    /// This request may fail: a disk failed in a way that allows it.
    excused: bool,
    /// The application changed sectors of the buffer during a read, so the content that the read returned is not
    /// checked.
    spoiled: bool,
    version: u8,
}

/// A part of a request that lies in one run, as device-mapper splits the request; or a cleaning.
struct Sub {
    op: OpId,
    kind: ReqKind,
    first: u64,
    count: u64,
    request: Option<Request>,
    private: Option<(Buffer, u64)>,
    hit: Option<Hit>,
    ssd_left: usize,
    ssd_failed: bool,
    failed: bool,
    /// A disk has done what this part asked for.
    done: bool,
    /// Core counts this part among the reads that the disk may answer.
    disk_read: bool,
    /// This part goes to the disk, or has gone there.
    to_disk: bool,
    /// This part goes on a stream of writes.
    stream: bool,
    /// Core has this part without private memory, for the SSD alone.
    lent: bool,
    /// Of a write: rests of quarters that are being read from the disk, and whether one could not be read.
    rests: (usize, bool),
    /// Of a write: it has read rests before.
    merged: bool,
    /// Of a fill: the reads that wait for the fill's memory.
    joined: Vec<u64>,
    /// When core was last asked to begin this part.
    begun: Time,
    answered: bool,
}

impl Sub {
    /// The quarters that this part touches, counted from the disk's start.
    fn quarters(&self) -> std::ops::RangeInclusive<u64> {
        self.first / 8..=(self.first + self.count - 1) / 8
    }

    /// The frames that this part touches.
    fn frames(&self) -> std::ops::RangeInclusive<u64> {
        self.first / 32..=(self.first + self.count - 1) / 32
    }
}

/// Slots that are pinned.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Hit {
    slot: u32,
    slots: u32,
    /// The quarters that core's answer calls dirty.
    dirty: u64,
    /// Whether the words of the slots call anything dirty.
    was_dirty: bool,
}

/// A step that is due.
enum Task {
    Map {
        op: OpId,
        first: u64,
        count: u64,
    },
    /// A read misses where a fill may be in flight.
    Join {
        sub: u64,
    },
    /// The fill that the read joined has the data.
    Joined {
        sub: u64,
    },
    Begin {
        sub: u64,
    },
    CarryOut {
        sub: u64,
        actions: Actions,
    },
    Drained {
        sector: u64,
        slot: u32,
    },
    Work,
    /// The ledger's I/O is filled in and submitted.
    Submit {
        work: Work,
    },
    /// More of the result of the ledger's I/O of this kind is applied.
    Apply {
        kind: WorkKind,
        ok: bool,
    },
    Clean,
    /// All groups are being forgotten; this one is next.
    Forget {
        group: u32,
    },
    /// The retired slots are to be written to the superblocks.
    RecordRetired,
    /// Core is told that this I/O has ended, though the I/O has not ended. Only a flaw does that.
    TellCore {
        io: Io,
    },
}

/// The description of a world.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The sizes of the disks, and the regions of the SSD.
    pub geometry: Geometry,
    /// Sectors of a logical block of the hard disk. Write-back needs blocks of the SSD that are no larger.
    pub disk_block: u64,
    /// The mode at the start.
    pub mode: Mode,
    /// Frames written in a row that are a stream, in write-back four times as many; `u32::MAX`: nothing is.
    pub stream: u32,
    /// The bug that this world has, if any.
    pub flaw: Option<Flaw>,
}

/// What the caller may look at or change between steps.
pub struct World {
    /// The cache.
    pub engine: Engine,
    /// The hard disk.
    pub disk: Disk,
    /// The SSD.
    pub ssd: Disk,
    /// Of 256 requests for private memory, this many fail.
    pub memory_shortage: u8,
    /// Of 65536 reads of the SSD, this many fail.
    pub unreadable: u32,
    /// The source of all random choices.
    pub rng: fastrand::Rng,
    /// The log of events.
    pub trace: Trace,
    /// The last event, in words, for the count of cuts.
    pub last: &'static str,
    bytes: Bytes,
    mode: Mode,
    mode_changed: Time,
    /// [`Machine::stream`]
    stream: u32,
    flaw: Option<Flaw>,
    limit: u64,
    /// When the limit became 0, since when nothing may become dirty.
    flushing: Option<Time>,
    oracle: Oracle,
    memory: Memory,
    ops: HashMap<OpId, Op>,
    subs: HashMap<u64, Sub>,
    /// The steps that are due. The flag is set for a step that hardly ever gets a processor while other steps can.
    tasks: Vec<(Task, bool)>,
    work_due: bool,
    /// The cleaner's search made work due for the ledger.
    asked_for_work: bool,
    /// How often the cleaner's search made work due although there was none, since work last began or ended.
    asked_in_vain: u32,
    clean_due: bool,
    /// Writes that wait for a cleaning, with the time when the cleaner last looked at the write and could not clean for
    /// it.
    waited_in_vain: HashMap<u64, Time>,
    /// A write was refused though core must not refuse it; the words say which.
    refused: Option<String>,
    cleanings: usize,
    /// The flush of the start. No request is served before this flush ends.
    starting: Option<OpId>,
    /// The flush of a stop.
    stopping: Option<OpId>,
    /// The requests that are under way to the disks.
    pub queue: Queue,
    now: Time,
    /// Steps since the last answer to a request, counted while requests wait.
    idle: u32,
    next_op: OpId,
    next_sub: u64,
    seen: Seen,
    guard: check::Guard,
    durable: durable::Durable,
    /// The host's record: the SSD was lost, and no start has been completed since.
    lost: bool,
    /// The disk was written elsewhere, and no start has been completed since.
    written_elsewhere: bool,
    /// Some marks could not be read at the last start.
    marks_unreadable: bool,
    retired: retired::Retired,
    watching: watch::Watching,
    /// Promotion is off: the frames that have had a slot since then, and the errors of both devices until then.
    closed: Option<(HashSet<u64>, u64)>,
    failed_requests: u64,
    counter_names: Vec<String>,
}

/// The simulator's own count in this life, in sectors, to hold core's counters against.
#[derive(Default)]
struct Seen {
    read: u64,
    written: u64,
    served_by_ssd: u64,
    stored_for_writes: u64,
    merges: u64,
    ssd_errors: u64,
    /// Errors after which the SSD may not be used any more.
    ssd_lost: u64,
    disk_errors: u64,
}

impl World {
    /// Adds the engine's counters of this life to `totals`.
    pub fn add_counters(&self, core: &Core, totals: &mut BTreeMap<String, u64>) {
        for (name, value) in core.counter_names().into_iter().zip(self.engine.counters()) {
            let total = totals.entry(name).or_default();
            *total = total.wrapping_add(value);
        }
    }

    /// A disk behind an SSD that was just formatted.
    pub fn new(core: &Core, machine: &Machine, trace: Trace) -> World {
        let Machine {
            geometry,
            disk_block,
            mode,
            stream,
            flaw,
        } = *machine;
        let sectors = geometry.origin_sectors;
        let block = u64::from(geometry.block_sectors);
        let mut world = World {
            engine: Engine::new(core, geometry, mode),
            disk: Disk::new(sectors, disk_block, |sector| Stamp::new(0, sector, 0)),
            // The area of the superblocks is not there; what is used of it lies behind the end.
            ssd: Disk::new(geometry.ssd_sectors + watch::NOTES, block, |_| Stamp::JUNK),
            memory_shortage: 0,
            unreadable: 0,
            rng: fastrand::Rng::with_seed(0),
            trace,
            last: "nothing",
            bytes: Bytes::default(),
            mode,
            mode_changed: 0,
            stream,
            flaw,
            limit: u64::MAX,
            flushing: None,
            oracle: Oracle::new(sectors),
            memory: Memory::default(),
            queue: Queue::default(),
            ops: HashMap::new(),
            subs: HashMap::new(),
            tasks: Vec::new(),
            work_due: false,
            asked_for_work: false,
            asked_in_vain: 0,
            clean_due: false,
            waited_in_vain: HashMap::new(),
            refused: None,
            cleanings: 0,
            starting: None,
            stopping: None,
            now: 1,
            idle: 0,
            next_op: 1,
            next_sub: 1,
            seen: Seen::default(),
            guard: check::Guard::default(),
            durable: durable::Durable::default(),
            lost: false,
            written_elsewhere: false,
            marks_unreadable: false,
            retired: retired::Retired::default(),
            watching: watch::Watching::default(),
            closed: None,
            failed_requests: 0,
            counter_names: core.counter_names(),
        };
        world.engine.set_stream(stream);
        world.format(geometry);
        world.read_durable();
        world.start_up();
        world
    }

    /// The bytes of a sector of the disk or the SSD.
    pub fn sector_bytes(&self, stamp: Stamp) -> [u8; 512] {
        self.bytes.get(stamp)
    }

    /// Whether the start is under way, during which no request is served.
    pub fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    /// Requests that are not answered yet.
    pub fn under_way(&self) -> usize {
        self.ops.len()
    }

    /// Parts of a stream of writes that go to the disk alone.
    pub fn streaming(&self) -> usize {
        self.subs.values().filter(|sub| sub.stream).count()
    }

    /// Requests that were answered with an error.
    pub fn failed_requests(&self) -> u64 {
        self.failed_requests
    }

    /// Requests of this kind that are not answered yet.
    pub fn waiting(&self, verb: Verb) -> usize {
        let same = |op: &&Op| op.request.verb == verb;
        self.ops.values().filter(same).count()
    }

    fn tick(&mut self) -> Time {
        self.now += 1;
        self.now
    }

    fn later(&mut self, task: Task) {
        let lazy = self.rng.u8(..) < self.queue.lazy;
        self.tasks.push((task, lazy));
    }

    /// Takes any one step that is due or under way. Returns false if there is none.
    ///
    /// # Errors
    /// Core did something that it must not do.
    pub fn step(&mut self) -> Result<bool, Fault> {
        self.idle = if self.ops.is_empty() {
            0
        } else {
            self.idle + 1
        };
        ensure!(self.idle < settle::PATIENCE, "no end: {}", self.unended());
        let due = self.tasks.len();
        if due > 0 && self.rng.usize(..due + self.queue.len()) < due {
            let at = self.rng.usize(..due);
            if !self.tasks[at].1 || self.rng.u8(..16) == 0 {
                let (task, _) = self.tasks.swap_remove(at);
                self.run(task)?;
            }
            return Ok(true);
        }
        self.tick();
        let turn = self.queue.pick(&mut self.rng, &self.disk, &self.ssd);
        match turn {
            None => {
                // Nothing is under way, so a request that waits now would wait for ever.
                ensure!(
                    self.ops.is_empty(),
                    "requests never end: {}",
                    self.unended()
                );
                Ok(false)
            }
            Some(turn) => self.take_turn(turn).map(|()| true),
        }
    }

    fn wake(&mut self, woken: Waking) {
        for (id, actions) in woken {
            self.note_actions(id, "is woken", actions);
            self.plan_actions(id, actions);
        }
    }

    fn note_io(&mut self, io: &Io, what: &str) {
        self.trace.io(io, || {
            let side = match io.side {
                crate::queue::Side::Ssd => "SSD",
                crate::queue::Side::Origin => "disk",
            };
            format!("{side} {:?} {}+{} {what}", io.kind, io.first, io.count)
        });
    }
}
