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
mod udev;

use self::environment::{BootEnvironment, HoldError, System};
use self::late::Marks;
use crate::dm::mapping::Mapping;
use crate::facts::Ident;
use crate::lifecycle::{
    self, Access, Attempt, Disk, Job, Link, Phase, Reason, Situation, Ssd, Step,
};
use crate::machine::{BlockDevice, Found, Machine};
use crate::state::{CacheRecord, FOLDER, Intent, Store};
use crate::wipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a program keeps a disk open that opens it for a moment only, as udev's probes do.
const SHORT_USE: Duration = Duration::from_secs(2);

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
    disk: Found,
    /// Its SSD, as found by the last search.
    ssd: Option<BlockDevice>,
    /// Its mapping, as found by the last search.
    link: Link,
    /// The disks that are held. A disk that is plugged in again is another device to the kernel, and is not held.
    held: Vec<BlockDevice>,
    /// Why the last attempt to hold the disk failed, and since when.
    hold_error: Option<(HoldError, Instant)>,
    /// There is no device-mapper, so the disk cannot be held.
    cannot_hold: bool,
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
    set_marks(&caches, &marks);
    let watch = watch().map_err(|e| tracing::error!("not waiting for devices: {e}"));
    let begun = Instant::now();
    loop {
        // The watch is added before each look at the machine, so that a change after the look is noticed: udev
        // creates the folder for its first device.
        if let Ok(watch) = &watch {
            let written = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CLOSE_WRITE;
            let _ = inotify::add_watch(watch, udev::DATA, written);
        }
        let limit = look(&mut caches, &system, store, &marks);
        let left = limit.and_then(|limit| limit.checked_sub(begun.elapsed()));
        match (&watch, left) {
            (Ok(watch), Some(left)) if !left.is_zero() => wait(watch, left),
            _ => break,
        }
    }
    start_without_all(&mut caches, &system, store, &marks);
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
/// program, or the one that udev runs.
fn set_marks(caches: &[Cache], marks: &Marks) {
    for cache in caches.iter().filter(|cache| cache.record.may_be_dirty) {
        if let Err(e) = marks.set(&cache.record.pair.uuid) {
            tracing::error!("a disk that comes late is held by the service only: {e}");
        }
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
/// that is there is held, and no mount waits that would fail because of the hold.
fn step(caches: &mut Vec<Cache>, machine: &impl BootEnvironment, store: &Store, marks: &Marks) {
    hold_disks(caches, machine, store, marks);
    if caches.iter().any(Cache::is_whole) {
        record_used(caches, machine, store, marks);
    }
    caches.retain_mut(|cache| {
        let over = cache.assemble(machine, store);
        if over {
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
            disk: Found::default(),
            ssd: None,
            link: Link::None,
            held: Vec::new(),
            hold_error: None,
            cannot_hold: false,
            left_out: Vec::new(),
            failed: None,
        }
    }

    /// What is to be done with this cache, by what the last search has found.
    fn next(&self, phase: Phase) -> Step {
        lifecycle::next(&self.record, &self.situation(phase))
    }

    fn situation(&self, phase: Phase) -> Situation {
        let disk = match (&self.disk.recorded, self.disk.possible.is_empty()) {
            (_, true) => Disk::Absent,
            (Some(_), _) => Disk::Recorded(self.access()),
            (None, _) => Disk::Similar(self.access()),
        };
        let recorded = self.disk.recorded.as_ref().map(|disk| &disk.ident);
        let possible = self.disk.possible.iter().map(|disk| &disk.ident);
        Situation {
            disk,
            ssd: self.ssd.as_ref().map_or(Ssd::Absent, |_| Ssd::There),
            link: self.link,
            doubt: lifecycle::doubt(&self.record, recorded, possible),
            attempt: match &self.failed {
                Some(_) => Attempt::Failed,
                None => Attempt::None,
            },
            ..Situation::nothing(phase)
        }
    }

    fn access(&self) -> Access {
        let mut to_hold = self.to_hold();
        match &self.hold_error {
            _ if to_hold.next().is_none() => Access::OnRecord,
            Some((HoldError::NotWritable(_), _)) => Access::NotWritable,
            Some(_) if self.may_pass() => Access::Busy,
            Some(_) => Access::InUse,
            None if self.to_hold().all(|disk| self.held.contains(disk)) => Access::Held,
            None if self.cannot_hold => Access::InUse,
            None => Access::Free,
        }
    }

    /// The devices that may be the disk and are not on record as used.
    fn to_hold(&self) -> impl Iterator<Item = &BlockDevice> {
        let all = self.disk.possible.iter();
        all.filter(|disk| !lifecycle::is_on_record(&self.record, &disk.ident))
    }

    /// Reads what another program has recorded about the cache meanwhile.
    fn read_record(&mut self, store: &Store) {
        let ours = |now: &CacheRecord| now.pair.uuid == self.record.pair.uuid;
        if let Some(now) = store.caches().into_iter().find(ours) {
            if now.origin_diverged {
                self.hold_error = None;
            }
            self.record = now;
        }
    }

    /// Looks for the devices, and holds the disk if it lacks data. It is held also if the cache could not be made, for
    /// the disk may have come back as another device since. Copies of the disk are held with it.
    fn find_and_hold(&mut self, machine: &impl BootEnvironment) {
        let pair = &self.record.pair;
        let disk = machine.find(&pair.origin);
        if self.disk != disk {
            // This is another device, and the time for it begins anew.
            self.hold_error = None;
        }
        self.disk = disk;
        if self.disk.possible.is_empty() {
            return;
        }
        self.ssd = machine.find(&pair.ssd).recorded;
        self.link = match (machine.mapping(pair), &self.disk.recorded) {
            (Mapping::Works { origin, .. }, Some(disk)) if origin == disk.number => Link::Works,
            (Mapping::PassesThrough(_), _) => Link::PassesThrough,
            _ => Link::None,
        };
        if let Err(e) = machine.device_mapper() {
            self.failed = Some(e);
            self.cannot_hold = true;
        }
        // A hold that failed is tried again.
        let before = self.hold_error.take();
        match self.next(Phase::Starting) {
            Step::Hold => self.hold(machine, before),
            _ => self.hold_error = before,
        }
    }

    /// Puts the cache in force if both devices are there. True: nothing is left to do for this cache.
    fn assemble(&mut self, machine: &impl BootEnvironment, store: &Store) -> bool {
        loop {
            match self.next(Phase::Starting) {
                Step::Assemble => {}
                // The initial file system has assembled it.
                Step::RecordBegin => return self.change(store, lifecycle::assembled),
                Step::EndDoubt if self.change(store, lifecycle::without_doubt) => continue,
                // The devices that were in doubt are copies, which are held beside the disk.
                Step::Hold => {
                    self.hold(machine, None);
                    continue;
                }
                Step::Wait(Reason::Works) => return true,
                _ => return false,
            }
            let (Some(disk), Some(ssd)) = (self.disk.recorded.clone(), self.ssd.clone()) else {
                return false;
            };
            match machine.map(&self.record.pair, &disk, &ssd) {
                Ok(()) => {
                    self.done(store, &disk, &ssd);
                    return true;
                }
                Err(e) => self.failed = Some(e),
            }
            if self.record.may_be_dirty {
                // The attempt released the disk.
                self.hold(machine, None);
            }
        }
    }

    /// Holds all devices that may be the disk and are not in use by now. If that fails, a disk that was held may not be
    /// held any more. `before`: why the last attempt failed.
    fn hold(&mut self, machine: &impl BootEnvironment, before: Option<(HoldError, Instant)>) {
        let disks: Vec<_> = self.to_hold().cloned().collect();
        // If no device agrees with the whole record, each of them may be the disk.
        let needed = self.disk.recorded.as_ref().map_or(disks.len(), |_| 1);
        let result = machine.hold(&self.record.pair, &disks, needed);
        self.held.clear();
        self.hold_error = result.err().map(|why| {
            let same = before.filter(|(before, _)| before.kind() == why.kind());
            let since = same.map_or_else(Instant::now, |(_, since)| since);
            (why, since)
        });
        if self.hold_error.is_none() {
            self.held = disks;
        }
    }

    /// Whether the reason why the disk cannot be held may pass after a moment.
    fn may_pass(&self) -> bool {
        let error = self.hold_error.as_ref();
        error.is_some_and(|(_, since)| since.elapsed() < SHORT_USE)
    }

    fn is_in_use(&self) -> bool {
        matches!(self.hold_error, Some((HoldError::InUse(_), _)))
    }

    /// Whether both devices are there and no attempt to make the cache has failed.
    fn is_whole(&self) -> bool {
        self.failed.is_none() && self.disk.recorded.is_some() && self.ssd.is_some()
    }

    fn done(&mut self, store: &Store, disk: &BlockDevice, ssd: &BlockDevice) {
        tracing::info!("{} works with its cache on {}", disk.name(), ssd.name());
        // udev's rules depend on the mappings above a device.
        for device in [disk, ssd] {
            if let Err(e) = wipe::trigger_udev(&device.ident.node()) {
                tracing::warn!("cannot have {} looked at again: {e}", device.name());
            }
        }
        self.change(store, lifecycle::assembled);
    }

    /// Changes the record on the disk, and the record of this program in any case. False: the change is not durable.
    fn change(&mut self, store: &Store, change: impl Fn(CacheRecord) -> CacheRecord) -> bool {
        let changed = store.change_cache(&self.record.pair.uuid, &change);
        if let Err(e) = &changed {
            tracing::error!("the record of the cache cannot be changed: {e}");
        }
        let is_durable = changed.is_ok();
        let now = changed.ok().flatten();
        self.record = now.unwrap_or_else(|| change(self.record.clone()));
        is_durable
    }

    /// How long the start waits for the devices that are missing. `busy`: udev was busy before the last look.
    /// `awaits`: the start of the machine waited for a device then.
    fn wait_limit(&self, busy: bool, awaits: bool) -> Duration {
        if self.failed.is_some() {
            return Duration::ZERO;
        }
        let needed = || awaits || self.disk.recorded.is_some();
        lifecycle::wait_limit(&self.record, busy, needed)
    }

    /// Lets the machine start without this cache. True if the mark of the cache is not needed any more: the record
    /// says that the disk itself was used.
    fn start_without(&mut self, store: &Store) -> bool {
        let pair = &self.record.pair;
        let text = |device: &tandem_api::DeviceText| format!("{} {}", device.model, device.serial);
        let (disk, ssd) = (text(&pair.origin.text), text(&pair.ssd.text));
        let reason = self.failed.as_deref().unwrap_or("a device is missing");
        match (
            self.next(Phase::GoingOn),
            self.situation(Phase::GoingOn).disk,
        ) {
            (Step::LeavePlain, _) => {
                tracing::warn!("{disk} is used without its cache on {ssd}: {reason}");
            }
            (_, Disk::Absent) => {
                tracing::info!("{disk} is not there");
                return false;
            }
            (_, Disk::Recorded(Access::Held) | Disk::Similar(Access::Held)) => {
                tracing::error!(
                    "{disk} is held back, because what was written to it last may be on {ssd} only: {reason}"
                );
                return false;
            }
            (_, Disk::Recorded(Access::NotWritable) | Disk::Similar(Access::NotWritable)) => {
                // A record that the disk is used would give up the data on the SSD. The next event tries again to hold
                // the disk.
                tracing::error!("{disk} should be held back, is not, and cannot be written");
                return false;
            }
            _ => return false,
        }
        let is_disk = self.disk.recorded.is_some();
        let used: Vec<Ident> = match &self.disk.recorded {
            Some(disk) => vec![disk.ident.clone()],
            None => self.to_hold().map(|disk| disk.ident.clone()).collect(),
        };
        // The record is written before a program can write to the disk.
        let is_durable = self.change(store, |record| {
            lifecycle::used_alone(record, &used, is_disk)
        });
        // The cache is not put in force any more, even if the record could not be written.
        self.failed.get_or_insert("the disk is in use".to_owned());
        if is_durable {
            self.hold_error = None;
        }
        is_durable && self.next(Phase::GoingOn) == Step::Ask(Reason::DiskChanged)
    }
}

fn watch() -> io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let busy = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE;
    inotify::add_watch(&watch, udev::FOLDER, busy)?;
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
