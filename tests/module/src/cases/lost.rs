// SPDX-License-Identifier: GPL-3.0-or-later
//! An SSD that was lost in write-back with nothing dirty, and that comes back (promise 19). Everything on it is old,
//! also what it calls dirty: the SSD may have recorded a write while that write was under way, and then failed it. Also
//! requests that wait while the SSD is being lost.

use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::Entry;
use super::failures::{break_ssd, config, mend_ssd};
use super::writeback::{write_apart, write_quarters};
use crate::beside::Blocked;
use crate::disk::{Disk, Shape};
use crate::dm::Dm;
use crate::io::{self, MIB};
use crate::rig::{Rig, Status};

pub const CASES: &[Entry] = &[
    // promise 19: uml-plain/lost: what a lost SSD calls dirty is forgotten, same boot
    (
        "lost: what a lost SSD calls dirty is forgotten, same boot",
        same_boot,
    ),
    // promise 19: uml-plain/lost: what a lost SSD calls dirty is forgotten, by the table, once
    (
        "lost: what a lost SSD calls dirty is forgotten, by the table, once",
        by_table,
    ),
    // promise 19: uml-plain/lost: a new cache on another SSD is not the lost one
    (
        "lost: a new cache on another SSD is not the lost one",
        || replaced(""),
    ),
    (
        "lost: a new cache on another SSD is not the lost one, by the table",
        || replaced(" lost 100"),
    ),
    (
        "lost: a read that waits for a write to the slow disk sleeps",
        waits_asleep,
    ),
    // promise 19: uml-plain/lost: the write that the SSD fails waits until that is on record
    (
        "lost: the write that the SSD fails waits until that is on record",
        || waits_for_record(0),
    ),
    ("lost: so does a write with a rest of a quarter", || {
        waits_for_record(2 * MIB + 512)
    }),
    // promise 1: uml-plain/lost: what only the SSD was to get is durable on the disk
    (
        "lost: what only the SSD was to get is durable on the disk",
        reaches_the_disk,
    ),
    // promise 25: uml-plain/lost: a write after a suspend that met the loss is answered
    (
        "lost: a write after a suspend that met the loss is answered",
        lost_by_suspend,
    ),
];

/// `words`: of the table from then on.
fn replaced(words: &str) -> Result<()> {
    let mut config = config("writeback");
    config.origin.failing = true;
    let (mut rig, mut model) = Rig::new(config)?;
    break_ssd(&rig)?;
    write_quarters(&rig, &mut model, 5, 1)?;
    let status = rig.quiet()?;
    ensure!(status.state == "bypass", "{status:?}");
    rig.detach()?;
    mend_ssd(&rig)?;
    rig.ssd.put(0, &vec![0; 16 * MIB])?;
    let more = words.split_whitespace().count();
    let line = |rig: &Rig, format| {
        let known = rig.words(format);
        let (count, rest) = known.split_at(1);
        let count = count.parse::<usize>()? + more;
        anyhow::Ok(rig.line(&format!("writeback {count}{rest}{words}")))
    };
    let device = Dm::with(&rig.name, line(&rig, true)?)?;
    rig.keep(true)?;
    write_apart(&device, &mut model)?;
    let before = Status::of(&device)?;
    device.remove()?;
    let device = Dm::with(&rig.name, line(&rig, false)?)?;
    let after = Status::of(&device)?;
    ensure!(
        before.dirty == 64 * 8 && after.dirty == before.dirty,
        "{before:?}, then {after:?}"
    );
    match io::compare(device.path(), &model)? {
        Some(difference) => bail!("{difference}"),
        None => Ok(()),
    }
}

fn same_boot() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writeback").keeping())?;
    write_quarters(&rig, &mut model, 40, 1)?;
    // Have the dirty data recorded.
    io::direct(&rig.path()?)?.sync_all()?;
    let recorded = rig.ssd.content()?;
    ensure!(rig.status()?.dirty > 0, "nothing is dirty");
    rig.keep(false)?;
    rig.mapped()?.message("mode writethrough")?;
    rig.wait_clean()?;
    rig.mapped()?.message("mode writeback")?;
    break_ssd(&rig)?;
    // Writes the same places again, past the SSD.
    write_quarters(&rig, &mut model, 40, 1)?;
    write_quarters(&rig, &mut model, 40, 2)?;
    let status = rig.quiet()?;
    ensure!(
        status.state == "bypass" && status.dirty == 0,
        "not in bypass: {status:?}"
    );
    rig.detach()?;
    mend_ssd(&rig)?;
    // Put back a content of the SSD that calls these places dirty, as if the SSD had recorded the last writes and
    // failed them.
    rig.ssd.put(0, &recorded)?;
    rig.attach(false)?;
    let status = rig.status()?;
    ensure!(
        status.used == 0 && status.dirty == 0,
        "the lost SSD counts: {status:?}"
    );
    rig.equals(&model)
}

fn by_table() -> Result<()> {
    let (mut rig, mut model) = Rig::new(config("writeback").keeping())?;
    let on_disk = model.clone();
    write_quarters(&rig, &mut model, 40, 1)?;
    let generation = rig.status()?.get("generation")?;
    rig.detach()?;
    let lost = |rig: &Rig, generation: u64| -> Result<Dm> {
        let words = rig.words(false).replacen("4 ", "6 ", 1);
        let line = rig.line(&format!("writeback {words} lost {generation}"));
        Dm::with(&rig.name, line)
    };
    rig.origin.put(0, &on_disk)?;
    lost(&rig, generation)?.remove()?;
    rig.attach(false)?;
    let status = rig.status()?;
    ensure!(
        status.used == 0 && status.dirty == 0,
        "the lost SSD counts: {status:?}"
    );
    rig.shows(&on_disk)?;
    ensure!(
        rig.status()?.get("generation")? > generation,
        "no generation of its own"
    );
    // The record of a loss that is still in the table does not concern data that became dirty after the loss.
    let mut model = on_disk;
    write_quarters(&rig, &mut model, 40, 3)?;
    let dirty = rig.status()?.dirty;
    rig.detach()?;
    lost(&rig, generation)?.remove()?;
    rig.attach(false)?;
    ensure!(
        dirty > 0 && rig.status()?.dirty == dirty,
        "{dirty} sectors were dirty: {:?}",
        rig.status()?
    );
    rig.equals(&model)
}

/// A cache in write-back with clean cached data. When its SSD goes, there is nothing left to record.
fn loses_clean() -> Result<(Rig, Vec<u8>)> {
    let (rig, model) = Rig::new(config("writeback"))?;
    io::read(&io::direct(&rig.path()?)?, 0, MIB)?;
    rig.quiet()?;
    // The next write begins with a record.
    rig.until("without marks", |status| {
        status.get("marked").is_ok_and(|n| n == 0)
    })?;
    break_ssd(&rig)?;
    Ok((rig, model))
}

fn waits_asleep() -> Result<()> {
    let (rig, model) = loses_clean()?;
    let reader = io::direct(&rig.path()?)?;
    let file = io::direct(&rig.path()?)?;
    let data = model[MIB..MIB + 4096].to_vec();
    let written = data.clone();
    // The SSD fails the write, and the disk does not answer yet.
    let silent = rig.origin_target()?.suspended()?;
    let writer = Blocked::new(move || io::write(&file, 0, &data))?;
    let reader = Blocked::new(move || io::read(&reader, 0, 4096))?;
    let before = reader.processor_time()?;
    sleep(Duration::from_millis(800));
    let busy = reader.processor_time()? - before;
    let went_before = reader.is_over();
    drop(silent);
    writer.join()?;
    let read = reader.join()?;
    ensure!(
        !went_before && read[..] == written[..],
        "the read went before the write"
    );
    ensure!(
        busy < Duration::from_millis(200),
        "{busy:?} of 800 ms on the processor"
    );
    Ok(())
}

/// The group that calls the write dirty may have reached the SSD. Without a note of the loss, the SSD's copy would
/// count after a cut. A write that begins inside a quarter has memory of its own.
fn waits_for_record(place: usize) -> Result<()> {
    let (rig, mut model) = loses_clean()?;
    let start = Instant::now();
    let (file, data) = (io::direct(&rig.path()?)?, io::random(4096, 3));
    io::write(&file, place as u64, &data)?;
    let alone = start.elapsed();
    model[place..place + 4096].copy_from_slice(&data);
    let status = rig.status()?;
    ensure!(status.state == "bypass", "{status:?}");
    ensure!(
        alone > Duration::from_millis(500),
        "answered after {alone:?}, with nobody to record the loss"
    );
    drop(file);
    rig.equals(&model)
}

/// A durable write of what is not cached goes to the SSD alone. The SSD fails that, and then the power is cut.
fn reaches_the_disk() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writeback").cuttable())?;
    rig.until("without marks", |status| {
        status.get("marked").is_ok_and(|n| n == 0)
    })?;
    break_ssd(&rig)?;
    let (file, data) = (io::durable(&rig.path()?)?, io::random(4096, 4));
    io::write(&file, MIB as u64, &data)?;
    model[MIB..MIB + 4096].copy_from_slice(&data);
    let status = rig.status()?;
    ensure!(status.state == "bypass", "{status:?}");
    for seed in 0..4 {
        let left = Disk::new(Shape::new(rig.origin.sectors() / 2048).cuttable())?;
        Disk::cut(seed, &[(&rig.origin, &left)])?;
        if let Some(difference) = io::difference(&left.content()?, &model) {
            bail!("the disk after cut {seed}: {difference}");
        }
    }
    drop(file);
    rig.equals(&model)
}

/// The suspend's own flush of the SSD fails. Nothing waits for the record yet, and the suspend ends the work that would
/// make it.
fn lost_by_suspend() -> Result<()> {
    let (rig, mut model) = Rig::new(config("writethrough"))?;
    let file = io::direct(&rig.path()?)?;
    model[..4096].fill(1);
    io::write(&file, 0, &model[..4096])?;
    break_ssd(&rig)?;
    rig.mapped()?.suspend()?;
    rig.mapped()?.resume()?;
    let status = rig.status()?;
    ensure!(status.state == "bypass", "{status:?}");
    let (answer, answered) = mpsc::channel();
    let writer = thread::spawn(move || answer.send(io::write(&file, 0, &[2; 4096])));
    let answer = answered.recv_timeout(Duration::from_secs(30));
    if answer.is_err() {
        // Let the writer go.
        rig.mapped()?.message("loss recorded")?;
    }
    writer.join().map_err(|_| anyhow!("a panic"))??;
    answer.context("a write waits for a record that nobody makes")??;
    model[..4096].fill(2);
    rig.equals(&model)
}
