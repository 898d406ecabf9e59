// SPDX-License-Identifier: GPL-3.0-or-later
//! The start of a cache.

use super::{WRITE, ask, complete_all, read, slot_of, world};
use crate::engine::{Core, Mode, State};
use crate::queue::{Io, Side};
use crate::workload::Verb;
use crate::world::{Fault, ensure};

/// Promise 7. Frame 0 is dirty, frame 4 has a clean copy that the start drops. The SSD fails while the start waits for the
/// disk's flush only, before the checkpoint has recorded the drop.
pub(super) fn fails_before_the_drop(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    read(&mut world, 128, 32)?;
    ask(&mut world, WRITE, 0, 8)?;
    world.finish()?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    ensure!(slot_of(&world, 4).is_some(), "a read is not stored");
    world.cut_and_start_cold()?;
    world.run_tasks()?;
    let checkpoint = world.engine.geometry().checkpoint;
    let inside = |first| (checkpoint.start..checkpoint.start + checkpoint.length).contains(&first);
    // The sweep ends. The disk's flush, and the checkpoint that records the drop, are under way then.
    let of_sweep = |io: &Io| io.side == Side::Ssd && !inside(io.first);
    loop {
        let next = world.queue.iter().position(of_sweep);
        let Some(at) = next else { break };
        world.complete(at)?;
    }
    ensure!(
        world.queue.iter().any(|io| io.side == Side::Ssd)
            && world.queue.iter().any(|io| io.side == Side::Origin),
        "a start flushes no disk, or records no drop"
    );
    world.ssd_fails()?;
    ensure!(
        world.engine.state() == State::Stranded,
        "the SSD fails with dirty data, but the state is another"
    );
    while world.is_starting() {
        complete_all(&mut world)?;
    }
    ensure!(
        world.failed_requests() == 1,
        "a start is done though its drop is on no record"
    );
    Ok(())
}
