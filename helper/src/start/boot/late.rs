// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that lack data and that the start of the machine has not found yet.
//!
//! Such a late disk may appear after the start has gone on, and another program would mount the disk at once. So each
//! such cache has a mark. The mark exists from before the first look at the machine until the cache lacks nothing, or
//! until the record says that the disk is used alone. While a job of the service works on the cache there is none: the
//! job itself takes the disk from its mapping. udev runs `tandem-assemble late` for every device that
//! appears, after it has made the links and before it tells any program. If that run is over before the first look,
//! the start finds the disk; otherwise the run finds the mark. A start that is killed leaves the marks. A held disk and
//! a disk with a working cache keep their mark: after a reset of its link the disk comes back as another device, which is
//! not held.

use super::environment::{BootEnvironment, System};
use super::{Cache, SHORT_USE, among, leave_out};
use crate::decide::lifecycle::{Phase, Step};
use crate::machine::blocks::{BlockDevice, Machine};
use crate::machine::dm::mapping::Mapping;
use crate::machine::marks::Marks;
use crate::machine::store::Store;
use crate::machine::wipe;
use crate::model::record::CacheRecord;
use std::path::Path;
use std::time::{Duration, Instant};

/// After this time the event of the disk itself, which waits for [`SHORT_USE`], is over.
const EVENT_OVER: Duration = SHORT_USE.saturating_mul(2);

/// Handles the disks that are here now and that the start waited for in vain.
pub fn run(folder: &Path) {
    let marks = Marks::default();
    // This runs for every device of the machine, and there is hardly ever anything to do.
    if !marks.are_there() {
        return;
    }
    let machine = Machine::in_event(std::env::vars_os());
    handle_marked(&marks, &System::new(machine), &Store::open_untidied(folder));
}

/// Holds the disks that have a mark, and leaves out their mounts. All disks come first: when systemd reads its units anew
/// it looks at all devices, and mounts what it has waited for, also from a disk whose own event is still under way.
fn handle_marked(marks: &Marks, machine: &impl BootEnvironment, store: &Store) {
    hold_marked(marks, machine, store);
    leave_out_held(marks, machine, store);
}

/// Tries to hold each disk that has a mark. Each attempt reads everything anew, because the start and the service may
/// be at work meanwhile. Only a disk's own event waits for the disk. The event of another device may find the disk
/// free, or, after [`EVENT_OVER`], record that the disk is used: the disk's own event may be over.
fn hold_marked(marks: &Marks, machine: &impl BootEnvironment, store: &Store) {
    let begun = Instant::now();
    for attempt in 0..=wipe::TRIES {
        let last = attempt == wipe::TRIES || begun.elapsed() > SHORT_USE;
        let called = marked(marks, machine, store)
            .iter()
            .any(|cache| called_for(cache, machine));
        let lock = marks.lock(if called { SHORT_USE } else { Duration::ZERO });
        if lock.is_none() && !called {
            return;
        }
        let caches = marked(marks, machine, store).into_iter();
        let mut caches: Vec<_> = caches
            .map(|cache| (called_for(&cache, machine), cache))
            .filter(|(ours, _)| *ours || lock.is_some())
            .collect();
        // The disks of this event come first, because another disk may not answer.
        caches.sort_by_key(|(ours, _)| !ours);
        let mut again = false;
        for (ours, cache) in &mut caches {
            if attempt == 0 && *ours {
                // The device may be another one than at the last event.
                marks.reset(&cache.record.pair.uuid);
            }
            again |= !hold_or_record(cache, *ours, last, marks, machine, store);
        }
        for (_, cache) in &caches {
            leave_out(std::slice::from_ref(cache), machine);
        }
        drop(lock);
        if !again {
            break;
        }
        machine.pause();
    }
}

/// Leaves out the mounts of the disks that are held already. The kernel shows an array or a volume, and the start holds
/// it, before udev makes the links to it. With the links this program runs.
fn leave_out_held(marks: &Marks, machine: &impl BootEnvironment, store: &Store) {
    let records = store.caches().into_iter();
    let caches: Vec<_> = records
        .filter(|record| record.may_be_dirty && marks.has(&record.pair.uuid))
        .filter_map(|record| without_mapping(&record, machine))
        .filter(|cache| !cache.held.is_empty())
        .collect();
    let mut held = caches.iter().flat_map(|cache| &cache.held);
    let ours = held.any(|disk| machine.called_for(disk));
    let lock = marks.lock(if ours { SHORT_USE } else { Duration::ZERO });
    if ours || lock.is_some() {
        leave_out(&caches, machine);
    }
}

/// Tries to hold a disk. `ours`: see [`called_for`]. False: this event has to try it again.
fn hold_or_record(
    cache: &mut Cache,
    ours: bool,
    last: bool,
    marks: &Marks,
    machine: &impl BootEnvironment,
    store: &Store,
) -> bool {
    cache.find_and_hold(machine);
    let uuid = cache.record.pair.uuid.clone();
    let disk = cache.disk.possible.first();
    if let Some(disk) = disk.filter(|_| cache.held.is_empty()) {
        let error = cache.hold_error.as_ref();
        let why = error.map_or("no-device-mapper", |(why, _)| why.kind());
        let waited = marks.blocked_for(&uuid, disk, why);
        if ours && !last && cache.hold_error.is_some() {
            return false;
        }
        if !ours && waited < EVENT_OVER {
            return true;
        }
    }
    if !cache.held.is_empty() {
        marks.reset(&uuid);
    }
    // The service assembles the cache, now or when the SSD is there.
    if cache.start_without(store) {
        marks.clear(&uuid);
    }
    true
}

/// Whether udev runs this program for the disk of this cache.
fn called_for(cache: &Cache, machine: &impl BootEnvironment) -> bool {
    let disks = machine.find(&cache.record.pair.origin).possible;
    disks.iter().any(|disk| machine.called_for(disk))
}

/// The caches that have a mark and that this program has to handle.
fn marked(marks: &Marks, machine: &impl BootEnvironment, store: &Store) -> Vec<Cache> {
    // The jobs are read first: a job that has ended by then has dropped the record of its cache before.
    let jobs = store.intents();
    let records = store.caches();
    for record in records.iter().filter(|record| record.origin_diverged) {
        marks.clear(&record.pair.uuid);
    }
    let mut caches = among(records, &jobs);
    caches.retain(|cache| {
        marks.has(&cache.record.pair.uuid) && needs_handling(cache, marks, machine)
    });
    caches
}

/// Whether this program has to handle a cache that has a mark. The start and the service may be at work on the cache;
/// no other program may disturb them.
fn needs_handling(cache: &Cache, marks: &Marks, machine: &impl BootEnvironment) -> bool {
    if !cache.record.may_be_dirty {
        marks.clear(&cache.record.pair.uuid);
        return false;
    }
    let Some(mut now) = without_mapping(&cache.record, machine) else {
        return false;
    };
    if let Some(disk) = &now.disk.recorded {
        // A copy of the disk is handled only in its own events: it may be in use.
        let needed = |d: &BlockDevice| d == disk || machine.called_for(d);
        now.disk.possible.retain(needed);
    }
    now.next(Phase::Starting) == Step::Hold
}

/// The cache with its disk as it is now, and the devices that are held; `None` if its mapping serves the disk.
fn without_mapping(record: &CacheRecord, machine: &impl BootEnvironment) -> Option<Cache> {
    let kept = match machine.mapping(&record.pair) {
        Mapping::Holds(numbers) | Mapping::LeadsNowhere(numbers) => numbers,
        Mapping::Starting(number) | Mapping::Halted { origin: number, .. } => vec![number],
        Mapping::None => Vec::new(),
        Mapping::Works { .. } | Mapping::PassesThrough(_) => return None,
    };
    let mut now = Cache::new(record.clone());
    now.disk = machine.find(&record.pair.origin);
    let held = now.disk.possible.iter();
    now.held = held.filter(|d| kept.contains(&d.number)).cloned().collect();
    Some(now)
}

#[cfg(test)]
mod tests;
