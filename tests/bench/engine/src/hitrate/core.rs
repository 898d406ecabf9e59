// SPDX-License-Identifier: GPL-3.0-or-later
//! Core's own policy: the engine itself serves the recording, and each request ends before the next begins.

use super::{Recording, Tally};
use tandem_sim::engine::{
    Actions, Core, Engine, Geometry, Mode, NewRequest, Region, ReqKind, Verdict, Waking,
};

/// Sectors of a frame.
const FRAME: u64 = 32;

/// What the writes of a recording are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writes {
    /// Requests ask for blocks, as reads are: what all other policies here take them for.
    LikeReads,
    /// Writes, in write-through.
    Through,
}

/// How the slots lie.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// log2 of the frames in a run.
    pub run_shift: u32,
    /// log2 of the ways of a set.
    pub way_shift: u32,
}

impl Shape {
    /// The layout of real caches: 16 ways, runs of 64 frames. Small caches get shorter runs and then fewer ways, as they
    /// would lose too many blocks to rounding, which no real cache does: at most one in 40 for a run, one in 12 for 16
    /// ways.
    pub fn for_room(room: usize) -> Shape {
        let lost = |shift: u32| room - (room >> shift << shift);
        let way_shift = (0..=4).rev().find(|&ways| lost(ways) * 12 <= room);
        let way_shift = way_shift.unwrap_or(0);
        let run_shift = (0..=6)
            .rev()
            .find(|&run| lost(way_shift + run) * 40 <= room);
        Shape {
            run_shift: run_shift.unwrap_or(0),
            way_shift,
        }
    }

    /// The geometry with at most `room` slots, for a disk of so many frames.
    pub fn geometry(self, room: usize, frames: u64) -> Geometry {
        let shift = self.run_shift + self.way_shift;
        let groups = (room >> shift) as u32;
        let slots = u64::from(groups) << shift;
        let mut end = 2048;
        let mut region = |length: u64| {
            let start = end;
            end += length;
            Region { start, length }
        };
        Geometry {
            origin_sectors: frames * FRAME,
            journal: region(8192),
            checkpoint: region(16 * (1 + slots.div_ceil(511))),
            intent: region(256),
            data: region(slots * FRAME),
            ssd_sectors: end,
            block_sectors: 1,
            groups,
            run_shift: self.run_shift,
            way_shift: self.way_shift,
            ..Geometry::default()
        }
    }
}

/// Core with an empty cache.
pub struct Cache {
    engine: Engine,
    run_sectors: u64,
}

impl Cache {
    /// At most `room` slots, for a disk of `frames` frames.
    pub fn new(core: &Core, shape: Shape, room: usize, frames: u64) -> Cache {
        let geometry = shape.geometry(room, frames);
        Cache {
            engine: Engine::new(core, geometry, Mode::WriteThrough),
            run_sectors: FRAME << geometry.run_shift,
        }
    }

    /// Slots that it has.
    pub fn slots(&self) -> u32 {
        self.engine.layout().slots
    }

    /// A counter of core's, 0 if there is none of this name.
    pub fn counter(&self, core: &Core, name: &str) -> u64 {
        let names = core.counter_names();
        let at = names.iter().position(|other| other == name);
        at.map_or(0, |at| self.engine.counters()[at])
    }

    /// Reads sectors; returns for each frame asked for whether the SSD had it.
    pub fn read(&mut self, sector: u64, count: u64, mut seen: impl FnMut(u64, bool)) {
        let (mut at, end) = (sector, sector + count);
        while at < end {
            let rest = (end - at).min(self.run_sectors - at % self.run_sectors);
            let (verdict, look) = self.engine.look(at, rest);
            let next = at + u64::from(look.count);
            match verdict {
                Verdict::Hit => {
                    for slot in look.slot..look.slot + look.slots {
                        self.engine.unpin(slot);
                    }
                }
                Verdict::Miss => self.serve(ReqKind::Read, at, next - at, true, false),
                Verdict::Pass | Verdict::Busy => {}
            }
            if matches!(verdict, Verdict::Miss | Verdict::Pass) {
                self.engine.disk_read_ends();
            }
            for frame in at / FRAME..=(next - 1) / FRAME {
                seen(frame, verdict == Verdict::Hit);
            }
            at = next;
        }
    }

    /// Writes sectors.
    pub fn write(&mut self, sector: u64, count: u64) {
        let (mut at, end) = (sector, sector + count);
        while at < end {
            let count = (end - at).min(self.run_sectors - at % self.run_sectors);
            let stream = self.engine.streams(at, count);
            let copy = !stream && self.engine.wants_copy(at, count);
            self.serve(ReqKind::Write, at, count, copy, stream);
            at += count;
        }
    }

    fn serve(&mut self, kind: ReqKind, sector: u64, count: u64, copy: bool, stream: bool) {
        let engine = &mut self.engine;
        let frames = engine.span(kind, sector, count).frames;
        let request = engine.request(
            1,
            NewRequest {
                kind,
                sector,
                count,
                parts: if copy { frames } else { 0 },
                no_memory: false,
                stream,
                lent: false,
                fua: false,
            },
        );
        let (actions, mut waking) = engine.begin(&request);
        waking.push((1, actions));
        loop {
            let Some((_, actions)) = waking.pop() else {
                // The request waits for the journal.
                Cache::work(engine, &mut waking);
                continue;
            };
            let mut more = |(actions, woken): (Actions, Waking)| {
                waking.push((1, actions));
                waking.extend(woken);
            };
            if actions.has(Actions::START) {
                more(engine.start(&request));
            }
            if actions.has(Actions::DISK) {
                more(engine.disk_done(&request, true));
            }
            if actions.has(Actions::SSD | Actions::FETCH) {
                more(engine.ssd_done(&request, true));
            }
            if actions.has(Actions::END | Actions::PASS) {
                break;
            }
        }
        engine.end(request);
    }

    /// Lets the ledger do all that it has to do.
    fn work(engine: &mut Engine, waking: &mut Waking) {
        engine.tick();
        while let (Some(work), woken) = engine.next_io() {
            waking.extend(woken);
            waking.extend(engine.io_done(work.kind, true));
        }
    }
}

/// Plays a recording to core. Every block of it is a frame, and every access a request of its own, as it is for the other
/// policies: where a request hits in some blocks only, core may read all of it from the disk, as that costs one seek either
/// way.
pub fn play(recording: &Recording, writes: Writes, cache: &mut Cache) -> Tally {
    let mut tally = Tally::default();
    for request in recording.requests() {
        for block in request.first..=request.last {
            if request.write && writes == Writes::Through {
                cache.write(block * FRAME, FRAME);
                tally.add(true, 1, false);
            } else {
                cache.read(block * FRAME, FRAME, |_, hit| {
                    tally.add(request.write, 1, hit);
                });
            }
        }
    }
    tally
}
