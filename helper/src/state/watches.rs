// SPDX-License-Identifier: GPL-3.0-or-later
//! The records of watched disks. Beside each record is the state of the advisor, which can be lost without harm.

use super::{Store, WATCHES, tidy};
use crate::facts::Ident;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::PathBuf;
use std::{fs, io};

const WATCH: &str = "watch";
/// Extension of the state of the advisor.
const STATE: &str = "state";

/// A disk that is watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRecord {
    /// Names the watch: 32 hex digits.
    pub id: String,
    /// The disk as it was when the watch began.
    pub disk: Ident,
    /// The beginning of the watch, in seconds of Unix time.
    pub since: u64,
}

impl Store {
    /// All watched disks. Files that cannot be read are reported in the log and left alone.
    pub fn watches(&self) -> Vec<WatchRecord> {
        self.load(WATCHES)
    }

    /// Records a watch.
    ///
    /// # Errors
    /// If it is not durable.
    pub fn save_watch(&self, record: &WatchRecord) -> io::Result<()> {
        let _lock = self.lock_watches(FlockOperation::LockExclusive)?;
        self.save(WATCHES, &record.id, WATCH, record)
    }

    /// The state of the advisor of a watch; `None` if none was saved.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn load_watch_state(&self, id: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.watch_state(id)?) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Saves the state of the advisor of a watch, unless the watch has no record any more.
    ///
    /// # Errors
    /// If it is not durable.
    pub fn save_watch_state(&self, id: &str, state: &[u8]) -> io::Result<()> {
        let _lock = self.lock_watches(FlockOperation::LockExclusive)?;
        if !self.file(WATCHES, id, WATCH)?.try_exists()? {
            return Ok(());
        }
        self.write_file(WATCHES, &self.watch_state(id)?, state)
    }

    /// Forgets a watch and what was seen.
    ///
    /// # Errors
    /// If that is not durable.
    pub fn drop_watch(&self, id: &str) -> io::Result<()> {
        let _lock = self.lock_watches(FlockOperation::LockExclusive)?;
        self.drop(WATCHES, id, WATCH)?;
        match fs::remove_file(self.watch_state(id)?) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => self.flush(WATCHES),
        }
    }

    /// Until the result is dropped, no other program changes a watch. The caches have another lock: a watch saves
    /// megabytes, and the record of a lost SSD must not wait for that.
    fn lock_watches(&self, how: FlockOperation) -> io::Result<File> {
        let folder = File::open(self.root.join(WATCHES))?;
        flock(&folder, how)?;
        Ok(folder)
    }

    /// Removes what is half written, unless another program is writing.
    pub(super) fn tidy_watches(&self) -> io::Result<()> {
        match self.lock_watches(FlockOperation::NonBlockingLockExclusive) {
            Ok(_lock) => tidy(&self.root.join(WATCHES), |path| fs::remove_file(path)),
            Err(_) => Ok(()),
        }
    }

    fn watch_state(&self, id: &str) -> io::Result<PathBuf> {
        // Checks the id, too.
        let record = self.file(WATCHES, id, WATCH)?;
        Ok(record.with_extension(STATE))
    }
}
