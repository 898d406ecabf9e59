// SPDX-License-Identifier: GPL-3.0-or-later
//! The records that survive the service: the caches that exist, and the jobs that have begun and not ended.
//!
//! Each record is one small JSON file, readable by root only. A record is written to a second file, flushed, and
//! renamed over the first; then the folder is flushed. So after a power cut the file is the old or the new one.

mod files;
mod watches;

pub use files::cache_file;

use crate::model::action::Pair;
use crate::model::record::{CacheRecord, Intent};
use files::{mend, tidy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tandem_api::SpeedTest;

/// Where the records are unless systemd says otherwise.
pub const FOLDER: &str = "/var/lib/tandem";

/// The folder of the records of caches and jobs.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

const CACHES: &str = "caches";
const JOBS: &str = "jobs";
const HISTORIES: &str = "history";
const HISTORY: &str = "history";
const SPEED: &str = "speed";
const WATCHES: &str = "watches";
const CACHE: &str = "cache";

impl Store {
    /// Opens the folder, and creates it if necessary. Half-written files that a power cut left are removed.
    ///
    /// # Errors
    /// If the folder cannot be created or tidied. A read-only folder is no error: half-written files stay, and the
    /// records can be read.
    pub fn open(root: &Path) -> io::Result<Self> {
        let store = Self::open_untidied(root);
        for part in [CACHES, JOBS, HISTORIES, WATCHES] {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(root.join(part))?;
        }
        // Another program may be writing a record. If the lock cannot be taken, the records can be read all the same.
        match store.lock() {
            Ok(_lock) => {
                for part in [CACHES, JOBS, HISTORIES, WATCHES] {
                    tidy(&root.join(part), |path| fs::remove_file(path))?;
                }
                store.tidy_watches();
                if let Err(e) = mend(&root.join(CACHES)) {
                    tracing::warn!("a damaged record stays, and its copy counts: {e}");
                }
            }
            Err(e) => tracing::warn!("what is half written stays: {e}"),
        }
        Ok(store)
    }

    /// The folder as it is, without tidying: for a program that may run while another program writes a file.
    pub fn open_untidied(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// All caches. Files that cannot be read are reported in the log and left alone.
    pub fn caches(&self) -> Vec<CacheRecord> {
        self.load(CACHES)
    }

    /// The record of one cache; `None` if there is none.
    ///
    /// # Errors
    /// If the record is there and neither it nor its copy can be read, or if the folder may not be looked into.
    pub fn cache(&self, uuid: &str) -> io::Result<Option<CacheRecord>> {
        self.read(CACHES, uuid, CACHE)
    }

    /// Records a cache.
    ///
    /// # Errors
    /// If it is not durable.
    pub fn save_cache(&self, record: &CacheRecord) -> io::Result<()> {
        let _lock = self.lock()?;
        self.save(CACHES, &record.pair.uuid, CACHE, record)
    }

    /// Records a cache that was made just now. The record may exist already: then what the user chose meanwhile stays.
    ///
    /// # Errors
    /// As [`Self::save_cache`].
    pub fn save_created(&self, pair: &Pair) -> io::Result<()> {
        let _lock = self.lock()?;
        let new = CacheRecord::new(pair.clone());
        let record = match self.cache(&pair.uuid)? {
            Some(now) => now.keep_choices(new),
            None => new,
        };
        self.save(CACHES, &pair.uuid, CACHE, &record)
    }

    /// Changes the current record of a cache and returns the new record. `None`: the cache has no record any more,
    /// and none is created.
    ///
    /// # Errors
    /// If the change is not durable.
    pub fn change_cache(
        &self,
        uuid: &str,
        change: impl FnOnce(CacheRecord) -> CacheRecord,
    ) -> io::Result<Option<CacheRecord>> {
        let _lock = self.lock()?;
        let Some(before) = self.cache(uuid)? else {
            return Ok(None);
        };
        let now = change(before.clone());
        if now != before {
            self.save(CACHES, uuid, CACHE, &now)?;
        }
        Ok(Some(now))
    }

    /// Forgets a cache.
    ///
    /// # Errors
    /// If that is not durable.
    pub fn drop_cache(&self, uuid: &str) -> io::Result<()> {
        let _lock = self.lock()?;
        self.drop(CACHES, uuid, CACHE)?;
        // The past is not needed for anything: a failure to remove it does not keep a cache.
        for kind in [HISTORY, SPEED] {
            if let Err(e) = self.drop(HISTORIES, uuid, kind) {
                tracing::warn!(uuid, "the {kind} stays: {e}");
            }
        }
        Ok(())
    }

    /// What was saved of the past of a cache; `None` if nothing was.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn load_history<T: DeserializeOwned>(&self, uuid: &str) -> io::Result<Option<T>> {
        self.read(HISTORIES, uuid, HISTORY)
    }

    /// Saves the past of a cache, unless the cache has no record any more.
    ///
    /// # Errors
    /// If it is not durable.
    pub fn save_history(&self, uuid: &str, history: &impl Serialize) -> io::Result<()> {
        self.save_past(uuid, HISTORY, history)
    }

    /// The result of the last speed test of a cache. Without one, or if it cannot be read: none.
    pub fn load_speed_test(&self, uuid: &str) -> SpeedTest {
        let kept = self.read(HISTORIES, uuid, SPEED).unwrap_or_else(|e| {
            tracing::warn!(uuid, "the result of the speed test is lost: {e}");
            None
        });
        kept.unwrap_or_else(SpeedTest::none)
    }

    /// Saves the result of a speed test, unless the cache has no record any more.
    ///
    /// # Errors
    /// If it is not durable.
    pub fn save_speed_test(&self, uuid: &str, result: &SpeedTest) -> io::Result<()> {
        self.save_past(uuid, SPEED, result)
    }

    fn save_past(&self, uuid: &str, kind: &str, past: &impl Serialize) -> io::Result<()> {
        let file = self.file(HISTORIES, uuid, kind)?;
        self.save_with_record((CACHES, uuid, CACHE), &file, &serde_json::to_vec(past)?)
    }

    /// Jobs that did not end.
    pub fn intents(&self) -> Vec<Intent> {
        self.load(JOBS)
    }

    /// Records how far a job is.
    ///
    /// # Errors
    /// If it is not durable: the next action must not begin.
    pub fn save_intent(&self, intent: &Intent) -> io::Result<()> {
        self.save(JOBS, &intent.uuid, intent.kind.as_str(), intent)
    }

    /// Ends a job.
    ///
    /// # Errors
    /// If that is not durable.
    pub fn drop_intent(&self, intent: &Intent) -> io::Result<()> {
        self.drop(JOBS, &intent.uuid, intent.kind.as_str())
    }
}

#[cfg(test)]
mod tests;
