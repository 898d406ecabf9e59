// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk that lacks something and that the start of the machine has not found yet.
//!
//! It may come when the start has gone on without it, and somebody would mount it at once. So each such cache has a
//! mark from before the first look at the machine until its disk was found, and udev has `tandem-assemble --late` run
//! for every device that appears, when it has made the links and before it tells anybody. Either that finds
//! the mark, or it was over before the first look, and the start finds the disk. A start that is killed leaves the marks.

use super::devices::Machine;
use super::hands::{Hands, System};
use super::{leave_out, wanted};
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
    let mut caches = wanted(store);
    caches.retain_mut(|cache| {
        let marked = marks.has(&cache.record.pair.uuid);
        if marked {
            cache.claim(hands);
        }
        marked && cache.disk.is_some()
    });
    leave_out(&mut caches, hands);
    for cache in &mut caches {
        // The service assembles it, now or when its SSD is there.
        cache.leave(store);
        marks.clear(&cache.record.pair.uuid);
    }
}

#[cfg(test)]
mod tests {
    use super::super::hands::fake::Fake;
    use super::*;
    use crate::action::Pair;
    use crate::state::CacheRecord;
    use tandem_api::Mode;

    #[test]
    fn a_disk_that_the_start_did_not_find_is_held_when_it_comes_or_counts_as_used() {
        for busy in [false, true] {
            let name = format!("tandem-late-{}-{busy}", std::process::id());
            let root = std::env::temp_dir().join(name);
            let store = Store::open(&root).unwrap();
            let marks = Marks::within(&root.join("marks"));
            fs::create_dir(root.join("marks")).unwrap();
            let record = CacheRecord::new(Pair::nowhere(Mode::Writeback));
            store.save_cache(&record).unwrap();
            let uuid = &record.pair.uuid;

            // The start waits in vain.
            let mut machine = Fake {
                busy,
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
            assert_eq!(done[0], "hold no-");
            assert_eq!(done.len(), if busy { 1 } else { 2 }, "{done:?}");
            assert!(!marks.has(uuid));
            let left = store.caches().remove(0);
            assert_eq!((left.forked, left.may_be_dirty), (busy, true));

            // Once: whatever comes then is seen by the service.
            look(&marks, &machine, &store);
            assert!(machine.done.take().is_empty());
            fs::remove_dir_all(&root).unwrap();
        }
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
        let name = format!("tandem-late-{}-both", std::process::id());
        let root = std::env::temp_dir().join(name);
        let store = Store::open(&root).unwrap();
        let marks = Marks::within(&root.join("marks"));
        fs::create_dir(root.join("marks")).unwrap();
        let record = CacheRecord::new(Pair::nowhere(Mode::Writeback));
        store.save_cache(&record).unwrap();
        let mut caches = wanted(&store);
        super::super::guard(&caches, &marks);
        let mut machine = Fake {
            there: vec![""],
            busy: true,
            ..Fake::default()
        };
        look(&marks, &machine, &store);
        assert!(store.caches().remove(0).forked);
        machine.done.take();
        machine.busy = false;
        super::super::look(&mut caches, &machine, &store, &marks);
        assert!(machine.done.take().is_empty(), "neither held nor mapped");
        fs::remove_dir_all(&root).unwrap();
    }
}
