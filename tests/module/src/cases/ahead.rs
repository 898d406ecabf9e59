// SPDX-License-Identifier: GPL-3.0-or-later
//! How a start reads a large index from a slow SSD, by a clock that runs ahead, and beside what cannot be read.

use std::thread::sleep;

use anyhow::{Result, bail, ensure};
use fastrand::Rng;

use super::Entry;
use super::starts::read_frames;
use super::time::{config, ms, timed, within};
use super::writeback::write_quarters;
use crate::disk::Shape;
use crate::dm::{Dm, Line};
use crate::io;
use crate::rig::{Rig, Under};

pub const CASES: &[Entry] = &[("time: a large index is read ahead", read_ahead)];

/// Sector of the SSD where the journal begins, and of a block of it.
const JOURNAL: u64 = 2048;
const JOURNAL_BLOCK: u64 = 8;
/// Blocks of the journal of an SSD of 1 GiB, and the first of the checkpoint that was taken when half of them were used.
const BLOCKS: u64 = 1024;
const CHECKPOINT: u64 = 513;

/// Writes until a checkpoint has been taken, and little behind it.
fn take_checkpoint(rig: &Rig, model: &mut [u8]) -> Result<()> {
    for seed in 0..1000 {
        write_quarters(rig, model, 50, seed)?;
        rig.drain()?;
        if rig.status()?.get("checkpoints")? > 0 {
            return Ok(());
        }
    }
    bail!("no checkpoint after 50,000 writes: {:?}", rig.status()?)
}

/// Fills the journal with groups of one block and of several, until this many blocks behind the checkpoint are used.
fn fill_journal(rig: &Rig, model: &mut [u8], blocks: u64) -> Result<()> {
    let file = io::direct(&rig.path()?)?;
    let mut rng = Rng::with_seed(4);
    let mut used = rig.status()?.get("journal_used")?;
    while used < blocks {
        // Frames that leave the cache and frames that enter it are recorded, up to 2560 in a group.
        rig.mapped()?.message("drop")?;
        file.sync_all()?;
        read_frames(rig, rng.usize(1..=24))?;
        file.sync_all()?;
        write_quarters(rig, model, 1, rng.u64(..))?;
        file.sync_all()?;
        let before = used;
        used = rig.status()?.get("journal_used")?;
        ensure!(
            used > before,
            "a checkpoint before {blocks} blocks: {before}, then {used}"
        );
    }
    Ok(())
}

/// How much longer a start takes when the journal is 16 reads instead of one, and the index two, of 100 ms each: less
/// than half of that time. All of it is read rightly, also beside blocks that cannot be read.
fn read_ahead() -> Result<()> {
    let mut starts = Vec::new();
    for mib in [16, 1024] {
        let mut config = config(0);
        config.ssd = Shape::new(mib);
        config.ssd_under = Some(Under::Linear);
        let (mut rig, mut model) = Rig::new(config)?;
        // Clean data is warm only if the marks were read from their place.
        read_frames(&rig, 8)?;
        take_checkpoint(&rig, &mut model)?;
        fill_journal(&rig, &mut model, if mib == 16 { 0 } else { 250 })?;
        write_quarters(&rig, &mut model, 50, 9)?;
        let before = rig.status()?;
        ensure!(before.get("checkpoints")? > 0, "no checkpoint: {before:?}");
        rig.detach()?;
        put_under(&rig, SLOW.line(&rig.ssd))?;
        let (_, time) = timed(|| rig.attach(false))?;
        println!(
            "     a start from an SSD of {mib} MiB, {} of {} blocks of the journal used: {} ms",
            before.get("journal_used")?,
            before.get("journal_total")?,
            time.as_millis()
        );
        starts.push(time);
        let status = rig.status()?;
        ensure!(
            status.used == before.used && status.dirty > 0,
            "{before:?} before, {status:?} after"
        );
        rig.shows(&model)?;
        if mib == 1024 {
            beside_bad_blocks(&mut rig, &mut model)?;
        }
    }
    within(
        "17 reads more",
        starts[1].saturating_sub(starts[0]),
        100,
        850,
    )
}

/// A request takes 100 ms, so nothing has been read by then.
const SLOW: Under = Under::Delay(100, 100);

fn put_under(rig: &Rig, line: Line) -> Result<&Dm> {
    let below = rig.ssd_target()?;
    below.swap(line)?;
    Ok(below)
}

/// A block that cannot be read, in a part that is read ahead. If the block is older than the checkpoint, the start does
/// not need it. If the block is newer, the start must not guess its content.
fn beside_bad_blocks(rig: &mut Rig, model: &mut [u8]) -> Result<()> {
    for (is_old, is_last) in [(true, false), (false, false), (false, true)] {
        // Memory that is used again must not happen to hold the content of the block that cannot be read.
        fill_journal(rig, model, rig.status()?.get("journal_used")? + 60)?;
        // By then the data that was read last has been stored.
        sleep(ms(2000));
        let status = rig.status()?;
        let (used, blocks) = (status.used, status.get("journal_used")?);
        ensure!(
            (250..500).contains(&blocks),
            "not one checkpoint and much behind it: {status:?}"
        );
        // If the rest of the journal cannot be read either, nothing else tells that there were more groups.
        let bad = match (is_old, is_last) {
            (true, _) => 200..201,
            (_, false) => CHECKPOINT + 97..CHECKPOINT + 98,
            (_, true) => CHECKPOINT + blocks - 3..BLOCKS,
        };
        rig.detach()?;
        let below = put_under(rig, rig.ssd.plain_test_line())?;
        for block in bad {
            let sector = JOURNAL + block * JOURNAL_BLOCK;
            below.message(&format!("bad {sector}"))?;
        }
        let result = rig.attach(false);
        if is_old {
            result?;
            let status = rig.status()?;
            ensure!(status.used == used, "{used} before, {status:?} after");
            rig.shows(model)?;
            rig.detach()?;
        } else {
            ensure!(result.is_err(), "what could not be read was guessed");
        }
        put_under(rig, SLOW.line(&rig.ssd))?;
        rig.attach(false)?;
        rig.shows(model)?;
    }
    Ok(())
}
