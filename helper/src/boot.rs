// SPDX-License-Identifier: GPL-3.0-or-later
//! Assembles the caches while the machine starts, before the file systems of fstab are mounted.
//!
//! Neither the bus nor UDisks2 runs at that time. The program never waits longer than [`LONGEST`], and the machine
//! starts even if the program fails. A cache that has no data of its own is left to the service, which starts later;
//! its disk is used without the cache. A disk whose newest data may be on the SSD only is held before anything else,
//! so that no program can mount, check or unlock it before the cache is there. All such disks are held before the
//! first SSD is read, because an SSD may never answer.

mod environment;
pub(crate) mod held;
pub mod late;

use self::environment::{BootEnvironment, HoldError, System};
use self::late::Marks;
use crate::machine::{BlockDevice, Machine, Sighting};
use crate::mounts::table;
use crate::state::{CacheRecord, FOLDER, Intent, Setup, Store};
use crate::wipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the start waits for a missing device if data may be on the SSD only. A disk that has to spin up takes 10
/// s, and several disks spin up one after the other. The same time applies if the start needs the disk and udev is
/// still busy: a slow machine must not start cold because of that.
const LONGEST: Duration = Duration::from_secs(30);
/// How long the start waits if a start without the SSD only loses the cached copies, and udev is idle.
const WITHOUT: Duration = Duration::from_secs(10);
/// The time in which udev has at least begun to look at the devices.
const BEGUN: Duration = Duration::from_secs(1);
/// How long a program keeps a disk open that opens it for a moment only, as udev's probes do.
const MOMENT: Duration = Duration::from_secs(2);
/// The folder in which udev records a device after it has handled the device.
const UDEV_DATA: &str = "/run/udev/data";
/// This file exists while udev is busy.
const UDEV_BUSY: &str = "/run/udev/queue";

/// The unit that runs this program at the start of the machine.
const UNIT: &str = "/usr/lib/systemd/system/sysinit.target.wants/tandem-assemble.service";

/// Whether this machine assembles caches at its start: the unit is there, and the records are readable before any
/// file system other than the root is mounted.
pub fn assembles() -> bool {
    let device = |path: &str| std::fs::metadata(path).map(|m| m.dev());
    let same = matches!((device(FOLDER), device("/")), (Ok(a), Ok(b)) if a == b);
    same && Path::new(UNIT).exists()
}

/// A cache that is to be assembled.
struct Cache {
    record: CacheRecord,
    /// Its disk, as found by the last search.
    disk: Sighting,
    /// The disks that are held. A disk that is plugged in again is another device to the kernel, and is not held.
    held: Vec<BlockDevice>,
    /// Why the last attempt to hold the disk failed, and since when.
    hold_error: Option<(HoldError, Instant)>,
    /// The held disks whose mounts systemd leaves out.
    left_out: Vec<BlockDevice>,
    /// A failure after which the cache is not tried again.
    failed: Option<String>,
}

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
    guard(&caches, &marks);
    let watch = watch().map_err(|e| tracing::error!("not waiting for devices: {e}"));
    let begun = Instant::now();
    loop {
        // The watch is added before each look at the machine, so that a change after the look is noticed: udev
        // creates the folder for its first device.
        if let Ok(watch) = &watch {
            let written = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CLOSE_WRITE;
            let _ = inotify::add_watch(watch, UDEV_DATA, written);
        }
        step(&mut caches, &system, store, &marks);
        let patience = caches.iter().map(Cache::patience).max();
        let left = patience.and_then(|patience| patience.checked_sub(begun.elapsed()));
        match (&watch, left) {
            (Ok(watch), Some(left)) if !left.is_zero() => wait(watch, left),
            _ => break,
        }
    }
    go_on(&mut caches, &system, store, &marks);
}

/// The caches that a start of the machine is to assemble.
fn wanted(store: &Store) -> Vec<Cache> {
    let jobs = store.intents();
    among(store.caches(), &jobs)
}

fn among(records: Vec<CacheRecord>, jobs: &[Intent]) -> Vec<Cache> {
    let wanted = |record: &CacheRecord| {
        let idle = !jobs.iter().any(|job| job.gives_up(&record.pair.uuid));
        idle && record.detached_in.is_none() && !record.forked
    };
    let records = records.into_iter();
    records.filter(wanted).map(Cache::new).collect()
}

/// Sets the marks. From now on, a disk that appears and lacks data is held by the program that notices it first: this
/// program, or the one that udev runs.
fn guard(caches: &[Cache], marks: &Marks) {
    for cache in caches.iter().filter(|cache| cache.record.may_be_dirty) {
        if let Err(e) = marks.set(&cache.record.pair.uuid) {
            tracing::error!("a disk that comes late is held by the service only: {e}");
        }
    }
}

/// Lets the machine start without these caches.
fn go_on(caches: &mut [Cache], machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    hold_disks(caches, machine, store, marks);
    let alone = marks.alone(MOMENT);
    for cache in caches.iter_mut() {
        // The program that udev runs may have handled the cache since.
        cache.read_record(store);
        if cache.in_use() {
            cache.find_and_hold(machine);
        }
        // The mark of a held disk stays, because the disk may come back as another device that is not held.
        if cache.leave(store) {
            marks.clear(&cache.record.pair.uuid);
        }
    }
    drop(alone);
    leave_out(caches, machine);
    if !caches.is_empty()
        && let Err(e) = machine.start_service()
    {
        tracing::error!("the service is not started: {e}");
    }
}

/// Takes all caches one step further. A step that may never end comes last: if the start is killed in it, every disk
/// that is there is held, and no mount waits that would fail because of the hold.
fn step(caches: &mut Vec<Cache>, machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    hold_disks(caches, machine, store, marks);
    if caches.iter().any(|cache| cache.is_whole(machine)) {
        give_up_used(caches, machine, store, marks);
    }
    caches.retain_mut(|cache| {
        let assembled = cache.assemble(machine, store);
        if assembled {
            marks.clear(&cache.record.pair.uuid);
        }
        !assembled
    });
    // A failed attempt may have released its disk.
    if caches.iter().any(|cache| cache.hold_error.is_some()) {
        hold_disks(caches, machine, store, marks);
    }
}

/// Records which disks stay in use. This happens before an SSD is read, because an SSD may never answer.
fn give_up_used(
    caches: &mut [Cache],
    machine: &impl BootEnvironment,
    store: &Store,
    marks: &Marks,
) {
    for cache in caches.iter_mut() {
        if !cache.in_use() || cache.may_pass() {
            continue;
        }
        let _alone = marks.alone(MOMENT);
        cache.read_record(store);
        cache.find_and_hold(machine);
        if cache.in_use() && cache.leave(store) {
            marks.clear(&cache.record.pair.uuid);
        }
    }
}

/// Holds the disks that lack data, and makes the start leave out their mounts. If a disk is in use for a moment, the
/// hold is tried again; neither the other disks nor udev wait for that.
fn hold_disks(caches: &mut [Cache], machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    for attempt in 0..=wipe::TRIES {
        for cache in caches.iter_mut() {
            let alone = marks.alone(MOMENT);
            cache.read_record(store);
            cache.find_and_hold(machine);
            drop(alone);
            // The mounts are left out before the next disk, which may not answer.
            leave_out(std::slice::from_mut(cache), machine);
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

/// Makes the start leave out the mounts of the disks that are held, as long as they are held.
fn leave_out(caches: &mut [Cache], machine: &impl BootEnvironment) {
    let new = |cache: &'_ Cache| cache.left_out != cache.held;
    let held: Vec<_> = caches
        .iter()
        .filter(|cache| new(cache))
        .flat_map(|cache| cache.held.iter().map(|disk| (&cache.record.pair, disk)))
        .collect();
    if !held.is_empty()
        && let Err(e) = machine.leave_out(&held)
    {
        tracing::error!("the start of the machine may stop at a file system: {e}");
    }
    for cache in caches.iter_mut().filter(|cache| !cache.held.is_empty()) {
        cache.left_out.clone_from(&cache.held);
    }
}

impl Cache {
    fn new(record: CacheRecord) -> Self {
        Self {
            record,
            disk: Sighting::default(),
            held: Vec::new(),
            hold_error: None,
            left_out: Vec::new(),
            failed: None,
        }
    }

    /// Reads what the program that udev runs has recorded about the disk meanwhile.
    fn read_record(&mut self, store: &Store) {
        if !self.held.is_empty() || !self.record.may_be_dirty {
            return;
        }
        let ours = |now: &CacheRecord| now.pair.uuid == self.record.pair.uuid;
        if let Some(now) = store.caches().into_iter().find(ours)
            && now.forked
        {
            self.failed = Some("the disk came late and could not be held".to_owned());
            self.hold_error = None;
            self.record = now;
        }
    }

    /// Looks for the disk, and holds it if it lacks data. It is held also if the cache could not be made, for the
    /// disk may have come back as another device since. Copies of the disk are held with it.
    fn find_and_hold(&mut self, machine: &impl BootEnvironment) {
        if self.record.forked {
            return;
        }
        let disk = machine.find(&self.record.pair.origin);
        if self.disk != disk {
            // This is another device, and the time for it begins anew.
            self.hold_error = None;
        }
        self.held.retain(|held| disk.possible.contains(held));
        self.disk = disk;
        if self.disk.possible.is_empty() {
            return;
        }
        if let Err(e) = machine.device_mapper() {
            self.failed = Some(e);
        } else if self.record.may_be_dirty && self.held.len() < self.disk.possible.len() {
            self.hold(machine);
        }
    }

    /// Puts the cache in force if both devices are there. True: nothing is left to do for this cache.
    fn assemble(&mut self, machine: &impl BootEnvironment, store: &Store) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let Some(disk) = self.disk.recorded.clone() else {
            return false;
        };
        let Some(ssd) = machine.find(&self.record.pair.ssd).recorded else {
            return false;
        };
        match machine.map(&self.record.pair, &disk, &ssd) {
            Ok(()) => {
                self.done(store, &disk, &ssd);
                true
            }
            Err(e) => {
                self.failed = Some(e);
                if self.record.may_be_dirty {
                    // The attempt released the disk.
                    self.hold(machine);
                }
                false
            }
        }
    }

    /// Holds the disk and all devices that may be the disk. If that fails, a disk that was held may not be held any
    /// more.
    fn hold(&mut self, machine: &impl BootEnvironment) {
        let disks = &self.disk.possible;
        // If no device agrees with the whole record, each of them may be the disk.
        let needed = self.disk.recorded.as_ref().map_or(disks.len(), |_| 1);
        let result = machine.hold(&self.record.pair, disks, needed);
        self.held.clear();
        if result.is_ok() {
            self.held.clone_from(disks);
        }
        let before = self.hold_error.take();
        self.hold_error = result.err().map(|why| {
            let same = before.filter(|(before, _)| before.kind() == why.kind());
            let since = same.map_or_else(Instant::now, |(_, since)| since);
            (why, since)
        });
    }

    /// Whether the reason why the disk cannot be held may pass after a moment.
    fn may_pass(&self) -> bool {
        let error = self.hold_error.as_ref();
        error.is_some_and(|(_, since)| since.elapsed() < MOMENT)
    }

    fn in_use(&self) -> bool {
        matches!(self.hold_error, Some((HoldError::InUse(_), _)))
    }

    /// Whether both devices are there and no attempt to make the cache has failed.
    fn is_whole(&self, machine: &impl BootEnvironment) -> bool {
        self.failed.is_none()
            && self.disk.recorded.is_some()
            && machine.find(&self.record.pair.ssd).recorded.is_some()
    }

    fn done(&mut self, store: &Store, disk: &BlockDevice, ssd: &BlockDevice) {
        tracing::info!("{} works with its cache on {}", disk.name(), ssd.name());
        // udev's rules depend on the mappings above a device.
        for device in [disk, ssd] {
            if let Err(e) = wipe::nudge(&device.ident.node()) {
                tracing::warn!("cannot have {} looked at again: {e}", device.name());
            }
        }
        let prepared = self.record.setup != Setup::Done;
        if self.record.pair.cold || self.record.pair.lost > 0 || prepared {
            // The module has forgotten the old copies, and the SSD records that.
            let new = |mut record: CacheRecord| {
                (record.pair.cold, record.pair.lost) = (false, 0);
                record.setup = Setup::Done;
                record
            };
            if let Err(e) = store.change_cache(&self.record.pair.uuid, new) {
                tracing::warn!("the next start will be cold too: {e}");
            }
        }
    }

    fn patience(&self) -> Duration {
        let asked = || self.disk.recorded.is_some() || table::waits_at_start().unwrap_or(true);
        self.waits(Path::new(UDEV_BUSY).exists(), asked)
    }

    /// How long to wait for the missing devices. `busy`: udev is busy. `asked`: the start waits for the disk, or the
    /// disk is there.
    fn waits(&self, busy: bool, asked: impl FnOnce() -> bool) -> Duration {
        if self.failed.is_some() {
            return Duration::ZERO;
        }
        if self.record.may_be_dirty {
            return LONGEST;
        }
        match (busy, asked()) {
            (true, true) => LONGEST,
            (true, false) | (false, true) => WITHOUT,
            // A disk that is plugged in only sometimes must not delay each start.
            (false, false) => BEGUN,
        }
    }

    /// Lets the machine start without this cache. True if the mark of the cache is not needed any more: the record
    /// says what became of the disk.
    fn leave(&mut self, store: &Store) -> bool {
        let pair = &self.record.pair;
        let text = |device: &tandem_api::DeviceText| format!("{} {}", device.model, device.serial);
        let (disk, ssd) = (text(&pair.origin.text), text(&pair.ssd.text));
        let reason = self.failed.as_deref().unwrap_or("a device is missing");
        if !self.held.is_empty() {
            tracing::error!(
                "{disk} is held back, because what was written to it last may be on {ssd} only: {reason}"
            );
            return false;
        }
        if self.disk.possible.is_empty() {
            tracing::info!("{disk} is not there");
            return false;
        }
        if let Some((HoldError::NotWritable(e), _)) = &self.hold_error {
            // A record that the disk is used would give up the data on the SSD. The next event tries again to hold
            // the disk.
            tracing::error!("{disk} should be held back, is not, and cannot be written: {e}");
            return false;
        }
        tracing::warn!("{disk} is used without its cache on {ssd}: {reason}");
        // The record is written before a program can write to the disk.
        let recorded = store.change_cache(&pair.uuid, unguarded);
        // The cache is not put in force any more, even if the record could not be written.
        self.failed.get_or_insert("the disk is in use".to_owned());
        match recorded {
            Ok(now) => {
                self.hold_error = None;
                self.record = now.unwrap_or_else(|| unguarded(self.record.clone()));
                true
            }
            Err(e) => {
                tracing::error!("cannot record that: {e}");
                false
            }
        }
    }
}

/// The record of a cache whose disk every program can use alone from now on. The copies on the SSD are old, and its
/// dirty data belongs to a state of the disk that may be gone.
fn unguarded(mut record: CacheRecord) -> CacheRecord {
    record.pair.cold = true;
    record.forked |= record.may_be_dirty;
    record
}

fn watch() -> io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let busy = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE;
    inotify::add_watch(&watch, "/run/udev", busy)?;
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
