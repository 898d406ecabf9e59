// SPDX-License-Identifier: GPL-3.0-or-later
//! Another table for a device that is in use: a larger disk, a cold start, and what was changed in between.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::Entry;
use super::failures::{break_ssd, config, mend_ssd};
use super::writeback::{write_apart, write_quarters};
use crate::dm::{Dm, Line};
use crate::io::{self, MIB};
use crate::rig::{Config, Rig, Status, Under};

pub const CASES: &[Entry] = &[
    // promise 25: uml-plain/reload: the disk grows, and is not let shrink
    ("reload: the disk grows, and is not let shrink", growth),
    // promise 25: uml-plain/reload: the disk grows from 20 to 70 GiB
    ("reload: the disk grows from 20 to 70 GiB", far_growth),
    // promise 25: uml-plain/reload: the mode is changed before the disk grows
    (
        "reload: the mode is changed before the disk grows",
        mode_before_growth,
    ),
    // promise 25: uml-plain/reload: the mode is changed before the SSD is lost
    (
        "reload: the mode is changed before the SSD is lost",
        mode_before_loss,
    ),
    // promise 19: uml-plain/reload: a cold start of a live index
    ("reload: a cold start of a live index", cold),
    // promise 25: uml-plain/reload: a loaded table holds no second index
    ("reload: a loaded table holds no second index", one_index),
    // promise 25: uml-plain/reload: a drain goes on, and a paused one stays paused
    (
        "reload: a drain goes on, and a paused one stays paused",
        drains,
    ),
    // promise 25: uml-plain/reload: a paused drain stays paused when a lost SSD is back
    (
        "reload: a paused drain stays paused when a lost SSD is back",
        drain_after_loss,
    ),
    (
        "reload: a message to a cache that is starting",
        early_message,
    ),
];

/// The lines about indexes in the kernel's list of large pieces of memory.
fn index_memory() -> Result<Vec<String>> {
    let list = fs::read_to_string("/proc/vmallocinfo")?;
    let lines = list.lines().filter(|line| line.contains("tandem_engine"));
    Ok(lines.map(str::to_owned).collect())
}

/// How many bytes the indexes have.
fn index_bytes() -> Result<u64> {
    let memory = index_memory()?;
    memory
        .iter()
        .map(|line| {
            let bytes = line.split_whitespace().nth(1).context("a short line")?;
            Ok(bytes.parse::<u64>()?)
        })
        .sum()
}

/// An index is gigabytes for an SSD of terabytes: it is handed over, or given back before another one is made.
fn one_index() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writeback").keeping())?;
    write_quarters(&rig, &mut model, 40, 1)?;
    let one = index_bytes()?;
    ensure!(one > 0, "the kernel does not tell who has large memory");
    let device = rig.mapped()?;
    device.load(rig.line(&format!("writearound {}", rig.words(false))))?;
    let two = index_bytes()?;
    ensure!(
        two == one,
        "{one} bytes became {two} when a table was loaded"
    );
    let table = device.inactive_table()?;
    ensure!(table.contains(" writearound "), "{table:?}");
    let dirty = rig.status()?.dirty;
    device.suspend()?;
    device.resume()?;
    ensure!(index_bytes()? == one, "{} bytes", index_bytes()?);
    let status = rig.status()?;
    ensure!(
        status.mode == "writearound" && dirty > 0,
        "{status:?}, {dirty} were dirty"
    );
    rig.wait_clean()?;
    // The index of a lost SSD does not count, so there is nothing to be handed over.
    break_ssd(&rig)?;
    let file = io::direct(&rig.path()?)?;
    model[..MIB].fill(7);
    io::write(&file, 0, &model[..MIB])?;
    ensure!(rig.status()?.state == "bypass", "{:?}", rig.status()?);
    drop(file);
    // A disk so slow that it is seen what memory there is while the new index is read.
    let below = rig.ssd_target()?;
    below.swap(Under::Delay(300, 0).line(&rig.ssd))?;
    let device = rig.mapped()?;
    device.load(rig.good_line(false))?;
    ensure!(index_bytes()? == one, "{} bytes", index_bytes()?);
    let memory = index_memory()?;
    device.suspend()?;
    let name = rig.name.as_str();
    let looks = thread::scope(|scope| {
        let resume = scope.spawn(move || Dm::resume_of(name));
        let mut looks = Vec::new();
        while !resume.is_finished() {
            looks.push(index_bytes()?);
            thread::sleep(Duration::from_millis(1));
        }
        resume.join().map_err(|_| anyhow!("a thread panicked"))??;
        anyhow::Ok(looks)
    })?;
    ensure!(looks.len() > 5, "{} looks while it was read", looks.len());
    ensure!(
        looks.iter().all(|bytes| *bytes <= one),
        "more than {one} bytes while the index was read: {looks:?}"
    );
    ensure!(rig.status()?.state == "active", "{:?}", rig.status()?);
    ensure!(
        index_memory()? == memory,
        "the index got other memory while the device was suspended: {memory:?}, then {:?}",
        index_memory()?
    );
    rig.equals(&model)?;
    rig.detach()?;
    ensure!(index_bytes()? == 0, "{} bytes left", index_bytes()?);
    Ok(())
}

/// A disk that was seen in part only, as before its partition was enlarged.
fn growth() -> Result<()> {
    let config = Config {
        mode: "writeback",
        ..Config::default()
    };
    let mut rig = Rig::disks(config.keeping())?;
    let mut model = rig.origin.fill(1)?;
    rig.keep(true)?;
    let shorter = |rig: &Rig, sectors: u64| {
        let mut line = rig.good_line(true);
        line.length = sectors;
        line
    };
    let device = Dm::with(&rig.name, shorter(&rig, 30 * 2048))?;
    let file = io::direct(device.path())?;
    for number in 0..40 {
        let start = number * 81920;
        model[start..start + 8192].fill(number as u8);
        io::write(&file, start as u64, &model[start..start + 8192])?;
    }
    let status = Status::of(&device)?;
    ensure!(status.dirty == 40 * 16, "{status:?}");
    device.load(rig.good_line(false))?;
    device.suspend()?;
    device.resume()?;
    let grown = Status::of(&device)?;
    ensure!(
        grown.dirty == status.dirty && grown.used == status.used,
        "{status:?}, then {grown:?}"
    );
    ensure!(
        device.load(shorter(&rig, 30 * 2048)).is_err(),
        "the disk may shrink"
    );
    if let Some(difference) = io::compare(device.path(), &model)? {
        bail!("grown: {difference}");
    }
    drop(file);
    device.remove()?;
    drop(device);
    rig.attach(false)?;
    rig.equals(&model)
}

pub fn shorter(rig: &Rig, words: &str, sectors: u64) -> Line {
    let mut line = rig.line(words);
    line.length = sectors;
    line
}

/// More marks than a disk of 20 GiB has, and regions of the same size.
fn far_growth() -> Result<()> {
    let mut config = Config {
        mode: "writeback",
        ..Config::default()
    };
    config.origin.mib = 70 * 1024;
    let mut rig = Rig::disks(config.keeping())?;
    rig.keep(true)?;
    let words = |format| format!("writeback {}", rig.words(format));
    let device = Dm::with(&rig.name, shorter(&rig, &words(true), 20 << 21))?;
    let file = io::direct(device.path())?;
    let data = io::random(MIB, 5);
    io::write(&file, 0, &data)?;
    file.sync_all()?;
    drop(file);
    let before = Status::of(&device)?;
    device.load(rig.line(&words(false)))?;
    device.resume()?;
    device.remove()?;
    drop(device);
    rig.attach(false)?;
    let after = rig.status()?;
    ensure!(
        before.dirty == 2048 && after.dirty == before.dirty,
        "{before:?}, then {after:?}"
    );
    rig.keep(false)?;
    let file = io::direct(&rig.path()?)?;
    // To a place that only the larger disk has, and that is not cached: under a mark. With promotion on, the SSD would
    // take a part of a quarter.
    rig.mapped()?.message("promotion off")?;
    io::write(&file, 60 << 30, &[9; 512])?;
    let status = rig.status()?;
    ensure!(status.get("marked")? == 1, "not under a mark: {status:?}");
    file.sync_all()?;
    ensure!(io::read(&file, 0, MIB)?[..] == data[..], "other data");
    Ok(())
}

/// The larger table is loaded, then the mode is changed and data written, then it is resumed.
fn mode_before_growth() -> Result<()> {
    let rig = Rig::disks(config("writethrough").keeping())?;
    let mut model = rig.origin.fill(5)?;
    rig.keep(true)?;
    let words = |mode: &str, format| format!("{mode} {}", rig.words(format));
    let half = rig.origin.sectors() / 2;
    Dm::with(&rig.name, shorter(&rig, &words("writethrough", true), half))?.remove()?;
    // The stop of the cache has noted that nothing is dirty.
    let device = Dm::with(
        &rig.name,
        shorter(&rig, &words("writethrough", false), half),
    )?;
    device.load(rig.line(&words("writeback", false)))?;
    device.message("mode writeback")?;
    write_apart(&device, &mut model)?;
    let before = Status::of(&device)?;
    device.resume()?;
    let after = Status::of(&device)?;
    ensure!(
        before.dirty == 64 * 8 && after.dirty == before.dirty,
        "{before:?}, then {after:?}"
    );
    if let Some(difference) = io::compare(device.path(), &model)? {
        bail!("grown: {difference}");
    }
    Ok(())
}

/// Another table in the middle of a drain: the orders of the user hold.
fn drains() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writeback").keeping())?;
    write_quarters(&rig, &mut model, 40, 1)?;
    let device = rig.mapped()?;
    device.message("flush start")?;
    device.message("flush pause")?;
    rig.keep(false)?;
    // What was on its way to the disk has ended.
    let dirty = rig.quiet()?.dirty;
    ensure!(dirty > 0, "nothing is dirty");
    for (order, state) in [("flush pause", "paused"), ("flush start", "flushing")] {
        device.message(order)?;
        device.load(rig.good_line(false))?;
        device.suspend()?;
        device.resume()?;
        let status = rig.status()?;
        ensure!(status.state == state, "after {order:?}: {status:?}");
        ensure!(
            state != "paused" || status.dirty == dirty,
            "of {dirty} dirty sectors, paused: {status:?}"
        );
    }
    rig.until("clean", |status| status.dirty == 0)?;
    rig.equals(&model)
}

/// The same, but the SSD was lost: the index is not taken over but read.
fn drain_after_loss() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writeback").keeping())?;
    write_quarters(&rig, &mut model, 40, 3)?;
    let file = io::direct(&rig.path()?)?;
    file.sync_all()?;
    let device = rig.mapped()?;
    device.message("flush start")?;
    device.message("flush pause")?;
    rig.keep(false)?;
    // What was on its way to the disk has ended.
    let before = rig.quiet()?;
    break_ssd(&rig)?;
    // Refused, as something is dirty.
    ensure!(io::write(&file, 30 << 20, &[0; 4096]).is_err(), "written");
    drop(file);
    mend_ssd(&rig)?;
    device.load(rig.good_line(false))?;
    device.suspend()?;
    device.resume()?;
    let after = rig.status()?;
    ensure!(
        before.dirty > 0 && after.dirty == before.dirty && after.state == "paused",
        "{before:?}, after the loss {after:?}"
    );
    device.message("flush resume")?;
    rig.until("clean", |status| status.dirty == 0)?;
    ensure!(rig.status()?.state == "flushing", "{:?}", rig.status()?);
    rig.equals(&model)
}

/// The same, with an SSD that is gone for a moment instead: the index is not taken over but read.
fn mode_before_loss() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writethrough").keeping())?;
    rig.detach()?;
    rig.attach(false)?;
    rig.mapped()?
        .load(rig.line(&format!("writeback {}", rig.words(false))))?;
    rig.mapped()?.message("mode writeback")?;
    write_quarters(&rig, &mut model, 40, 2)?;
    let file = io::direct(&rig.path()?)?;
    file.sync_all()?;
    let before = rig.status()?;
    break_ssd(&rig)?;
    rig.keep(false)?;
    // Refused, as something is dirty.
    ensure!(io::write(&file, 30 << 20, &[0; 4096]).is_err(), "written");
    drop(file);
    mend_ssd(&rig)?;
    rig.mapped()?.resume()?;
    let after = rig.status()?;
    ensure!(
        before.dirty > 0 && after.dirty == before.dirty,
        "{before:?}, then {after:?}"
    );
    rig.equals(&model)
}

/// The disk is used beside its suspended mapping, and the next table says so.
fn cold() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, 8 * MIB)?;
    drop(file);
    ensure!(rig.quiet()?.used > 0, "nothing is cached");
    rig.mapped()?.suspend()?;
    let change = io::random(MIB, 7);
    rig.origin.put(4 * MIB as u64, &change)?;
    model[4 * MIB..5 * MIB].copy_from_slice(&change);
    let words = rig.words(false).replacen('4', "6", 1);
    rig.mapped()?
        .load(rig.line(&format!("writethrough {words} start cold")))?;
    rig.mapped()?.resume()?;
    let status = rig.status()?;
    ensure!(status.used == 0, "{status:?}");
    rig.equals(&model)?;
    // The cold start was asked for once.
    let used = rig.quiet()?.used;
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    let status = rig.status()?;
    ensure!(used > 0 && status.used == used, "{used}, then {status:?}");
    Ok(())
}

/// The index is read without a lock.
fn early_message() -> Result<()> {
    let mut config = config("writethrough");
    config.ssd_under = Some(Under::Delay(200, 0));
    let (mut rig, model) = Rig::new(config)?;
    io::read(&io::direct(&rig.path()?)?, 0, 8 * MIB)?;
    rig.quiet()?;
    rig.detach()?;
    let name = rig.name.clone();
    let teller = thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(60);
        let mut refused = 0;
        while Instant::now() < until {
            // Without a table a message is taken, and told to nobody.
            if Dm::status_of(&name).unwrap_or_default().is_empty() {
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            match Dm::tell(&name, "drop") {
                Ok(()) => return Ok(refused),
                Err(error) if format!("{error:#}").contains("busy") => refused += 1,
                Err(error) => return Err(error),
            }
            thread::sleep(Duration::from_millis(5));
        }
        bail!("no message was taken")
    });
    rig.attach(false)?;
    let refused = teller.join().map_err(|_| anyhow!("the teller"))??;
    ensure!(refused > 0, "no message came while it was starting");
    let status = rig.quiet()?;
    ensure!(status.used == 0, "{status:?}");
    rig.equals(&model)
}
