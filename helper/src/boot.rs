// SPDX-License-Identifier: GPL-3.0-or-later
//! Assembles the caches while the machine starts, before the file systems of fstab are mounted.
//!
//! Neither the bus nor UDisks2 runs then. It never waits longer than [`LONGEST`], and whatever it
//! cannot do, the machine starts: a cache with nothing of its own is left to the service, which comes
//! later, and its disk is used without it. A disk whose newest data may be on the SSD only is claimed
//! before anything else, so that nobody can mount, check or unlock it before the cache is there: all such disks
//! before the first SSD is read, which may never answer.

pub mod devices;
mod hands;
pub(crate) mod held;
pub mod late;

use self::devices::{Found, Machine, UDEV_DATA};
use self::hands::{Hands, System, Unheld};
use self::late::Marks;
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
/// How long somebody has a disk who has it for a moment only, as udev's probes do.
const MOMENT: Duration = Duration::from_secs(2);
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
    disk: Option<Found>,
    /// The disk that is claimed: one that comes back is another device, and is not.
    held: Option<Found>,
    /// Why the disk that is there could not be claimed the last time, and since when.
    unheld: Option<(Unheld, Instant)>,
    /// The disk that the start was told not to wait for.
    told: Option<Found>,
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
        look(&mut caches, &system, store, &marks);
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

/// From now on, a disk that lacks something and comes is held by whoever is told of it first.
fn guard(caches: &[Cache], marks: &Marks) {
    for cache in caches.iter().filter(|cache| cache.record.may_be_dirty) {
        if let Err(e) = marks.set(&cache.record.pair.uuid) {
            tracing::error!("a disk that comes late is protected by the service only: {e}");
        }
    }
}

/// The machine starts without these caches.
fn go_on(caches: &mut [Cache], hands: &impl Hands, store: &Store, marks: &Marks) {
    hold_back(caches, hands, store, marks);
    let alone = marks.alone(MOMENT);
    for cache in caches.iter_mut() {
        // udev may have come to it since.
        cache.learn(store);
        if cache.in_use() {
            cache.claim(hands);
        }
        // The mark of one that is held stays, for the disk may come back as another device that is not.
        if cache.leave(store) {
            marks.clear(&cache.record.pair.uuid);
        }
    }
    drop(alone);
    leave_out(caches, hands);
    if !caches.is_empty()
        && let Err(e) = hands.watch()
    {
        tracing::error!("the service is not started: {e}");
    }
}

/// Takes all of them one step further. What is not sure to come to an end is last: a start that is ended in it leaves
/// every disk that is there claimed, and no mount that would fail for that.
fn look(caches: &mut Vec<Cache>, hands: &impl Hands, store: &Store, marks: &Marks) {
    hold_back(caches, hands, store, marks);
    if caches.iter().any(|cache| cache.is_whole(hands)) {
        give_up_used(caches, hands, store, marks);
    }
    caches.retain_mut(|cache| {
        let assembled = cache.assembled(hands, store);
        if assembled {
            marks.clear(&cache.record.pair.uuid);
        }
        !assembled
    });
    // An attempt may have let go of its disk.
    if caches.iter().any(|cache| cache.unheld.is_some()) {
        hold_back(caches, hands, store, marks);
    }
}

/// An SSD is about to be read that may never answer: what stays in use is on record as such before.
fn give_up_used(caches: &mut [Cache], hands: &impl Hands, store: &Store, marks: &Marks) {
    for cache in caches.iter_mut() {
        if !cache.in_use() || cache.may_pass() {
            continue;
        }
        let _alone = marks.alone(MOMENT);
        cache.learn(store);
        cache.claim(hands);
        if cache.in_use() && cache.leave(store) {
            marks.clear(&cache.record.pair.uuid);
        }
    }
}

/// Claims what lacks something, and has the start not wait for that. What passes is tried again: none of the others waits
/// for it, and neither does udev.
fn hold_back(caches: &mut [Cache], hands: &impl Hands, store: &Store, marks: &Marks) {
    for attempt in 0..=wipe::TRIES {
        for cache in caches.iter_mut() {
            let alone = marks.alone(MOMENT);
            cache.learn(store);
            cache.claim(hands);
            drop(alone);
            // Before the next one, which may not answer.
            leave_out(std::slice::from_mut(cache), hands);
        }
        if attempt == wipe::TRIES || !caches.iter().any(Cache::may_pass) {
            break;
        }
        hands.pause();
    }
    for cache in caches.iter() {
        if let (Some(disk), Some((why, _))) = (&cache.disk, &cache.unheld) {
            tracing::error!("{} is not protected: {why}", disk.name);
        }
    }
}

/// Has the start not wait for what is held by now, as long as it is.
fn leave_out(caches: &mut [Cache], hands: &impl Hands) {
    let held: Vec<_> = caches
        .iter()
        .filter(|cache| cache.told != cache.held)
        .filter_map(|cache| Some((&cache.record.pair, cache.held.as_ref()?)))
        .collect();
    if !held.is_empty()
        && let Err(e) = hands.leave_out(&held)
    {
        tracing::error!("the start of the machine may stop at a file system: {e}");
    }
    for cache in caches.iter_mut().filter(|cache| cache.held.is_some()) {
        cache.told.clone_from(&cache.held);
    }
}

impl Cache {
    fn new(record: CacheRecord) -> Self {
        Self {
            record,
            disk: None,
            held: None,
            unheld: None,
            told: None,
            failed: None,
        }
    }

    /// What udev had done about the disk meanwhile.
    fn learn(&mut self, store: &Store) {
        if self.held.is_some() || !self.record.may_be_dirty {
            return;
        }
        let ours = |now: &CacheRecord| now.pair.uuid == self.record.pair.uuid;
        if let Some(now) = store.caches().into_iter().find(ours)
            && now.forked
        {
            self.failed = Some("the disk came late and could not be held".to_owned());
            self.unheld = None;
            self.record = now;
        }
    }

    /// Looks for the disk, and claims it if it lacks something: also one whose cache could not be made, for it may have
    /// come back since.
    fn claim(&mut self, hands: &impl Hands) {
        if self.record.forked {
            return;
        }
        let disk = hands.find(&self.record.pair.origin);
        if self.disk != disk {
            // Another device, which may take its time as well.
            self.unheld = None;
        }
        if self.held != disk {
            self.held = None;
        }
        self.disk.clone_from(&disk);
        let Some(disk) = disk else {
            return;
        };
        if let Err(e) = hands.able() {
            self.failed = Some(e);
        } else if self.record.may_be_dirty && self.held.is_none() {
            self.hold(hands, &disk);
        }
    }

    /// Maps it if all is there, and says whether there is nothing left to do.
    fn assembled(&mut self, hands: &impl Hands, store: &Store) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let Some(disk) = self.disk.clone() else {
            return false;
        };
        let Some(ssd) = hands.find(&self.record.pair.ssd) else {
            return false;
        };
        match hands.map(&self.record.pair, &disk, &ssd) {
            Ok(()) => {
                self.done(store, &disk, &ssd);
                true
            }
            Err(e) => {
                self.failed = Some(e);
                if self.record.may_be_dirty {
                    // The attempt let it go.
                    self.hold(hands, &disk);
                }
                false
            }
        }
    }

    /// One that was held may not be any more.
    fn hold(&mut self, hands: &impl Hands, disk: &Found) {
        let held = hands.hold(&self.record.pair, disk);
        self.held = held.is_ok().then(|| disk.clone());
        let before = self.unheld.take();
        self.unheld = held.err().map(|why| {
            let same = before.filter(|(before, _)| before.kind() == why.kind());
            let since = same.map_or_else(Instant::now, |(_, since)| since);
            (why, since)
        });
    }

    /// Whether what keeps the disk from being held may take a moment only.
    fn may_pass(&self) -> bool {
        let unheld = self.unheld.as_ref();
        unheld.is_some_and(|(_, since)| since.elapsed() < MOMENT)
    }

    fn in_use(&self) -> bool {
        matches!(self.unheld, Some((Unheld::Open(_), _)))
    }

    /// Whether all of it is there, and it is not known that it cannot be put together.
    fn is_whole(&self, hands: &impl Hands) -> bool {
        self.failed.is_none() && self.disk.is_some() && hands.find(&self.record.pair.ssd).is_some()
    }

    fn done(&mut self, store: &Store, disk: &Found, ssd: &Found) {
        tracing::info!("{} works with its cache on {}", disk.name, ssd.name);
        // udev's rules depend on what lies above a device.
        for device in [disk, ssd] {
            if let Err(e) = wipe::nudge(&device.node()) {
                tracing::warn!("cannot have {} looked at again: {e}", device.name);
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
        let asked = || self.disk.is_some() || table::waits_at_start().unwrap_or(true);
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
        if self.held.is_some() {
            tracing::error!(
                "{disk} is held back, because what was written to it last may be on {ssd} only: {reason}"
            );
            return false;
        }
        if self.disk.is_none() {
            tracing::info!("{disk} is not there");
            return false;
        }
        if let Some((Unheld::Closed(e), _)) = &self.unheld {
            // Who says that it is used gives up what is on the SSD: whatever comes next tries again.
            tracing::error!("{disk} should be held back, is not, and cannot be written: {e}");
            return false;
        }
        tracing::warn!("{disk} is used without its cache on {ssd}: {reason}");
        // Recorded before the disk can be written.
        let recorded = store.change_cache(&pair.uuid, unguarded);
        // Nor is it put in force any more, recorded or not.
        self.failed.get_or_insert("the disk is in use".to_owned());
        match recorded {
            Ok(now) => {
                self.unheld = None;
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
