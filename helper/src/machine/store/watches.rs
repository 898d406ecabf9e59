// SPDX-License-Identifier: GPL-3.0-or-later
//! The records of watched disks. Beside each record is the state of the advisor, which can be lost without harm.

use super::files::{if_there, remove};
use super::{Store, WATCHES};
use crate::model::record::WatchRecord;
use std::path::PathBuf;
use std::{fs, io};

const WATCH: &str = "watch";
/// Ending of the name of the file with the state of the advisor.
const STATE: &str = "advisor.state";

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
        self.save(WATCHES, &record.id, WATCH, record)
    }

    /// The state of the advisor of a watch; `None` if none was saved.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn load_watch_state(&self, id: &str) -> io::Result<Option<Vec<u8>>> {
        let file = self.watch_state(id)?;
        if_there(crate::waiting(|| fs::read(file)))
    }

    /// Saves the state of the advisor of a watch, unless the watch has no record any more.
    ///
    /// # Errors
    /// If it is not durable.
    pub fn save_watch_state(&self, id: &str, state: &[u8]) -> io::Result<()> {
        self.save_with_record((WATCHES, id, WATCH), &self.watch_state(id)?, state)
    }

    /// Forgets a watch and what was seen.
    ///
    /// # Errors
    /// If that is not durable.
    pub fn drop_watch(&self, id: &str) -> io::Result<()> {
        let _lock = self.lock()?;
        self.drop(WATCHES, id, WATCH)?;
        let state = self.watch_state(id)?;
        crate::waiting(|| remove(&state))
    }

    /// Removes what was seen of disks that have no watch any more: [`Self::drop_watch`] was interrupted. The caller holds
    /// the lock.
    pub(super) fn tidy_watches(&self) {
        let Ok(entries) = fs::read_dir(self.root.join(WATCHES)) else {
            return;
        };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().and_then(|name| name.to_str());
            let id = name.and_then(|name| name.strip_suffix(STATE)?.strip_suffix('.'));
            let record = id.map(|id| self.file(WATCHES, id, WATCH).and_then(fs::exists));
            if let Some(Ok(false)) = record
                && let Err(e) = fs::remove_file(&path)
            {
                tracing::warn!("{}: {e}", path.display());
            }
        }
    }

    fn watch_state(&self, id: &str) -> io::Result<PathBuf> {
        // Checks the id, too.
        let record = self.file(WATCHES, id, WATCH)?;
        Ok(record.with_file_name(format!("{id}.{STATE}")))
    }
}
