// SPDX-License-Identifier: GPL-3.0-or-later
//! Promotion is off.

use super::{WRITE, ask, read, slot_of, world};
use crate::engine::{Core, Mode};
use crate::queue::Side;
use crate::world::{Fault, World, ensure};

const MODES: [Mode; 3] = [Mode::WriteThrough, Mode::WriteAround, Mode::WriteBack];

/// Frame 0 has a slot, and promotion is off.
fn closed_world(core: &Core, mode: Mode) -> Result<World, Fault> {
    let mut world = world(core, mode, 1)?;
    read(&mut world, 0, 32)?;
    world.set_promotion(false);
    Ok(world)
}

/// Whether nothing goes to the hard disk from now until everything has ended.
fn spares_the_disk(world: &mut World) -> Result<bool, Fault> {
    let mut spares = true;
    while world.under_way() > 0 {
        spares &= !world.queue.iter().any(|io| io.side == Side::Origin);
        super::complete_all(world)?;
    }
    world.finish()?;
    Ok(spares)
}

pub(super) fn stores_nothing_new(core: &Core) -> Result<(), Fault> {
    for mode in MODES {
        let mut world = closed_world(core, mode)?;
        ask(&mut world, crate::workload::Verb::Read, 0, 32)?;
        ensure!(
            spares_the_disk(&mut world)?,
            "{mode:?}: a hit was read from the disk"
        );
        read(&mut world, 64, 32)?;
        ask(&mut world, WRITE, 128, 32)?;
        world.finish()?;
        // A read of both: the first half is a hit.
        read(&mut world, 0, 64)?;
        let stored = [1, 2, 4].map(|frame| slot_of(&world, frame));
        ensure!(
            stored == [None; 3],
            "{mode:?}: promotion is off, but frames got slots: {stored:?}"
        );
        world.set_promotion(true);
        read(&mut world, 64, 32)?;
        ensure!(
            slot_of(&world, 2).is_some(),
            "{mode:?}: promotion is on again, but a frame that was read has no slot"
        );
        world.settle()?;
    }
    Ok(())
}

pub(super) fn keeps_what_it_has(core: &Core) -> Result<(), Fault> {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        let mut world = closed_world(core, mode)?;
        ask(&mut world, WRITE, 0, 8)?;
        let spares = spares_the_disk(&mut world)?;
        ensure!(
            spares == (mode == Mode::WriteBack),
            "{mode:?}: a write of a frame that has a slot went the wrong way"
        );
        ask(&mut world, crate::workload::Verb::Read, 0, 8)?;
        ensure!(
            spares_the_disk(&mut world)?,
            "{mode:?}: what was written is not on the SSD"
        );
        world.settle()?;
    }
    Ok(())
}

/// Frame 0 is dirty, and frame 1 has no slot. The write of both has to end, with the data of the other part of frame 0.
pub(super) fn writes_a_mixture(core: &Core) -> Result<(), Fault> {
    let mut world = closed_world(core, Mode::WriteBack)?;
    ask(&mut world, WRITE, 0, 32)?;
    world.finish()?;
    let dirty = world.engine.facts().dirty;
    ensure!(dirty == 4, "{dirty} quarters are dirty");
    ask(&mut world, WRITE, 8, 56)?;
    while world.under_way() > 0 {
        world.clean(false)?;
        world.run_tasks()?;
        super::complete_all(&mut world)?;
    }
    world.finish()?;
    ensure!(
        slot_of(&world, 1).is_none(),
        "promotion is off, but frame 1 got a slot"
    );
    let dirty = world.engine.facts().dirty;
    ensure!(dirty <= 1, "{dirty} quarters are dirty after the write");
    world.settle()?;
    world.drain(Mode::WriteThrough)
}
