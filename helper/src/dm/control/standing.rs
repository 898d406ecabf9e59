// SPDX-License-Identifier: GPL-3.0-or-later
//! What follows from how a mapping is found; the kernel is asked elsewhere.

use super::DmResult;
use crate::dm::status::StatusLine;
use crate::dm::table::LINEAR;
use crate::engine::Live;

/// A mapping with its table's target.
pub(super) struct Entry {
    pub live: Live,
    /// Has a table in force.
    pub active: bool,
    pub suspended: bool,
}

/// What is there of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its mapping uses the SSD and serves requests.
    Works,
    /// Its mapping is to use the SSD and does not run: its table came into force and could not start, or somebody
    /// suspended it.
    Halted,
    /// None of these: no mapping, one that holds or passes through.
    Other,
}

impl Standing {
    pub fn of(entries: &[Entry], uuid: &str) -> Self {
        let ours = |e: &&Entry| e.live.uuid == uuid && e.active && e.live.attached;
        match entries.iter().find(ours) {
            Some(entry) if entry.suspended => Self::Halted,
            Some(_) => Self::Works,
            None => Self::Other,
        }
    }

    /// Whether the disk may lack something when the mapping goes. `status`: what it says, if it can be read.
    pub fn lacks(self, status: Option<&StatusLine>) -> bool {
        match status.filter(|status| status.knows()) {
            Some(status) => status.dirty > 0,
            None => self != Self::Other,
        }
    }
}

/// What the mapping of a cache keeps, to somebody who comes by while others may be at work on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keeps {
    /// There is none.
    Nothing,
    /// The device of this number from everybody, and nothing is under way.
    Disk(String),
    /// The device of this number: somebody is about to put it in force, or did not get further, and nobody else may
    /// load a table.
    Between(String),
    /// It serves requests.
    Works,
}

impl Keeps {
    /// One that has this table and none in force; `there`: its disk is. Of a disk that has gone nothing comes into force.
    pub(super) fn waiting(target: &str, disk: String, there: bool) -> Self {
        match target == LINEAR || !there {
            true => Self::Disk(disk),
            false => Self::Between(disk),
        }
    }

    /// One that has no table that waits.
    pub(super) fn of(entries: &[Entry], uuid: &str) -> Self {
        match entries.iter().find(|e| e.live.uuid == uuid) {
            None => Self::Nothing,
            Some(entry) if entry.active && !entry.suspended => Self::Works,
            Some(entry) if entry.active => Self::Between(entry.live.origin.clone()),
            // An empty one, which keeps nothing.
            Some(_) => Self::Nothing,
        }
    }
}

/// Does it for all of them, also after one failed.
///
/// # Errors
/// The first failure; `tell` hears of each.
pub(super) fn each<T>(
    items: impl IntoIterator<Item = T>,
    mut f: impl FnMut(&T) -> DmResult<()>,
    tell: impl Fn(&T, &super::DmFailure),
) -> DmResult<()> {
    let mut all = Ok(());
    for item in items {
        let one = f(&item);
        if let Err(e) = &one {
            tell(&item, e);
        }
        all = all.and(one);
    }
    all
}

/// Does it once more if it fails.
///
/// # Errors
/// That of the second time.
pub(super) fn twice(what: &str, mut f: impl FnMut() -> DmResult<()>) -> DmResult<()> {
    f().or_else(|e| {
        tracing::warn!("{what}: {e}; once more");
        f()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::control::other;
    use std::cell::RefCell;

    fn entry(attached: bool, active: bool, suspended: bool) -> Entry {
        Entry {
            live: Live {
                uuid: "ab".to_owned(),
                attached,
                origin: "8:0".to_owned(),
                ssd: String::new(),
            },
            active,
            suspended,
        }
    }

    #[test]
    fn only_what_uses_the_ssd_and_is_not_suspended_works() {
        for (found, standing) in [
            (entry(true, true, false), Standing::Works),
            (entry(true, true, true), Standing::Halted),
            (entry(true, false, true), Standing::Other),
            (entry(false, true, false), Standing::Other),
            (entry(false, true, true), Standing::Other),
        ] {
            assert_eq!(Standing::of(&[found], "ab"), standing);
        }
        assert_eq!(
            Standing::of(&[entry(true, true, false)], "cd"),
            Standing::Other
        );
        assert_eq!(Standing::of(&[], "ab"), Standing::Other);
    }

    #[test]
    fn only_a_table_that_is_there_to_hold_may_be_replaced_by_somebody_who_comes_by() {
        let disk = || "8:0".to_owned();
        for (target, there, keeps) in [
            ("linear", true, Keeps::Disk(disk())),
            ("linear", false, Keeps::Disk(disk())),
            ("tandem", true, Keeps::Between(disk())),
            ("tandem", false, Keeps::Disk(disk())),
        ] {
            assert_eq!(Keeps::waiting(target, disk(), there), keeps);
        }
        for (found, keeps) in [
            (entry(true, true, false), Keeps::Works),
            (entry(false, true, false), Keeps::Works),
            // It is being started.
            (entry(true, true, true), Keeps::Between(disk())),
            (entry(false, false, false), Keeps::Nothing),
        ] {
            assert_eq!(Keeps::of(&[found], "ab"), keeps);
        }
        assert_eq!(Keeps::of(&[], "ab"), Keeps::Nothing);
    }

    #[test]
    fn a_disk_is_held_unless_the_module_knows_that_it_lacks_nothing() {
        let lacks = |standing: Standing, line: &str| {
            let status: Option<StatusLine> = line.parse().ok();
            standing.lacks(status.as_ref())
        };
        for (standing, line, held) in [
            (Standing::Works, "active - writeback 32 7/4096 0 0", false),
            (Standing::Works, "active - writeback 32 7/4096 64 0", true),
            (
                Standing::Works,
                "stranded ssd-error-dirty writeback 32 7/4096 64 0",
                true,
            ),
            (
                Standing::Works,
                "bypass ssd-error writeback 32 0/4096 0 0",
                false,
            ),
            // It has not read what is there.
            (
                Standing::Halted,
                "suspended - writeback 32 0/4096 0 0",
                true,
            ),
            (Standing::Works, "suspended - writeback 32 0/0 0 0", true),
            (Standing::Works, "not to be understood", true),
            (Standing::Halted, "", true),
            // Nothing is there that could be asked.
            (Standing::Other, "", false),
        ] {
            assert_eq!(lacks(standing, line), held, "{standing:?} {line}");
        }
    }

    #[test]
    fn one_that_fails_keeps_no_other_from_being_looked_after() {
        let (done, told) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let result = each(
            [1, 2, 3],
            |number| {
                done.borrow_mut().push(*number);
                match number {
                    3 => Ok(()),
                    number => Err(other("resume", number)),
                }
            },
            |number, _| told.borrow_mut().push(*number),
        );
        assert_eq!(result.unwrap_err().to_string(), "resume: 1");
        assert_eq!(*done.borrow(), [1, 2, 3]);
        assert_eq!(*told.borrow(), [1, 2]);
    }

    #[test]
    fn what_fails_once_is_done_again_and_only_once() {
        for (failures, succeeds, made) in [(0, true, 1), (1, true, 2), (2, false, 2)] {
            let mut calls = 0;
            let result = twice("test", || {
                calls += 1;
                match calls > failures {
                    true => Ok(()),
                    false => Err(other("load", calls)),
                }
            });
            assert_eq!((result.is_ok(), calls), (succeeds, made));
        }
    }
}
