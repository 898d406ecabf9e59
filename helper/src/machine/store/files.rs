// SPDX-License-Identifier: GPL-3.0-or-later
//! The files of the records: how they are found, read, written, locked and removed.

use super::{CACHE, CACHES, FOLDER, Store};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Extension of a file that is being written.
const NEW_EXTENSION: &str = "new";
/// Extension of the second copy of a cache's record. The copy counts only where the record is there and cannot be read: a
/// disk that lacks data would be used without its SSD if nothing told that.
const COPY_EXTENSION: &str = "copy";

/// The file with the record of a cache of this machine. It is there for as long as the cache is on record.
pub fn cache_file(uuid: &str) -> String {
    format!("{FOLDER}/{CACHES}/{uuid}.{CACHE}.json")
}

impl Store {
    /// The lock of all records: until it is dropped, no other program changes the record of a cache. The start of the
    /// machine, udev's events and the service all change records.
    pub(super) fn lock(&self) -> io::Result<File> {
        crate::waiting(|| {
            let folder = File::open(self.root.join(CACHES))?;
            flock(&folder, FlockOperation::LockExclusive)?;
            Ok(folder)
        })
    }

    /// A cache that is still being drained after a restart of the machine is assembled at the same time. So a cache
    /// may have one job of each kind.
    pub(super) fn file(&self, part: &str, uuid: &str, kind: &str) -> io::Result<PathBuf> {
        let plain = !uuid.is_empty() && uuid.bytes().all(|b| b.is_ascii_hexdigit());
        if !plain {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a uuid"));
        }
        Ok(self.root.join(part).join(format!("{uuid}.{kind}.json")))
    }

    /// All records of a part. Files that cannot be read are reported in the log.
    pub(super) fn load<T: DeserializeOwned>(&self, part: &str) -> Vec<T> {
        crate::waiting(|| self.load_files(part))
    }

    fn load_files<T: DeserializeOwned>(&self, part: &str) -> Vec<T> {
        let Ok(entries) = fs::read_dir(self.root.join(part)) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        paths.sort();
        paths
            .iter()
            .filter_map(|path| {
                read_either(path)
                    .map_err(|e| tracing::error!("{}: {e}", path.display()))
                    .ok()
            })
            .collect()
    }

    /// One record. A record that exists and cannot be read is not a removed one.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        part: &str,
        uuid: &str,
        kind: &str,
    ) -> io::Result<Option<T>> {
        let file = self.file(part, uuid, kind)?;
        if_there(crate::waiting(|| read_either(&file)))
    }

    pub(super) fn save<T: Serialize>(
        &self,
        part: &str,
        uuid: &str,
        kind: &str,
        value: &T,
    ) -> io::Result<()> {
        let path = self.file(part, uuid, kind)?;
        let text = serde_json::to_vec_pretty(value)?;
        crate::waiting(|| {
            if part == CACHES {
                fs::rename(
                    write_beside(&path, &text)?,
                    path.with_extension(COPY_EXTENSION),
                )?;
            }
            fs::rename(write_beside(&path, &text)?, &path)?;
            flush_folder_of(&path)
        })
    }

    /// Writes a file that is kept only while a record (part, UUID and kind) is there, and that can be lost without harm.
    /// Such a file is large. The lock, for which the record of a lost SSD may have to wait, is taken when the content is
    /// on the disk.
    pub(super) fn save_with_record(
        &self,
        (part, uuid, kind): (&str, &str, &str),
        path: &Path,
        bytes: &[u8],
    ) -> io::Result<()> {
        // Two threads of the service may save the same file.
        static WRITING: Mutex<()> = Mutex::new(());
        let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let record = self.file(part, uuid, kind)?;
        if !record.try_exists()? {
            return Ok(());
        }
        let beside = write_beside(path, bytes)?;
        let _lock = self.lock()?;
        if !record.try_exists()? {
            return fs::remove_file(beside);
        }
        fs::rename(&beside, path)?;
        flush_folder_of(path)
    }

    pub(super) fn drop(&self, part: &str, uuid: &str, kind: &str) -> io::Result<()> {
        let file = self.file(part, uuid, kind)?;
        crate::waiting(|| {
            remove(&file.with_extension(COPY_EXTENSION))?;
            remove(&file)
        })
    }
}

/// Reads a file, or its copy where the file cannot be read.
fn read_either<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let read = |path: &Path| -> io::Result<T> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    read(path).or_else(|e| {
        if e.kind() == io::ErrorKind::NotFound {
            return Err(e);
        }
        let copy = read(&path.with_extension(COPY_EXTENSION)).map_err(|_| e)?;
        tracing::error!("{} cannot be read: its copy counts", path.display());
        Ok(copy)
    })
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match if_there(fs::remove_file(path))? {
        Some(()) => flush_folder_of(path),
        None => Ok(()),
    }
}

fn flush_folder_of(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// `None` if there is no such file.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Writes and flushes the second file, which is to be renamed over the first.
fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let beside = path.with_extension(NEW_EXTENSION);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(beside)
}

/// Makes records whole again that only their copies have, and removes copies without a record, as a cut leaves of a first
/// record.
pub(super) fn mend(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let copy = entry?.path();
        if copy.extension().is_none_or(|e| e != COPY_EXTENSION) {
            continue;
        }
        let record = copy.with_extension("json");
        let is_sound = |text: &[u8]| serde_json::from_slice::<IgnoredAny>(text).is_ok();
        match fs::read(&record) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => remove(&copy)?,
            Ok(text) if is_sound(&text) => {}
            _ => {
                let text = fs::read(&copy)?;
                if is_sound(&text) {
                    fs::rename(write_beside(&record, &text)?, &record)?;
                    flush_folder_of(&record)?;
                }
            }
        }
    }
    Ok(())
}

/// Removes half-written files. A read-only root must not keep disks from being held: there these files stay until the
/// next start.
pub(super) fn tidy(folder: &Path, remove: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != NEW_EXTENSION) {
            continue;
        }
        match remove(&path) {
            Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
            other => other?,
        }
    }
    Ok(())
}
