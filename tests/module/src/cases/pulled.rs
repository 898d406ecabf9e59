// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that are pulled out of the running machine under load, and plugged in again (promises 17 to 20). The program
//! that runs the guest does this when the suite asks for it: the kernel knows nothing before the disk is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::Entry;
use crate::checked::{Load, Parts, Recorder};
use crate::dm::{Dm, Line};
use crate::io::{self, MIB};
use crate::rig::Status;

pub const CASES: &[Entry] = &[
    // promise 17: kernel-debian12/pulled: the SSD, write-through
    ("pulled: the SSD, write-through", || ssd("writethrough")),
    ("pulled: the SSD, write-around", || ssd("writearound")),
    // promise 18, 34: kernel-debian12/pulled: the SSD, write-back
    ("pulled: the SSD, write-back", || ssd("writeback")),
    ("pulled: the disk, write-through", || disk("writethrough")),
    // promise 20: kernel-debian12/pulled: the disk, write-back
    ("pulled: the disk, write-back", || disk("writeback")),
];

/// An emulated machine under load takes its time.
const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "pulled";
/// Bytes of a frame.
const FRAME: usize = 16384;

fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        sleep(Duration::from_millis(5));
    }
}

/// The node of the disk with a serial number, if it is plugged in.
fn node(serial: &str) -> Option<PathBuf> {
    for entry in fs::read_dir("/sys/block").ok()?.flatten() {
        let page = fs::read(entry.path().join("device/vpd_pg80")).unwrap_or_default();
        let found = String::from_utf8_lossy(page.get(4..).unwrap_or_default()).into_owned();
        let path = Path::new("/dev").join(entry.file_name());
        if found.trim_matches(['\0', ' ']) == serial && path.exists() {
            return Some(path);
        }
    }
    None
}

/// The node of a disk as soon as it can be opened: it is there before.
pub fn plugged(serial: &str) -> Result<PathBuf> {
    until(&format!("no {serial}"), || {
        Ok(node(serial).filter(|node| fs::File::open(node).is_ok()))
    })
}

fn pull(serial: &str) -> Result<()> {
    println!("suite: pull {serial}");
    until(&format!("{serial} stays"), || {
        Ok(node(serial).is_none().then_some(()))
    })
}

fn plug(serial: &str) -> Result<PathBuf> {
    println!("suite: plug {serial}");
    plugged(serial)
}

/// A cache over both disks, under load.
struct Machine {
    load: Load,
    _recorder: Recorder,
    device: Dm,
    mode: &'static str,
}

const UUID: &str = "00112233445566778899aabbccddeeff";

impl Machine {
    fn new(mode: &'static str) -> Result<Self> {
        let ssd = plugged("ssd")?;
        io::write_in_pieces(&io::direct(&ssd)?, 0, &vec![0; MIB])?;
        let parts = Parts::put(&plugged("disk")?)?;
        let device = Dm::with(NAME, line(mode, true)?)?;
        let machine = Self {
            load: Load::new(parts, device.path()),
            _recorder: Recorder::new(NAME),
            device,
            mode,
        };
        // Until there is something to lose.
        until("nothing is cached", || {
            let status = machine.status()?;
            let enough = status.used > 100 && (mode != "writeback" || status.dirty > 0);
            Ok(enough.then_some(()))
        })?;
        Ok(machine)
    }

    fn status(&self) -> Result<Status> {
        Status::parse(&self.device.status()?)
    }

    /// Waits until the load has met what was pulled.
    fn state(&self, state: &str, reason: &str) -> Result<()> {
        until(&format!("not {state}"), || {
            let status = self.status()?;
            Ok((status.state == state && status.reason == reason).then_some(()))
        })
    }

    /// Reads a part of the disk that the load does not write, and has the copies recorded, as each suspend does. A start
    /// after a loss of the disk drops copies in regions that were written, whatever it knows about the disk.
    fn record_copies(&self) -> Result<()> {
        let record = || {
            let file = io::direct(self.device.path())?;
            let mut offsets: Vec<usize> = (32 * MIB..34 * MIB).step_by(FRAME).collect();
            Rng::with_seed(1).shuffle(&mut offsets);
            for offset in offsets {
                io::read(&file, offset as u64, FRAME)?;
            }
            self.device.suspend()?;
            self.device.resume()?;
            Ok(false)
        };
        self.load.held(self.device.path(), record).map(drop)
    }

    /// Without its disk, what the SSD has is read. No write of that may go well: a file system that gets only a part of its
    /// writes through takes its journal for done with.
    fn takes_no_write(&self) -> Result<()> {
        let file = io::direct(self.device.path())?;
        let mut read = 0;
        for offset in (32 * MIB..34 * MIB).step_by(FRAME) {
            let Ok(data) = io::read(&file, offset as u64, FRAME) else {
                continue;
            };
            read += 1;
            let wrote = io::write(&file, offset as u64, &data);
            ensure!(wrote.is_err(), "a write at {offset} without the disk");
        }
        ensure!(read > 0, "nothing can be read without the disk");
        Ok(())
    }

    /// Loads a table with the disks by the names that they have now.
    fn again(&self, lost: bool) -> Result<Status> {
        let mut loaded = None;
        self.load.held(self.device.path(), || {
            self.device.load(line(self.mode, false)?)?;
            self.device.suspend()?;
            self.device.resume()?;
            let status = self.status()?;
            ensure!(status.state == "active", "loaded again: {status:?}");
            loaded = Some(status);
            Ok(lost)
        })?;
        loaded.context("no status")
    }

    /// Goes on for a while, compares everything, and drains. Returns how many requests failed.
    fn end(mut self) -> Result<u32> {
        sleep(Duration::from_millis(500));
        self.load.stop()?;
        self.load.check(self.device.path())?;
        self.device.message("mode writethrough")?;
        until("it stays dirty", || {
            Ok((self.status()?.dirty == 0).then_some(()))
        })?;
        let shown = io::whole(self.device.path())?;
        let difference = io::compare(&plugged("disk")?, &shown)?;
        ensure!(difference.is_none(), "the plain disk: {difference:?}");
        self.load.check(self.device.path())?;
        let status = self.status()?;
        ensure!(status.state == "active", "{status:?}");
        Ok(self.load.failed())
    }
}

fn line(mode: &str, format: bool) -> Result<Line> {
    let (disk, ssd) = (plugged("disk")?, plugged("ssd")?);
    let words = if format {
        format!("6 uuid {UUID} origin_id beef format new")
    } else {
        format!("4 uuid {UUID} origin_id beef")
    };
    Ok(Line::new(
        (io::size(&disk)? / io::SECTOR) as u64,
        "tandem",
        format!("{} {} {mode} {words}", disk.display(), ssd.display()),
    ))
}

fn ssd(mode: &'static str) -> Result<()> {
    let machine = Machine::new(mode)?;
    let event = machine.device.event()?;
    pull("ssd")?;
    let dirty = mode == "writeback";
    if dirty {
        machine.state("stranded", "ssd-error-dirty")?;
    } else {
        machine.state("bypass", "ssd-error")?;
    }
    // By a worker, after the state.
    until("no event", || {
        Ok((machine.device.event()? > event).then_some(()))
    })?;
    // The disk is written meanwhile, or nothing is.
    sleep(Duration::from_millis(500));
    if dirty {
        until("no request failed", || {
            Ok((machine.load.failed() > 0).then_some(()))
        })?;
    }
    let failed = machine.load.failed();
    ensure!(dirty || failed == 0, "{mode}: {failed} requests failed");
    plug("ssd")?;
    let status = machine.again(dirty)?;
    ensure!(
        dirty || status.used < 100,
        "old content was taken up: {status:?}"
    );
    let before = machine.load.failed();
    let failed = machine.end()? - before;
    ensure!(
        failed == 0 && (dirty || before == 0),
        "{mode}: {before} requests failed, then {failed} with the SSD back"
    );
    Ok(())
}

fn disk(mode: &'static str) -> Result<()> {
    let machine = Machine::new(mode)?;
    machine.record_copies()?;
    pull("disk")?;
    until("no request failed", || {
        Ok((machine.load.failed() > 0).then_some(()))
    })?;
    sleep(Duration::from_millis(500));
    let status = machine.status()?;
    ensure!(status.state == "active", "{status:?}");
    machine.takes_no_write()?;
    plug("disk")?;
    let status = machine.again(false)?;
    ensure!(
        status.get("cold_start")? == 3 && (mode == "writeback" || status.used < 100),
        "a disk that was away is believed: {status:?}"
    );
    let failed = machine.load.failed();
    let failed = machine.end()? - failed;
    ensure!(failed == 0, "{failed} requests failed with the disk back");
    Ok(())
}
