// SPDX-License-Identifier: GPL-3.0-or-later
//! Every allocation and every request that may fail, one after the other; disks that fail now and then under load.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Entry;
use super::failures_dirty::reload;
use super::writeback::write_quarters;
use crate::disk::{Disk, Shape};
use crate::dm::{Dm, Line};
use crate::faults::{self, Allocations, Request};
use crate::io::{self, MIB};
use crate::rig::{Config, Rig, Status, Under};
use crate::stamps::Stamps;

pub const CASES: &[Entry] = &[
    (
        "injected: each allocation of a table's life fails",
        allocations_of_life,
    ),
    (
        "injected: each allocation of requests fails",
        allocations_of_requests,
    ),
    ("injected: each request of a start fails", starts),
    ("injected: each request to the SSD fails", || {
        requests("ssd")
    }),
    ("injected: each request to the disk fails", || {
        requests("disk")
    }),
    ("injected: the SSD comes and goes under load", || {
        under_load("ssd")
    }),
    ("injected: the disk comes and goes under load", || {
        under_load("disk")
    }),
    ("injected: bad blocks of both under load", bad_blocks),
];

const MODES: [&str; 3] = ["writethrough", "writearound", "writeback"];

fn small(mode: &'static str) -> Config {
    Config {
        mode,
        origin: Shape::new(8),
        ssd: Shape::new(6),
        ..Config::default()
    }
}

/// The numbers of what fails: the first ones all, of the many that follow some; where a detector makes the kernel
/// slow, some of all.
fn numbers() -> impl Iterator<Item = u32> {
    let slow = ["/proc/lockdep", "/sys/kernel/debug/kmemleak"]
        .iter()
        .any(|file| Path::new(file).exists());
    (1..40)
        .step_by(if slow { 4 } else { 1 })
        .chain((40..).step_by(if slow { 17 } else { 7 }))
}

/// Lets each allocation of `act` fail. If `act` fails, it has to succeed when it is tried again.
fn each(
    what: &str,
    mut prepare: impl FnMut() -> Result<()>,
    mut act: impl FnMut() -> Result<()>,
) -> Result<()> {
    let allocations = Allocations::of_this_thread()?;
    let mut refused = 0;
    for n in numbers() {
        prepare().with_context(|| format!("{what}: before allocation {n}"))?;
        let (result, failed) = allocations.fail(n, &mut act)?;
        if !failed {
            println!("     {what}: {n} allocations, {refused} of those tried mattered");
            return result.with_context(|| format!("{what}: without a failure"));
        }
        if result.is_err() {
            refused += 1;
            act().with_context(|| format!("{what}: after allocation {n} failed"))?;
        }
    }
    Ok(())
}

fn allocations_of_life() -> Result<()> {
    if !faults::known() {
        return Ok(());
    }
    let (rig, mut model) = Rig::new(small("writeback"))?;
    write_quarters_of(&rig, &mut model, 1)?;
    let device = rig.mapped()?;
    each(
        "load",
        || device.clear(),
        || device.load(rig.good_line(false)),
    )?;
    each("suspend", || device.resume(), || device.suspend())?;
    device.resume()?;
    each(
        "resume of another table",
        || {
            device.load(rig.good_line(false))?;
            device.suspend()
        },
        || device.resume(),
    )?;
    for words in [
        ["flush stop", "flush start"],
        ["mode writeback", "mode writethrough"],
        ["mode writeback", "drop"],
    ] {
        each(
            words[1],
            || device.message(words[0]),
            || device.message(words[1]),
        )?;
    }
    device.message("flush stop")?;
    each("status", || Ok(()), || device.status().map(drop))?;
    rig.equals(&model)?;

    let mut rig = rig;
    rig.detach()?;
    for format in [false, true] {
        let fresh = Rig::disks(small("writeback"))?;
        let rig = if format { &fresh } else { &rig };
        // A new cache is one until its superblocks are there.
        let blank = || rig.ssd.put(0, &vec![0; MIB]);
        let device = Dm::create(&format!("{}-start", rig.name))?;
        each(
            if format { "first start" } else { "start" },
            || {
                let _ = device.suspend();
                let _ = device.load(Line::new(rig.origin.sectors(), "error", ""));
                device.resume()?;
                if format {
                    blank()?;
                }
                device.load(rig.good_line(format))?;
                device.suspend()
            },
            || device.resume(),
        )?;
    }
    rig.attach(false)?;
    rig.equals(&model)
}

/// The same on a small disk.
fn write_quarters_of(rig: &Rig, model: &mut [u8], seed: u64) -> Result<()> {
    write_quarters(rig, model, 60, seed).map(drop)
}

fn allocations_of_requests() -> Result<()> {
    if !faults::known() {
        return Ok(());
    }
    for mode in MODES {
        // Disks in memory that have all of theirs, or they would be what fails.
        let mut config = small(mode);
        (config.origin.volatile, config.ssd.volatile) = (false, false);
        let mut rig = Rig::disks(config)?;
        rig.ssd.put(0, &vec![0; 6 * MIB])?;
        rig.origin.put(0, &vec![0; 8 * MIB])?;
        let mut stamps = Stamps::put(&io::direct(rig.origin.path())?, 0, MIB, 7)?;
        rig.attach(true)?;
        let (file, durable) = (io::direct(&rig.path()?)?, io::durable(&rig.path()?)?);
        let allocations = Allocations::of_this_thread()?;
        let mut hits = 0;
        for number in 0..1200 {
            let (step, failed) =
                allocations.fail(number % 6 + 1, || stamps.step(&file, &durable))?;
            step.with_context(|| format!("{mode}: request {number}"))?;
            hits += u32::from(failed);
        }
        ensure!(hits > 100, "{mode}: only {hits} allocations failed");
        stamps.check(&file, false).context(mode)?;
        let status = rig.quiet()?;
        ensure!(status.state == "active", "{status:?}");
        drop((file, durable));
        rig.agrees()?;
    }
    Ok(())
}

/// Says that the loss is on record as soon as there is one, as the helper does.
struct Recorder {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Recorder {
    fn new(rig: &Rig) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (name, stopped) = (rig.name.clone(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // In any other state it is refused.
                let _ = Dm::tell(&name, "loss recorded");
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The same table again, whatever state it is in. True: the SSD was lost with dirty data, of which what was not
/// flushed may be gone now.
fn load_again(rig: &Rig) -> Result<bool> {
    let device = rig.mapped()?;
    // Only one request fails.
    if device.load(rig.good_line(false)).is_err() {
        device.load(rig.good_line(false))?;
    }
    device.suspend()?;
    let lost = rig.status()?.reason == "ssd-error-dirty";
    if device.resume().is_err() {
        reload(rig)?;
    }
    Ok(lost)
}

/// One cache's life with the n-th request failing. False: there were less.
fn with_request(mode: &'static str, which: &str, n: u32) -> Result<bool> {
    let mut rig = Rig::disks(small(mode))?;
    let plain = io::direct(rig.origin.path())?;
    let mut stamps = Stamps::put(&plain, 0, MIB / 2, u64::from(n))?;
    drop(plain);
    rig.attach(true)?;
    let _recorder = Recorder::new(&rig);
    let disk: &Disk = if which == "ssd" {
        &rig.ssd
    } else {
        &rig.origin
    };
    let request = Request::fail(disk, n)?;
    for round in 0..3 {
        {
            let (file, durable) = (io::direct(&rig.path()?)?, io::durable(&rig.path()?)?);
            for _ in 0..25 {
                stamps.step(&file, &durable)?;
            }
        }
        match round {
            0 => {
                rig.mapped()?.message("flush start")?;
                thread::sleep(Duration::from_millis(20));
                rig.mapped()?.message("flush stop")?;
            }
            _ => {
                if load_again(&rig)? {
                    stamps.check(&io::direct(&rig.path()?)?, true)?;
                }
            }
        }
    }
    let failed = request.end()?;
    ensure!(
        which == "disk" || mode == "writeback" || stamps.failed == 0,
        "the user saw {} errors of the SSD",
        stamps.failed
    );
    let lost = load_again(&rig)?;
    let status = rig.status()?;
    ensure!(status.state == "active", "{status:?}");
    stamps.check(&io::direct(&rig.path()?)?, lost)?;
    if which == "ssd" || mode != "writeback" {
        rig.agrees()?;
    }
    rig.detach()?;
    rig.attach(false)?;
    stamps.check(&io::direct(&rig.path()?)?, false)?;
    Ok(failed)
}

fn requests(which: &str) -> Result<()> {
    if !faults::known() {
        return Ok(());
    }
    for mode in MODES {
        for n in numbers() {
            let failed = with_request(mode, which, n)
                .with_context(|| format!("{mode}: request {n} to the {which}"))?;
            if !failed {
                ensure!(n > 30, "{mode}: only {n} requests to the {which}");
                break;
            }
        }
    }
    Ok(())
}

/// A start that failed may be tried again at once, or with another table; it never shows anything wrong.
fn starts() -> Result<()> {
    if !faults::known() {
        return Ok(());
    }
    for which in ["ssd", "disk"] {
        let (mut rig, mut model) = Rig::new(small("writeback"))?;
        let mut again = 0;
        for n in 1..200 {
            write_quarters_of(&rig, &mut model, u64::from(n))?;
            let before = rig.status()?;
            rig.detach()?;
            let device = Dm::create(&rig.name)?;
            device.load(rig.good_line(false))?;
            let disk = if which == "ssd" {
                &rig.ssd
            } else {
                &rig.origin
            };
            let request = Request::fail(disk, n)?;
            let first = device.resume();
            let failed = request.end()?;
            if first.is_err() && device.resume().is_err() {
                device.load(rig.good_line(false))?;
                device
                    .resume()
                    .with_context(|| format!("request {n} to the {which}"))?;
                again += 1;
            }
            let status = Status::parse(&device.status()?)?;
            drop(device);
            rig.attach(false)?;
            // Not more, as if it had been read twice, and what is dirty not less. A mark that cannot be read counts as set.
            let found = (status.dirty + status.get("drained")?, status.used);
            ensure!(
                status.state != "active" || found.0 == before.dirty && found.1 <= before.used,
                "request {n} to the {which}: dirty {} and used {} before, then {found:?}",
                before.dirty,
                before.used
            );
            rig.shows(&model)
                .with_context(|| format!("request {n} to the {which}"))?;
            if !failed {
                println!("     {n} requests to the {which}, {again} needed another table");
                break;
            }
        }
        rig.equals(&model)?;
    }
    Ok(())
}

/// A cache over targets that are swapped, with four threads that check what they read.
///
/// `trouble` returns whether requests of theirs must have failed.
fn loaded(mode: &'static str, trouble: impl FnOnce(&Rig) -> Result<bool>) -> Result<()> {
    let mut rig = Rig::disks(Config {
        origin_under: Some(Under::Linear),
        ssd_under: Some(Under::Linear),
        ..small(mode)
    })?;
    let plain = io::direct(rig.origin.path())?;
    let parts = (0..4_u64)
        .map(|n| Stamps::put(&plain, n * MIB as u64, MIB, n))
        .collect::<Result<Vec<_>>>()?;
    drop(plain);
    rig.attach(true)?;
    let recorder = Recorder::new(&rig);
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = parts
        .into_iter()
        .map(|mut stamps| {
            let (path, stop) = (rig.path(), Arc::clone(&stop));
            thread::spawn(move || {
                let path = path?;
                let (file, durable) = (io::direct(&path)?, io::durable(&path)?);
                while !stop.load(Ordering::Relaxed) {
                    stamps.step(&file, &durable)?;
                    thread::sleep(Duration::from_micros(200));
                }
                anyhow::Ok(stamps)
            })
        })
        .collect();
    let fails = trouble(&rig);
    stop.store(true, Ordering::Relaxed);
    let mut parts = Vec::new();
    for thread in threads {
        parts.push(
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??,
        );
    }
    let fails = fails?;
    drop(recorder);
    let lost = load_again(&rig)?;
    let file = io::direct(&rig.path()?)?;
    for stamps in &mut parts {
        stamps.check(&file, lost).context(mode)?;
    }
    drop(file);
    let failed: u32 = parts.iter().map(|stamps| stamps.failed).sum();
    ensure!((failed > 0) == fails, "{mode}: {failed} requests failed");
    rig.agrees().context(mode)?;
    rig.quiet().map(drop)
}

fn under_load(which: &str) -> Result<()> {
    for mode in MODES {
        loaded(mode, |rig| {
            let (below, disk) = match which {
                "ssd" => (&rig.below_ssd, &rig.ssd),
                _ => (&rig.below_origin, &rig.origin),
            };
            let below = below.as_ref().context("nothing below")?;
            for _ in 0..4 {
                thread::sleep(Duration::from_millis(150));
                below.swap(super::failures::broken(disk))?;
                thread::sleep(Duration::from_millis(150));
                below.swap(Under::Linear.line(disk))?;
                let stranded = rig.status()?.state == "stranded";
                ensure!(which == "ssd" || !stranded, "stranded by the disk");
                if stranded {
                    // Loaded again when nobody reads what may be lost.
                    return Ok(true);
                }
                load_again(rig)?;
            }
            Ok(which == "disk" || mode == "writeback")
        })?;
    }
    Ok(())
}

fn bad_blocks() -> Result<()> {
    for mode in MODES {
        loaded(mode, |rig| {
            for (below, disk) in [(&rig.below_ssd, &rig.ssd), (&rig.below_origin, &rig.origin)] {
                let below = below.as_ref().context("nothing below")?;
                let dust = format!("{} 0 512", disk.path().display());
                if below.swap(Line::new(disk.sectors(), "dust", dust)).is_err() {
                    println!("     no dm-dust in this kernel");
                    return Ok(false);
                }
                // Not the SSD's metadata, which is another case.
                for sector in (4096..disk.sectors()).step_by(97) {
                    below.message(&format!("addbadblock {sector}"))?;
                }
                below.message("enable")?;
                thread::sleep(Duration::from_millis(400));
                below.swap(Under::Linear.line(disk))?;
            }
            Ok(true)
        })?;
    }
    Ok(())
}
