// SPDX-License-Identifier: GPL-3.0-or-later
//! Single cases: a few requests, and each I/O completed in an order that is written down here.

use crate::engine::{Core, Geometry, Mode, Region};
use crate::queue::{Io, Kind, Side};
use crate::trace::Trace;
use crate::workload::{Request, Verb};
use crate::world::{Fault, Machine, World, ensure};

/// A case; an error says what was wrong.
type Play = fn(&Core) -> Result<(), Fault>;

/// All cases, by name.
pub const CASES: [(&str, Play); 3] = [
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

/// An empty cache of 16 slots, of runs of two frames, for a disk of so many regions; nothing is under way.
fn world(core: &Core, mode: Mode, regions: u64) -> Result<World, Fault> {
    let region = |start, length| Region { start, length };
    let machine = Machine {
        geometry: Geometry {
            origin_sectors: regions * REGION,
            ssd_sectors: 680,
            journal: region(0, 128),
            checkpoint: region(128, 32),
            intent: region(160, 8),
            data: region(168, 512),
            block_sectors: 1,
            groups: 4,
            run_shift: 1,
            way_shift: 1,
        },
        disk_block: 1,
        mode,
        flaw: None,
    };
    let mut world = World::new(core, &machine, Trace::default());
    world.finish()?;
    Ok(world)
}

/// An application asks for something, and core is told.
fn ask(world: &mut World, verb: Verb, first: u64, count: u64) -> Result<(), Fault> {
    world.submit(Request {
        verb,
        first,
        count,
        restless: false,
    });
    world.run_tasks()
}

/// Completes what is under way to the disks, in the order in which it was submitted; not what that leads to.
fn complete_all(world: &mut World) -> Result<(), Fault> {
    for _ in 0..world.queue.len() {
        world.complete(0)?;
    }
    Ok(())
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

/// Promise 33. The flush clears the mark of the write before it; from then on there is always a later write that waits for
/// the mark of its own region.
fn later_writes(core: &Core) -> Result<(), Fault> {
    const LATER: u64 = 500;
    /// The block of marks that is being written, and the one that a later write waits for.
    const ENOUGH: u64 = 2;
    let mut world = world(core, Mode::WriteThrough, LATER + 1)?;
    ask(&mut world, WRITE, 0, 8)?;
    world.finish()?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    while !marks_under_way(&world) {
        ensure!(
            world.waiting(Verb::Flush) > 0,
            "a flush on a quiet device clears no mark"
        );
        complete_all(&mut world)?;
    }
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
    // That the write does not fail is checked when it is answered.
    world.finish()?;
    world.settle()
}
