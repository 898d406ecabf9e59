// SPDX-License-Identifier: GPL-3.0-or-later
//! Watched places: what each use of a file system changes (promise 21).

use super::{WRITE, ask, world};
use crate::disk::Luck;
use crate::engine::{Core, Mode};
use crate::queue::{Io, Side};
use crate::workload::Verb;
use crate::world::{Cut, Fault, World, ensure};

/// Rounds of the case. At a cut the disk may have carried out what is under way there, so one round does not do.
const ROUNDS: u32 = 8;

/// Goes on until a write is under way to the disk; returns its place in the queue.
fn write_to_disk(world: &mut World) -> Result<usize, Fault> {
    let to_disk = |io: &Io| io.side == Side::Origin && io.kind.changes();
    while !world.queue.is_empty() {
        if let Some(at) = world.queue.iter().position(to_disk) {
            return Ok(at);
        }
        super::complete_all(world)?;
    }
    Err(Fault::Other("a write did not reach the disk".to_owned()))
}

/// The disk refuses a write of the place, and keeps what it had. After a flush the place is written again, and the machine
/// dies. What the disk has then is checked against the note at the start.
pub(super) fn failed_write(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteAround, 1)?;
    for round in 0..ROUNDS {
        ask(&mut world, WRITE, 0, 8)?;
        ask(&mut world, Verb::Flush, 0, 0)?;
        world.finish()?;
        world.watch_place(0);
        world.finish()?;
        ask(&mut world, WRITE, 0, 8)?;
        let at = write_to_disk(&mut world)?;
        world.fail(at, 0)?;
        world.finish()?;
        ensure!(
            world.failed_requests() == u64::from(round) + 1,
            "the disk refused a write, but the write did not fail"
        );
        ask(&mut world, Verb::Flush, 0, 0)?;
        world.finish()?;
        ask(&mut world, WRITE, 0, 8)?;
        write_to_disk(&mut world)?;
        world.cut(Cut::Machine)?;
        world.finish()?;
    }
    world.settle()
}

/// A cleaning of quarter 0 is under way to the disk, at the place in the queue that is returned.
fn cleaning(core: &Core) -> Result<(World, usize), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    super::read(&mut world, 0, 32)?;
    ask(&mut world, WRITE, 0, 8)?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    world.clean(true)?;
    world.run_tasks()?;
    let at = write_to_disk(&mut world)?;
    Ok((world, at))
}

/// The disk carries out a cleaning of the place, says that the cleaning failed, and loses it at a power cut.
pub(super) fn failed_cleaning(core: &Core) -> Result<(), Fault> {
    let (mut world, at) = cleaning(core)?;
    world.fail(at, 8)?;
    world.finish()?;
    world.watch_place(0);
    world.finish()?;
    world.cut(Cut::Power(Luck::Lose, Luck::Keep))?;
    world.finish()?;
    world.settle()
}

/// Completes all I/O, also what follows from it, while no second passes.
fn complete_what_follows(world: &mut World) -> Result<(), Fault> {
    while !world.queue.is_empty() {
        super::complete_all(world)?;
    }
    Ok(())
}

fn position_of_ssd(world: &World) -> Option<usize> {
    world.queue.iter().position(|io| io.side == Side::Ssd)
}

/// A cleaning of the place has been written. Beside the flush behind it the place is watched, and a note of it gets durable; then
/// the disk loses the cleaning at a power cut.
pub(super) fn unflushed_cleaning(core: &Core) -> Result<(), Fault> {
    let (mut world, at) = cleaning(core)?;
    world.complete(at)?;
    world.run_tasks()?;
    ensure!(
        super::is_disk_flushed(&world),
        "no flush follows a cleaning"
    );
    world.watch_place(0);
    world.run_tasks()?;
    while let Some(at) = position_of_ssd(&world) {
        world.complete(at)?;
        world.run_tasks()?;
    }
    world.cut(Cut::Power(Luck::Lose, Luck::Keep))?;
    world.finish()?;
    world.settle()
}

/// A watched place is known when the disk leaves a cache in use, is written elsewhere and comes back; then the machine dies.
pub(super) fn exchanged_in_use(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteBack, 1)?;
    // The SSD has no copy.
    world.set_mode(Mode::WriteAround);
    ask(&mut world, WRITE, 0, 8)?;
    world.finish()?;
    ask(&mut world, Verb::Flush, 0, 0)?;
    world.finish()?;
    world.set_mode(Mode::WriteBack);
    world.watch_place(0);
    world.finish()?;
    world.exchange_in_use(0)?;
    world.finish()?;
    world.cut(Cut::Machine)?;
    world.finish()?;
    world.settle()
}

/// The disk refuses a write of the place, which is not known then. A part of the place is written and flushed, and the machine dies.
pub(super) fn part_of_unknown(core: &Core) -> Result<(), Fault> {
    let mut world = world(core, Mode::WriteThrough, 1)?;
    for _ in 0..ROUNDS {
        ask(&mut world, WRITE, 0, 8)?;
        world.finish()?;
        ask(&mut world, Verb::Flush, 0, 0)?;
        world.finish()?;
        world.watch_place(0);
        world.finish()?;
        ask(&mut world, WRITE, 0, 8)?;
        let at = write_to_disk(&mut world)?;
        world.fail(at, 0)?;
        complete_what_follows(&mut world)?;
        ask(&mut world, WRITE, 0, 4)?;
        complete_what_follows(&mut world)?;
        ask(&mut world, Verb::Flush, 0, 0)?;
        complete_what_follows(&mut world)?;
        world.cut(Cut::Machine)?;
        world.finish()?;
    }
    world.settle()
}
