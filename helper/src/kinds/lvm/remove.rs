// SPDX-License-Identifier: GPL-3.0-or-later
//! Has LVM remove a cache: `lvconvert --uncache`, in a unit of its own, which goes on when the service ends.

use super::lines::{blocks_left, has_cache};
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::host::systemd::program::{self, Program, State};
use crate::kinds::failed;
use crate::kinds::notes::{self, FOLDER, Note};
use crate::kinds::system::Remover;
use crate::model::removal::{OtherProgress, OtherRemoval};
use async_trait::async_trait;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_api::{Failure, OtherKind};
use zbus::Connection;

/// Where LVM is, on one system or the other.
const PROGRAMS: [&str; 3] = ["/usr/sbin/lvm", "/sbin/lvm", "/usr/bin/lvm"];
/// Bytes at the end of what LVM prints that are read.
const TAIL: u64 = 4096;
/// Longest wait for `lvs`, which waits for each program that changes the group.
const LIMIT: Duration = Duration::from_secs(60);

/// LVM as the remover of its caches.
pub(in crate::kinds) struct Remove;

/// How LVM ended.
struct End {
    /// LVM's exit status; none if it was killed, or if nobody knows.
    status: Option<i32>,
    /// Whether LVM says afterwards that the volume has a cache; none if it does not say.
    cached: Option<bool>,
    /// The last lines that it printed.
    said: String,
}

/// The names of what belongs to a removal.
struct Names {
    printed: PathBuf,
    told: PathBuf,
    unit: String,
    look_unit: String,
}

impl Names {
    fn of(removal: &OtherRemoval) -> Self {
        let uuid = removal.volume_uuid();
        let file = |ending: &str| notes::file(Path::new(FOLDER), &removal.id, ending);
        Self {
            printed: file("printed"),
            told: file("told"),
            unit: format!("tandem-lvm-{uuid}.service"),
            look_unit: format!("tandem-lvs-{uuid}.service"),
        }
    }
}

fn program() -> Result<&'static str, Failure> {
    let there = |path: &&str| Path::new(path).exists();
    let found = PROGRAMS.into_iter().find(there);
    found.ok_or_else(|| failed("the program lvm is not there"))
}

/// The end of a file; an empty text without the file.
fn tail(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(TAIL);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Whether the volume of a removal has a cache, by `lvs`; nothing if `lvs` does not say.
async fn look(connection: &Connection, removal: &OtherRemoval) -> Result<Option<bool>, Failure> {
    let names = Names::of(removal);
    fs::create_dir_all(FOLDER).map_err(failed)?;
    notes::remove(&names.told);
    let words = [
        program()?,
        "lvs",
        "--noheadings",
        "-o",
        "lv_uuid,segtype",
        &removal.name,
    ];
    let asked = Program {
        unit: &names.look_unit,
        task: "Tandem asks LVM for a volume",
        words: &words,
        output: &names.told,
    };
    program::run(connection, &asked, LIMIT).await?;
    let told = tail(&names.told);
    notes::remove(&names.told);
    Ok(has_cache(&told, removal.volume_uuid()))
}

#[async_trait]
impl Remover for Remove {
    async fn look(
        &self,
        machine: &DeviceMapper,
        removal: &OtherRemoval,
        _earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        let unit = Names::of(removal).unit;
        if program::state(&machine.connection, &unit).await? == State::Running {
            return Ok(serde_json::Value::Null);
        }
        // The name has to be that of the volume that the kernel shows.
        if look(&machine.connection, removal).await? != Some(true) {
            return Err(removal.changed("LVM knows no such volume with a cache"));
        }
        Ok(serde_json::Value::Null)
    }

    async fn begin(&self, machine: &DeviceMapper, note: &Note) -> Result<(), Failure> {
        let names = Names::of(&note.removal);
        if program::state(&machine.connection, &names.unit).await? == State::Running {
            return Ok(());
        }
        program::forget(&machine.connection, &names.unit).await;
        notes::remove(&names.printed);
        // Never with `--force`: LVM refuses then to give up what is only on an SSD that is missing.
        let words = [
            program()?,
            "lvconvert",
            "--uncache",
            "--yes",
            &note.removal.name,
        ];
        let begun = Program {
            unit: &names.unit,
            task: "Tandem has LVM write back a cache and remove it",
            words: &words,
            output: &names.printed,
        };
        program::start(&machine.connection, &begun).await
    }

    async fn go_on(&self, machine: &DeviceMapper, note: &Note) -> Result<OtherProgress, Failure> {
        let names = Names::of(&note.removal);
        let state = program::state(&machine.connection, &names.unit).await?;
        let said = blocking(move || tail(&names.printed)).await?;
        let status = match state {
            State::Running if blocks_left(&said) == Some(0) => return Ok(OtherProgress::Removes),
            State::Running => return Ok(OtherProgress::Drains(blocks_left(&said))),
            State::Ended(status) => status,
            State::Unknown => None,
        };
        let cached = look(&machine.connection, &note.removal).await?;
        let end = End {
            status,
            cached,
            said,
        };
        Ok(OtherProgress::Ended(outcome(note, &end).map_err(Box::new)))
    }

    async fn stop(&self, machine: &DeviceMapper, note: &Note) -> Result<(), Failure> {
        program::interrupt(&machine.connection, &Names::of(&note.removal).unit).await
    }

    async fn forget(&self, machine: &DeviceMapper, removal: &OtherRemoval) {
        let names = Names::of(removal);
        program::forget(&machine.connection, &names.unit).await;
        notes::remove(&names.printed);
    }
}

/// The end of the removal. The exit status and the volume have to agree: a flush that was stopped prints that the cache is
/// removed.
fn outcome(note: &Note, end: &End) -> Result<(), Failure> {
    let removal = &note.removal;
    let status = end
        .status
        .map_or_else(|| "unknown".to_owned(), |s| s.to_string());
    let detail = format!("lvconvert: exit status {status}\n{}", end.said);
    match (end.status, end.cached) {
        (Some(0), Some(false)) => Ok(()),
        (_, Some(false)) => Err(removal.not_freed(detail)),
        // LVM has ended in another way than by its own success, and the cache is there.
        (Some(0), _) | (_, None) => Err(removal.not_drained(detail)),
        (_, Some(true)) if note.stopped => {
            let cleans = removal.kind == OtherKind::LvmWritecache;
            let cancelled = removal
                .cancelled()
                .name(if cleans { "cleaner" } else { "" });
            Err(cancelled.detail(&end.said))
        }
        (_, Some(true)) => Err(removal.not_drained(detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::removal;
    use tandem_api::{DataState, Kind};

    fn ended(
        kind: OtherKind,
        status: Option<i32>,
        cached: Option<bool>,
        stopped: bool,
    ) -> Result<(), (Kind, String, DataState)> {
        let said = "Logical volume vg2/m is not cached and vg2/cm_cvol is removed.";
        let end = End {
            status,
            cached,
            said: said.into(),
        };
        let note = Note {
            removal: removal(kind),
            stopped,
            pausing: false,
            before: serde_json::Value::Null,
        };
        outcome(&note, &end).map_err(|failure| (failure.kind, failure.name, failure.data))
    }

    #[test]
    fn a_success_needs_the_exit_status_and_the_volume() {
        let ended = |status, cached, stopped| ended(OtherKind::LvmCache, status, cached, stopped);
        assert_eq!(ended(Some(0), Some(false), false), Ok(()));
        // The request to stop came too late.
        assert_eq!(ended(Some(0), Some(false), true), Ok(()));
        let failed = |step: &str, data| Err((Kind::StepFailed, step.to_owned(), data));
        let drain = || failed("drain", DataState::Unwritten);
        for stopped in [false, true] {
            assert_eq!(ended(Some(0), Some(true), stopped), drain());
            assert_eq!(ended(Some(0), None, stopped), drain());
            assert_eq!(ended(Some(5), None, stopped), drain());
        }
        assert_eq!(ended(Some(5), Some(true), false), drain());
        assert_eq!(ended(None, Some(true), false), drain());
        let freed = failed("free-ssd", DataState::OnDisk);
        assert_eq!(ended(Some(5), Some(false), false), freed);
    }

    #[test]
    fn a_cancelled_removal_keeps_the_cache_and_says_whether_its_cleaner_stays() {
        for (kind, name) in [
            (OtherKind::LvmCache, ""),
            (OtherKind::LvmWritecache, "cleaner"),
        ] {
            let cancelled = (Kind::Cancelled, name.to_owned(), DataState::Unwritten);
            assert_eq!(ended(kind, Some(5), Some(true), true), Err(cancelled));
        }
    }

    #[test]
    fn names_are_of_the_volume_alone() {
        let names = Names::of(&removal(OtherKind::LvmCache));
        assert_eq!(names.unit, format!("tandem-lvm-{}.service", "b".repeat(32)));
        assert_ne!(names.unit, names.look_unit);
    }

    #[test]
    fn only_the_end_of_what_is_printed_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("printed");
        assert_eq!(tail(&file), "");
        let line = "  Flushing 9 blocks for cache vg2/m.\n";
        fs::write(&file, line.repeat(1_000)).unwrap();
        let read = tail(&file);
        assert!(read.len() <= 4096 && read.ends_with(line));
        assert_eq!(blocks_left(&read), Some(9));
    }
}
