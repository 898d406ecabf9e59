// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk that is slow and busy: nothing that needs only the SSD waits behind it (promise 33), and the cleaner keeps away
//! from it. In virtual time, so that a request of seconds costs nothing and a wait for it is seen.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::{self, JoinHandle, sleep};

use anyhow::{Result, anyhow, ensure};

use super::Entry;
use super::time::{config, ms, timed, within};
use super::writeback::write_quarters;
use crate::aio;
use crate::io::{self, MIB, SECTOR};
use crate::rig::Rig;

pub const CASES: &[Entry] = &[
    // promise 33: uml-time/time: the SSD does not wait behind writes that the disk has no room for
    (
        "time: the SSD does not wait behind writes that the disk has no room for",
        || ssd_goes_on(Load::Writes),
    ),
    // promise 33: uml-time/time: the SSD does not wait behind rests of quarters that the disk has no room for
    (
        "time: the SSD does not wait behind rests of quarters that the disk has no room for",
        || ssd_goes_on(Load::Rests),
    ),
    // promise 33: uml-time/time: the SSD does not wait behind discards that the disk has no room for
    (
        "time: the SSD does not wait behind discards that the disk has no room for",
        || ssd_goes_on(Load::Discards),
    ),
    // promise 33: uml-time/time: the SSD does not wait behind buffered writes that the disk throttles
    (
        "time: the SSD does not wait behind buffered writes that the disk throttles",
        || ssd_goes_on(Load::Buffered),
    ),
    (
        "time: a disk that is busy with a discard is not idle",
        || busy_is_not_idle(false),
    ),
    (
        "time: a disk that is busy with a read past the cache is not idle",
        || busy_is_not_idle(true),
    ),
];

/// What keeps the disk busy. Each request of the load waits first, for an intent mark or for another write, so a worker of
/// the module submits it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Direct writes of single sectors, with a copy, since their frames have slots. While promotion is off the SSD does
    /// not take them in write-back.
    Writes,
    /// Direct writes of which the disk is read for the rest of a quarter. Each waits for a write of the quarter before.
    Rests,
    /// A discard of many regions, which the disk's queue splits into one request for each MiB.
    Discards,
    /// Single sectors from the page cache, without a copy, and without a thread that waits for them. The disk has room for
    /// all of them, but its write-back throttling (wbt) lets only some of them in.
    Buffered,
}

const QUARTER: usize = 4096;
/// Requests of the load; each goes to a MiB of its own.
const REQUESTS: usize = 12;
/// The first MiB beyond those of the load.
const BESIDE: usize = 14;
/// Regions of the disk, from there on, that have clean data on the SSD.
const REGIONS: usize = 5;

/// One request of the load, begun.
enum Begun {
    Write(aio::Request),
    Thread(JoinHandle<Result<()>>),
    Buffered(File),
}

impl Begun {
    fn end(self) -> Result<()> {
        match self {
            Self::Write(write) => write.end().map(drop),
            Self::Thread(thread) => thread.join().map_err(|_| anyhow!("a thread panicked"))?,
            Self::Buffered(file) => Ok(file.sync_all()?),
        }
    }
}

/// Begins a write and changes the model accordingly.
fn write(file: &File, model: &mut [u8], start: usize, length: usize, with: u8) -> Result<Begun> {
    let part = &mut model[start..start + length];
    part.fill(with);
    aio::Request::write(file, start as u64, part).map(Begun::Write)
}

/// Begins the load and changes the model accordingly.
fn begin(load: Load, rig: &Rig, model: &mut [u8]) -> Result<Vec<Begun>> {
    let path = rig.path()?;
    let file = io::direct(&path)?;
    let mut begun = Vec::new();
    if load == Load::Writes {
        for start in (0..REQUESTS).map(|number| number * MIB) {
            model[start..start + QUARTER].fill(4);
            io::write(&file, start as u64, &model[start..start + QUARTER])?;
        }
    }
    if load != Load::Rests {
        rig.mapped()?.message("promotion off")?;
    }
    for start in (0..REQUESTS).map(|number| number * MIB) {
        match load {
            Load::Writes => begun.push(write(&file, model, start + QUARTER, SECTOR, 3)?),
            Load::Rests => {
                begun.push(write(&file, model, start, QUARTER, 3)?);
                begun.push(write(&file, model, start + QUARTER / 2, QUARTER, 4)?);
            }
            Load::Discards => model[start..start + MIB].fill(0),
            Load::Buffered => model[start..start + SECTOR].fill(3),
        }
    }
    if load == Load::Buffered {
        let file = io::buffered(&path)?;
        io::set_block_size(&file, SECTOR)?;
        for start in (0..REQUESTS).map(|number| number * MIB) {
            file.write_all_at(&model[start..start + SECTOR], start as u64)?;
        }
        io::begin_write_out(&file)?;
        begun.push(Begun::Buffered(file));
    }
    if load == Load::Discards {
        io::set_queue(rig.origin_path(), "discard_max_bytes", &MIB.to_string())?;
        begun.push(Begun::Thread(thread::spawn(move || {
            io::discard(&file, 0, (REQUESTS * MIB) as u64)
        })));
    }
    Ok(begun)
}

/// Two writes at the same time over clean copies in one region, which need an intent mark; a write that needs none; and
/// one that waits for that.
fn write_to_ssd(file: &File, model: &mut [u8], region: usize) -> Result<()> {
    let mut writes = Vec::new();
    for (number, offset) in (5..).zip([0, 8192, 65536, 65536]) {
        writes.push(write(file, model, region * MIB + offset, QUARTER, number)?);
    }
    writes.into_iter().try_for_each(Begun::end)
}

fn ssd_goes_on(load: Load) -> Result<()> {
    let mut config = config(1000);
    config.origin.mib = (BESIDE + REGIONS) as u64;
    config.origin.single = load != Load::Buffered;
    config.ssd.delay_ns = 1_000_000;
    let (rig, mut model) = Rig::new(config)?;
    if load == Load::Buffered {
        // Of 16 places wbt gives at most 6 to buffered writes, in its first second up to 12.
        io::set_queue(rig.origin.path(), "nr_requests", "16")?;
        io::set_queue(rig.origin.path(), "wbt_lat_usec", "75000")?;
        sleep(ms(2000));
    }
    let file = io::direct(&rig.path()?)?;
    for region in BESIDE..BESIDE + REGIONS {
        io::read(&file, (region * MIB) as u64, 16384)?;
    }
    rig.quiet()?;
    file.sync_all()?;
    let before = rig.origin.stat()?;
    let begun = begin(load, &rig, &mut model)?;
    // Wait until the marks are durable, and the workers have submitted as many requests as the disk has room for.
    sleep(ms(500));
    let (reads, writes) = rig.origin.in_flight()?;
    let (held, others) = match load {
        Load::Rests => (reads, writes),
        _ => (writes, reads),
    };
    ensure!(
        (1..REQUESTS as u64).contains(&held) && others == 0,
        "the disk holds {held} requests of {REQUESTS}, and {others} others"
    );
    rig.mapped()?.message("promotion on")?;
    for region in BESIDE..BESIDE + REGIONS {
        let ((), time) = timed(|| write_to_ssd(&file, &mut model, region))?;
        within("four writes to the SSD", time, 0, 100)?;
        let start = region * MIB;
        let (read, time) = timed(|| io::read(&file, start as u64, 4096))?;
        ensure!(read[..] == model[start..start + 4096], "wrong data");
        within("a read of the SSD", time, 0, 100)?;
    }
    let done = rig.origin.stat()? - before;
    let each = match load {
        Load::Discards => MIB,
        Load::Rests => QUARTER / 2,
        Load::Writes | Load::Buffered => SECTOR,
    };
    let all = REQUESTS * each / SECTOR;
    ensure!(
        done.read + done.written + done.discarded < all as u64,
        "the disk was not busy any more: {done:?}"
    );
    begun.into_iter().try_for_each(Begun::end)?;
    rig.mapped()?.message("flush start")?;
    sleep(ms(300_000));
    drop(file);
    rig.equals(&model)
}

/// Each request to the disk takes 5 s. The cleaner waits until the disk is idle and no user has written for 2 s.
fn busy_is_not_idle(read: bool) -> Result<()> {
    let (rig, mut model) = Rig::new(config(5000))?;
    write_quarters(&rig, &mut model, 100, 1)?;
    let file = io::direct(&rig.path()?)?;
    let start = 30 * MIB;
    model[start..start + 16384].fill(0);
    let discard = {
        let file = file.try_clone()?;
        thread::spawn(move || io::discard(&file, start as u64, 16384))
    };
    sleep(ms(1000));
    let reader = {
        let file = file.try_clone()?;
        // The read is of the same frame, so that its data is not stored.
        thread::spawn(move || match read {
            true => io::read(&file, start as u64, 16384).map(drop),
            false => Ok(()),
        })
    };
    // The discard ends after 5 s, the read a second later.
    sleep(ms(if read { 4900 } else { 3900 }));
    // What is written back would still be under way: reads, writes.
    let wanted = if read { (1, 0) } else { (0, 1) };
    let found = rig.origin.in_flight()?;
    ensure!(
        found == wanted,
        "written back beside a request of the disk: {found:?} are in flight, not {wanted:?}"
    );
    for thread in [discard, reader] {
        thread.join().map_err(|_| anyhow!("a thread panicked"))??;
    }
    if read {
        ensure!(
            rig.status()?.get("read_bypassed_busy")? > 0,
            "the read did not pass the cache: {:?}",
            rig.status()?
        );
    }
    sleep(ms(60_000));
    ensure!(
        rig.status()?.dirty == 0,
        "not written back to an idle disk: {:?}",
        rig.status()?
    );
    drop(file);
    rig.equals(&model)
}
