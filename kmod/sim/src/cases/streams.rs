// SPDX-License-Identifier: GPL-3.0-or-later
//! Long writes in order.

use super::{REGION, WRITE, ask, complete_all, large_world, read, slot_of, world};
use crate::engine::{Core, Mode};
use crate::queue::{Io, Kind, Side};
use crate::workload::Verb;
use crate::world::{Fault, World, ensure};

/// Frames in a row that are a stream here, and in write-back.
const STREAM: u32 = 2;
const STREAM_BACK: u64 = 8;
const FRAME: u64 = 32;

/// An empty cache that takes so many frames for a stream.
fn streaming_world(core: &Core, mode: Mode, regions: u64) -> Result<World, Fault> {
    let mut world = world(core, mode, regions)?;
    world.set_stream(STREAM);
    Ok(world)
}

/// The request and all that follows from it; returns the I/Os that moved data between the caches and a disk.
fn write(world: &mut World, first: u64, count: u64) -> Result<Vec<(Side, Kind)>, Fault> {
    let data = world.engine.geometry().data.start;
    let moves = |io: &&Io| io.side == Side::Origin || io.first >= data;
    let mut seen = Vec::new();
    ask(world, WRITE, first, count)?;
    while world.under_way() > 0 {
        seen.extend(
            world
                .queue
                .iter()
                .filter(moves)
                .map(|io| (io.side, io.kind)),
        );
        complete_all(world)?;
    }
    world.finish()?;
    Ok(seen)
}

/// Writes frames until the next one will make it a stream. Returns that frame.
fn begin(world: &mut World, mode: Mode, frame: u64) -> Result<u64, Fault> {
    let next = match mode {
        Mode::WriteBack => frame + STREAM_BACK - 1,
        _ => frame + u64::from(STREAM) - 1,
    };
    for frame in frame..next {
        let seen = write(world, frame * FRAME, FRAME)?;
        ensure!(
            seen.iter().any(|(side, _)| *side == Side::Ssd),
            "frame {frame} is not stored, but the stream is still short"
        );
    }
    Ok(next)
}

/// Frame 9 was read before. Then the stream writes it, and frames that nobody has touched.
pub(super) fn goes_past(core: &Core) -> Result<(), Fault> {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        let mut world = streaming_world(core, mode, 1)?;
        read(&mut world, 9 * FRAME, FRAME)?;
        ensure!(slot_of(&world, 9).is_some(), "a read is not stored");
        let next = begin(&mut world, mode, 0)?;
        for frame in next..12 {
            let seen = write(&mut world, frame * FRAME, FRAME)?;
            ensure!(
                seen == [(Side::Origin, Kind::Write)],
                "{mode:?}: a write of a stream costs {seen:?}"
            );
            ensure!(
                slot_of(&world, frame).is_none(),
                "{mode:?}: frame {frame} is stored, or its old copy is kept"
            );
        }
        // The answer of the read is checked for the new data.
        read(&mut world, 9 * FRAME, FRAME)?;
        world.settle()?;
        world.drain(Mode::WriteThrough)?;
    }
    Ok(())
}

/// Frame 8 is dirty when the stream comes to it.
pub(super) fn spares_dirty_data(core: &Core) -> Result<(), Fault> {
    let mut world = streaming_world(core, Mode::WriteBack, 1)?;
    write(&mut world, 8 * FRAME, FRAME)?;
    let next = begin(&mut world, Mode::WriteBack, 0)?;
    let seen = write(&mut world, next * FRAME, FRAME)?;
    ensure!(
        seen == [(Side::Origin, Kind::Write)],
        "before the dirty frame: {seen:?}"
    );
    // Both frames of the run: a write of the dirty one alone would go to the SSD without being asked about.
    let seen = write(&mut world, 8 * FRAME, 2 * FRAME)?;
    ensure!(
        !seen.is_empty() && seen.iter().all(|it| *it == (Side::Ssd, Kind::Write)),
        "the dirty frame is written by {seen:?}"
    );
    world.settle()?;
    world.drain(Mode::WriteThrough)
}

/// Completes what is under way, and what follows from it, but for writes to the disk and of marks.
fn complete_others(world: &mut World) -> Result<(), Fault> {
    let intent = world.engine.geometry().intent;
    let marks = intent.start..intent.start + intent.length;
    let held =
        |io: &Io| io.kind == Kind::Write && (io.side == Side::Origin || marks.contains(&io.first));
    loop {
        let at = world.queue.iter().position(|io| !held(io));
        let Some(at) = at else { return Ok(()) };
        world.complete(at)?;
    }
}

/// A write makes a quarter dirty while the next write of the stream waits for it: that one was taken for the disk when
/// nothing was dirty. The quarter is cleaned before the mark of the region is durable, which a write to the disk needs.
pub(super) fn waits_for_dirty_data(core: &Core) -> Result<(), Fault> {
    let mut world = large_world(core, Mode::WriteBack)?;
    world.set_stream(STREAM);
    // Time enough that the flush of a drain, which clears the mark, leaves a stream.
    let next = 3 * STREAM_BACK;
    for frame in 0..next {
        write(&mut world, frame * FRAME, FRAME)?;
    }
    world.drain(Mode::WriteBack)?;
    let marks = world.engine.facts().marks_set;
    ensure!(marks == 0, "{marks} marks are set after the flush");
    // A write with FUA is not part of the stream.
    ask(&mut world, Verb::Write { fua: true }, next * FRAME, 8)?;
    ask(&mut world, WRITE, next * FRAME, FRAME)?;
    ensure!(world.streaming() == 1, "the stream does not go on");
    for _ in 0..3 {
        complete_others(&mut world)?;
        world.second();
        complete_others(&mut world)?;
        world.clean(true)?;
        world.run_tasks()?;
    }
    complete_all(&mut world)?;
    world.finish()?;
    // Disk and copy are compared.
    world.settle()?;
    world.drain(Mode::WriteThrough)
}

/// As a journal: a frame, then a flush that somebody waits for.
pub(super) fn is_no_journal(core: &Core) -> Result<(), Fault> {
    let mut world = streaming_world(core, Mode::WriteBack, 1)?;
    for frame in 0..STREAM_BACK + 4 {
        let seen = write(&mut world, frame * FRAME, FRAME)?;
        ensure!(
            seen == [(Side::Ssd, Kind::Write)],
            "frame {frame} of a journal is written by {seen:?}"
        );
        ask(&mut world, Verb::Flush, 0, 0)?;
        world.finish()?;
    }
    world.settle()?;
    world.drain(Mode::WriteThrough)
}

/// Behind a region that the stream writes, no write waits for a mark.
pub(super) fn finds_marks_set(core: &Core) -> Result<(), Fault> {
    let mut world = streaming_world(core, Mode::WriteThrough, 3)?;
    let mode = Mode::WriteThrough;
    let next = begin(&mut world, mode, REGION / FRAME - u64::from(STREAM))?;
    write(&mut world, next * FRAME, FRAME)?;
    for region in 1..3 {
        ask(&mut world, WRITE, region * REGION, FRAME)?;
        ensure!(
            world.queue.iter().any(|io| io.side == Side::Origin),
            "a write of the stream waits for the mark of region {region}"
        );
        world.finish()?;
        world.set_stream(u32::MAX);
    }
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    let marks = world.engine.facts().marks_set;
    ensure!(marks == 0, "after a flush {marks} marks are set");
    world.settle()
}

/// Of a long row of discards with gaps, few wait for a mark. A discard alone sets that of its own region.
pub(super) fn discards_find_marks_set(core: &Core) -> Result<(), Fault> {
    const ROW: u64 = 20;
    let mut world = world(core, Mode::WriteThrough, ROW + 4)?;
    let marks = |world: &World| world.engine.facts().marks_set;
    // The first regions are where a row would begin.
    ask(&mut world, Verb::Discard, (ROW + 3) * REGION, FRAME)?;
    world.finish()?;
    ensure!(
        marks(&world) == 1,
        "a discard alone sets {} marks",
        marks(&world)
    );
    let mut waits = 0;
    for region in 1..=ROW {
        ask(&mut world, Verb::Discard, region * REGION + FRAME, FRAME)?;
        waits += u64::from(world.queue.iter().all(|io| io.side != Side::Origin));
        world.finish()?;
    }
    ensure!(
        (2..=6).contains(&waits),
        "{waits} of {ROW} discards wait for a mark"
    );
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    ensure!(
        marks(&world) == 0,
        "after a flush {} marks are set",
        marks(&world)
    );
    world.settle()
}
