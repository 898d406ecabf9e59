// SPDX-License-Identifier: GPL-3.0-or-later
//! What has to be known of a system that makes caches. Each system is a file beside this one.

use super::notes::Note;
use crate::host::device_mapper::DeviceMapper;
use crate::model::removal::{OtherProgress, OtherRemoval};
use async_trait::async_trait;
use std::path::Path;
use tandem_api::{Failure, OtherKind, OtherMode, OtherState};

/// A system that makes caches.
pub struct System {
    /// How its caches are found.
    pub find: Find,
    /// The kinds of its caches whose figures may be waited for in vain, because the system holds a lock.
    pub may_hang: &'static [OtherKind],
    /// What removes its caches of a kind; nothing for a kind whose caches are only shown.
    pub removers: &'static [(OtherKind, &'static dyn Remover)],
}

/// What removes the caches of a kind. Each call may come from another process than the one before: what has to be known later
/// is in the note.
#[async_trait]
pub trait Remover: Sync {
    /// Looks whether the machine has the cache, and says how the cache is set. `earlier`: the note of a removal that was begun
    /// and not forgotten.
    async fn look(
        &self,
        machine: &DeviceMapper,
        removal: &OtherRemoval,
        earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure>;

    /// Begins, after the note was written.
    async fn begin(&self, _machine: &DeviceMapper, _note: &Note) -> Result<(), Failure> {
        Ok(())
    }

    /// Says how far the removal is, and does what is to be done now.
    async fn go_on(&self, machine: &DeviceMapper, note: &Note) -> Result<OtherProgress, Failure>;

    /// Has the removal stop at once, where that needs more than a note. [`Self::go_on`] puts back how the cache was set.
    async fn stop(&self, _machine: &DeviceMapper, _note: &Note) -> Result<(), Failure> {
        Ok(())
    }

    /// Forgets the removal.
    async fn forget(&self, _machine: &DeviceMapper, _removal: &OtherRemoval) {}
}

/// How the caches of a system are found.
pub enum Find {
    /// In the files of the kernel below this folder, which is `/sys`. This may block.
    Files(fn(&Path) -> Vec<Found>),
    /// Among the mappings of device-mapper.
    Mappings(Target),
}

/// A target of device-mapper that is a cache. Its functions are pure: a line that is not of the known form says nothing.
pub struct Target {
    /// The name of the target.
    pub name: &'static str,
    /// The kind of a cache with this target.
    pub kind: fn(SetUp) -> OtherKind,
    /// The devices, from the words of a table line. Nothing: the line is prose.
    pub devices: fn(&[&str]) -> Option<Devices>,
    /// What a table line and a status line tell.
    pub told: fn(table: &str, status: &str) -> Option<Told>,
}

/// The numbers (`major:minor`) of the disk and of the devices of the cache.
pub type Devices = (String, Vec<String>);

/// How a mapping was set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetUp {
    /// By LVM.
    Lvm,
    /// By another program, with a cache in memory.
    InMemory,
    /// By another program.
    Other,
}

/// A cache whose device is no mapping, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The system.
    pub kind: OtherKind,
    /// Kernel name of the device that programs use.
    pub name: String,
    /// Kernel name of the disk below.
    pub disk: String,
    /// Kernel names of the SSDs; none if they are missing.
    pub ssds: Vec<String>,
    /// Whether these SSDs serve this cache alone, and all of them are known.
    pub ssds_alone: bool,
    /// What the system tells.
    pub told: Told,
}

/// What a system tells of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The state of the cache.
    pub state: OtherState,
    /// How it treats writes.
    pub mode: OtherMode,
    /// Bytes that it can hold.
    pub cache_bytes: u64,
    /// Bytes of that in use.
    pub used_bytes: u64,
    /// Bytes that the disk does not have.
    pub unwritten_bytes: Option<u64>,
    /// Reads served by the SSD and by the disk.
    pub reads: (u64, u64),
    /// Further counters that only grow, and begin anew when those of the reads do.
    pub beside: Vec<u64>,
}

impl Told {
    /// A cache of which only this is known.
    pub fn of(state: OtherState, mode: OtherMode) -> Self {
        Self {
            state,
            mode,
            cache_bytes: 0,
            used_bytes: 0,
            unwritten_bytes: None,
            reads: (0, 0),
            beside: Vec::new(),
        }
    }
}

/// The words at these places of a table line: the disk, and the devices of the cache.
pub fn devices_at(words: &[&str], disk: usize, ssds: &[usize]) -> Option<Devices> {
    let number = |at: &usize| Some((*words.get(*at)?).to_owned());
    Some((
        number(&disk)?,
        ssds.iter().map(number).collect::<Option<_>>()?,
    ))
}
