// SPDX-License-Identifier: GPL-3.0-or-later
//! Real file systems with their own tools: each use of the disk without the cache is recognised at the next start, or the
//! start is cold by a rule; and a disk that nobody used is warm if that can be proven.

mod kinds;

use std::fmt;
use std::fs::{self, File, FileTimes};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;

use self::kinds::{AT, Kind, Proof};
use super::Entry;
use crate::disk::{Disk, Shape};
use crate::dm::{Dm, Line, is_errno};
use crate::io;
use crate::rig::{Config, Rig, Status};

/// The four columns of a file system.
macro_rules! columns {
    ($($name:literal $kind:ident)*) => {
        [$(
            (concat!("formats: ", $name, ": a stop in order"), (|| column(&kinds::$kind, End::Stop)) as fn() -> Result<()>),
            (concat!("formats: ", $name, ": a crash"), || column(&kinds::$kind, End::Crash)),
            (concat!("formats: ", $name, ": the mapping ends without the disk"), || column(&kinds::$kind, End::Torn)),
            (concat!("formats: ", $name, ": the disk leaves its mapping"), || exchanged(&kinds::$kind)),
        )*]
    };
}

/// What a known file system has besides.
macro_rules! proven {
    ($($name:literal $kind:ident $starts:literal)*) => {
        [$(
            (concat!("formats: ", $name, ": a crash with dirty data"), (|| column(&kinds::$kind, End::CrashDirty)) as fn() -> Result<()>),
            (concat!("formats: ", $name, ": no start is cold without a reason"), || starts(&kinds::$kind, $starts)),
            (concat!("formats: ", $name, ": what the notes cost"), || notes(&kinds::$kind)),
        )*]
    };
}

pub const CASES: &[Entry] = &columns! {
    "ext4" EXT4
    "XFS" XFS
    "XFS with a large log" XFS_LARGE_LOG
    "Btrfs" BTRFS
    "F2FS" F2FS
    "NTFS" NTFS
    "exFAT" EXFAT
    "FAT32" FAT32
    "ext4 in LUKS" EXT4_IN_LUKS
    "ext4 in an LV" EXT4_IN_LV
};

pub const PROVEN: &[Entry] = &proven! {
    "ext4" EXT4 100
    "XFS" XFS 30
    "XFS with a large log" XFS_LARGE_LOG 30
    "Btrfs" BTRFS 30
    "F2FS" F2FS 30
};

/// How the life of a cache ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// In order.
    Stop,
    /// By a power cut, with the file system mounted and written.
    Crash,
    /// The same in write-back, unmounted, with data that only the SSD has.
    CrashDirty,
    /// The mapping is removed while the disk does not answer.
    Torn,
    /// The mapping is suspended while the disk is exchanged.
    Exchanged,
}

/// What is done with the disk before the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Untouched,
    Mounted,
    Added,
    Rewritten,
    Deleted,
    Repaired,
    /// A session is cut off.
    CutOff,
    /// And the file system mounted once more.
    Replayed,
}

const USES: [Use; 8] = [
    Use::Untouched,
    Use::Mounted,
    Use::Added,
    Use::Rewritten,
    Use::Deleted,
    Use::Repaired,
    Use::CutOff,
    Use::Replayed,
];

/// How the cache started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Started {
    Warm,
    Changed,
    Unproven,
    Left,
    Traceless,
    Refused,
}

impl Started {
    fn of(status: &Status) -> Result<Self> {
        Ok(match status.get("cold_start")? {
            0 => Self::Warm,
            1 => Self::Changed,
            2 => Self::Unproven,
            3 => Self::Left,
            4 => Self::Traceless,
            other => bail!("cold_start {other}"),
        })
    }
}

impl Use {
    /// On the disk, by another of its nodes.
    fn make(self, kind: &Kind, disk: &Disk, node: &Path) -> Result<()> {
        match self {
            Self::Untouched => Ok(()),
            Self::Repaired => kind.repair(node),
            Self::CutOff => cut_off(kind, disk, node),
            Self::Replayed => {
                cut_off(kind, disk, node)?;
                kind.mount(node)?.end()
            }
            _ => {
                let mounted = kind.mount(node)?;
                match self {
                    Self::Added => write(100)?,
                    Self::Rewritten => rewrite(3)?,
                    Self::Deleted => fs::remove_file(file(5))?,
                    _ => {}
                }
                mounted.end()
            }
        }
    }
}

const FILES: u64 = 40;

fn file(number: u64) -> String {
    format!("{AT}/{number}")
}

/// A new file, durable.
fn write(number: u64) -> Result<()> {
    let mut file = File::create(file(number))?;
    file.write_all(&io::random(65536, number))?;
    Ok(file.sync_all()?)
}

/// Other content in place, durable, with the old times.
fn rewrite(number: u64) -> Result<()> {
    let mut file = File::options().read(true).write(true).open(file(number))?;
    let old = file.metadata()?;
    file.write_all(&io::random(65536, fastrand::u64(..)))?;
    file.sync_all()?;
    let times = FileTimes::new().set_modified(old.modified()?);
    file.set_times(times.set_accessed(old.accessed()?))?;
    Ok(file.sync_all()?)
}

/// Reads all files from the disk below.
fn read_all(kind: &Kind, node: &Path) -> Result<()> {
    let mounted = kind.mount(node)?;
    for number in 0..FILES {
        if let Ok(mut file) = File::open(file(number)) {
            file.read_to_end(&mut Vec::new())?;
        }
    }
    mounted.end()
}

/// A session that a power cut ends: the disk has what the cut leaves.
fn cut_off(kind: &Kind, disk: &Disk, node: &Path) -> Result<()> {
    let mounted = kind.mount(node)?;
    rewrite(3)?;
    write(101)?;
    let left = Disk::new(Shape::new(kind.mib).cuttable())?;
    Disk::cut(0, &[(disk, &left)])?;
    mounted.end()?;
    disk.put(0, &left.content()?)
}

/// A cache that was used, with files of the file system in it; nothing is mounted.
fn used(kind: &Kind, mode: &'static str) -> Result<Rig> {
    let mut config = Config {
        mode,
        origin: Shape::new(kind.mib),
        ssd: Shape::new(24),
        ..Config::default()
    };
    config.origin.discard = false;
    let mut rig = Rig::disks(config.cuttable())?;
    kind.make(rig.origin.path())?;
    rig.attach(true)?;
    let node = rig.path()?;
    let mounted = kind.mount(&node)?;
    (0..FILES).try_for_each(write)?;
    mounted.end()?;
    read_all(kind, &node)?;
    let status = rig.quiet()?;
    ensure!(status.used > 100, "little is cached: {status:?}");
    Ok(rig)
}

fn is_sure(rig: &Rig) -> Result<Status> {
    rig.until("sure", |s| s.get("sure").is_ok_and(|sure| sure == 1))
}

/// Data that only the SSD has. It is what the disk has, too.
fn dirty(rig: &Rig) -> Result<()> {
    rig.drain()?;
    let at = rig.origin.sectors() / 2 * 512;
    let node = rig.path()?;
    let content = io::read(&io::direct(&node)?, at, 4096)?;
    rig.quiet()?;
    io::write(&io::durable(&node)?, at, &content)?;
    rig.origin.fail_requests("writes")?;
    ensure!(rig.status()?.dirty > 0, "{:?}", rig.status()?);
    Ok(())
}

/// Ends the life of a cache; returns the disks as they are then.
fn ended(kind: &Kind, end: End, mut rig: Rig) -> Result<Rig> {
    match end {
        End::Crash => {
            let mounted = kind.mount(&rig.path()?)?;
            write(50)?;
            rewrite(7)?;
            if kind.proof == Proof::Traces {
                is_sure(&rig)?;
            }
            let cut = rig.cut_by(1)?;
            mounted.end()?;
            return Ok(cut);
        }
        End::CrashDirty => {
            dirty(&rig)?;
            is_sure(&rig)?;
            return rig.cut();
        }
        End::Torn => {
            if kind.proof == Proof::Traces {
                is_sure(&rig)?;
            }
            rig.origin.fail_requests("all")?;
            rig.detach()?;
            rig.origin.fail_requests("nothing")?;
        }
        End::Stop | End::Exchanged => rig.detach()?,
    }
    for disk in [&rig.origin, &rig.ssd] {
        io::direct(disk.path())?.sync_all()?;
    }
    Ok(rig)
}

/// How a start on a disk that nobody used has to be.
fn untouched(kind: &Kind, end: End) -> Started {
    match (kind.proof, end) {
        (_, End::Exchanged) => Started::Left,
        (Proof::Nothing, _) => Started::Traceless,
        (Proof::Samples, End::Stop) | (Proof::Traces, _) => Started::Warm,
        (Proof::Samples, _) => Started::Unproven,
    }
}

/// Is that how the cache has to start?
fn judge(kind: &Kind, end: End, usage: Use, changed: bool, started: Started) -> Result<()> {
    let right = match (kind.proof, end) {
        _ if !changed => started == untouched(kind, end),
        (Proof::Traces, End::CrashDirty) => started == Started::Refused,
        (_, End::Exchanged) => matches!(started, Started::Changed | Started::Left),
        (Proof::Traces, _) => started == Started::Changed,
        _ => !matches!(started, Started::Warm | Started::Refused),
    };
    ensure!(usage != Use::Untouched || !changed, "changed by nobody");
    ensure!(right, "{usage:?} (changed: {changed}): {started:?}");
    Ok(())
}

/// One cell: returns what is said of it.
fn cell(kind: &Kind, end: End, usage: Use, ended: &Rig, before: &[u8]) -> Result<String> {
    let mut rig = ended.cut_by(0)?;
    usage.make(kind, &rig.origin, rig.origin.path())?;
    let raw = rig.origin.content()?;
    let read = rig.origin.stat()?.read;
    let time = Instant::now();
    let attached = rig.attach(false);
    let ms = time.elapsed().as_millis();
    let read = rig.origin.stat()?.read - read;
    let started = match attached {
        Err(error) if is_errno(&error, Errno::STALE) => Started::Refused,
        attached => attached.and_then(|()| Started::of(&rig.status()?))?,
    };
    judge(kind, end, usage, raw != before, started)?;
    if started != Started::Refused {
        rig.shows(&raw)?;
    }
    Ok(format!("{started:?}, {ms} ms, {} quarters read", read / 8))
}

/// Says what came out of a use; an error stays one.
fn told<T: fmt::Display>(kind: &Kind, end: End, usage: Use, result: Result<T>) -> Result<()> {
    let name = kind.name;
    match &result {
        Ok(words) => println!("     cell: {name} | {end:?} | {usage:?} | {words}"),
        Err(error) => println!("     cell: {name} | {end:?} | {usage:?} | WRONG: {error:#}"),
    }
    result.map(drop).with_context(|| format!("{usage:?}"))
}

/// All that is tried, then the first error.
fn column(kind: &Kind, end: End) -> Result<()> {
    let mode = match end {
        End::CrashDirty => "writeback",
        _ => "writethrough",
    };
    let rig = ended(kind, end, used(kind, mode)?)?;
    let before = rig.origin.content()?;
    let tell = |usage| told(kind, end, usage, cell(kind, end, usage, &rig, &before));
    let results: Vec<_> = USES.into_iter().map(tell).collect();
    results.into_iter().collect()
}

/// One cell below a suspended mapping.
fn exchanged_cell(kind: &Kind, usage: Use, rig: &Rig) -> Result<Started> {
    read_all(kind, &rig.path()?)?;
    rig.quiet()?;
    let before = rig.origin.content()?;
    let device = rig.mapped()?;
    device.suspend()?;
    let away = || -> Result<()> {
        rig.origin.exchange()?;
        let args = format!("{} 0", rig.origin.path().display());
        let beside = Line::new(rig.origin.sectors(), "linear", args);
        let beside = Dm::with("formats-beside", beside)?;
        usage.make(kind, &rig.origin, beside.path())
    };
    let away = away();
    device.resume()?;
    away?;
    let started = Started::of(&rig.status()?)?;
    let raw = rig.origin.content()?;
    judge(kind, End::Exchanged, usage, raw != before, started)?;
    rig.shows(&raw)?;
    Ok(started)
}

fn exchanged(kind: &Kind) -> Result<()> {
    let rig = used(kind, "writethrough")?;
    let tell = |usage| {
        let cell = exchanged_cell(kind, usage, &rig).map(|started| format!("{started:?}"));
        told(kind, End::Exchanged, usage, cell)
    };
    let results: Vec<_> = USES.into_iter().map(tell).collect();
    results.into_iter().collect()
}

/// The cache is used, stopped or cut, and started again: each time it is warm.
fn starts(kind: &Kind, count: u32) -> Result<()> {
    let mut rig = used(kind, "writethrough")?;
    for number in 0..count {
        let mut mounted = None;
        if number % 4 > 0 {
            let here = kind.mount(&rig.path()?)?;
            match number % 4 {
                1 => rewrite(u64::from(number % 11))?,
                2 => write(200 + u64::from(number % 16))?,
                _ => {}
            }
            mounted = Some(here);
        }
        let mode = if number % 7 == 6 {
            "writeback"
        } else {
            "writethrough"
        };
        if number % 3 == 0 {
            mounted.map_or(Ok(()), kinds::Mounted::end)?;
            rig.detach()?;
        } else {
            if number % 5 == 0 {
                mounted.take().map_or(Ok(()), kinds::Mounted::end)?;
            }
            // While dirty data is written back, no place of a log can be learned.
            rig.drain()?;
            is_sure(&rig)?;
            let cut = rig.cut_by(number)?;
            mounted.map_or(Ok(()), kinds::Mounted::end)?;
            rig = cut;
        }
        rig.attach_as(mode)?;
        let status = rig.status()?;
        ensure!(
            Started::of(&status)? == Started::Warm && status.used > 100,
            "start {number}: {status:?}"
        );
    }
    rig.drain()?;
    let raw = rig.origin.content()?;
    rig.equals(&raw)
}

/// What the notes of watched places add to the other metadata on the SSD while 100 files are written, each durable. Btrfs
/// writes its superblock for each of them, so that in write-through each has a note.
fn notes(kind: &Kind) -> Result<()> {
    for mode in ["writethrough", "writeback"] {
        let rig = used(kind, mode)?;
        let mounted = kind.mount(&rig.path()?)?;
        is_sure(&rig)?;
        let (before, ssd_before) = (rig.quiet()?, rig.ssd.stat()?);
        (300..400).try_for_each(write)?;
        let (after, ssd_after) = (rig.quiet()?, rig.ssd.stat()?);
        mounted.end()?;
        let grown = |name| Ok::<_, anyhow::Error>(after.get(name)? - before.get(name)?);
        let data = grown("write_hit")? + grown("read_missed")?;
        let notes = grown("notes")? * 8;
        let other = (ssd_after - ssd_before).written - data - notes;
        println!("     {mode}: {notes} sectors of notes beside {other} of other metadata");
        let most = match (kind.name, mode) {
            ("Btrfs", "writethrough") => 20,
            _ => 3,
        };
        ensure!(
            notes * 100 <= other * most,
            "{mode}: {notes} sectors of notes beside {other} of other metadata: more than {most} %"
        );
    }
    Ok(())
}
