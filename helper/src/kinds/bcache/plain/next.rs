// SPDX-License-Identifier: GPL-3.0-or-later
//! The order of a move, as a pure function of what the table, the kernel and the note say.

use super::super::table::{Place, Which};
use crate::model::shift::Shift;
use serde::{Deserialize, Serialize};
use tandem_api::SECTOR_BYTES;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// The table is not touched yet.
    Begun,
    /// The table may be changed.
    Moving,
    /// The table was never touched, and bcache gets its device back, because of this.
    Leaving(String),
    /// The table was changed. All is put back, because of this.
    Undoing(String),
}

/// The state of the partition at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The machine was started again since the plan was made: the device may be in use again.
    pub later: bool,
    /// A program is changing the table.
    pub at_work: bool,
    pub table: Which,
    pub place: Place,
    /// Kernel names of the devices above the partition.
    pub holders: Vec<String>,
    /// The partition is where it was, no device is above it, and it has the superblock of bcache.
    pub is_bcache: bool,
    /// The content is found where the moved partition begins. It is looked for when no device of bcache is above it.
    pub content: bool,
}

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Wait,
    /// Stop this bcache device.
    Stop(String),
    /// Move the start of the partition.
    Move,
    /// Undo all of it from now on, because of this.
    Undo(&'static str),
    /// Give the partition its place of before. What another program has changed beside it stays.
    PutBack,
    /// Write the whole table of before over a torn one.
    Restore,
    /// Have bcache take the partition again.
    Register,
    /// The end: the user has cancelled, and nothing was changed.
    Cancelled,
    /// The end: everything is as before, because of this.
    Restored(String),
    /// The end for now: a device that is not of bcache is above the moved partition, so that the partition stays where it is.
    InUse,
    /// The end: the partition is not as before, and its table is another program's. Nothing more is written.
    Left(String),
    /// The end: the partition is a plain one.
    Done,
}

/// Whether a device above the partition is one of bcache.
pub(super) fn is_bcache(name: &str) -> bool {
    name.starts_with("bcache")
}

pub(super) fn next(seen: &Seen, phase: &Phase, stopped: bool) -> Next {
    if seen.at_work {
        return Next::Wait;
    }
    let is_old = (seen.table, seen.place) == (Which::Old, Place::Old);
    let bcache = seen.holders.iter().find(|name| is_bcache(name));
    match phase {
        Phase::Undoing(why) => undo(seen, why),
        // The table says nothing of what another program may do at another time.
        Phase::Leaving(why) if bcache.is_some() => Next::Restored(why.clone()),
        Phase::Leaving(_) if seen.is_bcache => Next::Register,
        Phase::Leaving(why) => Next::Left(why.clone()),
        Phase::Begun if seen.later => Next::Undo("the computer was started again"),
        Phase::Begun if is_old && stopped && bcache.is_some() => Next::Cancelled,
        Phase::Begun if is_old && stopped => Next::Undo("canceled"),
        Phase::Begun if is_old => match seen.holders.as_slice() {
            [] if seen.content => Next::Move,
            [] => Next::Undo("no file system is found where the partition would begin"),
            [only] if bcache == Some(only) => Next::Stop(only.clone()),
            _ => Next::Undo("another device uses the partition"),
        },
        // The kernel refuses to move a partition that is in use.
        Phase::Moving if (seen.table.entry(), seen.place) == (Place::Moved, Place::Moved) => {
            match seen.content {
                true => Next::Done,
                false => Next::Undo("the file system is not found in the moved partition"),
            }
        }
        Phase::Moving if is_old => Next::Undo("the partition was not moved"),
        Phase::Begun | Phase::Moving => Next::Undo("the partition table is not as it should be"),
    }
}

/// The next step of an undoing. Only the place of this partition is ours to write: another program may have changed the table.
fn undo(seen: &Seen, why: &str) -> Next {
    let bcache = seen.holders.iter().any(|name| is_bcache(name));
    match (seen.table, seen.place) {
        (Which::Torn, _) => Next::Restore,
        (table, Place::Old) if table.entry() == Place::Old => match bcache {
            true => Next::Restored(why.to_owned()),
            false if seen.is_bcache => Next::Register,
            // Something else has taken the place of bcache.
            false => Next::Left(why.to_owned()),
        },
        (Which::Foreign(Place::Other), _) => Next::Left(why.to_owned()),
        (table, Place::Moved) if table.entry() == Place::Moved && seen.content => Next::Done,
        _ if !seen.holders.is_empty() && !bcache => Next::InUse,
        _ => Next::PutBack,
    }
}

/// `now`: first sector and sectors as the kernel tells them, in units of 512 bytes on every disk.
pub(super) fn place(now: (u64, u64), shift: &Shift) -> Place {
    let unit = shift.sector_bytes / SECTOR_BYTES;
    let of = |(start, size): (u64, u64)| (start * unit, size * unit);
    match now {
        _ if now == of((shift.start, shift.size)) => Place::Old,
        _ if now == of(shift.moved()) => Place::Moved,
        _ => Place::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::bcache::table::tests::shift;

    fn seen(table: Which, place: Place, holders: &[&str]) -> Seen {
        Seen {
            later: false,
            at_work: false,
            table,
            place,
            holders: holders.iter().map(|&name| name.to_owned()).collect(),
            is_bcache: holders.is_empty() && place == Place::Old,
            content: true,
        }
    }

    fn undoing() -> Phase {
        Phase::Undoing("why".into())
    }

    #[test]
    fn the_device_is_stopped_and_the_partition_moved_and_looked_at() {
        let next = |seen, phase| next(&seen, &phase, false);
        let old = |holders| seen(Which::Old, Place::Old, holders);
        let stop = Next::Stop("bcache0".into());
        assert_eq!(next(old(&["bcache0"]), Phase::Begun), stop);
        assert_eq!(next(old(&[]), Phase::Begun), Next::Move);
        let moved = || seen(Which::Moved, Place::Moved, &[]);
        assert_eq!(next(moved(), Phase::Moving), Next::Done);
        let works = Seen {
            at_work: true,
            ..moved()
        };
        assert_eq!(next(works.clone(), Phase::Moving), Next::Wait);
        assert_eq!(next(works, undoing()), Next::Wait);
    }

    #[test]
    fn nothing_is_moved_or_believed_without_a_look_at_the_file_system() {
        for (table, place, phase) in [
            (Which::Old, Place::Old, Phase::Begun),
            (Which::Moved, Place::Moved, Phase::Moving),
        ] {
            let without = Seen {
                content: false,
                ..seen(table, place, &[])
            };
            let next = next(&without, &phase, false);
            assert!(matches!(next, Next::Undo(_)), "{next:?}");
        }
    }

    const PLACES: [Place; 3] = [Place::Old, Place::Moved, Place::Other];

    /// All that a table can be, beside all places that the kernel can have.
    fn all() -> impl Iterator<Item = (Which, Place)> {
        let tables = [Which::Old, Which::Moved, Which::Torn].into_iter();
        let tables = tables.chain(PLACES.map(Which::Foreign));
        tables.flat_map(|table| PLACES.map(|place| (table, place)))
    }

    #[test]
    fn what_is_neither_old_nor_moved_is_undone() {
        let undoes = |seen, phase: &Phase| matches!(next(&seen, phase, false), Next::Undo(_));
        for (table, place) in all() {
            let has = table.entry();
            if (has, place) != (Place::Moved, Place::Moved) {
                let seen = seen(table, place, &[]);
                assert!(undoes(seen, &Phase::Moving), "{table:?} {place:?}");
            }
            // A moved table is not believed before this job has moved the partition.
            if (table, place) != (Which::Old, Place::Old) {
                let seen = seen(table, place, &[]);
                assert!(undoes(seen, &Phase::Begun), "{table:?} {place:?}");
            }
        }
        // The move was tried once.
        assert!(undoes(seen(Which::Old, Place::Old, &[]), &Phase::Moving));
        let again = seen(Which::Old, Place::Old, &["bcache0"]);
        assert!(undoes(again, &Phase::Moving));
        // udev has it for another user.
        assert!(undoes(
            seen(Which::Old, Place::Old, &["dm-0"]),
            &Phase::Begun
        ));
    }

    #[test]
    fn a_table_that_another_program_has_changed_is_never_written_whole() {
        let with = |table, place, content| Seen {
            content,
            ..seen(table, place, &[])
        };
        for (table, place) in all() {
            for content in [false, true] {
                let leaving = Phase::Leaving("why".into());
                let left = next(&with(table, place, content), &leaving, false);
                let expected = match place {
                    Place::Old => Next::Register,
                    _ => Next::Left("why".into()),
                };
                assert_eq!(left, expected, "nothing was written: {table:?} {place:?}");

                let undone = next(&with(table, place, content), &undoing(), false);
                let expected = match (table, table.entry(), place) {
                    (Which::Torn, _, _) => Next::Restore,
                    (Which::Foreign(Place::Other), _, _) => Next::Left("why".into()),
                    (_, Place::Old, Place::Old) => Next::Register,
                    (_, Place::Moved, Place::Moved) if content => Next::Done,
                    _ => Next::PutBack,
                };
                assert_eq!(undone, expected, "{table:?} {place:?} {content}");
            }
        }
    }

    #[test]
    fn a_partition_that_a_volume_uses_is_not_moved_back() {
        let moved = Seen {
            content: false,
            ..seen(Which::Moved, Place::Moved, &["dm-0"])
        };
        assert_eq!(next(&moved, &undoing(), false), Next::InUse);
        let found = seen(Which::Moved, Place::Moved, &["dm-0"]);
        assert_eq!(next(&found, &undoing(), false), Next::Done);
        assert_eq!(next(&found, &Phase::Moving, false), Next::Done);
        // The user has made something else of the partition.
        let other = Seen {
            is_bcache: false,
            ..seen(Which::Old, Place::Old, &[])
        };
        let held = seen(Which::Old, Place::Old, &["dm-0"]);
        for phase in [undoing(), Phase::Leaving("why".into())] {
            for seen in [&other, &held] {
                assert_eq!(next(seen, &phase, false), Next::Left("why".into()));
            }
        }
        // bcache has the partition again where it was, so that the kernel did not move it.
        let kept = seen(Which::Moved, Place::Old, &["bcache0"]);
        assert_eq!(next(&kept, &undoing(), false), Next::PutBack);
    }

    #[test]
    fn after_a_start_of_the_machine_no_device_is_stopped() {
        let later = |holders: &[&str]| Seen {
            later: true,
            ..seen(Which::Old, Place::Old, holders)
        };
        for holders in [&["bcache0"][..], &[]] {
            let next = next(&later(holders), &Phase::Begun, false);
            assert!(matches!(next, Next::Undo(_)), "{next:?}");
        }
        let restored = Next::Restored("why".into());
        assert_eq!(next(&later(&["bcache0"]), &undoing(), false), restored);
        // A partition that was moved whole stays moved.
        let moved = Seen {
            later: true,
            ..seen(Which::Moved, Place::Moved, &[])
        };
        assert_eq!(next(&moved, &Phase::Moving, false), Next::Done);
    }

    #[test]
    fn what_failed_ends_with_the_table_and_the_device_of_before() {
        let next = |seen| next(&seen, &undoing(), false);
        let after_a_check = Seen {
            content: false,
            ..seen(Which::Moved, Place::Moved, &[])
        };
        assert_eq!(next(after_a_check), Next::PutBack);
        assert_eq!(next(seen(Which::Old, Place::Old, &[])), Next::Register);
        let restored = Next::Restored("why".into());
        assert_eq!(next(seen(Which::Old, Place::Old, &["bcache3"])), restored);
    }

    #[test]
    fn a_user_cancels_as_long_as_the_table_is_not_touched() {
        let next = |seen, phase| next(&seen, &phase, true);
        let old = |holders| seen(Which::Old, Place::Old, holders);
        assert_eq!(next(old(&["bcache0"]), Phase::Begun), Next::Cancelled);
        assert_eq!(next(old(&[]), Phase::Begun), Next::Undo("canceled"));
        let moved = seen(Which::Moved, Place::Moved, &[]);
        assert_eq!(next(moved, Phase::Moving), Next::Done);
    }

    #[test]
    fn the_kernel_counts_in_512_bytes_whatever_the_sectors_of_the_disk() {
        assert_eq!(place((2048, 409_600), &shift()), Place::Old);
        assert_eq!(place((2064, 409_584), &shift()), Place::Moved);
        assert_eq!(place((2064, 409_600), &shift()), Place::Other);
        let large = Shift {
            sector_bytes: 4096,
            by: 2,
            ..shift()
        };
        assert_eq!(place((2048 * 8, 409_600 * 8), &large), Place::Old);
        assert_eq!(place((2050 * 8, 409_598 * 8), &large), Place::Moved);
        assert_eq!(place((2048, 409_600), &large), Place::Other);
    }
}
