// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that are mappings, set up by hand or by a script: nothing but device-mapper knows of them. Such a cache is written
//! back, and then its mapping leads to the disk alone, while it is in use.
//!
//! A script may set the cache up again at the next start of the machine. What is on the SSD is older than the disk then. So the
//! superblock on the SSD is cleared in the moment in which no request is under way: the target then begins with an empty cache.

use super::list::named;
use super::notes::Note;
use super::system::{Remover, Told};
use super::{failed, targets};
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::machine::dm::control::{Control, Foreign};
use crate::machine::dm::table::LINEAR;
use crate::machine::mounts::nodes::device_number;
use crate::machine::wipe::{PAUSE, TRIES};
use crate::model::removal::{OtherProgress, OtherRemoval, OtherTask};
use async_trait::async_trait;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use tandem_api::{Failure, Kind, OtherMode, OtherState};

/// Bytes of a superblock of dm-cache and of dm-writecache. The targets take a superblock of zeroes for a new SSD.
const SUPERBLOCK_BYTES: usize = 4096;

/// What differs from target to target. All functions are pure.
#[derive(Clone, Copy)]
pub(super) struct Bare {
    /// Name of the target.
    pub target: &'static str,
    /// The line that makes the target write everything back, and keep nothing new that the disk lacks, from the line before.
    pub cleaner: Option<fn(&str) -> Option<String>>,
    /// The message that does the same.
    pub message: Option<&'static str>,
    /// Number of the device with the superblock, and its place in bytes, from the words of a line.
    pub superblock: fn(&[&str]) -> Option<(String, u64)>,
}

/// A cache before its removal began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    /// The words of its line.
    line: String,
    /// Number of the disk.
    disk: String,
    /// Number of the device with the superblock, and its place in bytes.
    superblock: (String, u64),
    /// The names of the mappings that are parts of the SSD.
    parts: Vec<String>,
}

/// What has to be done now.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Put this line in force.
    Reload(String),
    /// Wait; so many bytes are not on the disk.
    Wait(u64),
    /// The disk has everything. Put the line before in force.
    Restore,
    /// Have the mapping lead to the disk alone.
    Replace,
    /// A process was killed while it did that.
    EndPause,
    /// The mapping leads to the disk alone. Remove the parts of the SSD.
    RemoveParts,
    /// Nothing: the removal has ended.
    End(Result<(), Box<Failure>>),
}

fn told(mapping: &Foreign) -> Option<Told> {
    let target = targets().find(|target| target.name == mapping.target)?;
    (target.told)(&mapping.table, &mapping.status)
}

impl Bare {
    fn next(&self, mapping: Option<&Foreign>, before: &Before, note: &Note) -> Next {
        let failed = |why: &str| Next::End(Err(Box::new(note.removal.not_drained(why))));
        let Some(mapping) = mapping else {
            return failed("the mapping is gone");
        };
        if mapping.suspended {
            return match mapping.loaded {
                true => Next::EndPause,
                // Another program has suspended the mapping.
                false => Next::Wait(note.removal.unwritten_bytes),
            };
        }
        if mapping.target == LINEAR && mapping.table == format!("{} 0", before.disk) {
            return Next::RemoveParts;
        }
        if mapping.target != self.target {
            return failed("another program has changed the mapping");
        }
        let Some(told) = told(mapping).filter(|told| told.state != OtherState::Failed) else {
            return failed(&mapping.status);
        };
        if note.stopped {
            return Next::End(Err(Box::new(note.removal.cancelled())));
        }
        let cleans = told.state == OtherState::Cleaning && told.mode == OtherMode::Writethrough;
        if let Some(cleaner) = self.cleaner.filter(|_| !cleans) {
            return cleaner(&before.line).map_or_else(|| failed(&before.line), Next::Reload);
        }
        match told.unwritten_bytes {
            Some(0) if note.removal.task == OtherTask::WriteBack => Next::Restore,
            Some(0) => Next::Replace,
            left => Next::Wait(left.unwrap_or(note.removal.unwritten_bytes)),
        }
    }

    fn look(
        &self,
        removal: &OtherRemoval,
        earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        let changed = |why: &str| {
            let changed = Failure::new(Kind::DeviceChanged).device(&removal.devices[0].text);
            changed.detail(format_args!("{}: {why}", removal.name))
        };
        let control = Control::open().map_err(failed)?;
        let mapping = control.foreign_named(&removal.name);
        let mapping = mapping.ok_or_else(|| changed("no such mapping with one line"))?;
        let told = told(&mapping).filter(|_| mapping.target == self.target && !mapping.suspended);
        let told = told.ok_or_else(|| changed("not a cache in use"))?;
        if told.state == OtherState::Failed {
            return Err(changed(&mapping.status));
        }
        let words: Vec<_> = mapping.table.split_ascii_whitespace().collect();
        let target = targets().find(|target| target.name == self.target);
        let devices = target.and_then(|target| (target.devices)(&words));
        let superblock = (self.superblock)(&words);
        let (Some((disk, ssds)), Some(superblock)) = (devices, superblock) else {
            return Err(changed(&mapping.table));
        };
        let line = |mapping: Foreign| {
            // A removal that was not ended has left its own line.
            let earlier = earlier.and_then(|note| before(note).ok());
            let same = |before: &Before| {
                let cleaner = self.cleaner.and_then(|cleaner| cleaner(&before.line));
                cleaner.is_some_and(|cleaner| cleaner == mapping.table)
            };
            let of_then = earlier.filter(same).map(|before| before.line);
            of_then.unwrap_or(mapping.table)
        };
        let before = Before {
            parts: parts(&control, &ssds),
            line: line(mapping),
            disk,
            superblock,
        };
        serde_json::to_value(before).map_err(failed)
    }

    fn go_on(&self, note: &Note) -> Result<OtherProgress, Failure> {
        let before = before(note)?;
        let control = Control::open().map_err(failed)?;
        let mapping = control.foreign_named(&note.removal.name);
        let now = Ok(OtherProgress::Drains(None));
        match (self.next(mapping.as_ref(), &before, note), mapping) {
            (Next::Reload(line), Some(mapping)) => {
                control.reload(&mapping, &line).map_err(failed)?;
                now
            }
            (Next::Restore, Some(mapping)) => {
                control.reload(&mapping, &before.line).map_err(failed)?;
                Ok(OtherProgress::Ended(Ok(())))
            }
            (Next::Wait(left), _) => Ok(OtherProgress::Drains(Some(left))),
            (Next::Replace, Some(mapping)) => {
                let clean = |status: &str| self.ends_clean(&mapping, status, &before);
                control
                    .replace(&mapping, &before.disk, clean)
                    .map_err(failed)?;
                Ok(OtherProgress::Removes)
            }
            (Next::EndPause, _) => {
                finish(&control, &note.removal.name, &before)?;
                Ok(OtherProgress::Removes)
            }
            (Next::RemoveParts, _) => {
                let ended = remove_parts(&control, &before);
                let ended = ended.map_err(|e| Box::new(note.removal.not_freed(e)));
                Ok(OtherProgress::Ended(ended))
            }
            (Next::End(end), _) => Ok(OtherProgress::Ended(end)),
            (Next::Reload(_) | Next::Restore | Next::Replace, None) => now,
        }
    }

    /// No request is under way. The superblock goes only if the disk has everything.
    fn ends_clean(&self, mapping: &Foreign, status: &str, before: &Before) -> Result<(), String> {
        let now = Foreign {
            status: status.to_owned(),
            ..mapping.clone()
        };
        match told(&now).and_then(|told| told.unwritten_bytes) {
            Some(0) => clear(&before.superblock).map_err(|e| e.to_string()),
            _ => Err(format!("not clean: {status}")),
        }
    }

    fn stop(&self, note: &Note) -> Result<(), Failure> {
        let before = before(note)?;
        let control = Control::open().map_err(failed)?;
        match control.foreign_named(&note.removal.name) {
            Some(mapping) if mapping.target == self.target && !mapping.suspended => {
                control.reload(&mapping, &before.line).map_err(failed)
            }
            _ => Ok(()),
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

    async fn begin(&self, _machine: &DeviceMapper, note: &Note) -> Result<(), Failure> {
        let (bare, name) = (*self, note.removal.name.clone());
        blocking(move || match bare.message {
            Some(message) => {
                let control = Control::open().map_err(failed)?;
                control.tell(&name, message).map_err(failed)
            }
            None => Ok(()),
        })
        .await?
    }

    async fn go_on(&self, _machine: &DeviceMapper, note: &Note) -> Result<OtherProgress, Failure> {
        let (bare, note) = (*self, note.clone());
        blocking(move || Self::go_on(&bare, &note)).await?
    }

    async fn stop(&self, _machine: &DeviceMapper, note: &Note) -> Result<(), Failure> {
        let (bare, note) = (*self, note.clone());
        blocking(move || Self::stop(&bare, &note)).await?
    }
}

fn before(note: &Note) -> Result<Before, Failure> {
    serde_json::from_value(note.before.clone()).map_err(failed)
}

/// Ends the pause that a killed process has left, if this note is of such a mapping.
pub(super) fn end_pause(note: &Note) {
    let (Ok(before), Ok(control)) = (before(note), Control::open()) else {
        return;
    };
    let mapping = control.foreign_named(&note.removal.name);
    if mapping.is_some_and(|mapping| mapping.suspended && mapping.loaded)
        && let Err(e) = finish(&control, &note.removal.name, &before)
    {
        tracing::error!("{} stays suspended: {e}", note.removal.name);
    }
}

/// What a process did not end that suspended the mapping because the disk had everything.
fn finish(control: &Control, name: &str, before: &Before) -> Result<(), Failure> {
    clear(&before.superblock).map_err(failed)?;
    control.end_pause(name).map_err(failed)
}

/// Writes zeroes over a superblock.
fn clear((number, place): &(String, u64)) -> io::Result<()> {
    let name = named(number).ok_or(io::ErrorKind::NotFound)?;
    let node = Path::new("/dev").join(name);
    let file = OpenOptions::new().write(true).open(node)?;
    if device_number(file.metadata()?.rdev()) != *number {
        return Err(io::Error::other("another device has taken the name"));
    }
    file.write_all_at(&[0; SUPERBLOCK_BYTES], *place)?;
    file.sync_all()
}

/// The names of the bare mappings among these devices, which are parts of an SSD.
fn parts(control: &Control, numbers: &[String]) -> Vec<String> {
    let all = control.foreign(&[LINEAR]).into_iter();
    let of_ssd = |mapping: &Foreign| numbers.contains(&mapping.number) && mapping.uuid.is_empty();
    all.filter(of_ssd).map(|mapping| mapping.name).collect()
}

/// Removes the parts that nothing else uses.
fn remove_parts(control: &Control, before: &Before) -> Result<(), String> {
    for part in &before.parts {
        let mut attempt = 0;
        while control
            .foreign_named(part)
            .is_some_and(|now| now.target == LINEAR)
        {
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
    use tandem_api::{DataState, OtherKind};

    const LINE: &str = "253:1 253:0 8:16 128 2 metadata2 writeback smq 0";
    const CLEANER: &str = "253:1 253:0 8:16 128 2 metadata2 writethrough cleaner 0";

    fn before() -> Before {
        Before {
            line: LINE.into(),
            disk: "8:16".into(),
            superblock: ("253:1".into(), 0),
            parts: vec!["meta".into()],
        }
    }

    fn note(stopped: bool) -> Note {
        Note {
            removal: removal(OtherKind::DmCache),
            stopped,
            before: serde_json::to_value(before()).unwrap(),
        }
    }

    fn mapping(mode: &str, policy: &str, dirty: u64) -> Foreign {
        Foreign {
            target: "cache".into(),
            status: format!(
                "8 58/8192 128 265/16384 1 2 3 4 0 0 {dirty} 2 metadata2 {mode} 2 migration_threshold 2048 {policy} 0 rw -"
            ),
            table: LINE.into(),
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
        assert_eq!(next(&clean), Next::Restore);
    }

    #[test]
    fn a_pause_is_ended_only_if_the_new_table_is_loaded() {
        let paused = |loaded| Foreign {
            suspended: true,
            loaded,
            ..mapping("writethrough", "cleaner", 0)
        };
        assert_eq!(next(Some(&paused(true)), false), Next::EndPause);
        assert_eq!(next(Some(&paused(false)), false), Next::Wait(1));
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
            ..Foreign::default()
        };
        let broken = Foreign {
            status: "Fail".into(),
            ..mapping("writeback", "smq", 0)
        };
        for mapping in [
            None,
            Some(&linear("8:32 0")),
            Some(&linear("8:16 8")),
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
        let Next::End(Err(failure)) = next(Some(&mapping("writeback", "smq", 5)), true) else {
            panic!("goes on");
        };
        assert_eq!(failure.kind, Kind::Cancelled);
        assert_eq!(failure.data, DataState::Unwritten);
    }
}
