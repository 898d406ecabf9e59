// SPDX-License-Identifier: GPL-3.0-or-later
//! Assembles the caches while the machine starts, before the file systems of fstab are mounted.
//!
//! Neither the bus nor UDisks2 runs at that time. The program never waits longer than [`LONGEST`], and the machine
//! starts even if the program fails. A cache that has no data of its own is left to the service, which starts later;
//! its disk is used without the cache. A disk whose newest data may be on the SSD only is held before anything else,
//! so that no program can mount, check or unlock it before the cache is there. All such disks are held before the
//! first SSD is read, because an SSD may never answer.

mod cache;
mod environment;
pub mod late;
mod splash;

use self::cache::Cache;
use self::environment::{BootEnvironment, System};
use self::splash::Splash;
use crate::decide::lifecycle::{self, Job, Phase, Reason, Situation, Step};
use crate::machine::blocks::Machine;
use crate::machine::marks::Marks;
use crate::machine::mounts::held;
use crate::machine::store::Store;
use crate::machine::{udev_files, wipe};
use crate::model::record::{CacheRecord, Intent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long a program keeps a disk open that opens it for a moment only, as udev's probes do.
const SHORT_USE: Duration = Duration::from_secs(2);

/// Assembles the caches for which that is possible, and holds the disks for which that is necessary.
pub fn run(store: &Store) {
    run_in(store, || System::new(Machine::default()));
}

/// The same in the initial file system, before the root file system is mounted.
pub fn run_in_initramfs(store: &Store) {
    run_in(store, System::in_initramfs);
}

fn run_in(store: &Store, system: impl FnOnce() -> System) {
    let mut caches = wanted(store);
    if caches.is_empty() {
        return;
    }
    let (system, marks) = (system(), Marks::default());
    system.begin();
    set_marks(&caches, &marks);
    let watch = watch().map_err(|e| tracing::error!("not waiting for devices: {e}"));
    let begun = Instant::now();
    let mut splash = Splash::new();
    splash.show(splash::setting_up(&caches));
    loop {
        // The watch is added before each look at the machine, so that a change after the look is noticed: udev
        // creates the folder for its first device.
        if let Ok(watch) = &watch {
            let written = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CLOSE_WRITE;
            let _ = inotify::add_watch(watch, udev_files::DATA, written);
        }
        let limit = look(&mut caches, &system, store, &marks);
        let left = limit.and_then(|limit| limit.checked_sub(begun.elapsed()));
        match (&watch, left) {
            (Ok(watch), Some(left)) if !left.is_zero() => {
                splash.show(splash::waiting(&caches, limit.unwrap_or_default()));
                wait(watch, left);
            }
            _ => break,
        }
    }
    start_without_all(&mut caches, &system, store, &marks);
    splash.show(splash::without(&caches));
}

/// The caches that a start of the machine is to assemble.
fn wanted(store: &Store) -> Vec<Cache> {
    let jobs = store.intents();
    among(store.caches(), &jobs)
}

/// The caches that wait for nothing but their devices.
fn among(records: Vec<CacheRecord>, jobs: &[Intent]) -> Vec<Cache> {
    let wanted = |record: &CacheRecord| {
        let abandoned = jobs.iter().any(|job| job.abandons_cache(&record.pair.uuid));
        let job = if abandoned { Job::Abandons } else { Job::None };
        let nothing = Situation {
            job,
            ..Situation::nothing(Phase::Starting)
        };
        lifecycle::next(record, &nothing) == Step::Wait(Reason::DiskMissing)
    };
    let records = records.into_iter();
    records.filter(wanted).map(Cache::new).collect()
}

/// Sets the marks. From now on, a disk that appears and lacks data is held by the program that notices it first: this
/// program, or the program that udev runs.
fn set_marks(caches: &[Cache], marks: &Marks) {
    for cache in caches.iter().filter(|cache| cache.record.may_be_dirty) {
        if let Err(e) = marks.set(&cache.record.pair.uuid) {
            tracing::error!("a disk that comes late is held by the service only: {e}");
        }
    }
}

/// Ends a start that was killed: the mounts of the disks that it has held are left out. `result`: systemd's word for how
/// the start ended. Does nothing after a start that ended well.
pub fn end_killed_start(result: Option<&str>) {
    if result == Some("success") {
        return;
    }
    if let Err(e) = held::end_start(true) {
        tracing::error!("the start of the machine may stop at a file system: {e}");
    }
}

/// Lets the machine start without these caches.
fn start_without_all(
    caches: &mut [Cache],
    machine: &impl BootEnvironment,
    store: &Store,
    marks: &Marks,
) {
    hold_disks(caches, machine, store, marks);
    let lock = marks.lock(SHORT_USE);
    for cache in caches.iter_mut() {
        // The program that udev runs may have handled the cache since.
        cache.read_record(store);
        if cache.is_in_use() {
            cache.find_and_hold(machine);
        }
        // The mark of a held disk stays, because the disk may come back as another device that is not held.
        if cache.start_without(store) {
            marks.clear(&cache.record.pair.uuid);
        }
    }
    drop(lock);
    leave_out(caches, machine);
    // The record counts, because udev's program may hold a disk that this program did not find.
    if let Err(e) = machine.end(caches.iter().any(|cache| cache.record.may_be_dirty)) {
        tracing::error!("the start of the machine may stop at a file system: {e}");
    }
    if !caches.is_empty()
        && let Err(e) = machine.start_service()
    {
        tracing::error!("the service is not started: {e}");
    }
}

/// Looks at the machine once, and takes all caches one step further. Returns how long the start waits for the devices
/// that are missing; `None`: no cache is left.
fn look(
    caches: &mut Vec<Cache>,
    machine: &impl BootEnvironment,
    store: &Store,
    marks: &Marks,
) -> Option<Duration> {
    // The machine is asked before the look. udev may end its work during the look, after the look has missed a device.
    let (busy, awaits) = (machine.udev_is_busy(), machine.awaits_devices());
    step(caches, machine, store, marks);
    let limits = caches.iter().map(|cache| cache.wait_limit(busy, awaits));
    limits.max()
}

/// Takes all caches one step further. A step that may never end comes last: if the start is killed in it, every disk
/// that is there is held, and [`end_killed_start`] leaves out the mounts that would fail because of the hold.
fn step(caches: &mut Vec<Cache>, machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    hold_disks(caches, machine, store, marks);
    if caches.iter().any(Cache::is_whole) {
        record_used(caches, machine, store, marks);
    }
    caches.retain_mut(|cache| {
        let over = cache.assemble(machine, store);
        // The disk of a cache that works may come back as another device.
        if over && !cache.record.may_be_dirty {
            marks.clear(&cache.record.pair.uuid);
        }
        !over
    });
    // A failed attempt may have released its disk.
    if caches.iter().any(|cache| cache.hold_error.is_some()) {
        hold_disks(caches, machine, store, marks);
    }
}

/// Records which disks stay in use. This happens before an SSD is read, because an SSD may never answer.
fn record_used(caches: &mut [Cache], machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    for cache in caches.iter_mut() {
        if !cache.is_in_use() || cache.next(Phase::Starting) != Step::LeavePlain {
            continue;
        }
        let _lock = marks.lock(SHORT_USE);
        cache.read_record(store);
        cache.find_and_hold(machine);
        if cache.is_in_use() && cache.start_without(store) {
            marks.clear(&cache.record.pair.uuid);
        }
    }
}

/// Holds the disks that lack data, and makes the start leave out their mounts. If a disk is in use for a moment, the
/// hold is tried again; neither the other disks nor udev wait for that.
fn hold_disks(caches: &mut [Cache], machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    for attempt in 0..=wipe::TRIES {
        for cache in caches.iter_mut() {
            let lock = marks.lock(SHORT_USE);
            cache.read_record(store);
            cache.find_and_hold(machine);
            drop(lock);
            // The mounts are left out before the next disk, which may not answer.
            leave_out(std::slice::from_ref(cache), machine);
        }
        if attempt == wipe::TRIES || !caches.iter().any(Cache::may_pass) {
            break;
        }
        machine.pause();
    }
    for cache in caches.iter() {
        if let (Some(disk), Some((why, _))) = (cache.disk.possible.first(), &cache.hold_error) {
            tracing::error!("{} is not held: {why}", disk.name());
        }
    }
}

/// Makes the start leave out the mounts of the disks that are held, as long as they are held. This is asked again at
/// each look: the kernel shows an array or a volume, which can then be held, before udev makes the links to it.
fn leave_out(caches: &[Cache], machine: &impl BootEnvironment) {
    let held: Vec<_> = caches
        .iter()
        .flat_map(|cache| cache.held.iter().map(|disk| (&cache.record.pair, disk)))
        .collect();
    if !held.is_empty()
        && let Err(e) = machine.leave_out(&held)
    {
        tracing::error!("the start of the machine may stop at a file system: {e}");
    }
}

fn watch() -> io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let busy = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE;
    inotify::add_watch(&watch, udev_files::FOLDER, busy)?;
    Ok(watch)
}

/// Returns when udev has handled a device or all devices, or when the time is up.
fn wait(watch: &OwnedFd, left: Duration) {
    let time = Timespec::try_from(left).ok();
    let _ = poll(&mut [PollFd::new(watch, PollFlags::IN)], time.as_ref());
    // The content of the events does not matter: everything is looked at anew.
    let mut events = [0; 4096];
    while rustix::io::read(watch, &mut events).is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests;
