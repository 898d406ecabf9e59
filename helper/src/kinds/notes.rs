// SPDX-License-Identifier: GPL-3.0-or-later
//! Notes on removals, by which the next process of the service finds those that this process has begun.

use super::failed;
use crate::model::removal::{OtherRemoval, OtherTask};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tandem_api::Failure;

/// The folder of the notes. A start of the machine empties it: after that nothing of a removal is under way.
pub(super) const FOLDER: &str = crate::model::removal::UNDER_WAY;
/// The folder of the notes that a start of the machine keeps: a partition table may be half changed.
const MOVES: &str = "/var/lib/tandem/moves";
/// The folder of the notes on modes that are to be put back, and that their system keeps over a start of the machine.
const MODES: &str = "/var/lib/tandem/modes";

/// The folder of the note on a removal.
pub(super) fn folder(removal: &OtherRemoval) -> &'static Path {
    Path::new(match removal.task {
        OtherTask::MakePlain => MOVES,
        _ if removal.outlives_a_start() => MODES,
        OtherTask::Remove | OtherTask::WriteBack => FOLDER,
    })
}

/// What is known of a removal that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The removal.
    pub removal: OtherRemoval,
    /// Whether the user has cancelled.
    pub stopped: bool,
    /// Whether requests wait, or may wait, because of the removal.
    pub pausing: bool,
    /// How the cache was set before, as its kind knows it: what a cancelled removal puts back.
    pub before: serde_json::Value,
}

/// The file of a note. The ids of other systems may have any characters and be as long as a file name.
pub(super) fn file(folder: &Path, id: &str, ending: &str) -> PathBuf {
    let name = crate::hex(&Sha256::digest(id.as_bytes())[..16]);
    folder.join(format!("{name}.{ending}"))
}

impl Note {
    /// The note on the removal of the cache with this id.
    pub(super) fn of(folder: &Path, id: &str) -> Option<Self> {
        read(&file(folder, id, "json"))
    }

    /// How the cache was set before.
    ///
    /// # Errors
    /// If the note is not of this kind of cache.
    pub(super) fn before<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_value(self.before.clone()).map_err(failed)
    }

    /// Notes what has to be known later.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn set<T: Serialize>(&self, before: &T) -> io::Result<()> {
        let note = Self {
            before: serde_json::to_value(before)?,
            ..self.clone()
        };
        note.save()
    }

    /// Notes that requests wait because of the removal, or do not any more.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn paused(&self, pausing: bool) -> io::Result<()> {
        let note = Self {
            pausing,
            ..self.clone()
        };
        note.save()
    }

    /// Writes the note to the folder of its task.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn save(&self) -> io::Result<()> {
        self.save_in(folder(&self.removal))
    }

    fn save_in(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let path = file(folder, &self.removal.id, "json");
        // A process that is killed while it writes, and a power cut, leave no half note.
        let beside = path.with_extension("new");
        fs::write(&beside, serde_json::to_vec(self)?)?;
        File::open(&beside)?.sync_all()?;
        fs::rename(beside, path)?;
        File::open(folder)?.sync_all()
    }
}

fn read(path: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// All notes of this machine.
pub(super) fn of_machine() -> Vec<Note> {
    [FOLDER, MOVES, MODES]
        .map(|folder| all(Path::new(folder)))
        .concat()
}

/// The notes in a folder. A note that cannot be read is left alone: its removal goes on without a job.
pub(super) fn all(folder: &Path) -> Vec<Note> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path());
    let notes = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    notes.filter_map(|path| read(&path)).collect()
}

/// The cache with this id is removed: no mode is to be put back any more, and its volume may get another cache.
pub(super) fn forget_mode(id: &str) {
    remove(&file(Path::new(MODES), id, "json"));
}

/// Removes a file, if the file is there.
pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("{} stays: {e}", path.display());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::removal;
    use tandem_api::OtherKind;

    #[test]
    fn a_removal_is_found_by_its_note_and_not_by_half_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("others");
        assert_eq!(all(&inner), []);
        let note = Note {
            removal: removal(OtherKind::DmCache),
            stopped: false,
            pausing: false,
            before: "cache".into(),
        };
        note.save_in(&inner).unwrap();
        fs::write(inner.join("c.json"), "{\"removal\":").unwrap();
        fs::write(inner.join("d.new"), "{}").unwrap();
        assert_eq!(all(&inner), std::slice::from_ref(&note));
        assert_eq!(Note::of(&inner, &note.removal.id), Some(note));
        assert_eq!(Note::of(&inner, "another"), None);
    }

    #[test]
    fn an_id_that_is_no_file_name_has_a_note_all_the_same() {
        let folder = Path::new("/run/x");
        for id in ["../../etc/passwd", "a/b", &"x".repeat(500)] {
            let path = file(folder, id, "json");
            assert_eq!(path.parent(), Some(folder), "{id}");
            assert!(path.file_name().unwrap().len() < 64);
        }
        assert_ne!(file(folder, "a", "json"), file(folder, "b", "json"));
    }
    #[test]
    fn a_mode_that_lvm_keeps_over_a_start_has_a_note_that_is_kept_too() {
        let folder = |kind, task| {
            let removal = OtherRemoval {
                task,
                ..removal(kind)
            };
            super::folder(&removal).to_str().unwrap().to_owned()
        };
        let kept = |folder: String| folder.starts_with("/var/lib/");
        assert!(kept(folder(OtherKind::LvmCache, OtherTask::WriteBack)));
        assert!(kept(folder(OtherKind::Bcache, OtherTask::MakePlain)));
        assert!(!kept(folder(OtherKind::LvmCache, OtherTask::Remove)));
        assert!(!kept(folder(OtherKind::Bcache, OtherTask::WriteBack)));
    }
}
