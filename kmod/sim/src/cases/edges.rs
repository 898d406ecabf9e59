// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes of parts of quarters.

use super::{WRITE, ask, slot_of, world};
use crate::engine::{Core, Mode};
use crate::queue::{Io, Kind, Side};
use crate::world::{Fault, World, ensure};

/// The read of a rest that is under way.
fn rest(world: &World) -> Option<usize> {
    let is_rest = |io: &Io| io.side == Side::Origin && io.kind == Kind::Read;
    world.queue.iter().position(is_rest)
}

/// Promise 20. The disk can read nothing, and takes the write.
pub(super) fn unreadable(core: &Core) -> Result<(), Fault> {
    // Neither of two rests can be read, or just one.
    for bad in [[true, true], [true, false], [false, true]] {
        let mut world = world(core, Mode::WriteBack, 1)?;
        ask(&mut world, WRITE, 2, 4)?;
        let mut reads = 0;
        while let Some(at) = rest(&world) {
            ensure!(
                reads < 2,
                "the rest of a quarter is read again and again, though it cannot be read"
            );
            if bad[reads] {
                world.fail(at, 0)?;
            } else {
                world.complete(at)?;
            }
            reads += 1;
        }
        ensure!(reads == 2, "the rest of a quarter was not read");
        world.finish()?;
        let dirty = world.engine.facts().dirty;
        ensure!(dirty == 0, "{dirty} quarters are dirty without their rest");
        world.settle()?;
    }
    Ok(())
}

/// All slots that the frame may have are dirty.
pub(super) fn without_a_slot(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    for frame in 0..64 {
        ask(&mut world, WRITE, frame * 32, 8)?;
        world.finish()?;
    }
    ensure!(
        world.frames().len() == 16,
        "not all slots are taken: {:?}",
        world.frames()
    );
    let without = (0..64).find(|frame| slot_of(&world, *frame).is_none());
    let frame = without.unwrap_or_default();
    ask(&mut world, WRITE, frame * 32 + 10, 4)?;
    ensure!(
        rest(&world).is_none(),
        "the rest of a quarter is read for nothing: frame {frame} gets no slot"
    );
    world.finish()?;
    // Where a frame has a slot, the rest is read.
    let frame = (0..64).find(|frame| slot_of(&world, *frame).is_some());
    ask(&mut world, WRITE, frame.unwrap_or_default() * 32 + 10, 4)?;
    ensure!(rest(&world).is_some(), "the rest of a quarter is not read");
    world.finish()?;
    world.settle()
}
