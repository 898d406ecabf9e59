// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes the SSD from a device of bcache, which stays in use. The kernel is told by its files in sysfs, and that a write to
//! them succeeds says nothing: what the files show afterwards counts.

use super::{backing, bracketed, bytes, caches, members};
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::host::systemd::program::{self, Program, State};
use crate::kinds::failed;
use crate::kinds::notes::Note;
use crate::kinds::system::Remover;
use crate::machine::blocks::line;
use crate::machine::clock::boottime_us;
use crate::model::removal::{OtherProgress, OtherRemoval, OtherTask};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_api::Failure;

/// Longest wait for the kernel to take a value.
const LIMIT: Duration = Duration::from_secs(30);
/// The files that say how a device writes back, with what makes the device write everything and keep nothing new.
const CLEANING: [(&str, &str); 3] = [
    ("cache_mode", "writethrough"),
    ("writeback_percent", "0"),
    ("writeback_running", "1"),
];

/// A write-back that keeps the cache takes the mode away only for the last so many bytes: bcache keeps the mode, and nothing
/// else, over a start of the machine, and a power cut would leave the cache in it.
const LAST_BYTES: u64 = 64 << 20;
/// So many seconds without [`LAST_BYTES`] less are the end of waiting for that: programs write as much as the disk gets.
const STANDSTILL: u64 = 180;

/// bcache as the remover of its caches.
pub(super) struct Remove;

/// A device before its removal began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    /// The values of [`CLEANING`].
    values: Vec<String>,
    /// UUID of the set of the SSD, as its folder is called.
    set: String,
    /// Kernel name of the disk.
    disk: String,
    /// The fewest bytes that the disk lacked so far, and when it lacked them, in seconds since the machine started. The note of
    /// an earlier version has none.
    #[serde(default)]
    fewest: Option<(u64, u64)>,
}

impl Before {
    /// Notes that the disk lacks so much `now`, in seconds. Whether that is less than before by a step.
    fn is_fewer(&mut self, dirty: u64, now: u64) -> bool {
        let fewer = self
            .fewest
            .is_none_or(|(fewest, _)| dirty.saturating_add(LAST_BYTES) <= fewest);
        if fewer {
            self.fewest = Some((dirty, now));
        }
        fewer
    }

    /// Whether the disk has got no step less for too long.
    fn stands_still(&self, now: u64) -> bool {
        let since = self.fewest.map(|(_, since)| since);
        since.is_some_and(|since| now.saturating_sub(since) > STANDSTILL)
    }
}

/// The state of a device, as its files say it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Whether the device is that of then, with its disk and no other set: a device that was stopped has no files.
    there: bool,
    /// Whether the device has a set.
    attached: bool,
    /// Whether the values are those of [`CLEANING`], except the mode.
    cleans: bool,
    /// Whether the mode is that of [`CLEANING`]: programs make nothing dirty.
    through: bool,
    /// Bytes that the disk lacks, rounded; `Some(0)` is exact.
    dirty: Option<u64>,
    /// The disk does not get more than programs make dirty meanwhile.
    stands_still: bool,
    /// Whether the set is registered, and whether other devices use it.
    set: Option<Members>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Members {
    None,
    Others,
}

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Have the device write everything back; with `true` in the mode of [`CLEANING`].
    Clean(bool),
    /// Wait; so many bytes are not on the disk.
    Wait(Option<u64>),
    /// Put back how the device was set. That is the end: the user has cancelled, or the disk has everything.
    Restore(Result<(), Box<Failure>>),
    /// Take the set from the device.
    Detach,
    /// Have the kernel forget the set.
    Unregister,
    /// Nothing: the removal has ended.
    End(Result<(), Box<Failure>>),
}

/// Whether the mode has to be that of [`CLEANING`] by now.
fn ends_in_write_through(seen: &Seen, removal: &OtherRemoval) -> bool {
    let lasts = |dirty: u64| dirty > LAST_BYTES && !seen.stands_still;
    removal.task != OtherTask::WriteBack || !seen.dirty.is_some_and(lasts)
}

fn next(seen: &Seen, note: &Note) -> Next {
    let removal = &note.removal;
    let through = ends_in_write_through(seen, removal);
    match seen {
        Seen { there: false, .. } => Next::End(Err(Box::new(
            removal.not_drained("the device was stopped or changed"),
        ))),
        Seen { attached: true, .. } if note.stopped => {
            Next::Restore(Err(Box::new(removal.cancelled())))
        }
        Seen {
            attached: true,
            cleans,
            through: now,
            ..
        } if !cleans || through && !now => Next::Clean(through),
        Seen {
            attached: true,
            dirty: Some(0),
            ..
        } => match removal.task {
            OtherTask::WriteBack => Next::Restore(Ok(())),
            OtherTask::Remove => Next::Detach,
            OtherTask::MakePlain => Next::Restore(Err(Box::new(
                removal.not_drained("the device has a cache again"),
            ))),
        },
        Seen {
            attached: true,
            dirty,
            ..
        } => Next::Wait(*dirty),
        // The kernel takes the set away only when the disk has everything.
        Seen {
            set: Some(Members::None),
            ..
        } => Next::Unregister,
        // The SSD goes on for other disks, or is free. It keeps its superblock: a disk that is not connected now may have data
        // on it.
        Seen { .. } => Next::End(Ok(())),
    }
}

pub(super) fn block(name: &str) -> PathBuf {
    Path::new("/sys/block").join(name).join("bcache")
}

fn set_folder(set: &str) -> PathBuf {
    Path::new("/sys/fs/bcache").join(set)
}

/// The word in brackets, or all of a line without brackets.
fn value(file: &Path) -> Option<String> {
    let all = line(file)?;
    Some(bracketed(&all).unwrap_or(&all).to_owned())
}

fn values(own: &Path) -> Option<Vec<String>> {
    CLEANING
        .iter()
        .map(|(file, _)| value(&own.join(file)))
        .collect()
}

fn see(name: &str, before: &Before) -> Seen {
    let own = block(name);
    let set = set_folder(&before.set);
    let values = values(&own);
    let is_set = |file: usize| {
        let values = values.as_ref();
        values.is_some_and(|values| values[file] == CLEANING[file].1)
    };
    let dirty = line(own.join("dirty_data")).and_then(|told| bytes(&told));
    let attached = fs::canonicalize(own.join("cache")).ok();
    let same = attached.as_ref().is_none_or(|now| *now == set)
        && backing(&own).as_ref() == Some(&before.disk);
    let is_clean = line(own.join("state")).is_some_and(|state| state == "clean");
    Seen {
        there: same && own.join("state").exists(),
        attached: attached.is_some(),
        cleans: is_set(1) && is_set(2),
        through: is_set(0),
        dirty: if is_clean { Some(0) } else { dirty },
        stands_still: false,
        set: set.is_dir().then(|| match members(&set) {
            0 => Members::None,
            _ => Members::Others,
        }),
    }
}

/// Writes a word into a file of sysfs, by a program of its own: for this service sysfs is read-only.
pub(super) async fn write(
    machine: &DeviceMapper,
    name: &str,
    file: &Path,
    word: &str,
) -> Result<(), Failure> {
    let unit = format!("tandem-bcache-{name}.service");
    let told = Program {
        unit: &unit,
        task: "Tandem tells bcache what to do",
        words: &["/bin/echo", word],
        output: file,
    };
    match program::run(&machine.connection, &told, LIMIT).await? {
        State::Ended(Some(0)) => Ok(()),
        other => Err(failed(format_args!(
            "{}: {word}: {other:?}",
            file.display()
        ))),
    }
}

async fn set_values(machine: &DeviceMapper, name: &str, values: &[String]) -> Result<(), Failure> {
    for ((file, _), value) in CLEANING.iter().zip(values) {
        write(machine, name, &block(name).join(file), value).await?;
    }
    Ok(())
}

#[async_trait]
impl Remover for Remove {
    async fn look(
        &self,
        _machine: &DeviceMapper,
        removal: &OtherRemoval,
        earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        let changed = |why: &str| removal.changed(why);
        // The name becomes a part of paths.
        let digits = removal.name.strip_prefix("bcache").unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(changed("no device of bcache"));
        }
        let own = block(&removal.name);
        let set = fs::canonicalize(own.join("cache")).map_err(|_| changed("no set"))?;
        if caches(&set).len() != 1 {
            return Err(changed("not one SSD"));
        }
        let disk = backing(&own).ok_or_else(|| changed("no disk"))?;
        let set = set.file_name().and_then(|name| name.to_str());
        let set = set.ok_or_else(|| changed("the set has no name"))?;
        let values = values(&own).ok_or_else(|| changed("other files"))?;
        // A removal that was not ended has left its own values.
        let left = |then: &Before| {
            let mut files = CLEANING.iter().zip(&values).zip(&then.values).enumerate();
            files.all(|(at, (((_, own), now), then))| own == now || at == 0 && now == then)
        };
        let of_then = earlier.and_then(|note| note.before::<Before>().ok());
        let of_then = of_then.filter(|then| left(then) && then.set == set && then.disk == disk);
        let before = Before {
            values: of_then.map_or(values, |then| then.values),
            set: set.to_owned(),
            disk,
            fewest: None,
        };
        serde_json::to_value(before).map_err(failed)
    }

    async fn go_on(&self, machine: &DeviceMapper, note: &Note) -> Result<OtherProgress, Failure> {
        let (mut before, name) = (note.before::<Before>()?, note.removal.name.as_str());
        let mut seen = {
            let (name, before) = (name.to_owned(), before.clone());
            blocking(move || see(&name, &before)).await?
        };
        let now = boottime_us() / 1_000_000;
        if seen.dirty.is_some_and(|dirty| before.is_fewer(dirty, now)) {
            note.set(&before).map_err(failed)?;
        }
        seen.stands_still = before.stands_still(now);
        let tell = async |file: PathBuf| write(machine, name, &file, "1").await;
        match next(&seen, note) {
            Next::Clean(through) => {
                for (file, value) in &CLEANING[usize::from(!through)..] {
                    write(machine, name, &block(name).join(file), value).await?;
                }
                Ok(OtherProgress::Drains(seen.dirty))
            }
            Next::Wait(left) => Ok(OtherProgress::Drains(left)),
            Next::Restore(end) => {
                set_values(machine, name, &before.values).await?;
                Ok(OtherProgress::Ended(end))
            }
            Next::Detach => {
                tell(block(name).join("detach")).await?;
                Ok(OtherProgress::Removes)
            }
            Next::Unregister => {
                tell(set_folder(&before.set).join("unregister")).await?;
                Ok(OtherProgress::Removes)
            }
            Next::End(end) => Ok(OtherProgress::Ended(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::removal;
    use tandem_api::{DataState, Kind, OtherKind};

    fn note(stopped: bool) -> Note {
        Note {
            removal: removal(OtherKind::Bcache),
            stopped,
            pausing: false,
            before: serde_json::Value::Null,
        }
    }

    /// A device that writes back, with 3 bytes left.
    fn seen() -> Seen {
        Seen {
            there: true,
            attached: true,
            cleans: true,
            through: true,
            dirty: Some(3),
            stands_still: false,
            set: Some(Members::None),
        }
    }

    #[test]
    fn the_set_is_taken_away_only_when_the_disk_has_everything() {
        let next = |seen: Seen| next(&seen, &note(false));
        let as_before = Seen {
            cleans: false,
            dirty: Some(0),
            ..seen()
        };
        assert_eq!(next(as_before), Next::Clean(true));
        assert_eq!(next(seen()), Next::Wait(Some(3)));
        let unknown = Seen {
            dirty: None,
            ..seen()
        };
        assert_eq!(next(unknown), Next::Wait(None));
        let clean = Seen {
            dirty: Some(0),
            ..seen()
        };
        assert_eq!(next(clean), Next::Detach);
        let mut written_back = note(false);
        written_back.removal.task = OtherTask::WriteBack;
        let clean = Seen {
            dirty: Some(0),
            ..seen()
        };
        assert_eq!(super::next(&clean, &written_back), Next::Restore(Ok(())));
        assert_eq!(super::next(&seen(), &written_back), Next::Wait(Some(3)));
    }

    #[test]
    fn a_write_back_takes_the_mode_away_for_the_last_of_it_only() {
        let mut note = note(false);
        let of = |cleans, dirty, stands_still, note: &Note| {
            let seen = Seen {
                cleans,
                through: false,
                dirty,
                stands_still,
                ..seen()
            };
            next(&seen, note)
        };
        let many = Some(1 << 30);
        assert_eq!(of(true, many, false, &note), Next::Clean(true), "a removal");
        note.removal.task = OtherTask::WriteBack;
        assert_eq!(of(false, many, false, &note), Next::Clean(false));
        assert_eq!(of(true, many, false, &note), Next::Wait(many));
        assert_eq!(of(true, many, true, &note), Next::Clean(true));
        for dirty in [Some(LAST_BYTES), None] {
            assert_eq!(
                of(true, dirty, false, &note),
                Next::Clean(true),
                "{dirty:?}"
            );
        }
        let through = Seen {
            dirty: many,
            ..seen()
        };
        assert_eq!(next(&through, &note), Next::Wait(many));
    }

    #[test]
    fn a_write_back_stands_still_when_no_step_is_done_for_long() {
        let mut before = Before {
            values: Vec::new(),
            set: String::new(),
            disk: String::new(),
            fewest: None,
        };
        assert!(!before.stands_still(1_000));
        assert!(before.is_fewer(10 * LAST_BYTES, 100));
        assert!(!before.is_fewer(9 * LAST_BYTES + 1, 200));
        assert!(!before.stands_still(100 + STANDSTILL) && before.stands_still(101 + STANDSTILL));
        assert!(before.is_fewer(9 * LAST_BYTES, 250));
        assert!(!before.stands_still(250 + STANDSTILL));
        let of_an_earlier_version = r#"{"values":[],"set":"s","disk":"sda"}"#;
        let read: Before = serde_json::from_str(of_an_earlier_version).unwrap();
        assert_eq!(read.fewest, None);
    }

    #[test]
    fn the_set_is_let_go_only_when_no_device_uses_it() {
        let next = |set| {
            let seen = Seen {
                attached: false,
                set,
                ..seen()
            };
            next(&seen, &note(false))
        };
        assert_eq!(next(Some(Members::Others)), Next::End(Ok(())));
        assert_eq!(next(Some(Members::None)), Next::Unregister);
        assert_eq!(next(None), Next::End(Ok(())));
    }

    #[test]
    fn a_cancelled_removal_and_a_stopped_device_keep_the_cache() {
        let of = |seen: Seen, stopped| match next(&seen, &note(stopped)) {
            Next::End(Err(failure)) | Next::Restore(Err(failure)) => (failure.kind, failure.data),
            next => panic!("{next:?}"),
        };
        assert_eq!(of(seen(), true), (Kind::Cancelled, DataState::Unwritten));
        let stopped = || Seen {
            there: false,
            ..Seen::default()
        };
        assert_eq!(
            of(stopped(), false),
            (Kind::StepFailed, DataState::Unwritten)
        );
        // The request to cancel came too late.
        let detached = Seen {
            attached: false,
            ..seen()
        };
        assert_eq!(next(&detached, &note(true)), Next::Unregister);
    }
}
