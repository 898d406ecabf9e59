// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that are mappings, set up by hand or by a script: nothing but device-mapper knows of them. Such a cache is written
//! back, and then its mapping leads to the disk alone, while it is in use.
//!
//! A script may set the cache up again at the next start of the machine. What is on the SSD is older than the disk then. So the
//! superblock on the SSD is cleared in the moment in which no request is under way: the target then begins with an empty cache.

mod pause;

use super::notes::Note;
use super::system::{Remover, Told};
use super::{failed, targets};
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::machine::blocks::{names_in, sysfs};
use crate::machine::dm::control::{Control, Foreign};
use crate::machine::dm::table::{LINEAR, Linear};
use crate::machine::mounts::table::Mounts;
use crate::machine::mounts::users::files;
use crate::machine::wipe::{PAUSE, TRIES};
use crate::model::facts::SYSTEM_POINTS;
use crate::model::removal::{OtherProgress, OtherRemoval, OtherTask};
use async_trait::async_trait;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tandem_api::{Failure, Kind, OtherMode, OtherState};

/// The differences from target to target. All functions are pure.
#[derive(Clone, Copy)]
pub(super) struct Bare {
    /// Name of the target.
    pub target: &'static str,
    /// The line that makes the target write everything back, and keep nothing new that the disk lacks, from the line before.
    pub cleaner: Option<fn(&str) -> Option<String>>,
    /// The message that does the same. Any line that is put in force ends what the message began.
    pub message: Option<&'static str>,
    /// Number of the device with the superblock, and its place in bytes, from the words of a line.
    pub superblock: fn(&[&str]) -> Option<(String, u64)>,
    /// A place in a superblock, in bytes, and the bytes that each superblock of the target has there.
    pub mark: (usize, [u8; 4]),
}

/// A cache before its removal began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    /// UUID of the mapping; may be empty.
    uuid: String,
    /// Number of the mapping.
    number: String,
    /// Length of the mapping.
    sectors: u64,
    /// The words of its line.
    line: String,
    /// Number of the disk.
    disk: String,
    /// Number of the device with the superblock, and its place in bytes.
    superblock: (String, u64),
    /// The mappings that are parts of the SSD: name, number and line of each.
    parts: Vec<[String; 3]>,
}

impl Before {
    /// Whether this is the same mapping, whatever its line is now.
    fn is_of(&self, mapping: &Foreign) -> bool {
        (&mapping.uuid, &mapping.number, mapping.sectors)
            == (&self.uuid, &self.number, self.sectors)
    }

    /// The line with which the mapping leads to the disk alone.
    fn alone(&self) -> String {
        let disk = Linear {
            device: self.disk.clone(),
            sectors: self.sectors,
        };
        disk.to_string()
    }
}

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Put this line in force.
    Reload(String),
    /// Wait; so many bytes are not on the disk.
    Wait(u64),
    /// Put the line before in force. That is the end: the user has cancelled, or the disk has everything.
    Restore(Result<(), Box<Failure>>),
    /// Have the mapping lead to the disk alone.
    Replace,
    /// A process was killed while it did that.
    EndPause,
    /// The mapping leads to the disk alone. Remove the parts of the SSD.
    RemoveParts,
    /// Nothing: the removal has ended.
    End(Result<(), Box<Failure>>),
}

/// What the lines of a mapping tell of its cache.
pub(super) fn told(mapping: &Foreign) -> Option<Told> {
    let target = targets().find(|target| target.name == mapping.target)?;
    (target.told)(&mapping.table, &mapping.status)
}

impl Bare {
    fn next(&self, mapping: Option<&Foreign>, before: &Before, note: &Note) -> Next {
        let failed = |why: &str| Next::End(Err(Box::new(note.removal.not_drained(why))));
        let Some(mapping) = mapping else {
            return failed("the mapping is gone");
        };
        let cleaner = self.cleaner.and_then(|cleaner| cleaner(&before.line));
        let is_known = || {
            let line = &mapping.table;
            *line == before.line || Some(line) == cleaner.as_ref()
        };
        if !before.is_of(mapping) {
            return failed("another mapping has its name");
        }
        if mapping.suspended && note.pausing {
            return Next::EndPause;
        }
        if mapping.target == LINEAR && mapping.table == before.alone() {
            return Next::RemoveParts;
        }
        if mapping.target != self.target || !is_known() {
            return failed("another program has changed the mapping");
        }
        if mapping.suspended {
            // Another program has suspended the mapping.
            return match note.stopped {
                true => Next::End(Err(Box::new(note.removal.cancelled()))),
                false => Next::Wait(note.removal.unwritten_bytes),
            };
        }
        if note.stopped {
            return Next::Restore(Err(Box::new(note.removal.cancelled())));
        }
        let Some(told) = told(mapping).filter(|told| told.state != OtherState::Failed) else {
            return failed(&mapping.status);
        };
        let cleans = told.state == OtherState::Cleaning && told.mode == OtherMode::Writethrough;
        if self.cleaner.is_some() && !cleans {
            return cleaner.map_or_else(|| failed(&before.line), Next::Reload);
        }
        match told.unwritten_bytes {
            Some(0) if note.removal.task == OtherTask::WriteBack => Next::Restore(Ok(())),
            Some(0) => Next::Replace,
            left => Next::Wait(left.unwrap_or(note.removal.unwritten_bytes)),
        }
    }

    fn look(
        &self,
        removal: &OtherRemoval,
        earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        let changed = |why: &str| removal.changed(why);
        let control = Control::open().map_err(failed)?;
        let mapping = control.foreign_named(&removal.name);
        let mapping = mapping.ok_or_else(|| changed("no such mapping with one line"))?;
        let idle = mapping.target == self.target && !mapping.suspended && !mapping.loaded;
        let told = told(&mapping).filter(|_| idle);
        let told = told.ok_or_else(|| changed("not a cache in use"))?;
        if told.state == OtherState::Failed {
            return Err(changed(&mapping.status));
        }
        // No page of this service could be read from there in the moment of [`Self::pause`].
        if removal.task == OtherTask::Remove && carries_system(&mapping) {
            return Err(refused(removal));
        }
        let words: Vec<_> = mapping.table.split_ascii_whitespace().collect();
        let target = targets().find(|target| target.name == self.target);
        let devices = target.and_then(|target| (target.devices)(&words));
        let superblock = (self.superblock)(&words);
        let (Some((disk, ssds)), Some(superblock)) = (devices, superblock) else {
            return Err(changed(&mapping.table));
        };
        let line = |mapping: &Foreign| {
            // A removal that was not ended has left its own line.
            let earlier = earlier.and_then(|note| note.before::<Before>().ok());
            let same = |before: &Before| {
                let cleaner = self.cleaner.and_then(|cleaner| cleaner(&before.line));
                cleaner.is_some_and(|cleaner| cleaner == mapping.table)
            };
            let of_then = earlier.filter(same).map(|before| before.line);
            of_then.unwrap_or_else(|| mapping.table.clone())
        };
        let before = Before {
            parts: parts(&control, &ssds),
            line: line(&mapping),
            uuid: mapping.uuid,
            number: mapping.number,
            sectors: mapping.sectors,
            disk,
            superblock,
        };
        serde_json::to_value(before).map_err(failed)
    }

    fn go_on(&self, note: &Note) -> Result<OtherProgress, Failure> {
        let before: Before = note.before()?;
        let control = Control::open().map_err(failed)?;
        let mapping = control.foreign_named(&note.removal.name);
        let now = Ok(OtherProgress::Drains(None));
        match (self.next(mapping.as_ref(), &before, note), mapping) {
            (Next::Reload(line), Some(mapping)) => {
                control.reload(&mapping, &line).map_err(failed)?;
                now
            }
            (Next::Restore(end), Some(mapping)) => {
                control.reload(&mapping, &before.line).map_err(failed)?;
                Ok(OtherProgress::Ended(end))
            }
            (Next::Wait(left), mapping) => {
                // Another program may have ended what an earlier message began.
                if let (Some(message), Some(mapping)) = (self.message, mapping)
                    && !mapping.suspended
                {
                    control.tell(&mapping.name, message).map_err(failed)?;
                }
                Ok(OtherProgress::Drains(Some(left)))
            }
            (Next::Replace, Some(mapping)) if carries_system(&mapping) => {
                control.reload(&mapping, &before.line).map_err(failed)?;
                let refused = refused(&note.removal).data(note.removal.data());
                Ok(OtherProgress::Ended(Err(Box::new(refused))))
            }
            (Next::Replace, Some(mapping)) => {
                self.pause(&control, &mapping, &before, note)?;
                Ok(OtherProgress::Removes)
            }
            (Next::EndPause, Some(mapping)) => {
                self.finish(&control, &mapping, &before)?;
                note.paused(false).map_err(failed)?;
                Ok(OtherProgress::Removes)
            }
            (Next::RemoveParts, _) => {
                let ended = remove_parts(&control, &before);
                let ended = ended.map_err(|e| Box::new(note.removal.not_freed(e)));
                Ok(OtherProgress::Ended(ended))
            }
            (Next::End(end), _) => Ok(OtherProgress::Ended(end)),
            (Next::Reload(_) | Next::Restore(_) | Next::Replace | Next::EndPause, None) => now,
        }
    }
}

#[async_trait]
impl Remover for Bare {
    async fn look(
        &self,
        _machine: &DeviceMapper,
        removal: &OtherRemoval,
        earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        let (bare, removal, earlier) = (*self, removal.clone(), earlier.cloned());
        blocking(move || Self::look(&bare, &removal, earlier.as_ref())).await?
    }

    async fn go_on(&self, _machine: &DeviceMapper, note: &Note) -> Result<OtherProgress, Failure> {
        let (bare, note) = (*self, note.clone());
        blocking(move || Self::go_on(&bare, &note)).await?
    }
}

/// Whether the running system may need a mapping while no request to the mapping goes on: a part of the system is mounted, or
/// swap or a volume is on it.
fn carries_system(mapping: &Foreign) -> bool {
    let (Ok(mounts), Some((_, minor))) = (Mounts::read(), mapping.number.split_once(':')) else {
        return true;
    };
    let (own, named) = (
        format!("dm-{minor}"),
        format!("/dev/mapper/{}", mapping.name),
    );
    let node = format!("/dev/{own}");
    let Ok(swaps) = crate::read_lossy("/proc/swaps") else {
        return true;
    };
    let mut swaps = swaps
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().next());
    let is_swap = swaps.any(|swap| swap == node || swap == named);
    let nodes = [Some(node), Some(named)];
    let mounts = mounts.of(&mapping.number, &nodes);
    let points: Vec<_> = mounts.map(|m| m.point.clone()).collect();
    !names_in(sysfs(&own).join("holders")).is_empty()
        || is_swap
        || points
            .iter()
            .any(|point| SYSTEM_POINTS.contains(&point.as_str()))
        || files(&points).iter().any(|file| file.user == "swap")
}

fn refused(removal: &OtherRemoval) -> Failure {
    let refused = Failure::new(Kind::OtherNotRemovable);
    let refused = refused.device(&removal.devices[0].text);
    refused.name("running-system")
}

/// The bare mappings among these devices, which are parts of an SSD.
fn parts(control: &Control, numbers: &[String]) -> Vec<[String; 3]> {
    let all = control.foreign(&[LINEAR]).into_iter();
    let of_ssd = |mapping: &Foreign| numbers.contains(&mapping.number) && mapping.uuid.is_empty();
    let words = |mapping: Foreign| [mapping.name, mapping.number, mapping.table];
    all.filter(of_ssd).map(words).collect()
}

/// Removes the parts that nothing else uses.
fn remove_parts(control: &Control, before: &Before) -> Result<(), String> {
    for [part, number, line] in &before.parts {
        let mut attempt = 0;
        let is_it = |now: Foreign| {
            now.target == LINEAR
                && now.uuid.is_empty()
                && (&now.number, &now.table) == (number, line)
        };
        while control.foreign_named(part).is_some_and(is_it) {
            match control.remove(part) {
                Ok(()) => break,
                // udev opens a device for a moment.
                Err(e) if e.errno == Some(Errno::BUSY) && attempt < TRIES => {
                    attempt += 1;
                    std::thread::sleep(PAUSE);
                }
                Err(e) => return Err(format!("{part}: {e}")),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::dm_cache::BARE;
    use crate::kinds::tests::removal;
    use tandem_api::{DataState, Kind, OtherKind};

    const LINE: &str = "253:1 253:0 8:16 128 2 metadata2 writeback smq 0";
    const CLEANER: &str = "253:1 253:0 8:16 128 2 metadata2 writethrough cleaner 0";

    fn before() -> Before {
        Before {
            uuid: String::new(),
            number: "253:3".into(),
            sectors: 8,
            line: LINE.into(),
            disk: "8:16".into(),
            superblock: ("253:1".into(), 0),
            parts: Vec::new(),
        }
    }

    fn note(stopped: bool) -> Note {
        Note {
            removal: removal(OtherKind::DmCache),
            stopped,
            pausing: false,
            before: serde_json::to_value(before()).unwrap(),
        }
    }

    fn mapping(mode: &str, policy: &str, dirty: u64) -> Foreign {
        Foreign {
            target: "cache".into(),
            status: format!(
                "8 58/8192 128 265/16384 1 2 3 4 0 0 {dirty} 2 metadata2 {mode} 2 migration_threshold 2048 {policy} 0 rw -"
            ),
            table: if policy == "cleaner" { CLEANER } else { LINE }.into(),
            ..bare()
        }
    }

    fn bare() -> Foreign {
        Foreign {
            number: "253:3".into(),
            sectors: 8,
            ..Foreign::default()
        }
    }

    fn next(mapping: Option<&Foreign>, stopped: bool) -> Next {
        BARE.next(mapping, &before(), &note(stopped))
    }

    #[test]
    fn a_cache_is_cleaned_and_replaced_only_when_the_disk_has_everything() {
        let reload = || Next::Reload(CLEANER.into());
        assert_eq!(next(Some(&mapping("writeback", "smq", 0)), false), reload());
        // A cleaner in write-back keeps new writes.
        assert_eq!(
            next(Some(&mapping("writeback", "cleaner", 0)), false),
            reload()
        );
        assert_eq!(
            next(Some(&mapping("writethrough", "smq", 0)), false),
            reload()
        );
        let cleans = mapping("writethrough", "cleaner", 5);
        assert_eq!(next(Some(&cleans), false), Next::Wait(5 << 16));
        let clean = mapping("writethrough", "cleaner", 0);
        assert_eq!(next(Some(&clean), false), Next::Replace);
        let mut written_back = note(false);
        written_back.removal.task = OtherTask::WriteBack;
        let next = |mapping| BARE.next(Some(mapping), &before(), &written_back);
        assert_eq!(next(&cleans), Next::Wait(5 << 16));
        assert_eq!(next(&clean), Next::Restore(Ok(())));
    }

    #[test]
    fn a_pause_is_ended_only_if_the_service_has_begun_it() {
        let paused = |loaded| Foreign {
            suspended: true,
            loaded,
            ..mapping("writethrough", "cleaner", 0)
        };
        let mut pausing = note(false);
        pausing.pausing = true;
        for loaded in [false, true] {
            assert_eq!(next(Some(&paused(loaded)), false), Next::Wait(1));
            let next = BARE.next(Some(&paused(loaded)), &before(), &pausing);
            assert_eq!(next, Next::EndPause);
        }
        // A foreign pause keeps nobody from cancelling.
        let cancelled = next(Some(&paused(false)), true);
        assert!(matches!(cancelled, Next::End(Err(_))), "{cancelled:?}");
    }

    #[test]
    fn what_another_program_changes_ends_the_removal_without_a_change() {
        let end = |mapping: Option<&Foreign>| match next(mapping, false) {
            Next::End(Err(failure)) => (failure.kind, failure.name, failure.data),
            next => panic!("{next:?}"),
        };
        let failed = (Kind::StepFailed, "drain".to_owned(), DataState::Unwritten);
        let linear = |line: &str| Foreign {
            target: "linear".into(),
            table: line.into(),
            ..bare()
        };
        let renamed = Foreign {
            number: "253:4".into(),
            ..mapping("writeback", "smq", 0)
        };
        let changed = Foreign {
            table: LINE.replace("8:16", "8:32"),
            ..mapping("writeback", "smq", 0)
        };
        let broken = Foreign {
            status: "Fail".into(),
            ..mapping("writeback", "smq", 0)
        };
        for mapping in [
            None,
            Some(&linear("8:32 0")),
            Some(&linear("8:16 8")),
            Some(&renamed),
            Some(&changed),
            Some(&broken),
        ] {
            assert_eq!(end(mapping), failed, "{mapping:?}");
        }
        assert_eq!(next(Some(&linear("8:16 0")), false), Next::RemoveParts);
        // The request to cancel came too late.
        assert_eq!(next(Some(&linear("8:16 0")), true), Next::RemoveParts);
    }

    #[test]
    fn a_cancelled_removal_keeps_the_cache() {
        let Next::Restore(Err(failure)) = next(Some(&mapping("writethrough", "cleaner", 5)), true)
        else {
            panic!("goes on");
        };
        assert_eq!(failure.kind, Kind::Cancelled);
        assert_eq!(failure.data, DataState::Unwritten);
    }
}
