// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine freezes, as before the snapshot of a hibernation: from then on the module begins nothing by itself, for the
//! memory that comes back would not know of it (promise 25). By a clock that runs ahead: what is under way when the
//! machine goes on has not ended at that moment.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::failures::find_copy;
use super::time::{config, ms, timed};
use crate::aio;
use crate::beside::Beside;
use crate::disk::Shape;
use crate::io::{self, MIB};
use crate::rig::Rig;

pub const CASES: &[Entry] = &[
    // promise 25: uml-time/time: nothing is written back while the machine is frozen
    (
        "time: nothing is written back while the machine is frozen",
        written_back,
    ),
    // promise 25: uml-time/time: nothing is recorded while the machine is frozen
    (
        "time: nothing is recorded while the machine is frozen",
        recorded,
    ),
    // promise 25: uml-time/time: what a request waits for is written back while the machine is frozen
    (
        "time: what a request waits for is written back while the machine is frozen",
        waited_for,
    ),
    // promise 25: uml-time/time: no slot is retired while the machine is frozen
    (
        "time: no slot is retired while the machine is frozen",
        retired,
    ),
    // promise 25: uml-time/time: the machine freezes under load
    ("time: the machine freezes under load", under_load),
];

/// Freezes all processes, kernel threads and queues that can be frozen, then suspends a device for this many seconds,
/// and goes on; returns how long that took.
fn freeze(seconds: u64) -> Result<Duration> {
    let set = |file: &str, value: &str| {
        fs::write(file, value).with_context(|| format!("cannot write {value} to {file}"))
    };
    set(
        "/sys/module/tandem_sleeper/parameters/seconds",
        &seconds.to_string(),
    )?;
    set("/sys/module/suspend/parameters/pm_test_delay", "0")?;
    set("/sys/power/pm_test", "devices")?;
    let ((), time) = timed(|| set("/sys/power/state", "freeze"))?;
    ensure!(
        time >= Duration::from_secs(seconds),
        "frozen for {time:?} only"
    );
    Ok(time)
}

/// The states, as the kernel's letters, of the workers that are at work for the queue that freezes.
fn clocks() -> Result<String> {
    let mut states = String::new();
    for entry in fs::read_dir("/proc")? {
        // This entry is no process, or the process has ended meanwhile.
        let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else {
            continue;
        };
        if let Some((name, rest)) = stat.rsplit_once(") ")
            && name.ends_with("+tandem_clock")
        {
            states.extend(rest.chars().next());
        }
    }
    Ok(states)
}

/// Each request to the disk takes 20 ms, one after the other.
fn written_back() -> Result<()> {
    const REQUEST: u64 = 20;
    const FROZEN: u64 = 60;
    let mut config = config(REQUEST);
    config.origin.single = true;
    config.ssd = Shape::new(32);
    let (rig, mut model) = Rig::new(config)?;
    let file = io::direct(&rig.path()?)?;
    // No two are neighbours, so each takes its own request.
    for start in (0..800).map(|frame| frame * 16384) {
        model[start..start + 4096].fill(7);
        io::write(&file, start as u64, &model[start..start + 4096])?;
    }
    file.sync_all()?;
    rig.mapped()?.message("flush start")?;
    while rig.status()?.get("drained")? == 0 {
        sleep(ms(100));
    }
    // The worker that waits for the end of what the clock began may wait for long. If this worker did not wait as an
    // idle thread, the kernel would report it as blocked after two minutes.
    let states = clocks()?;
    ensure!(
        states.contains('I') && !states.contains('D'),
        "the queue's workers are {states:?}"
    );
    let before = rig.origin.stat()?;
    let time = freeze(FROZEN)?;
    let written = (rig.origin.stat()? - before).written / 8;
    let freezing = time - Duration::from_secs(FROZEN);
    println!("     {written} requests to the disk in {freezing:?} until it was frozen");
    // The request that was under way when the freezing began had its time before.
    ensure!(
        written > 0 && ms(REQUEST * (written - 1)) <= freezing,
        "{written} requests to the disk, which had {freezing:?} for them before it was frozen"
    );
    ensure!(rig.status()?.dirty > 0, "too fast for the case");
    rig.wait_clean()?;
    drop(file);
    rig.equals(&model)
}

/// Each request to the SSD takes a tenth of a second.
fn recorded() -> Result<()> {
    for mode in ["writeback", "writethrough"] {
        let mut config = config(0);
        config.mode = mode;
        config.ssd.delay_ns = 100_000_000;
        let (rig, mut model) = Rig::new(config.cuttable())?;
        let file = io::direct(&rig.path()?)?;
        for start in [0, MIB] {
            // Wait until the module's clock has nothing to do.
            sleep(ms(60_000));
            model[start..start + 4096].fill(5);
            io::write(&file, start as u64, &model[start..start + 4096])?;
            // In write-through the disk has answered the write; the copy on the SSD is under way.
            sleep(ms(150));
            let before = rig.ssd.stat()?;
            let time = freeze(10)?;
            let after = rig.ssd.stat()?;
            ensure!(
                after == before,
                "{mode}: {before:?} became {after:?} while the machine was frozen, for {time:?}"
            );
            // Otherwise the SSD was not written to because there was nothing to record.
            sleep(ms(1000));
            ensure!(
                rig.ssd.stat()? != before,
                "{mode}: not recorded afterwards either"
            );
            // Data that only the disk has is durable once the disk was flushed.
            if mode == "writethrough" {
                file.sync_all()?;
            }
            let mut cut = rig.cut()?;
            cut.attach(false)?;
            cut.shows(&model)
                .with_context(|| format!("{mode}: after a cut"))?;
        }
        drop(file);
        rig.equals(&model)?;
    }
    Ok(())
}

/// Each request to the SSD takes two seconds. A write waits for such a request, and then for a cleaning. If the
/// cleaning belonged to a thread that freezes once the request has ended, the machine would never be frozen.
fn waited_for() -> Result<()> {
    let mut config = config(20);
    config.ssd.delay_ns = 2_000_000_000;
    let (rig, mut model) = Rig::new(config)?;
    let file = io::direct(&rig.path()?)?;
    model[..8192].fill(6);
    io::write(&file, 0, &model[..4096])?;
    // From now on nothing else becomes dirty. A write of both quarters goes to the disk, but only after the dirty
    // quarter was recorded and then cleaned.
    rig.mapped()?.message("flush start")?;
    rig.mapped()?.message("flush pause")?;
    let before = rig.origin.stat()?;
    let write = aio::Request::write(&file, 0, &model[..8192])?;
    ensure!(rig.origin.stat()? == before, "it waits for nothing");
    let time = freeze(60)?;
    let written = (rig.origin.stat()? - before).written;
    ensure!(
        written == 8 + 16,
        "{written} sectors to the disk, not a cleaning and a write, while the machine was frozen for {time:?}"
    );
    write.end()?;
    drop(file);
    rig.mapped()?.message("flush stop")?;
    rig.equals(&model)
}

/// A read from the SSD fails while the machine is frozen. The superblocks tell of that place once the machine goes on.
fn retired() -> Result<()> {
    const FRAME: usize = 16384;
    let mut config = config(0);
    config.mode = "writethrough";
    config.ssd.delay_ns = 2_000_000_000;
    let (rig, model) = Rig::new(config)?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, FRAME)?;
    rig.quiet()?;
    sleep(ms(60_000));
    let bad = (find_copy(&rig, &model)? / io::SECTOR) as u64;
    rig.ssd.fail(bad, bad, true)?;
    let before = rig.ssd.stat()?.written;
    let read = aio::Request::read(&file, 0, FRAME)?;
    let time = freeze(10)?;
    ensure!(
        rig.ssd.stat()?.written == before,
        "a superblock was written while the machine was frozen, for {time:?}"
    );
    ensure!(read.end()? == model[..FRAME], "wrong data");
    ensure!(rig.status()?.get("retired")? == 1, "no slot is retired");
    rig.ssd.fail(bad, bad, false)?;
    rig.until("the superblocks tell of the slot", |_| {
        rig.ssd.stat().is_ok_and(|stat| stat.written > before)
    })?;
    drop(file);
    rig.equals(&model)
}

fn under_load() -> Result<()> {
    let (rig, _) = Rig::new(config(5))?;
    let path = rig.path()?;
    let mut load = Vec::new();
    for seed in 0..3 {
        let file = io::direct(&path)?;
        let mut rng = Rng::with_seed(seed);
        load.push(Beside::new(ms(1), move || {
            let at = rng.u64(0..512) * 16384;
            match rng.u32(0..10) {
                // A discard over dirty data waits until that data has been written back.
                0 => io::discard(&file, at, 16384),
                1 => Ok(file.sync_all()?),
                _ => io::write(&file, at, &[rng.u8(..); 4096]),
            }
        }));
    }
    for round in 0..10 {
        sleep(ms(700));
        freeze(1).with_context(|| format!("round {round}"))?;
    }
    for one in load {
        one.end()?;
    }
    rig.agrees()
}
