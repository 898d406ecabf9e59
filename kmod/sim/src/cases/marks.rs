// SPDX-License-Identifier: GPL-3.0-or-later
//! When the disk is flushed for marks that no write needs any more.

use super::{REGION, WRITE, ask, complete_all, is_disk_flushed, world};
use crate::engine::{Core, Mode};
use crate::world::{Fault, World, ensure};

/// Seconds after which a mark is old, and after which it may go though the disk is in use.
const OLD: u32 = 8;
const BUSY: u32 = 64;

/// Seconds until the disk is flushed, while all but the writes that the disk has goes on.
fn seconds_to_flush(world: &mut World) -> Result<u32, Fault> {
    for second in 1..=2 * BUSY {
        world.second();
        world.run_tasks()?;
        if is_disk_flushed(world) {
            return Ok(second);
        }
    }
    Err(Fault::Other("the disk is not flushed".to_owned()))
}

/// Two regions are marked; a write of the second is in flight, or none is.
pub(super) fn spare_a_busy_disk(core: &Core) -> Result<(), Fault> {
    for is_busy in [false, true] {
        let mut world = world(core, Mode::WriteThrough, 2)?;
        for region in 0..2 {
            ask(&mut world, WRITE, region * REGION, 8)?;
            world.finish()?;
        }
        if is_busy {
            ask(&mut world, WRITE, REGION, 8)?;
        }
        let seconds = seconds_to_flush(&mut world)?;
        let limit = if is_busy { BUSY } else { OLD };
        ensure!(
            (limit - OLD + 1..=limit).contains(&seconds),
            "the disk was flushed after {seconds} s; in use: {is_busy}"
        );
        complete_all(&mut world)?;
        world.finish()?;
        world.settle()?;
    }
    Ok(())
}
