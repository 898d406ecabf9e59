// SPDX-License-Identifier: GPL-3.0-or-later
//! Has LVM remove a cache: `lvconvert --uncache`, in a unit of its own, which goes on when the service ends.
//!
//! Of a cache in write-back LVM gives up what the disk lacks, and says success, if the cache fails while it is written back. A
//! change to write-through is refused then. So that comes first, and nothing is on the SSD only when the cache is removed.

use super::lines::{Shown, blocks_left, has_cache, shown};
use super::tools::{ask, file, lvm, tail, unit};
use super::write_back::CacheMode;
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::host::systemd::program::{self, Program, State};
use crate::kinds::notes::{self, Note};
use crate::kinds::system::Remover;
use crate::model::removal::{OtherProgress, OtherRemoval};
use async_trait::async_trait;
use std::path::PathBuf;
use tandem_api::{Failure, OtherKind};
use zbus::Connection;

/// Removes a cache in write-back. `$1`: the program lvm, `$2`: `group/volume`. If the cache stays, so does its mode. The shell
/// outlives an interruption, which its programs get as well.
const FROM_WRITE_BACK: &str = r#"stop=
trap 'stop=1' INT
"$1" lvchange --yes --cachemode writethrough "$2" && [ -z "$stop" ] && "$1" lvconvert --uncache --yes "$2" && exit
status=$?
"$1" lvchange --yes --cachemode writeback "$2" || echo "The mode is not put back."
exit $status"#;

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

/// Whether the volume of a removal has a cache, by `lvs`; nothing if `lvs` does not say.
async fn look(connection: &Connection, removal: &OtherRemoval) -> Result<Option<bool>, Failure> {
    let told = ask(connection, removal, "lv_uuid,segtype", "lvs").await?;
    Ok(told.and_then(|told| has_cache(&told, removal.volume_uuid())))
}

/// Whether a cache may take writes that the disk does not get, by `lvs`; nothing if `lvs` does not say.
async fn writes_back(
    connection: &Connection,
    removal: &OtherRemoval,
) -> Result<Option<bool>, Failure> {
    if removal.kind != OtherKind::LvmCache {
        return Ok(Some(false));
    }
    let told = ask(
        connection,
        removal,
        "lv_uuid,segtype,cache_mode,pool_lv_uuid",
        "lvs",
    );
    let told = told.await?;
    let seen = told.and_then(|told| shown(&told, removal.volume_uuid()));
    Ok(match seen {
        Some(Shown::Cache(mode, _)) => Some(mode == CacheMode::Writeback),
        Some(Shown::Plain) | None => None,
    })
}

/// The file of what LVM prints.
fn printed(removal: &OtherRemoval) -> PathBuf {
    file(removal, "printed")
}

#[async_trait]
impl Remover for Remove {
    async fn look(
        &self,
        machine: &DeviceMapper,
        removal: &OtherRemoval,
        _earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        let unit = unit("lvm", removal);
        if program::state(&machine.connection, &unit).await? == State::Running {
            return Ok(serde_json::Value::Null);
        }
        // The name has to be that of the volume that the kernel shows.
        if look(&machine.connection, removal).await? != Some(true) {
            return Err(removal.changed("LVM knows no such volume with a cache"));
        }
        let writes_back = writes_back(&machine.connection, removal).await?;
        let untold = || removal.changed("LVM does not tell the mode");
        Ok(writes_back.ok_or_else(untold)?.into())
    }

    async fn begin(&self, machine: &DeviceMapper, note: &Note) -> Result<(), Failure> {
        let (unit, printed) = (unit("lvm", &note.removal), printed(&note.removal));
        if program::state(&machine.connection, &unit).await? == State::Running {
            return Ok(());
        }
        program::forget(&machine.connection, &unit).await;
        notes::remove(&printed);
        // Never with `--force`: LVM refuses then to give up what is only on an SSD that is missing.
        let (lvm, volume) = (lvm()?, note.removal.name.as_str());
        let words = match note.before == serde_json::Value::Bool(true) {
            true => ["/bin/sh", "-c", FROM_WRITE_BACK, "sh", lvm, volume].to_vec(),
            false => [lvm, "lvconvert", "--uncache", "--yes", volume].to_vec(),
        };
        let begun = Program {
            unit: &unit,
            task: "Tandem has LVM write back a cache and remove it",
            words: &words,
            output: &printed,
        };
        program::start(&machine.connection, &begun).await
    }

    async fn go_on(&self, machine: &DeviceMapper, note: &Note) -> Result<OtherProgress, Failure> {
        let (unit, printed) = (unit("lvm", &note.removal), printed(&note.removal));
        let state = program::state(&machine.connection, &unit).await?;
        let said = blocking(move || tail(&printed)).await?;
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
        program::interrupt(&machine.connection, &unit("lvm", &note.removal)).await
    }

    async fn forget(&self, machine: &DeviceMapper, removal: &OtherRemoval) {
        program::forget(&machine.connection, &unit("lvm", removal)).await;
        notes::remove(&printed(removal));
    }
}

/// The end of the removal. The exit status and the volume have to agree: a flush that was stopped prints that the cache is
/// removed.
fn outcome(note: &Note, end: &End) -> Result<(), Failure> {
    let removal = &note.removal;
    let status = end
        .status
        .map_or_else(|| "unknown".to_owned(), |s| s.to_string());
    let detail = format!("LVM: exit status {status}\n{}", end.said);
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
}
