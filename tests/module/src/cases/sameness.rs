// SPDX-License-Identifier: GPL-3.0-or-later
//! A start that cannot know that the disk is unchanged is cold, or refused with dirty data (promise 21).

mod cost;
mod sums;
mod watched;

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;

use super::Entry;
use super::starts::read_frames;
use crate::disk::Shape;
use crate::dm::is_errno;
use crate::io::{self, MIB};
use crate::rig::{Config, Rig, Status};

pub const CASES: &[Entry] = &[
    // promise 21: uml-plain/sameness: a cut in write-through, then the disk is changed
    (
        "sameness: a cut in write-through, then the disk is changed",
        || cut_and_changed("writethrough"),
    ),
    (
        "sameness: a cut in write-around, then the disk is changed",
        || cut_and_changed("writearound"),
    ),
    (
        "sameness: a cut in write-through, then a start in write-back",
        cut_and_other_mode,
    ),
    (
        "sameness: after a cut in write-back with dirty data the fixed quarters are compared",
        compared_with_dirty,
    ),
    (
        "sameness: after a cut in write-back without dirty data they are, too",
        compared_without_dirty,
    ),
    ("sameness: marked regions are not compared", marked),
    (
        "sameness: the disk leaves and comes back below a suspended device",
        left,
    ),
    // promise 21: uml-plain/sameness: the disk leaves and comes back while there is dirty data
    (
        "sameness: the disk leaves and comes back while there is dirty data",
        left_with_dirty,
    ),
    (
        "sameness: a stop with another disk, or without one, is no stop in order",
        stopped_without_disk,
    ),
    // promise 13: uml-plain/sameness: a cut keeps a known file system warm
    (
        "sameness: a cut keeps a known file system warm",
        watched::known_is_warm,
    ),
    // promise 21: uml-plain/sameness: a use that a cut hides is seen at its place
    (
        "sameness: a use that a cut hides is seen at its place",
        watched::known_is_changed,
    ),
    (
        "sameness: a write to a watched place, cut at any moment, is no change",
        watched::watched_is_written,
    ),
    (
        "sameness: a disk without an answer to flushes answers the writes of a watched place",
        watched::flushes_fail,
    ),
    // promise 21: uml-plain/sameness: the log of XFS is written back in another order
    (
        "sameness: the log of XFS is written back in another order",
        watched::log_written_back,
    ),
    // promise 21: uml-plain/sameness: a use inside of LUKS is seen where its superblock is
    (
        "sameness: a use inside of LUKS is seen where its superblock is",
        watched::inside_luks,
    ),
    (
        "sameness: a note that the SSD cannot read says nothing of the disk",
        watched::note_unreadable,
    ),
    (
        "sameness: a table of partitions over a file system",
        watched::partitioned,
    ),
    (
        "sameness: what is read most is compared after a cut",
        read_most,
    ),
    // promise 21: uml-plain/sameness: a change of a block with a checksum of its own
    (
        "sameness: a change of a block with a checksum of its own",
        sums::of_its_own,
    ),
    // promise 21: uml-plain/sameness: notes of an older module
    (
        "sameness: notes of an older module",
        sums::of_an_older_module,
    ),
    (
        "sameness: another file system is made through the cache",
        watched::made_anew,
    ),
    // promise 21: uml-plain/sameness: exFAT, FAT and NTFS leave no trace
    (
        "sameness: exFAT, FAT and NTFS leave no trace",
        leaves_no_trace,
    ),
];

/// By the clock.
pub const TIMED: &[Entry] = &[(
    "time: what a start compares takes a hard disk a second and a half at most",
    cost::of_start,
)];

/// Values of the gauge `cold_start`.
const WARM: u64 = 0;
const CHANGED: u64 = 1;
const UNPROVEN: u64 = 2;
const LEFT: u64 = 3;
const TRACELESS: u64 = 4;

/// Room for all that the cases read.
fn config(mode: &'static str) -> Config {
    Config {
        mode,
        ssd: Shape::new(24),
        ..Config::default()
    }
}

fn with_test_disk(mode: &'static str) -> Config {
    let mut config = config(mode);
    config.origin.failing = true;
    config
}

/// Sectors that are dirty, or were when the cache started.
fn was_dirty(status: &Status) -> Result<u64> {
    Ok(status.dirty + status.get("drained")?)
}

/// The start was cold for this reason: nothing but dirty data is on the SSD.
fn is_cold(status: &Status, why: u64) -> Result<()> {
    ensure!(
        status.used <= was_dirty(status)? / 8 && status.get("cold_start")? == why,
        "not cold for reason {why}: {status:?}"
    );
    Ok(())
}

fn is_warm(status: &Status, used: u64) -> Result<()> {
    ensure!(
        used > 0 && status.used == used && status.get("cold_start")? == WARM,
        "{used} slots were in use: {status:?}"
    );
    Ok(())
}

/// Changes the disk without the cache, and the model.
fn change(rig: &Rig, model: &mut [u8], at: usize, seed: u64) -> Result<()> {
    let bytes = io::random(4096, seed);
    model[at..at + 4096].copy_from_slice(&bytes);
    rig.origin.put(at as u64, &bytes)
}

/// Reads what is cached afterwards; returns how many slots are in use.
fn fill(rig: &Rig, mib: usize) -> Result<u64> {
    read_frames(rig, mib)?;
    Ok(rig.quiet()?.used)
}

/// A write that only the SSD has, and durably. From then until `fail_requests("nothing")` the disk takes no write, so that
/// this stays. (The write itself ends with a flush of both.)
fn dirty(rig: &Rig, model: &mut [u8], at: usize) -> Result<()> {
    model[at..at + 4096].fill(9);
    let file = io::durable(&rig.path()?)?;
    io::write(&file, at as u64, &model[at..at + 4096])?;
    rig.origin.fail_requests("writes")
}

/// A place that no stop samples. The copy is outside of all marked regions.
const UNSAMPLED: usize = 5 * MIB;

fn cut_and_changed(mode: &'static str) -> Result<()> {
    let (rig, mut model) = Rig::new(config(mode).cuttable())?;
    ensure!(fill(&rig, 8)? > 0, "nothing is cached");
    io::direct(&rig.path()?)?.sync_all()?;
    for changed in [false, true] {
        let mut cut = rig.cut()?;
        if changed {
            change(&cut, &mut model, UNSAMPLED, 7)?;
        }
        cut.attach(false)?;
        is_cold(&cut.status()?, UNPROVEN)?;
        cut.equals(&model)?;
        // A stop in order is warm again.
        let used = fill(&cut, 8)?;
        cut.detach()?;
        cut.attach(false)?;
        is_warm(&cut.status()?, used)?;
        cut.equals(&model)?;
    }
    Ok(())
}

/// The content is none that is known, so dirty data counts if no quarter that is compared differs.
fn read_most() -> Result<()> {
    for place in [UNSAMPLED, 6 * MIB] {
        let (mut rig, mut model) = Rig::new(config("writeback").cuttable())?;
        fill(&rig, 8)?;
        for _ in 0..4 {
            io::read(&io::direct(&rig.path()?)?, UNSAMPLED as u64, 16384)?;
        }
        rig.detach()?;
        rig.attach(false)?;
        dirty(&rig, &mut model, 20 * MIB)?;
        let mut cut = rig.cut()?;
        change(&cut, &mut model, place, 7)?;
        let started = cut.attach(false);
        if place == UNSAMPLED {
            let error = started.err().context("the change was not seen")?;
            ensure!(is_errno(&error, Errno::STALE), "{error:#}");
            continue;
        }
        started?;
        is_cold(&cut.status()?, UNPROVEN)?;
        cut.equals(&model)?;
    }
    Ok(())
}

/// What counts is how the cache was used before the cut.
fn cut_and_other_mode() -> Result<()> {
    let (mut first, mut model) = Rig::new(config("writethrough").cuttable())?;
    // The superblock says that nothing is dirty.
    first.detach()?;
    first.attach(false)?;
    fill(&first, 8)?;
    io::direct(&first.path()?)?.sync_all()?;
    let mut cut = first.cut()?;
    change(&cut, &mut model, UNSAMPLED, 7)?;
    cut.attach_as("writeback")?;
    is_cold(&cut.status()?, UNPROVEN)?;
    cut.equals(&model)
}

fn compared_with_dirty() -> Result<()> {
    for place in [0, 16 * 4096, MIB] {
        let (rig, mut model) = Rig::formatted(config("writeback").cuttable())?;
        fill(&rig, 8)?;
        dirty(&rig, &mut model, 20 * MIB)?;
        let mut cut = rig.cut()?;
        let before = cut.origin.content()?;
        let ssd = cut.ssd.content()?;
        cut.origin.put(place as u64, &io::random(4096, 7))?;
        let error = cut
            .attach(false)
            .err()
            .context("a changed disk was taken")?;
        ensure!(is_errno(&error, Errno::STALE), "{place}: {error:#}");
        ensure!(cut.ssd.content()? == ssd, "the refusal wrote to the SSD");
        cut.origin.put(0, &before)?;
        cut.attach(false)?;
        let status = cut.status()?;
        ensure!(was_dirty(&status)? == 8, "{status:?}");
        ensure!(
            status.used > 100 && status.get("cold_start")? == WARM,
            "the right disk is not warm: {status:?}"
        );
        cut.equals(&model)?;
    }
    Ok(())
}

fn compared_without_dirty() -> Result<()> {
    let (rig, mut model) = Rig::formatted(config("writeback").cuttable())?;
    let used = fill(&rig, 8)?;
    io::direct(&rig.path()?)?.sync_all()?;
    let mut same = rig.cut()?;
    same.attach(false)?;
    is_warm(&same.status()?, used)?;
    same.equals(&model)?;
    let mut cut = rig.cut()?;
    change(&cut, &mut model, 272 * 4096, 7)?;
    cut.attach(false)?;
    is_cold(&cut.status()?, CHANGED)?;
    cut.equals(&model)
}

/// The disk may have any old content where a write was under way, and copies of it are dropped anyway.
fn marked() -> Result<()> {
    let mark = |rig: &Rig, model: &mut [u8]| -> Result<()> {
        let file = io::direct(&rig.path()?)?;
        io::read(&file, MIB as u64, 16384)?;
        rig.quiet()?;
        dirty(rig, model, 20 * MIB)?;
        // While promotion is off, what is not cached goes to the disk. A flush would clear the mark.
        rig.origin.fail_requests("nothing")?;
        rig.mapped()?.message("promotion off")?;
        let at = MIB + MIB / 2;
        io::write(&file, at as u64, &model[at..at + 512])?;
        rig.mapped()?.message("promotion on")?;
        rig.origin.fail_requests("writes")?;
        let status = rig.status()?;
        ensure!(
            status.dirty == 8 && status.get("marked")? == 1 && status.used == 2,
            "{status:?}"
        );
        Ok(())
    };
    let (rig, mut model) = Rig::new(config("writeback").cuttable())?;
    mark(&rig, &mut model)?;
    let mut cut = rig.cut()?;
    change(&cut, &mut model, MIB, 7)?;
    cut.attach(false)?;
    let status = cut.status()?;
    ensure!(was_dirty(&status)? == 8, "{status:?}");
    cut.equals(&model)?;

    let (rig, mut model) = Rig::new(with_test_disk("writeback"))?;
    mark(&rig, &mut model)?;
    // The disk is away during the suspend, so the mark stays, and no samples are taken.
    rig.origin.fail_requests("all")?;
    rig.mapped()?.suspend()?;
    rig.origin.fail_requests("nothing")?;
    rig.origin.exchange()?;
    let status = rig.status()?;
    ensure!(status.get("marked")? == 1 && status.used == 2, "{status:?}");
    change(&rig, &mut model, MIB, 7)?;
    rig.mapped()?.resume()?;
    is_cold(&rig.status()?, LEFT)?;
    rig.equals(&model)
}

/// The numbers of the device stay the same.
fn left() -> Result<()> {
    for reload in [false, true] {
        for mode in ["writethrough", "writearound", "writeback"] {
            let (rig, mut model) = Rig::new(with_test_disk(mode))?;
            let used = fill(&rig, 8)?;
            let device = rig.mapped()?;
            device.suspend()?;
            device.resume()?;
            is_warm(&rig.status()?, used)?;
            if reload {
                device.load(rig.good_line(false))?;
            }
            device.suspend()?;
            rig.origin.exchange()?;
            change(&rig, &mut model, UNSAMPLED, 7)?;
            device.resume()?;
            is_cold(&rig.status()?, LEFT).with_context(|| format!("{mode}, {reload}"))?;
            rig.equals(&model)?;
            let used = rig.quiet()?.used;
            device.suspend()?;
            device.resume()?;
            let status = rig.status()?;
            ensure!(used > 0 && status.used == used, "{used}, then {status:?}");
        }
    }
    Ok(())
}

fn left_with_dirty() -> Result<()> {
    for reload in [false, true] {
        let (rig, mut model) = Rig::new(with_test_disk("writeback"))?;
        fill(&rig, 8)?;
        dirty(&rig, &mut model, 20 * MIB)?;
        let device = rig.mapped()?;
        if reload {
            device.load(rig.good_line(false))?;
        }
        // Before the suspend: the clean copies are compared; after it: the samples.
        if !reload {
            rig.origin.exchange()?;
        }
        rig.origin.fail_requests("nothing")?;
        device.suspend()?;
        let before = rig.origin.content()?;
        if reload {
            rig.origin.exchange()?;
        }
        rig.origin.put(MIB as u64, &io::random(4096, 7))?;
        let error = device.resume().err().context("another disk was taken")?;
        ensure!(is_errno(&error, Errno::STALE), "{error:#}");
        rig.origin.put(0, &before)?;
        device.resume()?;
        let status = rig.status()?;
        ensure!(was_dirty(&status)? == 8, "{status:?}");
        is_cold(&status, LEFT)?;
        rig.equals(&model)?;
    }
    Ok(())
}

fn stopped_without_disk() -> Result<()> {
    let (mut rig, mut model) = Rig::new(with_test_disk("writethrough"))?;
    for exchanged in [true, false] {
        fill(&rig, 8)?;
        if exchanged {
            rig.origin.exchange()?;
        } else {
            rig.origin.fail_requests("reads")?;
        }
        rig.detach()?;
        rig.origin.fail_requests("nothing")?;
        change(&rig, &mut model, UNSAMPLED, 7 + u64::from(exchanged))?;
        rig.attach(false)?;
        is_cold(&rig.status()?, UNPROVEN).with_context(|| format!("{exchanged}"))?;
        rig.equals(&model)?;
    }
    // In write-back the copies are compared after what is no stop in order.
    let (mut rig, mut model) = Rig::new(with_test_disk("writeback"))?;
    fill(&rig, 8)?;
    rig.origin.fail_requests("reads")?;
    rig.detach()?;
    rig.origin.fail_requests("nothing")?;
    change(&rig, &mut model, MIB, 9)?;
    rig.attach(false)?;
    is_cold(&rig.status()?, CHANGED)?;
    rig.equals(&model)
}

fn leaves_no_trace() -> Result<()> {
    let known: [(usize, &[u8; 8], usize); 7] = [
        (3, b"EXFAT   ", 0),
        (3, b"NTFS    ", 0),
        (82, b"FAT32   ", 0),
        (54, b"FAT12   ", 0),
        (54, b"FAT16   ", 0),
        (54, b"FAT     ", 0),
        (3, b"EXFAT   ", MIB),
    ];
    for (at, name, start) in known {
        for mode in ["writethrough", "writeback"] {
            for signed in [false, true] {
                let mut rig = Rig::disks(with_test_disk(mode))?;
                let mut model = rig.origin.fill(5)?;
                model[start + at..start + at + 8].copy_from_slice(name);
                model[start + 510..start + 512].copy_from_slice(if signed {
                    &[0x55, 0xaa]
                } else {
                    &[0x55, 0x55]
                });
                rig.origin.put(0, &model)?;
                rig.attach(true)?;
                let mut used = fill(&rig, 8)?;
                if mode == "writeback" {
                    dirty(&rig, &mut model, 20 * MIB)?;
                    used = rig.status()?.used;
                }
                rig.origin.fail_requests("nothing")?;
                rig.detach()?;
                if signed {
                    change(&rig, &mut model, UNSAMPLED, 7)?;
                }
                rig.attach(false)?;
                let status = rig.status()?;
                if signed {
                    is_cold(&status, TRACELESS)?;
                } else {
                    is_warm(&status, used)?;
                }
                let dirty = if mode == "writeback" { 8 } else { 0 };
                ensure!(was_dirty(&status)? == dirty, "{status:?}");
                rig.equals(&model)?;
            }
        }
    }
    Ok(())
}
