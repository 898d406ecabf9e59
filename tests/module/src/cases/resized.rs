// SPDX-License-Identifier: GPL-3.0-or-later
//! The SSD of a cache that is in use gets larger or smaller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use super::Entry;
use super::failures::{broken, config};
use super::life::Load;
use super::starts::read_frames;
use super::writeback::write_quarters;
use crate::disk::Shape;
use crate::dm::{Dm, Line};
use crate::io::{self, MIB};
use crate::rig::{Config, Rig, Status, Under};

pub const CASES: &[Entry] = &[
    // promise 25: uml-plain/resized: what stays where it is stays cached
    ("resized: what stays where it is stays cached", keeps),
    // promise 25: uml-plain/resized: under load, in every mode
    ("resized: under load, in every mode", under_load),
    // promise 25: uml-plain/resized: dirty data keeps the size as it is
    ("resized: dirty data keeps the size as it is", dirty),
    // promise 10: uml-plain/resized: a cut at any moment
    ("resized: a cut at any moment", cuts),
    // promise 17: uml-plain/resized: the SSD fails at any moment
    ("resized: the SSD fails at any moment", failures),
    // promise 34: uml-plain/resized: impossible sizes are refused
    ("resized: impossible sizes are refused", refusals),
];

const SMALL: u64 = 24 * 2048;
const LARGE: u64 = 64 * 2048;

/// The table that gives the SSD's first sectors to the cache.
fn table(rig: &Rig, mode: &str, sectors: u64) -> Line {
    let words = rig.words(false).replacen('4', "6", 1);
    rig.line(&format!("{mode} {words} ssd_sectors {sectors}"))
}

fn resize(rig: &Rig, mode: &str, sectors: u64) -> Result<Status> {
    let device = rig.mapped()?;
    device.load(table(rig, mode, sectors))?;
    device.suspend()?;
    device.resume()?;
    let status = rig.status()?;
    ensure!(
        status.get("ssd_sectors")? == sectors,
        "not resized: {status:?}"
    );
    Ok(status)
}

/// The SSD as if its partition ended at this sector.
fn ends_at(rig: &Rig, sectors: u64) -> Result<()> {
    let line = Line::new(sectors, "linear", format!("{} 0", rig.ssd.path().display()));
    rig.ssd_target()?.swap(line)
}

/// A cache made on the smaller SSD.
fn made_small(mut config: Config) -> Result<(Rig, Vec<u8>)> {
    config.ssd = Shape {
        mib: 64,
        ..config.ssd
    };
    let mut rig = Rig::disks(config)?;
    ends_at(&rig, SMALL)?;
    let mut model = rig.origin.fill(11)?;
    crate::rig::format(&mut model);
    rig.origin.put(0, &model)?;
    rig.attach(true)?;
    Ok((rig, model))
}

/// How many of the frames in the first MiBs are read from the SSD.
fn hits(rig: &Rig, mib: usize) -> Result<u64> {
    rig.mapped()?.message("promotion off")?;
    let before = rig.quiet()?.get("read_hit")?;
    read_frames(rig, mib)?;
    let after = rig.quiet()?.get("read_hit")?;
    rig.mapped()?.message("promotion on")?;
    Ok((after - before) / 32)
}

fn keeps() -> Result<()> {
    let (mut rig, mut model) = made_small(config("writeback"))?;
    write_quarters(&rig, &mut model, 100, 1)?;
    rig.drain()?;
    read_frames(&rig, 20)?;
    let before = rig.quiet()?.used;
    let device_size = io::size(&rig.path()?)?;
    ends_at(&rig, LARGE)?;
    let larger = resize(&rig, "writeback", LARGE)?;
    // About as many as the smaller SSD is of the larger one, 37 of 100.
    ensure!(
        larger.used * 100 > before * 25 && larger.used * 100 < before * 50,
        "{} of {before} copies are left",
        larger.used
    );
    ensure!(io::size(&rig.path()?)? == device_size, "another length");
    let hit = hits(&rig, 20)?;
    ensure!(
        hit * 100 > larger.used * 95,
        "{hit} of {} copies are found",
        larger.used
    );
    ensure!(
        larger.total * 16384 > 60 * MIB as u64,
        "{} slots",
        larger.total
    );
    rig.equals(&model)?;
    // Another life of the same cache; all of it fits.
    read_frames(&rig, 30)?;
    write_quarters(&rig, &mut model, 100, 2)?;
    let before = rig.quiet()?;
    rig.detach()?;
    rig.attach(false)?;
    let after = rig.status()?;
    ensure!(
        after.used == before.used && after.dirty == before.dirty && after.dirty > 0,
        "{before:?}, then {after:?}"
    );
    // The index lies behind the data now, and goes back in front of it.
    rig.drain()?;
    let before = rig.quiet()?.used;
    let smaller = resize(&rig, "writeback", SMALL)?;
    ensure!(
        smaller.used * 100 > before * 25 && smaller.used <= before,
        "{} of {before} copies are left",
        smaller.used
    );
    ends_at(&rig, SMALL)?;
    write_quarters(&rig, &mut model, 100, 3)?;
    rig.detach()?;
    rig.attach(false)?;
    rig.equals(&model)?;
    // Smaller than it ever was.
    let before = rig.quiet()?.used;
    let smallest = resize(&rig, "writethrough", SMALL / 2)?;
    ensure!(
        smallest.used > 0 && smallest.used < before,
        "{} of {before} copies are left",
        smallest.used
    );
    rig.detach()?;
    rig.attach(false)?;
    ensure!(rig.status()?.used == smallest.used, "{:?}", rig.status()?);
    rig.equals(&model)
}

fn under_load() -> Result<()> {
    let (rig, model) = made_small(config("writethrough"))?;
    ends_at(&rig, LARGE)?;
    let load = Load::start(&rig.path()?, &model, 4);
    let name = rig.name.clone();
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    // Messages come at any moment, and are refused while the cache gets its size.
    let teller = thread::spawn(move || {
        let mut refused = 0;
        while !ended.load(Ordering::Relaxed) {
            match Dm::tell(&name, "drop") {
                Ok(()) => {}
                Err(error) if format!("{error:#}").contains("busy") => refused += 1,
                Err(error) => return Err(error),
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(refused)
    });
    let modes = ["writeback", "writearound", "writethrough"];
    for (round, mode) in modes.iter().cycle().take(9).enumerate() {
        thread::sleep(Duration::from_millis(100));
        let device = rig.mapped()?;
        device.message("flush start")?;
        rig.until("clean", |status| status.dirty == 0)?;
        let sectors = [LARGE, SMALL, LARGE - 777 * 8, SMALL / 2][round % 4];
        resize(&rig, mode, sectors)?;
        device.message("flush stop")?;
    }
    done.store(true, Ordering::Relaxed);
    let refused = teller.join().map_err(|_| anyhow!("the teller"))??;
    ensure!(refused > 0, "no message came while the size was changed");
    let model = load.finish()?;
    rig.quiet()?;
    rig.equals(&model)
}

fn dirty() -> Result<()> {
    let (rig, mut model) = made_small(config("writeback").keeping())?;
    ends_at(&rig, LARGE)?;
    write_quarters(&rig, &mut model, 40, 1)?;
    let before = rig.status()?;
    let device = rig.mapped()?;
    device.load(table(&rig, "writeback", LARGE))?;
    device.suspend()?;
    device.resume()?;
    let after = rig.status()?;
    ensure!(
        after.dirty == before.dirty && after.dirty > 0 && after.get("ssd_sectors")? == SMALL,
        "{before:?}, then {after:?}"
    );
    rig.equals(&model)
}

fn cuts() -> Result<()> {
    let config = Config {
        origin: Shape::new(16),
        ssd: Shape::new(64),
        ssd_under: Some(Under::Linear),
        ..Config::default()
    };
    let mut rig = Rig::disks(config.cuttable())?;
    let mut model = rig.origin.fill(12)?;
    crate::rig::format(&mut model);
    rig.origin.put(0, &model)?;
    rig.attach(true)?;
    read_frames(&rig, 8)?;
    rig.quiet()?;
    let (mut before, mut cold) = (0, 0);
    for sectors in [SMALL, LARGE, SMALL / 2, LARGE] {
        rig.mapped()?.load(table(&rig, "writethrough", sectors))?;
        rig.mapped()?.suspend()?;
        // Of its many writes each takes so long that cuts come between two of them, however long a cut takes.
        rig.ssd_target()?
            .swap(Under::Delay(0, 100).line(&rig.ssd))?;
        let name = rig.name.as_str();
        thread::scope(|scope| {
            let resume = scope.spawn(move || Dm::resume_of(name));
            while !resume.is_finished() {
                let mut left = rig.cut()?;
                left.attach(false)?;
                let status = left.status()?;
                before += u32::from(status.get("ssd_sectors")? != sectors);
                cold += u32::from(status.used == 0);
                left.equals(&model)
                    .with_context(|| format!("{sectors} sectors: {status:?}"))?;
            }
            resume.join().map_err(|_| anyhow!("a thread panicked"))?
        })?;
        rig.ssd_target()?.swap(Under::Linear.line(&rig.ssd))?;
        let mut after = rig.cut()?;
        after.attach(false)?;
        let status = after.status()?;
        ensure!(
            status.used > 0 && status.get("ssd_sectors")? == sectors,
            "{status:?}"
        );
        after.equals(&model)?;
    }
    ensure!(
        cold > 0,
        "no cut came while the index was written; {before} before that"
    );
    Ok(())
}

fn failures() -> Result<()> {
    let mut bypassed = 0;
    for moment in 0..12 {
        let mut config = config("writeback");
        config.ssd.delay_ns = 3_000_000;
        config.origin.mib = 16;
        let (mut rig, mut model) = made_small(config)?;
        ends_at(&rig, LARGE)?;
        read_frames(&rig, 4)?;
        write_quarters(&rig, &mut model, 20, moment)?;
        rig.drain()?;
        rig.mapped()?.load(table(&rig, "writeback", LARGE))?;
        rig.mapped()?.suspend()?;
        let name = rig.name.as_str();
        thread::scope(|scope| {
            let resume = scope.spawn(move || Dm::resume_of(name));
            thread::sleep(Duration::from_millis(moment * 15));
            rig.ssd_target()?.swap(broken(&rig.ssd))?;
            resume.join().map_err(|_| anyhow!("a thread panicked"))?
        })?;
        write_quarters(&rig, &mut model, 20, 100 + moment)?;
        let status = rig.status()?;
        bypassed += u32::from(status.state == "bypass");
        rig.shows(&model)?;
        ends_at(&rig, LARGE)?;
        if status.state == "bypass" {
            rig.detach()?;
            rig.attach(false)?;
        }
        rig.equals(&model)
            .with_context(|| format!("moment {moment}"))?;
    }
    ensure!(bypassed > 0, "the SSD never failed in time");
    Ok(())
}

fn refusals() -> Result<()> {
    let (mut rig, model) = made_small(config("writethrough"))?;
    for sectors in [0, 100, 2048, LARGE] {
        let loaded = rig.mapped()?.load(table(&rig, "writethrough", sectors));
        ensure!(loaded.is_err(), "{sectors} sectors were taken");
    }
    // A cache that is not in use stays as it is.
    rig.detach()?;
    ends_at(&rig, LARGE)?;
    let started = Dm::with(&rig.name, table(&rig, "writethrough", LARGE));
    ensure!(started.is_err(), "a start with another size was taken");
    rig.attach(false)?;
    ensure!(
        rig.status()?.get("ssd_sectors")? == SMALL,
        "{:?}",
        rig.status()?
    );
    // Without the argument it stays as it is, however large the SSD is.
    rig.mapped()?.load(rig.good_line(false))?;
    rig.mapped()?.resume()?;
    ensure!(
        rig.status()?.get("ssd_sectors")? == SMALL,
        "{:?}",
        rig.status()?
    );
    rig.equals(&model)
}
