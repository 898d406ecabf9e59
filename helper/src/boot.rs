// SPDX-License-Identifier: GPL-3.0-or-later
//! Assembles the caches while the machine starts, before the file systems of fstab are mounted.
//!
//! Neither the bus nor UDisks2 runs then. The program never waits longer than [`LONGEST`], and whatever it cannot do,
//! the machine starts: a cache that has nothing of its own is left to the service, which comes later, and its disk is
//! used without it. A disk whose newest data may be on the SSD only is held before anything else, so that no program can
//! mount, check or unlock it before the cache is there. All such disks are held before the first SSD is read, which may
//! never answer.

mod environment;
pub(crate) mod held;
pub mod late;

use self::environment::{BootEnvironment, HoldError, System};
use self::late::Marks;
use crate::machine::{BlockDevice, Machine, Sighting};
use crate::mounts::table;
use crate::state::{CacheRecord, FOLDER, Intent, Store};
use crate::wipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a missing device is waited for where data may be on the SSD only: a disk that has to spin
/// up takes 10 s, and several do it one after the other. As long, where somebody asks for the disk, while
/// udev is not through with what is there: a slow machine shall not start cold for that.
const LONGEST: Duration = Duration::from_secs(30);
/// The same where a start without the SSD costs no more than what was cached, and udev is idle.
const WITHOUT: Duration = Duration::from_secs(10);
/// Until udev has at least begun to look at what is there.
const BEGUN: Duration = Duration::from_secs(1);
/// How long a program has a disk open that opens it for a moment only, as udev's probes do.
const MOMENT: Duration = Duration::from_secs(2);
/// Where udev writes down a device when it is through with it.
const UDEV_DATA: &str = "/run/udev/data";
/// There while udev has something to do.
const UDEV_BUSY: &str = "/run/udev/queue";

/// What has the system run this at its start.
const UNIT: &str = "/usr/lib/systemd/system/sysinit.target.wants/tandem-assemble.service";

/// Whether this machine assembles at its start: the unit is there, and the records are readable before
/// any other file system than that of the system is mounted.
pub fn assembles() -> bool {
    let device = |path: &str| std::fs::metadata(path).map(|m| m.dev());
    let same = matches!((device(FOLDER), device("/")), (Ok(a), Ok(b)) if a == b);
    same && Path::new(UNIT).exists()
}

/// A cache that is to be assembled.
struct Cache {
    record: CacheRecord,
    /// Its disk, as last looked for.
    disk: Sighting,
    /// The disks that are held. One that comes back is another device to the kernel, and is not held.
    held: Vec<BlockDevice>,
    /// Why the disk could not be held the last time, and since when.
    hold_error: Option<(HoldError, Instant)>,
    /// The held disks whose mounts systemd leaves out.
    left_out: Vec<BlockDevice>,
    /// What went wrong for good.
    failed: Option<String>,
}

/// Assembles what can be, and holds what has to be.
pub fn run(store: &Store) {
    let mut caches = wanted(store);
    if caches.is_empty() {
        return;
    }
    let (system, marks) = (System::new(Machine::default()), Marks::default());
    guard(&caches, &marks);
    let watch = watch().map_err(|e| tracing::error!("not waiting for devices: {e}"));
    let begun = Instant::now();
    loop {
        // Before each look, so that what changes after it is heard: udev makes the folder for its first device.
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

/// From now on, a disk that comes and lacks something is held by the program that hears of it first: this one, or the
/// one that udev runs.
fn guard(caches: &[Cache], marks: &Marks) {
    for cache in caches.iter().filter(|cache| cache.record.may_be_dirty) {
        if let Err(e) = marks.set(&cache.record.pair.uuid) {
            tracing::error!("a disk that comes late is held by the service only: {e}");
        }
    }
}

/// The machine starts without these caches.
fn go_on(caches: &mut [Cache], machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    hold_disks(caches, machine, store, marks);
    let alone = marks.alone(MOMENT);
    for cache in caches.iter_mut() {
        // udev may have come to it since.
        cache.read_record(store);
        if cache.in_use() {
            cache.find_and_hold(machine);
        }
        // The mark of one that is held stays, for the disk may come back as another device that is not.
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

/// Takes all caches one step further. What may not come to an end is last: a start that is killed in it leaves every
/// disk that is there held, and no mount that would fail for that.
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
    // An attempt may have let go of its disk.
    if caches.iter().any(|cache| cache.hold_error.is_some()) {
        hold_disks(caches, machine, store, marks);
    }
}

/// Records which disks stay in use, before an SSD is read that may never answer.
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

/// Holds the disks that lack something, and has the start not wait for them. A disk that is in use for a moment is tried
/// again; neither the other disks nor udev wait for that.
fn hold_disks(caches: &mut [Cache], machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    for attempt in 0..=wipe::TRIES {
        for cache in caches.iter_mut() {
            let alone = marks.alone(MOMENT);
            cache.read_record(store);
            cache.find_and_hold(machine);
            drop(alone);
            // Before the next one, which may not answer.
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

/// Has the start leave out the mounts of the disks that are held by now, as long as they are held.
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

    /// Reads what the program that udev runs has recorded of the disk meanwhile.
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

    /// Looks for the disk, and holds it if it lacks something: also if the cache could not be made, for the disk may
    /// have come back as another device since. Copies of the disk are held with it.
    fn find_and_hold(&mut self, machine: &impl BootEnvironment) {
        if self.record.forked {
            return;
        }
        let disk = machine.find(&self.record.pair.origin);
        if self.disk != disk {
            // Another device, which may take its time as well.
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

    /// Puts the cache in force if both devices are there. True: nothing is left to do.
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
                    // The attempt let it go.
                    self.hold(machine);
                }
                false
            }
        }
    }

    /// Holds the disk and what may be it. A disk that was held may not be held any more if that fails.
    fn hold(&mut self, machine: &impl BootEnvironment) {
        let disks = &self.disk.possible;
        // Where no device agrees with all of the record, each of them may be the disk.
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

    /// Whether what keeps the disk from being held may take a moment only.
    fn may_pass(&self) -> bool {
        let error = self.hold_error.as_ref();
        error.is_some_and(|(_, since)| since.elapsed() < MOMENT)
    }

    fn in_use(&self) -> bool {
        matches!(self.hold_error, Some((HoldError::InUse(_), _)))
    }

    /// Whether both devices are there, and it is not known that the cache cannot be made.
    fn is_whole(&self, machine: &impl BootEnvironment) -> bool {
        self.failed.is_none()
            && self.disk.recorded.is_some()
            && machine.find(&self.record.pair.ssd).recorded.is_some()
    }

    fn done(&mut self, store: &Store, disk: &BlockDevice, ssd: &BlockDevice) {
        tracing::info!("{} works with its cache on {}", disk.name(), ssd.name());
        // udev's rules depend on what lies above a device.
        for device in [disk, ssd] {
            if let Err(e) = wipe::nudge(&device.ident.node()) {
                tracing::warn!("cannot have {} looked at again: {e}", device.name());
            }
        }
        if self.record.pair.cold || self.record.pair.lost > 0 {
            // The module has forgotten what was old, and has the SSD say so.
            let new = |mut record: CacheRecord| {
                (record.pair.cold, record.pair.lost) = (false, 0);
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

    /// `busy`: udev has something to do. `asked`: the start waits for the disk, or the disk is there.
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
            // One that is plugged in now and then must not delay each start.
            (false, false) => BEGUN,
        }
    }

    /// The machine starts without this cache. Whether a mark has nothing to say of it any more: what has become of its
    /// disk is on record.
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
            // A record that the disk is used would give up what is on the SSD; the next event tries to hold it again.
            tracing::error!("{disk} should be held back, is not, and cannot be written: {e}");
            return false;
        }
        tracing::warn!("{disk} is used without its cache on {ssd}: {reason}");
        // Recorded before the disk can be written.
        let recorded = store.change_cache(&pair.uuid, unguarded);
        // The cache is not put in force any more, recorded or not.
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

/// The record of a cache whose disk everybody can use alone from now on: what the SSD has is old, and what it has only
/// belongs to a state of the disk that may be no more.
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

/// Returns when udev is through with a device or with all, or when the time is up.
fn wait(watch: &OwnedFd, left: Duration) {
    let time = Timespec::try_from(left).ok();
    let _ = poll(&mut [PollFd::new(watch, PollFlags::IN)], time.as_ref());
    // What it was does not matter: everything is looked at anew.
    let mut events = [0; 4096];
    while rustix::io::read(watch, &mut events).is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests;
