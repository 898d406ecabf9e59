// SPDX-License-Identifier: GPL-3.0-or-later
//! The kernel's part in miniature: takes the applications' requests, asks core, carries its actions out, tells it of
//! completions.
//!
//! What the kernel may do at the same time on several processors is here done in any order: each step that the kernel takes
//! without a lock held, or between two locks, is a [`Task`] of its own.

use crate::disk::Disk;
use crate::engine::{Actions, Core, Engine, ReqKind, Request};
use crate::oracle::{Oracle, Time, Violation};
use crate::queue::{Buffer, Io, Kind, Memory, Queue, Side, Step};
use crate::stamp::{OpId, Stamp};
use crate::trace::Trace;
use crate::workload::{self, Verb};

mod carry;
mod settle;

/// Something is wrong with core (or with the simulator).
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Of what a sector showed.
    #[error("{0}")]
    Violation(#[from] Violation),
    /// Of anything else.
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
use ensure;

/// A request of an application.
struct Op {
    request: workload::Request,
    start: Time,
    buffer: Option<Buffer>,
    left: u64,
    failed: bool,
    disk_failed: bool,
    /// Sectors of its buffer that the application changed during a read: nothing can be said of them.
    spoiled: bool,
    version: u8,
}

/// A part of a request that lies in one run, as device-mapper splits it.
struct Sub {
    op: OpId,
    kind: ReqKind,
    first: u64,
    count: u64,
    request: Option<Request>,
    private: Option<(Buffer, u64)>,
    hit: Option<(u32, u32)>,
    ssd_left: usize,
    ssd_failed: bool,
    disk_failed: bool,
    disk_done: bool,
    answered: bool,
}

/// A step that is due.
enum Task {
    Map { op: OpId, first: u64, count: u64 },
    Begin { sub: u64 },
    Do { sub: u64, actions: Actions },
    Drained { sector: u64, slot: u32 },
}

/// What an I/O was for; the lowest bits of its token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Flush,
    Direct,
    Hit,
    Span,
    Extent,
}

const ROLES: [Role; 5] = [
    Role::Flush,
    Role::Direct,
    Role::Hit,
    Role::Span,
    Role::Extent,
];

fn token(id: u64, role: Role) -> u64 {
    id << 3 | role as u64
}

/// What the caller may look at or change between steps.
pub struct World {
    /// The cache.
    pub engine: Engine,
    /// The hard disk.
    pub disk: Disk,
    /// The SSD.
    pub ssd: Disk,
    /// Of 256 requests for private memory this many fail.
    pub memory_shortage: u8,
    /// All randomness.
    pub rng: fastrand::Rng,
    /// What happened.
    pub trace: Trace,
    oracle: Oracle,
    memory: Memory,
    ops: std::collections::HashMap<OpId, Op>,
    subs: std::collections::HashMap<u64, Sub>,
    /// What is due, and whether it hardly ever gets a processor while others can.
    tasks: Vec<(Task, bool)>,
    /// What is under way to the disks.
    pub queue: Queue,
    /// When each request was acknowledged; 0 if it was not.
    acked: Vec<Time>,
    now: Time,
    next_sub: u64,
    seen: Seen,
    counter_names: Vec<String>,
}

/// The simulator's own count, in sectors, to hold core's counters against.
#[derive(Default)]
struct Seen {
    read: u64,
    written: u64,
    served_by_ssd: u64,
    stored_for_writes: u64,
    ssd_errors: u64,
    disk_errors: u64,
}

impl World {
    /// A disk of `sectors` sectors behind `engine`.
    pub fn new(
        core: &Core,
        engine: Engine,
        sectors: u64,
        ssd_sectors: u64,
        rng: fastrand::Rng,
        trace: Trace,
    ) -> World {
        World {
            engine,
            disk: Disk::new(sectors, |sector| Stamp::new(0, sector, 0)),
            ssd: Disk::new(ssd_sectors, |_| Stamp::JUNK),
            memory_shortage: 0,
            rng,
            trace,
            oracle: Oracle::new(sectors),
            memory: Memory::default(),
            queue: Queue::default(),
            ops: Default::default(),
            subs: Default::default(),
            tasks: Vec::new(),
            acked: vec![1],
            now: 1,
            next_sub: 1,
            seen: Seen::default(),
            counter_names: core.counter_names(),
        }
    }

    /// Starts over with an empty cache, as after a stop. Nothing may be under way.
    pub fn renew(&mut self, engine: Engine) {
        self.engine = engine;
        self.seen = Seen::default();
    }

    /// Requests that are not answered yet.
    pub fn under_way(&self) -> usize {
        self.ops.len()
    }

    fn tick(&mut self) -> Time {
        self.now += 1;
        self.now
    }

    fn later(&mut self, task: Task) {
        let lazy = self.rng.u8(..) < self.queue.lazy;
        self.tasks.push((task, lazy));
    }

    /// An application asks for something.
    pub fn submit(&mut self, request: workload::Request) {
        let op = self.acked.len() as OpId;
        let start = self.tick();
        self.acked.push(0);
        let workload::Request {
            verb, first, count, ..
        } = request;
        self.trace.note(first, count, || {
            format!("#{op} {verb:?} {first}+{count} begins")
        });
        let buffer = match verb {
            Verb::Read => Some(self.memory.allocate(count as usize)),
            Verb::Write { .. } => {
                let buffer = self.memory.allocate(count as usize);
                for (sector, stamp) in (first..).zip(self.memory.get_mut(buffer)) {
                    *stamp = Stamp::new(op, sector, 0);
                }
                Some(buffer)
            }
            _ => None,
        };
        if !matches!(verb, Verb::Read | Verb::Flush) {
            self.oracle.write_starts(op, first, count, start);
        }
        let (failed, disk_failed, spoiled, version) = (false, false, false, 0);
        self.ops.insert(
            op,
            Op {
                request,
                start,
                buffer,
                left: count,
                failed,
                disk_failed,
                spoiled,
                version,
            },
        );
        if verb == Verb::Flush {
            let token = token(u64::from(op), Role::Flush);
            let io = Io {
                side: Side::Origin,
                kind: Kind::Flush,
                first: 0,
                count: 0,
                buffer: None,
                fua: false,
                token,
            };
            self.queue.submit(io, &mut self.rng, start);
            return;
        }
        let run = 32u64 << self.engine.layout().run_shift;
        let mut at = first;
        while at < first + count {
            let end = (first + count).min((at / run + 1) * run);
            self.later(Task::Map {
                op,
                first: at,
                count: end - at,
            });
            at = end;
        }
    }

    /// An application changes the buffer of some request that is under way.
    pub fn disturb(&mut self) {
        let restless: Vec<_> = self
            .ops
            .iter()
            .filter(|(_, op)| op.request.restless && op.buffer.is_some())
            .collect();
        if restless.is_empty() {
            return;
        }
        let Some(id) = restless.iter().map(|(id, _)| **id).max() else {
            return;
        };
        let Some(op) = self.ops.get_mut(&id) else {
            return;
        };
        let Some(buffer) = op.buffer else { return };
        let content = self.memory.get_mut(buffer);
        let from = self.rng.usize(..content.len());
        let to = self.rng.usize(from..content.len()) + 1;
        if op.request.verb == Verb::Read {
            op.spoiled = true;
            content[from..to].fill(Stamp::JUNK);
            return;
        }
        op.version = op.version.wrapping_add(1);
        for (sector, stamp) in (op.request.first + from as u64..).zip(&mut content[from..to]) {
            *stamp = Stamp::new(id, sector, op.version);
        }
        let (first, version) = (op.request.first, op.version);
        self.trace
            .note(first + from as u64, (to - from) as u64, || {
                format!("#{id} buffer now has version {version}")
            });
    }

    /// Takes any one step of what is due or under way; false if there is nothing.
    ///
    /// # Errors
    /// Core did something that it must not do.
    pub fn step(&mut self) -> Result<bool, Fault> {
        let due = self.tasks.len();
        if due > 0 && self.rng.usize(..due + self.queue.len()) < due {
            let at = self.rng.usize(..due);
            if !self.tasks[at].1 || self.rng.u8(..16) == 0 {
                let (task, _) = self.tasks.swap_remove(at);
                self.run(task)?;
            }
            return Ok(true);
        }
        let now = self.tick();
        let step = self.queue.step(
            &mut self.rng,
            &mut self.memory,
            &mut self.disk,
            &mut self.ssd,
            now,
        );
        match step {
            None => return Ok(false),
            Some(Step::Missed) => {}
            Some(Step::Moved { io, from, to }) => self.moved(&io, from, to)?,
            Some(Step::Completed { io, failed }) => self.completed(&io, failed)?,
        }
        Ok(true)
    }

    /// Some sectors of an I/O were moved: was it allowed to?
    fn moved(&mut self, io: &Io, from: u64, to: u64) -> Result<(), Fault> {
        let first = io.first + from;
        if io.side == Side::Ssd {
            self.trace.ssd(first, to - from, || {
                format!("SSD {:?} {first}+{} moves", io.kind, to - from)
            });
            return Ok(());
        }
        self.trace.note(first, to - from, || {
            format!("disk {:?} {first}+{} moves", io.kind, to - from)
        });
        if !io.kind.changes() {
            return Ok(());
        }
        for sector in first..first + (to - from) {
            let stamp = self.disk.content()[sector as usize];
            let ours = stamp.sector() == sector && self.ops.contains_key(&stamp.op());
            ensure!(
                ours,
                "disk sector {sector} was given {stamp}, which no request under way wrote"
            );
        }
        Ok(())
    }

    fn completed(&mut self, io: &Io, failed: bool) -> Result<(), Fault> {
        let id = io.token >> 3;
        let side = if io.side == Side::Ssd { "SSD" } else { "disk" };
        self.trace.io(io, || {
            format!(
                "{side} {:?} {}+{} ends, {}",
                io.kind,
                io.first,
                io.count,
                if failed { "failed" } else { "good" }
            )
        });
        match ROLES[(io.token & 7) as usize] {
            Role::Flush => self.flushed(id as OpId, failed),
            Role::Direct => self.direct_done(id, failed),
            Role::Hit => self.hit_done(id, failed),
            Role::Span => self.span_done(id, failed),
            Role::Extent => self.extent_done(id, failed),
        }
    }

    /// A part of a request is answered.
    fn answer(&mut self, id: u64) -> Result<(), Fault> {
        let now = self.tick();
        let Some(sub) = self.subs.get_mut(&id) else {
            return Err(Fault::Other(format!("answer for unknown part {id}")));
        };
        ensure!(!sub.answered, "#{} is answered twice", sub.op);
        sub.answered = true;
        let (op_id, count) = (sub.op, sub.count);
        self.trace.note(sub.first, count, || {
            format!("#{op_id} part {}+{count} answered", sub.first)
        });
        let Some(op) = self.ops.get_mut(&op_id) else {
            return Err(Fault::Other(format!("#{op_id} is unknown")));
        };
        op.failed |= sub.disk_failed;
        op.left -= count;
        if op.left == 0 {
            self.ended(op_id, now)
        } else {
            Ok(())
        }
    }

    /// All of a request is answered.
    fn ended(&mut self, id: OpId, now: Time) -> Result<(), Fault> {
        let Some(op) = self.ops.remove(&id) else {
            return Ok(());
        };
        let workload::Request {
            verb, first, count, ..
        } = op.request;
        self.trace.note(first, count, || {
            format!("#{id} ends, {}", if op.failed { "failed" } else { "good" })
        });
        ensure!(
            !op.failed || op.disk_failed,
            "#{id} failed though the disk did not"
        );
        if !op.failed {
            self.acked[id as usize] = now;
            match verb {
                Verb::Read if !op.spoiled => {
                    let content = op
                        .buffer
                        .map(|buffer| self.memory.get(buffer))
                        .unwrap_or_default();
                    for (sector, &stamp) in (first..).zip(content) {
                        self.oracle.saw(sector, stamp, op.start, now)?;
                    }
                }
                Verb::Read => {}
                Verb::Flush => self.check_durable(op.start)?,
                _ => self.oracle.write_ends(id, first, count, now)?,
            }
            if verb == (Verb::Write { fua: true }) {
                for sector in first..first + count {
                    let mine = self.disk.content()[sector as usize].op() == id;
                    ensure!(
                        !(mine && self.disk.is_volatile(sector)),
                        "#{id} was FUA, but sector {sector} is not durable"
                    );
                }
            }
        }
        if let Some(buffer) = op.buffer {
            self.memory.release(buffer);
        }
        Ok(())
    }

    /// A flush that began at `start` is acknowledged: what was acknowledged before must be durable.
    fn check_durable(&self, start: Time) -> Result<(), Fault> {
        for (sector, stamp) in self.disk.volatile() {
            let acked = self.acked[stamp.op() as usize];
            ensure!(
                acked == 0 || acked > start,
                "a flush was acknowledged, but {stamp} at {sector} is not durable"
            );
        }
        Ok(())
    }

    fn flushed(&mut self, id: OpId, failed: bool) -> Result<(), Fault> {
        if let Some(op) = self.ops.get_mut(&id) {
            op.failed = failed;
            op.disk_failed = failed;
        }
        let now = self.tick();
        self.ended(id, now)
    }
}
