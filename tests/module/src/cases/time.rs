// SPDX-License-Identifier: GPL-3.0-or-later
//! Everything that happens by the clock, in a guest whose clock runs ahead whenever no task has anything to do: an hour
//! there is exact and takes no time.

use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::failures::break_ssd;
use super::writeback::write_quarters;
use crate::beside::Beside;
use crate::disk::Shape;
use crate::io::{self, MIB};
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    (
        "time: what is written is recorded within a second",
        recorded,
    ),
    ("time: steady writes are recorded once a second", steady),
    ("time: an idle cache rests", rests),
    ("time: nothing is written back beside a reader", || {
        beside_reader(16384)
    }),
    (
        "time: nothing is written back beside a reader of the SSD",
        || beside_reader(0),
    ),
    (
        "time: nothing is written back that is written again",
        beside_writer,
    ),
    // promise 30: uml-time/time: the limit of dirty data is what the disk takes in 30 s
    (
        "time: the limit of dirty data is what the disk takes in 30 s",
        limit,
    ),
    // promise 30: uml-time/time: three quarters of the SSD get dirty and no more
    (
        "time: three quarters of the SSD get dirty and no more",
        share,
    ),
    // promise 24: uml-time/time: a stop waits for a few requests of each device
    ("time: a stop waits for a few requests of each device", stop),
    // promise 19, 32: uml-time/time: a write past a lost SSD waits for the record, a second at most
    (
        "time: a write past a lost SSD waits for the record, a second at most",
        lost,
    ),
    (
        "time: no write waits any longer once the loss is on record",
        none_left_waiting,
    ),
    // promise 24: uml-time/time: both devices are slow
    ("time: both devices are slow", slow),
];

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn config(origin_ms: u64) -> Config {
    let mut config = Config {
        mode: "writeback",
        ..Config::default()
    };
    config.origin.delay_ns = origin_ms * 1_000_000;
    config
}

/// How long it takes.
pub fn timed<T>(act: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = Instant::now();
    Ok((act()?, start.elapsed()))
}

pub fn within(what: &str, time: Duration, from: u64, to: u64) -> Result<()> {
    ensure!(
        time >= ms(from) && time <= ms(to),
        "{what} took {time:?}, not {from} to {to} ms"
    );
    Ok(())
}

fn recorded() -> Result<()> {
    let (rig, mut model) = Rig::new(config(0).cuttable())?;
    for delay in [0, 10, 130, 500, 910, 1000, 1370] {
        sleep(ms(delay));
        write_quarters(&rig, &mut model, 20, delay)?;
        // At once nothing of it is.
        let mut cut = rig.cut()?;
        cut.attach(false)?;
        ensure!(
            cut.shows(&model).is_err(),
            "{delay} ms: recorded without the time for it"
        );
        drop(cut);
        sleep(ms(1000));
        let mut cut = rig.cut()?;
        cut.attach(false)?;
        cut.shows(&model).with_context(|| format!("{delay} ms"))?;
    }
    Ok(())
}

fn steady() -> Result<()> {
    let (rig, _) = Rig::new(config(0))?;
    let file = io::direct(&rig.path()?)?;
    io::write(&file, 0, &[1; 4096])?;
    let before = rig.status()?.get("sweeps")?;
    for number in 0..400_u64 {
        // A limit with which nothing is written back, which would be recorded, too.
        io::write(&file, number % 20 * 4096, &[1; 4096])?;
        io::write(&file, (100 + number) * 16384, &[1; 4096])?;
        sleep(ms(50));
    }
    let sweeps = rig.status()?.get("sweeps")? - before;
    // Another one where a mark was cleared.
    ensure!((20..=46).contains(&sweeps), "{sweeps} sweeps in 20 s");
    Ok(())
}

fn rests() -> Result<()> {
    for mode in ["writeback", "writethrough"] {
        let (rig, mut model) = Rig::new(Config { mode, ..config(1) })?;
        write_quarters(&rig, &mut model, 100, 1)?;
        sleep(ms(60_000));
        ensure!(
            rig.status()?.dirty == 0 && rig.status()?.get("marked")? == 0,
            "after a minute: {:?}",
            rig.status()?
        );
        let before = (rig.origin.stat()?, rig.ssd.stat()?, rig.status()?.counters);
        sleep(ms(3_600_000));
        let after = (rig.origin.stat()?, rig.ssd.stat()?, rig.status()?.counters);
        ensure!(
            before == after,
            "{mode}: in an hour without requests {before:?} became {after:?}"
        );
        rig.equals(&model)?;
    }
    Ok(())
}

/// The reader moves on by `step` bytes each time.
fn beside_reader(step: u64) -> Result<()> {
    let (rig, mut model) = Rig::new(config(5))?;
    write_quarters(&rig, &mut model, 100, 1)?;
    let file = io::direct(&rig.path()?)?;
    // The reads are beyond the written data. Each read goes to the disk; or, except for the first, each goes to the
    // SSD.
    let mut at = 10 * MIB as u64;
    let reader = Beside::new(ms(30), move || {
        at += step;
        io::read(&file, at, 4096).map(drop)
    });
    sleep(ms(30_000));
    let disk = rig.origin.stat()?;
    ensure!(
        rig.status()?.get("drained")? == 0 && disk.written == 40 * 2048,
        "written back beside a reader: {:?}",
        rig.status()?
    );
    reader.end()?;
    // The writer has been silent for longer than 2 s. But the disk has to be idle for 50 ms, too.
    sleep(ms(30));
    ensure!(
        rig.origin.stat()?.written == disk.written,
        "written back at once"
    );
    sleep(ms(3000));
    ensure!(
        rig.status()?.dirty == 0,
        "not written back beside nobody: {:?}",
        rig.status()?
    );
    rig.equals(&model)
}

fn beside_writer() -> Result<()> {
    let (rig, mut model) = Rig::new(config(5))?;
    write_quarters(&rig, &mut model, 100, 1)?;
    let file = io::direct(&rig.path()?)?;
    let last = [9; 4096];
    model[20 * MIB..20 * MIB + 4096].copy_from_slice(&last);
    let writer = Beside::new(ms(100), move || io::write(&file, 20 * MIB as u64, &last));
    sleep(ms(30_000));
    let disk = rig.origin.stat()?;
    ensure!(
        disk.written == 40 * 2048,
        "written back: {:?}",
        rig.status()?
    );
    writer.end()?;
    sleep(ms(1800));
    ensure!(
        rig.origin.stat()?.written == disk.written,
        "written back before 2 s of rest"
    );
    sleep(ms(3000));
    ensure!(rig.status()?.dirty == 0, "{:?}", rig.status()?);
    rig.equals(&model)
}

/// A disk that takes one request in 16 ms: 1 MiB of single frames in a second, and more where they are neighbours.
fn limit() -> Result<()> {
    let mut config = config(16);
    // A disk so large that what is dirty is seldom a neighbour.
    config.origin.mib = 768;
    config.origin.single = true;
    config.ssd = Shape::new(96);
    let mut rig = Rig::disks(config)?;
    rig.attach(true)?;
    rig.mapped()?.message("dirty_limit 30 0")?;
    let file = io::direct(&rig.path()?)?;
    let mut rng = Rng::with_seed(1);
    let start = Instant::now();
    let (status, dirty, limit) = loop {
        for _ in 0..80 {
            io::write(&file, rng.u64(0..768 * 64) * 16384, &[3; 16384])?;
        }
        let status = rig.status()?;
        let dirty = status.get("dirty_places")?;
        let limit = status.get("dirty_places_limit")?;
        // Until the rate is known, and there is much to drain.
        let time = start.elapsed().as_secs();
        if time > 120 {
            // The limit follows the rate, also down.
            ensure!(dirty <= limit * 5 / 4, "beyond the limit: {status:?}");
            if dirty > limit * 3 / 4 {
                break (status, dirty, limit);
            }
        }
        ensure!(time < 300, "never near the limit: {status:?}");
        sleep(ms(500));
    };
    let estimate = status.get("drain_seconds")?;
    rig.mapped()?.message("flush start")?;
    let start = Instant::now();
    // What the status says first, and after how many seconds.
    let mut told = None;
    loop {
        let status = rig.status()?;
        let at = start.elapsed().as_secs();
        let seconds = status.get("drain_seconds")?;
        if status.dirty == 0 {
            break;
        }
        ensure!(at < 200, "not drained: {status:?}");
        if seconds > 0 {
            told.get_or_insert((at, seconds));
        }
        sleep(ms(100));
    }
    let took = start.elapsed().as_secs();
    let whole = limit * took / dirty.max(1);
    let (at, seconds) = told.context("a drain of which nothing was ever told")?;
    println!(
        "     drained {dirty} places in {took} s, {estimate} s were estimated, and {seconds} s after {at} s; the limit takes {whole} s"
    );
    // The rate is measured anew, in whole batches: cleanings that share a flush take some seconds on this disk.
    ensure!(
        (2..=8).contains(&at),
        "{seconds} s were estimated after {at} s"
    );
    // This disk seeks nothing, so a drain in its order is quicker than places make it; how near the estimate is on a disk that
    // seeks is measured by `cargo xtask bench --kind drain`. Too little must not be said on any.
    ensure!(
        estimate * 4 >= took * 3 && estimate <= took * 5 / 2,
        "drained in {took} s, {estimate} s were estimated"
    );
    let left = took - at;
    ensure!(
        seconds * 4 >= left * 3 && seconds <= left * 5 / 2,
        "{left} s were left, {seconds} s were estimated"
    );
    ensure!(
        (10..=38).contains(&whole),
        "the limit takes {whole} s, which is beyond 30 or far below"
    );
    Ok(())
}

/// The writer is quicker than the disk. Only the limit keeps the writer from filling the SSD.
fn share() -> Result<()> {
    const SIZE: usize = 32768;
    let mut config = config(16);
    config.origin.single = true;
    config.ssd = Shape::new(8);
    let (rig, mut model) = Rig::new(config)?;
    let file = io::direct(&rig.path()?)?;
    let mut rng = Rng::with_seed(1);
    let mut most = 0;
    for number in 0..400 {
        let start = rng.usize(0..1250) * SIZE;
        rng.fill(&mut model[start..start + SIZE]);
        io::write(&file, start as u64, &model[start..start + SIZE])?;
        if number % 10 == 0 {
            let status = rig.status()?;
            let limit = status.get("dirty_limit")?;
            // One request may exceed the limit.
            ensure!(status.dirty <= limit + 64, "beyond the limit: {status:?}");
            ensure!(limit <= status.total * 32 * 3 / 4, "{status:?}");
            most = most.max(status.dirty * 100 / limit);
        }
    }
    ensure!(most > 95, "only {most} % of the limit was dirty");
    drop(file);
    rig.equals(&model)
}

/// Each request to the disk takes a second, each to the SSD a tenth of a second.
fn stop() -> Result<()> {
    // Without a drain, 64 pieces at most are written back at once.
    for (drain, limit) in [(true, 8000), (false, 4500)] {
        let mut config = config(1000);
        config.ssd.delay_ns = 100_000_000;
        let (rig, mut model) = Rig::new(config)?;
        // More pieces than the 255 that a drain writes back at once.
        write_quarters(&rig, &mut model, 1000, 1)?;
        if drain {
            rig.mapped()?.message("flush start")?;
            sleep(ms(300));
        } else {
            // After 2 s without a write the pieces are written back, the more at once the longer the user is idle.
            sleep(ms(3000));
        }
        let before = rig.status()?.dirty;
        let (_, time) = timed(|| rig.mapped()?.suspend())?;
        let dirty = rig.status()?.dirty;
        println!("stop: drain {drain}: {time:?}, {before} dirty before, {dirty} after");
        // The 255 pieces on their way, of which the disk takes 64 a second: 4 s; or 64 pieces: 1 s. The flush behind
        // them and their record; a flush of each device; 57 samples at once, and their record: 4 s more. The two quarters
        // that tell the file system were written, so they are read first, at once. One after the other the samples alone
        // would take 57 s.
        within("the stop", time, 1000, limit)?;
        ensure!(dirty > 0, "nothing was left");
        ensure!(dirty < before, "nothing was under way");
        let (_, time) = timed(|| rig.mapped()?.resume())?;
        within("the resume", time, 0, 2000)?;
        if drain {
            rig.mapped()?.message("flush stop")?;
        }
        rig.shows(&model)?;
    }
    Ok(())
}

fn lost() -> Result<()> {
    for told in [None, Some(300)] {
        let (rig, mut model) = Rig::new(Config {
            mode: "writethrough",
            ssd_under: Some(Under::Linear),
            ..config(0)
        })?;
        let file = io::direct(&rig.path()?)?;
        io::read(&file, 0, MIB)?;
        rig.quiet()?;
        file.sync_all()?;
        break_ssd(&rig)?;
        ensure!(
            rig.mapped()?.message("loss recorded").is_err(),
            "taken while nothing is lost"
        );
        // A hit meets the loss; reading goes on.
        let (_, time) = timed(|| io::read(&file, 0, 4096))?;
        within("a read", time, 0, 50)?;
        rig.until("the loss is known", |status| status.state == "bypass")?;
        let name = rig.name.clone();
        let teller = told.map(|told| {
            thread::spawn(move || {
                sleep(ms(told));
                crate::dm::Dm::tell(&name, "loss recorded")
            })
        });
        for start in [0, MIB] {
            model[start..start + 4096].fill(5);
        }
        let (_, time) = timed(|| io::write(&file, 0, &model[..4096]))?;
        let (from, to) = told.map_or((850, 1000), |told| (told - 20, told + 30));
        within("the first write", time, from, to)?;
        let (_, time) = timed(|| io::write(&file, MIB as u64, &model[MIB..MIB + 4096]))?;
        within("the second write", time, 0, 20)?;
        if let Some(teller) = teller {
            teller
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        drop(file);
        // A stop in that second loses nothing, nor does it wait for ever.
        rig.equals(&model)?;
    }
    Ok(())
}

/// The loss is recorded while a write to the disk begins: the write waits for that record or for none. The seeded bug
/// holds the window open in which the record is made.
fn none_left_waiting() -> Result<()> {
    let (rig, mut model) = Rig::new(Config {
        mode: "writethrough",
        ssd_under: Some(Under::Linear),
        ..config(0)
    })?;
    let file = io::direct(&rig.path()?)?;
    io::read(&file, 0, MIB)?;
    rig.quiet()?;
    file.sync_all()?;
    break_ssd(&rig)?;
    io::read(&file, 0, 4096)?;
    rig.until("the loss is known", |status| status.state == "bypass")?;
    model[..4096].fill(5);
    let (answered, answer) = mpsc::channel();
    let data = model[..4096].to_vec();
    let writer = thread::spawn(move || answered.send(io::write(&file, 0, &data)));
    sleep(ms(10));
    rig.mapped()?.message("loss recorded")?;
    let result = answer.recv_timeout(ms(5000));
    if result.is_err() {
        // Let the write go, so that the case comes to an end.
        rig.mapped()?.message("loss recorded")?;
    }
    let _ = writer.join();
    result.context("a write still waits with the loss on record")??;
    rig.equals(&model)
}

/// Half a second for each request to the SSD, 2 s for the disk.
fn slow() -> Result<()> {
    for mode in ["writeback", "writethrough", "writearound"] {
        let mut config = config(2000);
        config.mode = mode;
        config.ssd.delay_ns = 500_000_000;
        let (mut rig, mut model) = Rig::new(config)?;
        let file = io::direct(&rig.path()?)?;
        file.sync_all()?;
        for (number, start) in [0, 4096, 65536, 0, MIB].into_iter().enumerate() {
            model[start..start + 4096].fill(number as u8);
            let (_, write) = timed(|| io::write(&file, start as u64, &model[start..start + 4096]))?;
            let (_, flush) = timed(|| Ok(file.sync_all()?))?;
            let (_, read) = timed(|| io::read(&file, start as u64, 4096))?;
            if mode == "writeback" {
                // The SSD's time: the write, the mark where it is clean; the group with its flush; the read.
                within("a write", write, 490, 2100)?;
                within("a flush", flush, 490, 2100)?;
                within("a read", read, 490, 600)?;
            } else {
                within("a write", write, 1990, 3600)?;
                within("a flush", flush, 1990, 6200)?;
                within("a read", read, 490, 2100)?;
            }
        }
        drop(file);
        let (_, time) = timed(|| rig.detach())?;
        within("the stop", time, 0, 12_000)?;
        rig.attach(false)?;
        rig.shows(&model)?;
    }
    Ok(())
}
