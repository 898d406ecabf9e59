// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk that lacks something and that the start of the machine has not found yet.
//!
//! It may come when the start has gone on without it, and somebody would mount it at once. So each such cache has a
//! mark from before the first look at the machine until it is assembled or on record as used alone, and udev has
//! `tandem-assemble --late` run for every device that appears, when it has made the links and before it tells anybody.
//! Either that finds the mark, or it was over before the first look, and the start finds the disk. A start that is
//! killed leaves the marks.
//! One that is held keeps its mark: a disk whose link was reset comes back as another device, which nobody holds.

use super::devices::Machine;
use super::hands::{Hands, System};
use super::{Cache, claim, leave_out, wanted};
use crate::dm::control::Keeps;
use crate::state::Store;
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Made by the unit, with an empty file for each mark.
const FOLDER: &str = "/run/tandem-late";

/// The marks of this start of the machine.
pub(super) struct Marks(PathBuf);

impl Default for Marks {
    fn default() -> Self {
        Self(FOLDER.into())
    }
}

impl Marks {
    #[cfg(test)]
    pub(super) fn within(folder: &Path) -> Self {
        Self(folder.into())
    }

    pub(super) fn set(&self, uuid: &str) -> io::Result<()> {
        File::create(self.0.join(uuid)).map(drop)
    }

    pub(super) fn has(&self, uuid: &str) -> bool {
        self.0.join(uuid).exists()
    }

    pub(super) fn clear(&self, uuid: &str) {
        match fs::remove_file(self.0.join(uuid)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("a mark of {uuid} stays: {e}");
            }
            _ => {}
        }
    }

    /// Until it is dropped, nobody else looks for disks that have marks; none without marks.
    pub(super) fn alone(&self) -> Option<File> {
        let folder = File::open(&self.0).ok()?;
        flock(&folder, FlockOperation::LockExclusive).ok()?;
        Some(folder)
    }
}

/// Deals with the disks that are here now and that the start waited for in vain.
pub fn run(folder: &Path) {
    let marks = Marks::default();
    // For every device of the machine: hardly ever is there anything to do.
    if !fs::read_dir(&marks.0).is_ok_and(|mut marks| marks.next().is_some()) {
        return;
    }
    // Values of any encoding: none of those that a disk is told by has other letters.
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let machine = Machine::in_event(std::env::vars_os().filter_map(text));
    look(&marks, &System::new(machine), &Store::beside(folder));
}

fn look(marks: &Marks, hands: &impl Hands, store: &Store) {
    let Some(_alone) = marks.alone() else {
        return;
    };
    for record in store.caches().iter().filter(|record| record.forked) {
        marks.clear(&record.pair.uuid);
    }
    let mut caches = wanted(store);
    caches.retain(|cache| marks.has(&cache.record.pair.uuid) && concerns(cache, marks, hands));
    claim(&mut caches, hands);
    leave_out(&mut caches, hands);
    for cache in &mut caches {
        // The service assembles it, now or when its SSD is there.
        if cache.leave(store) {
            marks.clear(&cache.record.pair.uuid);
        }
    }
}

/// Whether there is something to do for a cache that has a mark. The start and the service may be at work on it, and
/// nothing may come between them.
fn concerns(cache: &Cache, marks: &Marks, hands: &impl Hands) -> bool {
    let pair = &cache.record.pair;
    let keeps = hands.keeps(pair);
    if keeps == Keeps::Works || !cache.record.may_be_dirty {
        marks.clear(&pair.uuid);
        return false;
    }
    let Some(disk) = hands.find(&pair.origin) else {
        return false;
    };
    match keeps {
        Keeps::Between | Keeps::Works => false,
        Keeps::Disk(number) => number != disk.number,
        Keeps::Nothing => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::hands::Unheld;
    use super::super::hands::fake::Fake;
    use super::super::tests::start;
    use super::*;
    use crate::state::CacheRecord;

    #[test]
    fn a_disk_that_the_start_did_not_find_is_held_when_it_comes_or_counts_as_used() {
        for busy in [false, true] {
            let (root, store, marks) = start(&format!("late-{busy}"));
            let record = store.caches().remove(0);
            let uuid = &record.pair.uuid;

            // The start waits in vain.
            let others = if busy { 100 } else { 0 };
            let mut machine = Fake {
                unheld: vec![Unheld::Busy; others].into(),
                ..Fake::default()
            };
            let mut caches = wanted(&store);
            super::super::guard(&caches, &marks);
            super::super::look(&mut caches, &machine, &store, &marks);
            super::super::go_on(&mut caches, &machine, &store, &marks);
            look(&marks, &machine, &store);
            assert!(marks.has(uuid));
            assert_eq!(machine.done.take(), ["watch"]);
            assert_eq!(store.caches(), std::slice::from_ref(&record));

            machine.there.push("");
            look(&marks, &machine, &store);
            let done = machine.done.take();
            let held = ["hold no-", "leave out no-"];
            assert_eq!(done, if busy { &[][..] } else { &held });
            // One that is held may come back as another device.
            assert_eq!(marks.has(uuid), !busy);
            let left = store.caches().remove(0);
            assert_eq!((left.forked, left.may_be_dirty), (busy, true));

            // Once.
            look(&marks, &machine, &store);
            assert!(machine.done.take().is_empty());
            fs::remove_dir_all(&root).unwrap();
        }
    }

    #[test]
    fn what_passes_does_not_give_up_what_is_on_the_ssd() {
        let gone = || Unheld::Failed("no such device".to_owned());
        // Somebody has it for a moment; the cable is flaky, and goes on to be.
        for (name, unheld, held) in [
            ("moment", vec![Unheld::Busy; 3], true),
            ("flaky", vec![gone(); 3], true),
            ("gone", vec![gone(); 21], false),
        ] {
            let (root, store, marks, record) = waited_in_vain(name);
            let uuid = &record.pair.uuid;
            let machine = Fake {
                there: vec![""],
                unheld: unheld.into(),
                ..Fake::default()
            };
            look(&marks, &machine, &store);
            assert_eq!(machine.done.take().is_empty(), !held, "{name}");
            assert_eq!(store.caches(), std::slice::from_ref(&record), "{name}");
            assert!(marks.has(uuid), "{name}");
            // The next event finds it held, or tries again.
            look(&marks, &machine, &store);
            assert_eq!(machine.done.take().is_empty(), held, "{name}");
            assert_eq!(store.caches(), [record], "{name}");
            fs::remove_dir_all(&root).unwrap();
        }
    }

    #[test]
    fn a_held_disk_that_comes_back_is_held_again_until_its_cache_works() {
        let (root, store, marks, record) = waited_in_vain("reset");
        let mut machine = Fake {
            there: vec![""],
            ..Fake::default()
        };
        let done = |machine: &Fake| {
            look(&marks, machine, &store);
            !machine.done.take().is_empty()
        };
        assert!(done(&machine) && !done(&machine));
        machine.again = Some("8:16");
        assert!(done(&machine) && !done(&machine));
        // Nobody comes between those who are about to map it.
        machine.again = Some("8:32");
        *machine.keeps.borrow_mut() = Some(Keeps::Between);
        assert!(!done(&machine) && marks.has(&record.pair.uuid));
        *machine.keeps.borrow_mut() = Some(Keeps::Works);
        assert!(!done(&machine) && !marks.has(&record.pair.uuid));
        assert_eq!(store.caches(), [record]);
        fs::remove_dir_all(&root).unwrap();
    }

    /// A cache whose disk the start did not find.
    fn waited_in_vain(name: &str) -> (PathBuf, Store, Marks, CacheRecord) {
        let (root, store, marks) = start(&format!("late-{name}"));
        let record = store.caches().remove(0);
        marks.set(&record.pair.uuid).unwrap();
        (root, store, marks, record)
    }

    #[test]
    fn udev_has_it_run_for_every_device_that_can_be_a_disk_of_ours() {
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/udev/56-tandem.rules");
        let rules = fs::read_to_string(rules).unwrap();
        let at = |what: &str| rules.find(what).unwrap();
        // Before those devices leave that cannot be an SSD of ours.
        let run = at("RUN+=\"/usr/libexec/tandem-assemble --late\"");
        assert!(run < at("ENV{TANDEM_PROBE}") && run < at("ENV{DM_UUID}==\"?*\""));
    }

    #[test]
    fn a_disk_that_udev_dealt_with_is_what_it_left_to_a_start_that_still_looks() {
        let (root, store, marks) = start("late-both");
        let mut caches = wanted(&store);
        super::super::guard(&caches, &marks);
        let machine = Fake {
            there: vec!["", "fast"],
            unheld: vec![Unheld::Busy; 100].into(),
            ..Fake::default()
        };
        look(&marks, &machine, &store);
        assert!(store.caches().remove(0).forked);
        machine.done.take();
        machine.unheld.take();
        super::super::look(&mut caches, &machine, &store, &marks);
        assert!(machine.done.take().is_empty(), "neither held nor mapped");
        fs::remove_dir_all(&root).unwrap();
    }
}
