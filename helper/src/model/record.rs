// SPDX-License-Identifier: GPL-3.0-or-later
//! What is on record of caches, of jobs that have begun and not ended, and of watched disks.

use crate::model::action::{Action, Pair};
use crate::model::facts::Ident;
use crate::model::live::Status;
use serde::{Deserialize, Serialize};
use tandem_api::{CacheState, JobKind, Mode};

/// A cache that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRecord {
    /// The devices.
    pub pair: Pair,
    /// The boot in which the cache was detached while in use. Its mapping does not survive that boot.
    pub detached_in: Option<String>,
    /// Some data may be on the SSD only. This is recorded before the first such write can happen, and taken back when
    /// the module says that no data is on the SSD only. While it is true, the disk alone may not have the newest
    /// data.
    #[serde(default)]
    pub may_be_dirty: bool,
    /// The disk was used without the cache while `may_be_dirty` was true. What is on the SSD only belongs to an older
    /// state of the disk; writing it back would destroy the current state.
    #[serde(default, rename = "forked")]
    pub origin_diverged: bool,
    /// The user wants write-back. The cache is in write-through while a kernel that may start next lacks the module, and
    /// after a shutdown that wrote everything back.
    #[serde(default)]
    pub waits_for_kernel: bool,
    /// Minutes that a shutdown may take to write all dirty data to the disk; 0: it does not do that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shutdown_minutes: u32,
    /// Name that the user gave the cache; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The devices that were used without the cache while `may_be_dirty` was true. Unless `origin_diverged` is true,
    /// none of them agrees with the whole record of the disk, and each of them may be the disk all the same: in another
    /// enclosure, or a copy of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_alone: Vec<Ident>,
    /// How far the set-up of the cache is.
    #[serde(default, skip_serializing_if = "Setup::is_done")]
    pub setup: Setup,
    /// The running system is on the disk, so the initial file systems have a copy of this record.
    #[serde(default)]
    pub in_initramfs: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(minutes: &u32) -> bool {
    *minutes == 0
}

/// How far the set-up of a cache is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// The cache exists.
    #[default]
    Done,
    /// The next start of the machine puts the cache over the disk before it mounts the disk. The SSD has its format.
    Pending {
        /// The boot in which the user confirmed it.
        asked_in: String,
    },
}

impl Setup {
    fn is_done(&self) -> bool {
        *self == Self::Done
    }

    /// Whether the machine has not been started since the cache was prepared in `boot`.
    pub fn waits_in(&self, boot: &str) -> bool {
        matches!(self, Self::Pending { asked_in } if asked_in == boot)
    }
}

impl CacheRecord {
    /// A cache that was made just now.
    pub fn new(pair: Pair) -> Self {
        let may_be_dirty = pair.mode == Mode::Writeback;
        Self {
            pair,
            detached_in: None,
            may_be_dirty,
            origin_diverged: false,
            waits_for_kernel: false,
            shutdown_minutes: 0,
            name: String::new(),
            used_alone: Vec::new(),
            setup: Setup::Done,
            in_initramfs: false,
        }
    }

    /// A cache whose SSD was prepared in this boot. The disk is written without the cache until the next start.
    pub fn prepared(pair: Pair, boot: String, in_initramfs: bool) -> Self {
        Self {
            setup: Setup::Pending { asked_in: boot },
            in_initramfs,
            ..Self::new(Pair {
                copies_stale: true,
                ..pair
            })
        }
    }

    /// The record `new`, with what the user chose for this cache beside its devices and its mode.
    pub fn keep_choices(self, new: Self) -> Self {
        Self {
            name: self.name,
            shutdown_minutes: self.shutdown_minutes,
            ..new
        }
    }

    /// The record, updated by what the module says of the SSD. `may_be_dirty` becomes true before the mode is set,
    /// elsewhere. This method records that the module has found nothing dirty any more, and that the SSD is lost.
    pub fn after(mut self, status: &Status) -> Self {
        let writeback = status.mode == Mode::Writeback || self.pair.mode == Mode::Writeback;
        let dirty = status.sample.dirty_sectors > 0;
        let clean = !writeback && !dirty && status.state == CacheState::Active.as_str();
        self.may_be_dirty =
            !clean && (self.may_be_dirty || dirty || status.mode == Mode::Writeback);
        if status.state == CacheState::Bypass.as_str() {
            // Everything goes to the disk alone, so the copies on the SSD become old. This is recorded in case the
            // machine forgets it.
            self.pair.copies_stale = true;
            // No acknowledged write is on the SSD only, whatever the SSD says when it is back.
            if status.reason == "ssd-error" {
                self.pair.lost_generation = status.sample.event("generation");
            }
        }
        self
    }
}

/// A job that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// What the job is.
    pub kind: JobKind,
    /// Uuid of the cache.
    pub uuid: String,
    /// The whole plan.
    pub actions: Vec<Action>,
    /// Number of actions that are surely done. The action at this index may be half done.
    pub done: usize,
    /// The boot in which the job began. In another boot its mounts are not made again.
    pub boot_id: String,
    /// The user asked explicitly to give up the data that is on the SSD only.
    #[serde(default)]
    pub discard: bool,
    /// The user paused the job.
    #[serde(default)]
    pub paused: bool,
    /// User that started the job.
    #[serde(default)]
    pub owner: u32,
}

impl Intent {
    /// Whether this job gives up the cache on purpose, so that no program starts the cache again.
    pub fn abandons_cache(&self, uuid: &str) -> bool {
        self.uuid == uuid
            && self.kind == JobKind::Remove
            && self.draining().is_none()
            && !self.discards_later()
    }

    /// The data is to be given up later, and is not given up yet: so far the job can only have unmounted the file
    /// system.
    pub fn discards_later(&self) -> bool {
        self.discard && self.ssd_released_at().is_some_and(|at| self.done < at)
    }

    /// Index of the action that takes the SSD from the mapping. Data is given up by removing the mapping: the kernel
    /// refuses that as soon as the file system is mounted again. Only if the file system cannot be unmounted,
    /// `Detach` does it.
    pub fn ssd_released_at(&self) -> Option<usize> {
        let goes = |a: &Action| match a {
            Action::Detach(_) => true,
            Action::Unmap(_) => self.discard,
            _ => false,
        };
        self.actions
            .iter()
            .take_while(|a| !matches!(a, Action::FreeSsd(_)))
            .position(goes)
    }

    /// Whether this job creates or assembles this cache.
    pub fn creates(&self, uuid: &str) -> bool {
        self.uuid == uuid && self.kind == JobKind::Create
    }

    /// The pair that is drained, if the job is at that action.
    pub fn draining(&self) -> Option<&Pair> {
        match self.actions.get(self.done) {
            Some(Action::Drain(pair)) => Some(pair),
            _ => None,
        }
    }
}

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
