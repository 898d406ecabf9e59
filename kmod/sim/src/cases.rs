// SPDX-License-Identifier: GPL-3.0-or-later
//! Single cases: a few requests, and each I/O completed in an order that is written down here.

mod discards;
mod edges;
mod marks;
mod promotion;
mod start;
mod streams;
mod synced;
mod unreadable;
mod watched;

use crate::engine::{Core, Geometry, Mode, Region};
use crate::queue::{Io, Kind, Side};
use crate::trace::Trace;
use crate::workload::{Request, Verb};
use crate::world::{Fault, Machine, Word, World, ensure};

/// A case; an error says what was wrong.
type Play = fn(&Core) -> Result<(), Fault>;

/// All cases, by name.
pub const CASES: [(&str, Play); 33] = [
    (
        "a flush does not wait for writes that came later",
        later_writes,
    ),
    (
        "a bad quarter fails no write of another one that is cleaned beside it",
        |core| healthy_quarter(core, &[0, 2], 2),
    ),
    (
        "a bad quarter fails no write of another one that is cleaned with it",
        |core| healthy_quarter(core, &[0, 1], 1),
    ),
    (
        "a discard of dirty data writes none of that data to the disk",
        dirty_discard,
    ),
    (
        "what a discard dropped under a write in place is not stored there again meanwhile",
        discards::under_a_write,
    ),
    (
        "a write of a part of a quarter whose rest cannot be read goes to the disk",
        edges::unreadable,
    ),
    (
        "of a write for which there is no slot no rest is read",
        edges::without_a_slot,
    ),
    (
        "an unreadable clean block costs its slot, also after a stop",
        unreadable::costs_its_slot,
    ),
    (
        "an unreadable quarter beside a dirty one is not stored there again",
        unreadable::beside_dirty,
    ),
    (
        "the dirty quarter of a retired slot outlives a stop",
        unreadable::dirty_outlives_a_stop,
    ),
    (
        "of slots that fail together just the bad one is retired",
        unreadable::among_others,
    ),
    (
        "an unreadable clean block fails no read of the dirty one beside it",
        unreadable::beside_dirty_slot,
    ),
    (
        "after a failed read of several slots something is written to the SSD",
        unreadable::lost_ssd_is_noticed,
    ),
    (
        "many unreadable blocks mean that the SSD has failed, but not while something is dirty",
        unreadable::many,
    ),
    (
        "while promotion is off hits are served, and no frame gets a slot",
        promotion::stores_nothing_new,
    ),
    (
        "while promotion is off writes keep the frames that have a slot up to date",
        promotion::keeps_what_it_has,
    ),
    (
        "while promotion is off a write of dirty data and more goes to the disk",
        promotion::writes_a_mixture,
    ),
    (
        "a long write in order goes to the disk alone, and what was cached of it is forgotten",
        streams::goes_past,
    ),
    (
        "where a long write in order meets dirty data it goes to the SSD",
        streams::spares_dirty_data,
    ),
    (
        "a long write in order waits for dirty data that comes when it has been decided on",
        streams::waits_for_dirty_data,
    ),
    (
        "what is written in order with flushes between is no long write",
        streams::is_no_journal,
    ),
    (
        "a long write in order finds the marks of the next regions set",
        streams::finds_marks_set,
    ),
    (
        "discards in a row find the marks of the next regions set, and a discard alone sets one",
        streams::discards_find_marks_set,
    ),
    (
        "a synced write over a cached block does not flush the SSD",
        synced::flushes_nothing,
    ),
    (
        "lone writes over cached blocks find marks set, unless flushes come between",
        synced::lone_writes,
    ),
    (
        "the note of a place says what the disk has, also after a write that failed there",
        watched::failed_write,
    ),
    (
        "a place is not learned from a failed cleaning that the disk may still lose",
        watched::failed_cleaning,
    ),
    (
        "a place is not learned from a cleaning whose flush is under way",
        watched::unflushed_cleaning,
    ),
    (
        "of a disk that was exchanged while the cache was in use nothing is known",
        watched::exchanged_in_use,
    ),
    (
        "a write of a part of a place that is not known makes nothing known",
        watched::part_of_unknown,
    ),
    (
        "a flush waits for a mark that is being cleared",
        cleared_mark,
    ),
    (
        "old marks have the disk flushed soon, or, while it is written to, later",
        marks::spare_a_busy_disk,
    ),
    (
        "a start whose SSD fails before the drop is on record is not done",
        start::fails_before_the_drop,
    ),
];

/// A case failed.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {fault}")]
pub struct Failure {
    name: &'static str,
    fault: Fault,
}

/// Plays all cases.
///
/// # Errors
/// The first that fails.
pub fn play_all(core: &Core) -> Result<(), Failure> {
    for (name, play) in CASES {
        play(core).map_err(|fault| Failure { name, fault })?;
    }
    Ok(())
}

/// Sectors of a region of the disk that has an intent mark.
const REGION: u64 = 2048;

const WRITE: Verb = Verb::Write { fua: false };

/// An empty cache of 16 slots, with runs of two frames, for a disk with this many regions. Nothing is under way.
fn world(core: &Core, mode: Mode, regions: u64) -> Result<World, Fault> {
    world_of(core, mode, regions, 4, 1)
}

/// An empty cache of 128 slots in sets of eight ways, for a disk with one region.
fn large_world(core: &Core, mode: Mode) -> Result<World, Fault> {
    world_of(core, mode, 1, 8, 3)
}

fn world_of(
    core: &Core,
    mode: Mode,
    regions: u64,
    groups: u32,
    way_shift: u32,
) -> Result<World, Fault> {
    let slots = u64::from(groups) << (1 + way_shift);
    let region = |start, length| Region { start, length };
    let machine = Machine {
        geometry: Geometry {
            origin_sectors: regions * REGION,
            ssd_sectors: 168 + slots * 32,
            journal: region(0, 128),
            checkpoint: region(128, 32),
            intent: region(160, 8),
            data: region(168, slots * 32),
            block_sectors: 1,
            groups,
            run_shift: 1,
            way_shift,
            ..Geometry::default()
        },
        disk_block: 1,
        mode,
        stream: u32::MAX,
        flaw: None,
    };
    let mut world = World::new(core, &machine, Trace::default());
    world.finish()?;
    Ok(world)
}

/// An application submits a request, and core is told.
fn ask(world: &mut World, verb: Verb, first: u64, count: u64) -> Result<(), Fault> {
    world.submit(Request {
        verb,
        first,
        count,
        restless: false,
    });
    world.run_tasks()
}

/// Completes the I/Os that are under way to the disks, in the order of their submission; not the I/Os that follow from
/// these.
fn complete_all(world: &mut World) -> Result<(), Fault> {
    for _ in 0..world.queue.len() {
        world.complete(0)?;
    }
    Ok(())
}

/// Is the disk being flushed?
fn is_disk_flushed(world: &World) -> bool {
    let flush = |io: &Io| io.side == Side::Origin && io.kind == Kind::Flush;
    world.queue.iter().any(flush)
}

/// Is a block of intent marks being written?
fn marks_under_way(world: &World) -> bool {
    let intent = world.engine.geometry().intent;
    let inside = |first| (intent.start..intent.start + intent.length).contains(&first);
    world
        .queue
        .iter()
        .any(|io| io.side == Side::Ssd && io.kind.changes() && inside(io.first))
}

/// A flush comes, and a block that clears marks is on its way then.
fn begin_clearing(world: &mut World) -> Result<(), Fault> {
    ask(world, Verb::Flush, 0, 0)?;
    while !marks_under_way(world) {
        ensure!(
            world.waiting(Verb::Flush) > 0,
            "a flush on a quiet device clears no mark"
        );
        complete_all(world)?;
    }
    Ok(())
}

/// Promise 33. The flush clears the mark of the write before it; from then on there is always a later write that waits for
/// the mark of its own region.
fn later_writes(core: &Core) -> Result<(), Fault> {
    const LATER: u64 = 500;
    /// Two blocks of marks: the block that is being written, and the block that a later write waits for.
    const ENOUGH: u64 = 2;
    let mut world = world(core, Mode::WriteThrough, LATER + 1)?;
    ask(&mut world, WRITE, 0, 8)?;
    world.finish()?;
    begin_clearing(&mut world)?;
    let mut later = 0;
    while world.waiting(Verb::Flush) > 0 && later < LATER {
        later += 1;
        ask(&mut world, WRITE, later * REGION, 8)?;
        complete_all(&mut world)?;
    }
    ensure!(
        later <= ENOUGH,
        "a flush waited for {later} of {LATER} writes that came later"
    );
    world.finish()?;
    world.settle()
}

/// Promise 13. The first flush clears the last mark. A cut would leave that mark, though nothing is in flight after the
/// second flush.
fn cleared_mark(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteThrough, 1)?;
    ask(&mut world, WRITE, 0, 8)?;
    world.finish()?;
    begin_clearing(&mut world)?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    let waiting = world.waiting(Verb::Flush);
    ensure!(
        waiting == 2,
        "a flush was answered while the block that clears the last mark is on its way"
    );
    world.finish()?;
    world.settle()
}

/// Promise 18. The quarters `dirty` of frame 0 are dirty and being cleaned when quarter 0 is written in write-through; then
/// the SSD cannot read the quarter `bad`.
fn healthy_quarter(core: &Core, dirty: &[u64], bad: u64) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    for quarter in dirty {
        ask(&mut world, WRITE, quarter * 8, 8)?;
    }
    world.finish()?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    world.set_mode(Mode::WriteThrough);
    for _ in dirty {
        world.clean(true)?;
    }
    world.run_tasks()?;
    ask(&mut world, WRITE, 0, 8)?;
    let data = world.engine.geometry().data.start;
    let place = (0..4).map(|way| data + way * 64 + bad * 8);
    let places: Vec<u64> = place.collect();
    let reads_bad = |io: &Io| {
        let end = io.first + io.count;
        io.side == Side::Ssd
            && io.kind == Kind::Read
            && places.iter().any(|at| (io.first..end).contains(at))
    };
    let Some(at) = world.queue.iter().position(reads_bad) else {
        return Err(Fault::Other(
            "the bad quarter is not being cleaned".to_owned(),
        ));
    };
    world.unreadable = 65536;
    world.complete(at)?;
    world.unreadable = 0;
    // The answer of the write is checked for a failure.
    world.finish()?;
    world.settle()
}

/// The discard covers frame 0 whole and a part of frame 1; all of both is dirty, and the SSD has recorded that.
fn dirty_discard(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    ask(&mut world, WRITE, 0, 64)?;
    world.finish()?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    ask(&mut world, Verb::Discard, 0, 40)?;
    while world.waiting(Verb::Discard) > 0 {
        let cleans = |io: &Io| match io.side {
            Side::Origin => io.kind == Kind::Write,
            Side::Ssd => io.kind == Kind::Read,
        };
        ensure!(
            !world.queue.iter().any(cleans),
            "data is written back that is being discarded"
        );
        let dirty = world.engine.facts().dirty;
        ensure!(
            dirty == 8,
            "{dirty} quarters are dirty while the discard is under way"
        );
        complete_all(&mut world)?;
    }
    let dirty = world.engine.facts().dirty;
    ensure!(dirty == 3, "{dirty} quarters are dirty after the discard");
    world.settle()?;
    world.drain(Mode::WriteThrough)
}

fn read(world: &mut World, first: u64, count: u64) -> Result<(), Fault> {
    ask(world, Verb::Read, first, count)?;
    world.finish()
}

/// The slot of this frame, of which some part can be read.
fn slot_of(world: &World, frame: u64) -> Option<usize> {
    let words = world.engine.words().into_iter().map(Word::of);
    words
        .enumerate()
        .find(|(_, word)| word.valid != 0 && word.tag == frame)
        .map(|(slot, _)| slot)
}
