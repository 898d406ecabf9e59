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
use self::hands::{Hands, System};
use self::late::Marks;
use crate::mounts::table;
use crate::state::{CacheRecord, FOLDER, Store};
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
    /// The disk is claimed.
    held: bool,
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
    let wanted = |record: &CacheRecord| {
        let idle = !jobs.iter().any(|job| job.gives_up(&record.pair.uuid));
        idle && record.detached_in.is_none() && !record.forked
    };
    let records = store.caches().into_iter();
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
    for cache in caches.iter_mut() {
        cache.leave(store);
        // The mark of one that is not there stays.
        if cache.disk.is_some() {
            marks.clear(&cache.record.pair.uuid);
        }
    }
    if !caches.is_empty()
        && let Err(e) = hands.watch()
    {
        tracing::error!("the service is not started: {e}");
    }
}

/// Takes all of them one step further. What is not sure to come to an end is last: a start that is ended in it leaves
/// every disk that is there claimed, and no mount that would fail for that.
fn look(caches: &mut Vec<Cache>, hands: &impl Hands, store: &Store, marks: &Marks) {
    let alone = marks.alone();
    for cache in caches.iter_mut() {
        cache.learn(store);
        cache.claim(hands);
        if cache.held {
            marks.clear(&cache.record.pair.uuid);
        }
    }
    drop(alone);
    leave_out(caches, hands);
    caches.retain_mut(|cache| !cache.assembled(hands, store));
}

/// Has the start not wait for what is held by now, as long as it is.
fn leave_out(caches: &mut [Cache], hands: &impl Hands) {
    let untold = |cache: &&Cache| cache.held && cache.told != cache.disk;
    let held: Vec<_> = caches
        .iter()
        .filter(untold)
        .filter_map(|cache| Some((&cache.record.pair, cache.disk.as_ref()?)))
        .collect();
    if !held.is_empty()
        && let Err(e) = hands.leave_out(&held)
    {
        tracing::error!("the start of the machine may stop at a file system: {e}");
    }
    for cache in caches.iter_mut().filter(|cache| cache.held) {
        cache.told.clone_from(&cache.disk);
    }
}

impl Cache {
    fn new(record: CacheRecord) -> Self {
        Self {
            record,
            disk: None,
            held: false,
            told: None,
            failed: None,
        }
    }

    /// What udev had done about the disk meanwhile.
    fn learn(&mut self, store: &Store) {
        if self.held || !self.record.may_be_dirty {
            return;
        }
        let ours = |now: &CacheRecord| now.pair.uuid == self.record.pair.uuid;
        if let Some(now) = store.caches().into_iter().find(ours)
            && now.forked
        {
            self.failed = Some("the disk came late and could not be held".to_owned());
            self.record = now;
        }
    }

    /// Looks for the disk, and claims it if it lacks something.
    fn claim(&mut self, hands: &impl Hands) {
        if self.failed.is_some() {
            return;
        }
        self.disk = hands.find(&self.record.pair.origin);
        let Some(disk) = self.disk.clone() else {
            return;
        };
        self.failed = hands.able().err();
        if self.failed.is_none() && self.record.may_be_dirty && !self.held {
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

    fn hold(&mut self, hands: &impl Hands, disk: &Found) {
        let held = hands.hold(&self.record.pair, disk);
        self.protected(disk, held);
    }

    /// Whether the disk is held now: one that was may not be any more.
    fn protected(&mut self, disk: &Found, held: Result<(), String>) {
        self.held = held.is_ok();
        if let Err(e) = held {
            tracing::error!("{} is not protected: {e}", disk.name);
        }
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
            (self.record.pair.cold, self.record.pair.lost) = (false, 0);
            if let Err(e) = store.save_cache(&self.record) {
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

    /// The machine starts without this cache.
    fn leave(&mut self, store: &Store) {
        let pair = &self.record.pair;
        let text = |device: &tandem_api::DeviceText| format!("{} {}", device.model, device.serial);
        let (disk, ssd) = (text(&pair.origin.text), text(&pair.ssd.text));
        let reason = self.failed.as_deref().unwrap_or("a device is missing");
        if self.held {
            tracing::error!(
                "{disk} is held back, because what was written to it last may be on {ssd} only: {reason}"
            );
        } else if self.disk.is_some() {
            tracing::warn!("{disk} is used without its cache on {ssd}: {reason}");
            // Recorded before the disk can be written.
            if let Some(record) = unguarded(&self.record)
                && let Err(e) = store.save_cache(&record)
            {
                tracing::error!("cannot record that: {e}");
            }
        } else {
            tracing::info!("{disk} is not there");
        }
    }
}

/// The record of a cache whose disk everybody can use alone from now on, if it changes: what the SSD has is
/// old, and what it has only belongs to a state of the disk that may be no more.
fn unguarded(record: &CacheRecord) -> Option<CacheRecord> {
    let mut now = record.clone();
    now.pair.cold = true;
    now.forked |= record.may_be_dirty;
    (now != *record).then_some(now)
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
mod tests {
    use super::hands::fake::Fake;
    use super::*;
    use crate::action::{Action, Pair};
    use crate::state::Intent;
    use tandem_api::{JobKind, Mode};

    /// A cache in this mode, with its disk or without.
    fn cache(mode: Mode, disk: bool) -> Cache {
        Cache {
            disk: disk.then(|| Found {
                name: "sdx".to_owned(),
                number: "8:0".to_owned(),
                sectors: 1,
            }),
            ..Cache::new(CacheRecord::new(Pair::nowhere(mode)))
        }
    }

    /// What is on record after the machine has started without this cache.
    fn left(mut cache: Cache, name: &str) -> CacheRecord {
        let name = format!("tandem-boot-{}-{name}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let store = Store::open(&root).unwrap();
        store.save_cache(&cache.record).unwrap();
        cache.leave(&store);
        let left = store.caches().pop().unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        left
    }

    #[test]
    fn without_device_mapper_what_is_on_the_ssd_only_is_never_written_over_the_disk() {
        for (mode, forked) in [(Mode::Writeback, true), (Mode::Writethrough, false)] {
            let mut cache = cache(mode, true);
            let without = Fake {
                there: vec![""],
                unable: true,
                ..Fake::default()
            };
            cache.claim(&without);
            assert!(cache.disk.is_some() && without.done.take().is_empty());
            assert_eq!(cache.patience(), Duration::ZERO);
            let left = left(cache, &format!("none-{mode}"));
            assert_eq!((left.forked, left.pair.cold), (forked, true));
            assert_eq!(left.may_be_dirty, forked);
        }
    }

    #[test]
    fn what_is_missing_is_waited_for_as_long_as_it_is_worth() {
        let clean = cache(Mode::Writethrough, false);
        assert_eq!(clean.waits(false, || false), BEGUN);
        assert_eq!(clean.waits(true, || false), WITHOUT);
        assert_eq!(clean.waits(false, || true), WITHOUT);
        assert_eq!(clean.waits(true, || true), LONGEST);
        let dirty = cache(Mode::Writeback, false);
        assert_eq!(dirty.waits(false, || false), LONGEST);
    }

    #[test]
    fn every_disk_is_held_and_left_out_before_an_ssd_is_read_that_may_not_answer() {
        let root = std::env::temp_dir().join(format!("tandem-boot-{}-order", std::process::id()));
        let store = Store::open(&root).unwrap();
        let named = |disk: &str, ssd: &str| {
            let mut cache = cache(Mode::Writeback, false);
            cache.record.pair.origin.text.serial = disk.to_owned();
            cache.record.pair.ssd.text.serial = ssd.to_owned();
            cache
        };
        let mut caches = vec![named("a", "fast"), named("b", "away"), named("c", "fast")];
        let mut machine = Fake {
            there: vec!["a", "b", "fast"],
            ..Fake::default()
        };
        look(&mut caches, &machine, &store, &Marks::default());
        let first = ["hold no-a", "hold no-b", "leave out no-a no-b", "map no-a"];
        assert_eq!(machine.done.take(), first);
        // Nobody is told twice.
        machine.there.push("c");
        look(&mut caches, &machine, &store, &Marks::default());
        let then = ["hold no-c", "leave out no-c", "map no-c"];
        assert_eq!(machine.done.take(), then);
        assert_eq!(caches.len(), 1);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_disk_that_could_not_be_held_or_was_let_go_counts_as_used() {
        for first in [Ok(()), Err("busy".to_owned())] {
            let mut cache = cache(Mode::Writeback, true);
            let disk = cache.disk.clone().unwrap();
            let name = format!("hold-{}", first.is_ok());
            cache.protected(&disk, first);
            cache.protected(&disk, Err("busy".to_owned()));
            let left = left(cache, &name);
            assert!(left.forked && left.pair.cold);
        }
    }

    #[test]
    fn a_disk_that_is_held_or_not_there_is_as_it_was() {
        let mut held = cache(Mode::Writeback, true);
        let disk = held.disk.clone().unwrap();
        held.protected(&disk, Ok(()));
        held.failed = Some("the SSD does not hold this cache any more".to_owned());
        let whole = CacheRecord::new(Pair::nowhere(Mode::Writeback));
        assert_eq!(left(held, "held"), whole);
        assert_eq!(left(cache(Mode::Writeback, false), "away"), whole);
    }

    #[test]
    fn only_a_removal_that_is_past_draining_gives_a_cache_up() {
        let pair = Pair::nowhere(Mode::Writeback);
        let record = CacheRecord::new(pair.clone());
        let job = |kind, done| Intent {
            kind,
            uuid: pair.uuid.clone(),
            actions: vec![Action::Drain(pair.clone()), Action::FreeSsd(pair.clone())],
            done,
            boot_id: String::new(),
            discard: false,
            paused: false,
            owner: 0,
        };
        assert!(job(JobKind::Remove, 1).gives_up(&record.pair.uuid));
        assert!(!job(JobKind::Remove, 0).gives_up(&record.pair.uuid));
        // A creation that enabled write-back did not come to its end.
        assert!(!job(JobKind::Create, 1).gives_up(&record.pair.uuid));
        let another = Intent {
            uuid: "cd".repeat(16),
            ..job(JobKind::Remove, 1)
        };
        assert!(!another.gives_up(&record.pair.uuid));
    }
}
