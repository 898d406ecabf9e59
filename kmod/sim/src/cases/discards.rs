// SPDX-License-Identifier: GPL-3.0-or-later
//! Discards of dirty data beside other requests.

use super::{WRITE, ask, complete_all, world};
use crate::engine::{Core, Mode};
use crate::queue::{Io, Kind, Side};
use crate::workload::Verb;
use crate::world::{Fault, World, ensure};

/// Completes what is under way, and what follows from that, but the SSD's write that came first.
fn complete_others(world: &mut World) -> Result<(), Fault> {
    let data = world.engine.geometry().data.start;
    let stores = |io: &Io| io.side == Side::Ssd && io.kind == Kind::Write && io.first >= data;
    loop {
        let held = world.queue.iter().position(stores);
        let next = (0..world.queue.len()).find(|&at| Some(at) != held);
        let Some(at) = next else { return Ok(()) };
        world.complete(at)?;
    }
}

/// Promise 16. A write in place comes while its quarter is being discarded, and takes long. Meanwhile the quarter is dropped,
/// and read from the disk: that data must not be stored where the write still goes on.
pub(super) fn under_a_write(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    ask(&mut world, WRITE, 0, 8)?;
    world.finish()?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    ask(&mut world, Verb::Discard, 0, 8)?;
    // The mark is set, then the disk has the discard.
    while !world.queue.iter().any(|io| io.side == Side::Origin) {
        ensure!(world.under_way() > 0, "a discard goes to no disk");
        complete_all(&mut world)?;
    }
    ask(&mut world, WRITE, 0, 8)?;
    complete_others(&mut world)?;
    let dirty = world.engine.facts().dirty;
    let waiting = world.waiting(Verb::Discard);
    ensure!(
        waiting == 0 && dirty == 0,
        "{waiting} discards wait for a write in place, {dirty} quarters are dirty"
    );
    ask(&mut world, Verb::Read, 0, 8)?;
    complete_others(&mut world)?;
    world.finish()?;
    world.settle()
}
