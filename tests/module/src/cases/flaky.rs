// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that fail now and then under load: for milliseconds, wholly or in one direction, and in single blocks.
//!
//! A disk that drops a write and says that it has written it is not tested: only checksums of all data would show that.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use super::failures_dirty::reload;
use crate::checked::{Load, Parts, Recorder};
use crate::disk::{Disk, Shape};
use crate::dm::Dm;
use crate::rig::{Config, Rig, Under};

pub const CASES: &[Entry] = &[
    // promise 17: uml-plain/injected: the SSD comes and goes under load
    ("injected: the SSD comes and goes under load", || {
        outages("ssd")
    }),
    // promise 20: uml-plain/injected: the disk comes and goes under load
    ("injected: the disk comes and goes under load", || {
        outages("disk")
    }),
    // promise 17: uml-plain/injected: bad blocks of the SSD under load
    ("injected: bad blocks of the SSD under load", || {
        bad_blocks("ssd")
    }),
    // promise 20: uml-plain/injected: bad blocks of the disk under load
    ("injected: bad blocks of the disk under load", || {
        bad_blocks("disk")
    }),
];

pub const MODES: [&str; 3] = ["writethrough", "writearound", "writeback"];

/// Which requests fail on a failing disk.
const KINDS: [&str; 3] = ["all", "reads", "writes"];

/// How often each case is repeated.
fn rounds() -> u32 {
    if crate::whole() { 12 } else { 3 }
}

pub fn small(mode: &'static str) -> Config {
    Config {
        mode,
        origin: Shape::new(8),
        ssd: Shape::new(6),
        ..Config::default()
    }
}

/// The same table again, whatever state it is in. True: the SSD was lost with dirty data, of which what was not
/// flushed may be gone now.
pub fn load_again(rig: &Rig) -> Result<bool> {
    let device = rig.mapped()?;
    // The SSD fails only one request.
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

/// A cache over targets that are swapped, under load.
struct Loaded {
    _recorder: Recorder,
    load: Load,
    rig: Rig,
}

impl Loaded {
    fn new(mode: &'static str) -> Result<Self> {
        let mut rig = Rig::disks(Config {
            origin_under: Some(Under::Linear),
            ssd_under: Some(Under::Linear),
            ..small(mode)
        })?;
        let parts = Parts::put(rig.origin.path())?;
        rig.attach(true)?;
        Ok(Self {
            _recorder: Recorder::new(&rig.name),
            load: Load::new(parts, &rig.path()?),
            rig,
        })
    }

    /// Loads the same table again while nobody reads what may be lost. Returns whether it may.
    fn load_again(&mut self) -> Result<bool> {
        let device = self.rig.path()?;
        self.load.held(&device, || load_again(&self.rig))
    }

    /// The target below a disk.
    fn below(&self, which: &str) -> Result<(&Dm, &Disk)> {
        let (below, disk) = match which {
            "ssd" => (&self.rig.below_ssd, &self.rig.ssd),
            _ => (&self.rig.below_origin, &self.rig.origin),
        };
        Ok((below.as_ref().context("nothing below")?, disk))
    }

    /// Waits until half of the cache is in use. What fills a block heals it, so that a bad one is met only where
    /// something was before; and a cache that had lost its SSD begins almost empty.
    fn filled(&self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.rig.status()?;
            if 2 * status.used >= status.total {
                return Ok(());
            }
            ensure!(
                Instant::now() < until,
                "the cache does not fill: {}; {status:?}",
                self.load.progress(),
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the threads and compares everything. Returns how many requests failed.
    fn end(mut self) -> Result<u32> {
        self.load.stop()?;
        self.load_again()?;
        self.load.check(&self.rig.path()?)?;
        self.rig.agrees()?;
        let status = self.rig.quiet()?;
        ensure!(status.state == "active", "{status:?}");
        Ok(self.load.failed())
    }
}

/// Gives a disk some trouble for some milliseconds, several times. Returns how many of its errors the cache counted.
fn troubled(
    loaded: &mut Loaded,
    which: &str,
    rng: &mut Rng,
    trouble: impl Fn(&Loaded, &mut Rng) -> Result<()>,
) -> Result<u64> {
    let counter = if which == "ssd" {
        "ssd_errors"
    } else {
        "disk_errors"
    };
    let mut errors = 0;
    for _ in 0..rounds() {
        thread::sleep(Duration::from_millis(rng.u64(10..60)));
        let before = loaded.rig.status()?.get(counter)?;
        trouble(loaded, rng)?;
        let asked = loaded.rig.status()?.get("read_requested")?;
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let status = loaded.rig.status()?;
            if status.get(counter)? != before {
                break;
            }
            ensure!(
                Instant::now() < until,
                "nobody met the {which}'s trouble in {} reads: {}; {status:?}",
                status.get("read_requested")? - asked,
                loaded.load.progress(),
            );
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(rng.u64(0..40)));
        let (below, disk) = loaded.below(which)?;
        below.swap(Under::Linear.line(disk))?;
        let status = loaded.rig.status()?;
        errors += status.get(counter)? - before;
        ensure!(
            which == "ssd" || status.state == "active",
            "by the disk alone: {status:?}"
        );
        ensure!(
            !loaded.load_again()? || which == "ssd",
            "data was lost with the disk"
        );
    }
    Ok(errors)
}

fn outages(which: &str) -> Result<()> {
    let mut rng = Rng::with_seed(1);
    for mode in MODES {
        for kind in KINDS {
            let what = format!("{mode}, {which}, {kind:?}");
            let mut loaded = Loaded::new(mode)?;
            let errors = troubled(&mut loaded, which, &mut rng, |loaded, _| {
                let (below, disk) = loaded.below(which)?;
                below.swap(disk.plain_test_line())?;
                below.message(&format!("fail {kind}"))
            })
            .context(what.clone())?;
            let failed = loaded.end().context(what.clone())?;
            println!("     {what}: {errors} errors, {failed} requests failed");
            // Dirty data that an SSD cannot give is an error.
            let hidden = which == "ssd" && mode != "writeback";
            ensure!(!hidden || failed == 0, "{what}: {failed} requests failed");
            ensure!(
                which == "ssd" || failed > 0,
                "{what}: no request failed, so nothing was tried"
            );
        }
    }
    Ok(())
}

fn bad_blocks(which: &str) -> Result<()> {
    let mut rng = Rng::with_seed(2);
    for mode in MODES {
        let mut loaded = Loaded::new(mode)?;
        let errors = troubled(&mut loaded, which, &mut rng, |loaded, rng| {
            if which == "ssd" {
                loaded.filled()?;
            }
            let (below, disk) = loaded.below(which)?;
            below.swap(disk.plain_test_line())?;
            // Not the SSD's metadata, which is another case.
            let first = rng.u64(4096..4096 + 97);
            for sector in (first..disk.sectors()).step_by(97) {
                below.message(&format!("bad {sector}"))?;
            }
            Ok(())
        })
        .context(mode)?;
        let failed = loaded.end().context(mode)?;
        println!("     {mode}, {which}: {errors} bad blocks met, {failed} requests failed");
        let hidden = which == "ssd" && mode != "writeback";
        ensure!(!hidden || failed == 0, "{mode}: {failed} requests failed");
    }
    Ok(())
}
