// SPDX-License-Identifier: GPL-3.0-or-later
//! Every request that may fail, one after the other: of a start, and of a cache's life.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Entry;
use super::flaky::{MODES, load_again, small};
use super::writeback::write_quarters;
use crate::checked::Recorder;
use crate::disk::Disk;
use crate::dm::Dm;
use crate::faults::numbers;
use crate::io::{self, MIB};
use crate::model::seeded;
use crate::rig::{Config, Rig, Status};
use crate::stamps::Stamps;

pub const CASES: &[Entry] = &[
    ("injected: each request of a start fails", starts),
    ("injected: each request to the SSD fails", || {
        requests("ssd")
    }),
    ("injected: each request to the disk fails", || {
        requests("disk")
    }),
];

/// A cache on disks of which a request can fail.
fn failing(mode: &'static str) -> Config {
    let mut config = small(mode);
    (config.origin.failing, config.ssd.failing) = (true, true);
    config
}

/// One cache's life with the n-th request failing. False: there were less.
fn with_request(mode: &'static str, which: &str, n: u32) -> Result<bool> {
    let mut rig = Rig::disks(failing(mode))?;
    let plain = io::direct(rig.origin.path())?;
    let mut stamps = Stamps::put(&plain, 0, MIB / 2, u64::from(n))?;
    drop(plain);
    rig.attach(true)?;
    let _recorder = Recorder::new(&rig.name);
    let disk: &Disk = if which == "ssd" {
        &rig.ssd
    } else {
        &rig.origin
    };
    disk.fail_request(n)?;
    for round in 0..4 {
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
            1 => {
                let other = match mode {
                    "writethrough" => "writearound",
                    _ => "writethrough",
                };
                rig.mapped()?.message(&format!("mode {other}"))?;
                thread::sleep(Duration::from_millis(20));
                rig.mapped()?.message(&format!("mode {mode}"))?;
            }
            _ => {
                if load_again(&rig)? {
                    stamps.check(&io::direct(&rig.path()?)?, true)?;
                }
            }
        }
    }
    let failed = disk.has_failed_request()?;
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

/// Which requests fail: all of the first, and some of the later ones, other ones in each run. Each takes a cache's life,
/// and most lives differ little. With `--all` as many as [`numbers`] says.
fn chosen(mode: &str, which: &str) -> Box<dyn Iterator<Item = u32>> {
    const FIRST: u32 = 6;
    const STEP: u32 = 15;
    if crate::whole() {
        return Box::new(numbers(40));
    }
    let name = mode.bytes().chain(which.bytes());
    let offset = seeded(name.map(u64::from).sum()).u32(1..=STEP);
    Box::new((1..=FIRST).chain((FIRST + offset..).step_by(STEP as usize)))
}

fn requests(which: &str) -> Result<()> {
    for mode in MODES {
        for (tried, n) in chosen(mode, which).enumerate() {
            let failed = with_request(mode, which, n)
                .with_context(|| format!("{mode}: request {n} to the {which}"))?;
            if !failed {
                println!("     {mode}: {tried} of {n} requests to the {which} failed");
                ensure!(n > 30, "{mode}: only {n} requests to the {which}");
                break;
            }
        }
    }
    Ok(())
}

/// A start that failed may be tried again at once, or with another table; it never shows anything wrong.
fn starts() -> Result<()> {
    for which in ["ssd", "disk"] {
        let (mut rig, mut model) = Rig::new(failing("writeback"))?;
        let mut again = 0;
        for n in 1..200 {
            write_quarters(&rig, &mut model, 60, u64::from(n))?;
            // The cleaner goes on until the stop.
            rig.mapped()?.suspend()?;
            let before = rig.status()?;
            rig.detach()?;
            let device = Dm::create(&rig.name)?;
            device.load(rig.good_line(false))?;
            let disk = if which == "ssd" {
                &rig.ssd
            } else {
                &rig.origin
            };
            disk.fail_request(n)?;
            let first = device.resume();
            let failed = disk.has_failed_request()?;
            if first.is_err() && device.resume().is_err() {
                device.load(rig.good_line(false))?;
                device
                    .resume()
                    .with_context(|| format!("request {n} to the {which}"))?;
                again += 1;
            }
            let state = Status::of(&device)?.state;
            // The cleaner moves sectors from one counter to the other until the stop.
            device.suspend()?;
            let status = Status::of(&device)?;
            drop(device);
            rig.attach(false)?;
            // Not more, as if it had been read twice, and what is dirty not less. A mark that cannot be read counts as set.
            let found = (status.dirty + status.get("drained")?, status.used);
            ensure!(
                state != "active" || found.0 == before.dirty && found.1 <= before.used,
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
