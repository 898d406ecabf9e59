// SPDX-License-Identifier: GPL-3.0-or-later
//! The kinds of caches that other systems make: a file or a folder for each system, and the table of them. A system says how its
//! caches are found, and what removes them.

mod bcache;
mod counters;
mod dm_cache;
mod dm_writeboost;
mod dm_writecache;
mod list;
mod lvm;
mod mapping;
mod notes;
mod rapiddisk;
mod system;

use self::notes::{FOLDER, Note};
use self::system::{Find, Remover, System, Target};
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::host::traits::Others;
use crate::model::facts::Facts;
use crate::model::other_reading::OtherSeen;
use crate::model::removal::{OtherProgress, OtherRemoval, OtherTask};
use async_trait::async_trait;
use std::path::Path;
use std::sync::Arc;
use tandem_api::{Failure, Kind, OtherKind};

/// The systems whose caches are shown.
const SYSTEMS: [System; 5] = [
    bcache::SYSTEM,
    dm_cache::SYSTEM,
    dm_writecache::SYSTEM,
    dm_writeboost::SYSTEM,
    rapiddisk::SYSTEM,
];

/// Whether a system may not answer for a while, or for ever, when it is asked for caches of this kind.
pub fn may_hang(kind: OtherKind) -> bool {
    SYSTEMS.iter().any(|system| system.may_hang.contains(&kind))
}

/// Ends what an earlier process of the service was killed in the middle of: a mapping may wait to be resumed, and a program for
/// that mapping. This blocks, and is called before anything else is asked of the machine.
pub fn end_pauses() {
    for note in notes::all(Path::new(FOLDER)) {
        for bare in [dm_cache::BARE, dm_writecache::BARE] {
            bare.end_pause(&note);
        }
    }
}

/// The systems that are targets of device-mapper.
fn targets() -> impl Iterator<Item = &'static Target> {
    SYSTEMS.iter().filter_map(|system| match &system.find {
        Find::Mappings(target) => Some(target),
        Find::Files(_) => None,
    })
}

/// What does this task with caches of this kind.
fn remover(kind: OtherKind, task: OtherTask) -> Result<&'static dyn Remover, Failure> {
    match (kind, task) {
        (OtherKind::Bcache, OtherTask::MakePlain) => return Ok(&bcache::MakePlain),
        (OtherKind::LvmCache, OtherTask::WriteBack) => return Ok(&lvm::WriteBack),
        _ => {}
    }
    let mut all = SYSTEMS.iter().flat_map(|system| system.removers);
    let found = all.find(|(of, _)| *of == kind);
    let none = || failed("no program removes a cache of this kind");
    found.map(|(_, remover)| *remover).ok_or_else(none)
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::StepFailed).detail(why)
}

/// The note of a removal that has begun.
fn noted(removal: &OtherRemoval) -> Result<Note, Failure> {
    let note = Note::of(notes::folder(removal), &removal.id);
    note.ok_or_else(|| failed("the note of the removal is gone"))
}

#[async_trait]
impl Others for DeviceMapper {
    async fn other_caches(&self, facts: Arc<Facts>) -> Vec<OtherSeen> {
        let listed = blocking(move || list::list(&facts)).await;
        listed.unwrap_or_else(|e| {
            tracing::error!("cannot look at the caches of other systems: {e}");
            Vec::new()
        })
    }

    async fn begin_removal(&self, removal: &OtherRemoval) -> Result<(), Failure> {
        let remover = remover(removal.kind, removal.task)?;
        let earlier = Note::of(notes::folder(removal), &removal.id);
        let before = remover.look(self, removal, earlier.as_ref()).await?;
        let note = Note {
            removal: removal.clone(),
            stopped: false,
            pausing: false,
            before,
        };
        note.save().map_err(failed)?;
        let begun = remover.begin(self, &note).await;
        // What an earlier removal has changed is still to be put back.
        if begun.is_err() && earlier.is_none() {
            self.forget_removal(removal).await;
        }
        begun
    }

    async fn removal_progress(&self, removal: &OtherRemoval) -> Result<OtherProgress, Failure> {
        let remover = remover(removal.kind, removal.task)?;
        let progress = remover.go_on(self, &noted(removal)?).await?;
        if removal.task == OtherTask::Remove && matches!(progress, OtherProgress::Ended(Ok(()))) {
            notes::forget_mode(&removal.id);
        }
        Ok(progress)
    }

    async fn stop_removal(&self, removal: &OtherRemoval) -> Result<(), Failure> {
        let stopped = Note {
            stopped: true,
            ..noted(removal)?
        };
        // A process that is killed now leaves word of it to the next.
        stopped.save().map_err(failed)?;
        remover(removal.kind, removal.task)?
            .stop(self, &stopped)
            .await
    }

    async fn forget_removal(&self, removal: &OtherRemoval) {
        if let Ok(remover) = remover(removal.kind, removal.task) {
            remover.forget(self, removal).await;
        }
        let folder = notes::folder(removal);
        notes::remove(&notes::file(folder, &removal.id, "json"));
    }

    async fn begun_removals(&self) -> Vec<OtherRemoval> {
        let notes = blocking(notes::of_machine).await;
        let notes = notes.unwrap_or_default().into_iter();
        notes.map(|note| note.removal).collect()
    }

    async fn forget_modes_of_none(&self, there: &[String]) -> bool {
        let mut waits = false;
        let begun = self.begun_removals().await.into_iter();
        for removal in begun.filter(OtherRemoval::outlives_a_start) {
            if !there.contains(&removal.id) && lvm::is_plain(self, &removal).await == Ok(true) {
                self.forget_removal(&removal).await;
            } else {
                waits = true;
            }
        }
        waits
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::facts::Ident;

    /// A removal of a cache of this kind, which may have a byte that the disk lacks.
    pub(crate) fn removal(kind: OtherKind) -> OtherRemoval {
        OtherRemoval {
            id: format!("LVM-{}{}", "a".repeat(32), "b".repeat(32)),
            name: "vg2/m".into(),
            kind,
            task: OtherTask::Remove,
            devices: [Ident::default(), Ident::default()],
            steps: Vec::new(),
            unwritten_bytes: 1,
            may_be_unwritten: true,
            owner: 1000,
            shift: None,
        }
    }

    #[test]
    fn what_clients_are_told_can_be_removed_has_a_remover_and_nothing_else() {
        for kind in OtherKind::ALL {
            assert_eq!(
                remover(*kind, OtherTask::Remove).is_ok(),
                kind.can_be_removed(),
                "{kind:?}"
            );
        }
        for kind in OtherKind::ALL.iter().filter(|kind| kind.can_write_back()) {
            assert!(remover(*kind, OtherTask::WriteBack).is_ok(), "{kind:?}");
        }
        assert!(may_hang(OtherKind::Bcache) && !may_hang(OtherKind::LvmCache));
    }
}
