// SPDX-License-Identifier: GPL-3.0-or-later
//! Space of the SSD that no copy uses is trimmed there, rarely and a little at a time.

use std::fs::File;
use std::thread::sleep;

use anyhow::{Context, Result, ensure};

use super::Entry;
use super::time::ms;
use crate::disk::Shape;
use crate::io::{self, MIB};
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    ("time: what no copy uses is trimmed, once", unused),
    ("time: a trim is followed by a rest", rest),
    (
        "time: an SSD that trims slowly is not trimmed any more",
        slow,
    ),
    (
        "time: an SSD that refuses to trim is not asked again",
        refusing,
    ),
    ("time: an SSD that cannot trim is left alone", unable),
];

/// Sectors of a frame.
const FRAME: u64 = 32;

/// Trims of small caches, and all that a case waits for, have ended by then.
const LONG: u64 = 600_000;

fn config(mib: u64) -> Config {
    Config {
        ssd: Shape::new(mib),
        ..Config::default()
    }
}

/// Waits until the trims have ended, and gives the sectors that were trimmed. The SSD must not be asked again in an hour more.
fn all_trimmed(rig: &Rig) -> Result<u64> {
    sleep(ms(LONG));
    let (trimmed, asked) = (rig.status()?.get("trimmed")?, rig.ssd.stat()?);
    ensure!(
        asked.discarded == trimmed,
        "{trimmed} sectors are trimmed, but the SSD was asked for {}",
        asked.discarded
    );
    sleep(ms(3_600_000));
    let later = rig.ssd.stat()?;
    ensure!(
        later.discards == asked.discards,
        "{} trims, and an hour later {}",
        asked.discards,
        later.discards
    );
    Ok(trimmed)
}

/// The first 4 MiB of the disk get into the cache.
fn read_some(file: &File) -> Result<()> {
    for start in (0..4 * MIB).step_by(16384) {
        io::read(file, start as u64, 16384)?;
    }
    Ok(())
}

/// A new cache, a cache with something in it, what a discard of the disk frees, and what the message frees.
fn unused() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config(16))?;
    let file = io::direct(&rig.path()?)?;
    read_some(&file)?;
    let used = rig.quiet()?.used;
    ensure!(used >= 200, "{used} frames are cached");
    let total = rig.status()?.total * FRAME;
    let fresh = all_trimmed(&rig)?;
    ensure!(
        fresh >= total / 4 && fresh <= total - used * FRAME,
        "{fresh} sectors of a cache of {total} are trimmed, with {used} frames in it"
    );
    let before = rig.status()?.get("read_hit")?;
    rig.shows(&model)?;
    let hit = rig.status()?.get("read_hit")? - before;
    ensure!(hit >= used * FRAME, "{hit} sectors are left");

    io::discard(&file, 0, rig.origin.sectors() * 512)?;
    model.fill(0);
    let freed = all_trimmed(&rig)? - fresh;
    ensure!(
        rig.status()?.used == 0 && freed >= used * FRAME,
        "{freed} sectors are trimmed of {used} frames that were discarded"
    );
    rig.shows(&model)?;
    let before = rig.status()?.get("trimmed")?;
    let used = rig.quiet()?.used;
    rig.mapped()?.message("drop")?;
    let freed = all_trimmed(&rig)? - before;
    ensure!(
        freed >= used * FRAME,
        "{freed} sectors are trimmed of {used} frames that were forgotten"
    );
    // A start that keeps copies does not trim again what was free before the stop.
    read_some(&file)?;
    rig.quiet()?;
    drop(file);
    let earlier = rig.ssd.stat()?.discards;
    rig.detach()?;
    rig.attach(false)?;
    sleep(ms(LONG));
    let again = rig.ssd.stat()?.discards - earlier;
    ensure!(again == 0, "{again} trims after a start with what was kept");
    rig.equals(&model)
}

/// Trims of 8 ms: a hundredth of a minute is for 75 of them. (A second of the clock may be an eighth shorter.)
fn rest() -> Result<()> {
    let mut config = config(512);
    config.ssd.delay_ns = 8_000_000;
    let (rig, model) = Rig::new(config)?;
    sleep(ms(5_000));
    let before = rig.ssd.stat()?.discards;
    sleep(ms(60_000));
    let trims = rig.ssd.stat()?.discards - before;
    ensure!(
        (60..=90).contains(&trims),
        "{trims} trims of 8 ms in a minute"
    );
    rig.equals(&model)
}

/// Three slow ones are the last ones.
fn slow() -> Result<()> {
    let mut config = config(64);
    config.ssd_under = Some(Under::Delay(0, 200));
    let (rig, model) = Rig::new(config)?;
    let trimmed = all_trimmed(&rig)?;
    let asked = rig.ssd.stat()?.discards;
    ensure!(
        asked == 3 && trimmed > 0,
        "{asked} trims of {trimmed} sectors"
    );
    rig.equals(&model)
}

/// One bad sector in the middle of the SSD, where no copy is yet.
fn refusing() -> Result<()> {
    let mut rig = Rig::disks(config(64))?;
    let model = rig.origin.fill(7)?;
    let middle = rig.ssd.sectors() / 2;
    rig.ssd.fail(middle, middle, true)?;
    rig.attach(true)?;
    sleep(ms(LONG));
    let (status, asked) = (rig.status()?, rig.ssd.stat()?.discards);
    ensure!(
        status.state == "active" && status.get("ssd_errors")? == 0,
        "a trim that failed is taken for a failure of the SSD: {status:?}"
    );
    let trimmed = status.get("trimmed")?;
    ensure!(trimmed < middle, "{trimmed} sectors are trimmed");
    sleep(ms(3_600_000));
    let later = rig.ssd.stat()?.discards;
    ensure!(
        asked > 0 && later == asked,
        "{asked} trims, and an hour later {later}"
    );
    rig.ssd.fail(middle, middle, false)?;
    rig.equals(&model)
}

fn unable() -> Result<()> {
    let mut config = config(16);
    config.ssd.discard = false;
    let (rig, model) = Rig::new(config)?;
    let file = io::direct(&rig.path()?)?;
    read_some(&file)?;
    rig.mapped()?.message("drop")?;
    let trimmed = all_trimmed(&rig).context("an SSD that takes no discards")?;
    ensure!(trimmed == 0, "{trimmed} sectors are trimmed");
    drop(file);
    rig.equals(&model)
}
