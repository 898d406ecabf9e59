// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes of parts of quarters.

use super::{WRITE, ask, world};
use crate::engine::{Core, Mode};
use crate::queue::{Io, Kind, Side};
use crate::world::{Fault, World, ensure};

/// Promise 20. The disk can read nothing, and takes the write.
pub(super) fn unreadable(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    ask(&mut world, WRITE, 2, 4)?;
    let is_rest = |io: &Io| io.side == Side::Origin && io.kind == Kind::Read;
    let rest = |world: &World| world.queue.iter().position(is_rest);
    let mut reads = 0;
    while let Some(at) = rest(&world) {
        reads += 1;
        ensure!(
            reads <= 2,
            "the rest of a quarter is read again and again, though it cannot be read"
        );
        world.fail(at, 0)?;
    }
    ensure!(reads == 2, "the rest of a quarter was not read");
    world.finish()?;
    let dirty = world.engine.facts().dirty;
    ensure!(dirty == 0, "{dirty} quarters are dirty without their rest");
    world.settle()
}
