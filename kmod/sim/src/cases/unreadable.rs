// SPDX-License-Identifier: GPL-3.0-or-later
//! The SSD cannot read some of what it holds.

use super::{WRITE, ask, complete_all, large_world, read, slot_of, world};
use crate::engine::{Core, Mode, RETIRED_LIFE, State};
use crate::queue::{Io, Kind, Side};
use crate::workload::Verb;
use crate::world::{Fault, World, ensure};

/// Reads, and every read of the SSD for this request fails.
fn read_failing(world: &mut World, first: u64, count: u64) -> Result<(), Fault> {
    ask(world, Verb::Read, first, count)?;
    world.unreadable = 65536;
    complete_all(world)?;
    world.unreadable = 0;
    world.finish()
}

/// Reads two frames that lie together on the SSD; its first read of them fails, and what follows from that does not.
fn read_failing_once(world: &mut World) -> Result<(), Fault> {
    ask(world, Verb::Read, 0, 64)?;
    world.unreadable = 65536;
    world.complete(0)?;
    world.unreadable = 0;
    world.finish()
}

/// Promise 17.
pub(super) fn costs_its_slot(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteThrough, 1)?;
    read(&mut world, 0, 32)?;
    read(&mut world, 128, 32)?;
    let bad = slot_of(&world, 0);
    let other = slot_of(&world, 4);
    ensure!(bad.is_some() && other.is_some(), "reads are not stored");
    read_failing(&mut world, 0, 8)?;
    ensure!(
        world.engine.state() == State::Active,
        "one unreadable block, and the SSD is not used any more"
    );
    for life in 0..2 {
        let retired = world.engine.retired();
        ensure!(
            retired.len() == 1 && bad == retired.first().map(|&slot| slot as usize),
            "life {life}: slot {bad:?} cannot be read, {retired:?} are retired"
        );
        ensure!(
            slot_of(&world, 4) == other,
            "life {life}: the block beside it is not cached any more"
        );
        read(&mut world, 0, 32)?;
        let now = slot_of(&world, 0);
        ensure!(
            now.is_some() && now != bad,
            "life {life}: the block is in slot {now:?} now, it was in {bad:?}"
        );
        world.stop(Mode::WriteThrough)?;
        world.finish()?;
    }
    world.settle()
}

/// The frame cannot leave its slot while quarter 0 is dirty. What is stored in a retired slot is found where it is stored.
pub(super) fn beside_dirty(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    read(&mut world, 0, 32)?;
    ask(&mut world, WRITE, 0, 8)?;
    world.finish()?;
    read_failing(&mut world, 16, 8)?;
    ensure!(
        world.engine.retired().len() == 1 && slot_of(&world, 0).is_some(),
        "the bad quarter's slot is not retired, or the dirty one is lost"
    );
    read(&mut world, 16, 8)?;
    ask(&mut world, WRITE, 24, 8)?;
    world.finish()?;
    world.drain(Mode::WriteThrough)?;
    read(&mut world, 0, 32)?;
    world.settle()
}

/// Promise 13. Of a retired slot a start takes what is dirty, and nothing else.
pub(super) fn dirty_outlives_a_stop(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    read(&mut world, 0, 32)?;
    ask(&mut world, WRITE, 0, 8)?;
    world.finish()?;
    read_failing(&mut world, 16, 8)?;
    let bad = slot_of(&world, 0);
    world.stop(Mode::WriteBack)?;
    world.finish()?;
    let dirty = world.engine.facts().dirty;
    ensure!(
        world.engine.retired().len() == 1 && slot_of(&world, 0) == bad && dirty == 1,
        "{dirty} quarters are dirty after the start, in slot {:?} of {bad:?}",
        slot_of(&world, 0)
    );
    world.settle()
}

/// Two frames of a run lie together on the SSD and are read at once.
pub(super) fn among_others(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteThrough, 1)?;
    read(&mut world, 0, 64)?;
    read_failing(&mut world, 0, 64)?;
    ensure!(
        world.engine.retired().is_empty() && slot_of(&world, 0).is_some(),
        "slots were retired that are not known to be bad"
    );
    // The first of them cannot be read, the second can.
    read_failing_once(&mut world)?;
    ensure!(
        world.engine.retired().len() == 1 && slot_of(&world, 1).is_some(),
        "retired: {:?}",
        world.engine.retired()
    );
    world.settle()
}

/// Promise 18. Of two frames that lie together on the SSD the second is dirty, and the first cannot be read.
pub(super) fn beside_dirty_slot(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    read(&mut world, 0, 64)?;
    ask(&mut world, WRITE, 32, 32)?;
    world.finish()?;
    let first = slot_of(&world, 0).unwrap_or_default();
    ensure!(
        slot_of(&world, 1) == Some(first + 1),
        "the two frames do not lie together"
    );
    read_failing_once(&mut world)?;
    ensure!(
        world.failed_requests() == 0,
        "a read failed though the disk and the SSD have all of it"
    );
    world.settle()
}

/// Promise 17. If the SSD is gone, it is asked for nothing but these hits; and an SSD without a volatile cache gets no
/// flush.
pub(super) fn lost_ssd_is_noticed(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteThrough, 1)?;
    read(&mut world, 0, 64)?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    ask(&mut world, Verb::Read, 0, 64)?;
    world.unreadable = 65536;
    complete_all(&mut world)?;
    world.unreadable = 0;
    world.second();
    world.run_tasks()?;
    let journal = world.engine.geometry().journal;
    let inside = |first| (journal.start..journal.start + journal.length).contains(&first);
    let written = |io: &Io| io.side == Side::Ssd && io.kind == Kind::Write && inside(io.first);
    ensure!(
        world.queue.iter().any(written),
        "after a failed read nothing is written to the SSD"
    );
    world.finish()?;
    world.settle()
}

pub(super) fn many(core: &Core) -> Result<(), Fault> {
    for dirty in [false, true] {
        let mut world = large_world(core, Mode::WriteBack)?;
        if dirty {
            ask(&mut world, WRITE, 0, 8)?;
            world.finish()?;
        }
        // Each alone in its run.
        let frames = 1..=RETIRED_LIFE as u64 + 8;
        for frame in frames.clone() {
            read(&mut world, frame * 64, 32)?;
        }
        for frame in frames {
            read_failing(&mut world, frame * 64, 8)?;
        }
        let state = world.engine.state();
        ensure!(
            state == if dirty { State::Active } else { State::Bypass },
            "dirty: {dirty}; after {} unreadable blocks: {state:?}",
            world.engine.retired().len()
        );
        world.settle()?;
    }
    Ok(())
}
