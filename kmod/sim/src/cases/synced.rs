// SPDX-License-Identifier: GPL-3.0-or-later
//! Single writes of write-back over blocks that were read, with a flush behind each and without.

use super::{REGION, WRITE, ask, marks_under_way, read, world_of};
use crate::engine::{Core, Mode};
use crate::queue::{Io, Kind, Side};
use crate::workload::Verb;
use crate::world::{Fault, World, ensure};

/// The first quarter of the first frame of each region is cached. All is durable, and no mark is set.
fn cached_world(core: &Core, regions: u64) -> Result<World, Fault> {
    let mut world = world_of(core, Mode::WriteBack, regions, 8, 3)?;
    for region in 0..regions {
        read(&mut world, region * REGION, 8)?;
    }
    flush(&mut world)?;
    Ok(world)
}

fn flush(world: &mut World) -> Result<(), Fault> {
    ask(world, Verb::Flush, 0, 0)?;
    world.finish()
}

/// Completes all I/O and what follows from it. Returns how many flushes the SSD got, alone or before a write.
fn ssd_flushes(world: &mut World) -> Result<u32, Fault> {
    let mut flushes = 0;
    let flushed = |io: &Io| io.side == Side::Ssd && (io.preflush || io.kind == Kind::Flush);
    while !world.queue.is_empty() {
        flushes += u32::from(world.queue.iter().next().is_some_and(flushed));
        world.complete(0)?;
        world.run_tasks()?;
    }
    Ok(flushes)
}

/// The record in advance is of nothing that is not durable, and the data behind it is durable when it is stored.
pub(super) fn flushes_nothing(core: &Core) -> Result<(), Fault> {
    let mut world = cached_world(core, 2)?;
    for region in 0..2 {
        ask(&mut world, WRITE, region * REGION, 8)?;
        let write = ssd_flushes(&mut world)?;
        ask(&mut world, Verb::Flush, 0, 0)?;
        let flush = ssd_flushes(&mut world)?;
        ensure!(
            (write, flush) == (0, 0),
            "the SSD was flushed {write} times for a write, and {flush} times for its flush"
        );
    }
    world.finish()?;
    world.settle()
}

pub(super) fn lone_writes(core: &Core) -> Result<(), Fault> {
    const REGIONS: u64 = 8;
    for flushed in [false, true] {
        let mut world = cached_world(core, REGIONS)?;
        let mut waits = 0;
        for region in 0..REGIONS {
            ask(&mut world, WRITE, region * REGION, 8)?;
            let set = world.engine.facts().marks_set;
            ensure!(
                !flushed || set == 0 && !marks_under_way(&world),
                "a write that a flush follows has its region marked"
            );
            let data = world.engine.geometry().data.start;
            let metadata = |io: &Io| io.side == Side::Ssd && io.first < data;
            waits += u32::from(world.queue.iter().any(metadata));
            world.finish()?;
            if flushed {
                flush(&mut world)?;
            }
        }
        // A sweep, then marks of 2, 4 and 8 regions.
        let expected = if flushed { REGIONS as u32 } else { 4 };
        ensure!(
            waits == expected,
            "of {REGIONS} writes {waits} waited for the SSD's metadata; flushes between: {flushed}"
        );
        flush(&mut world)?;
        let marks = world.engine.facts().marks_set;
        ensure!(marks == 0, "after a flush {marks} marks are set");
        world.settle()?;
    }
    Ok(())
}
