// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that another system has made. The service shows them, and removes those of most kinds.

use crate::DeviceText;
use crate::OwnedObjectPath;
use crate::words::words;
use serde::{Deserialize, Serialize};

/// The folder with copies of partition tables, each from before the service has changed one.
pub const TABLES_FOLDER: &str = "/var/lib/tandem/tables";

words! {
    /// The system that has made a cache.
    OtherKind {
        /// bcache of the kernel.
        Bcache = "bcache",
        /// dm-cache, set up by LVM.
        LvmCache = "lvm-cache",
        /// dm-writecache, set up by LVM.
        LvmWritecache = "lvm-writecache",
        /// dm-cache, set up by another program.
        DmCache = "dm-cache",
        /// dm-writecache, set up by another program.
        DmWritecache = "dm-writecache",
        /// dm-writeboost.
        DmWriteboost = "dm-writeboost",
        /// RapidDisk.
        RapidDisk = "rapiddisk",
    }
}

words! {
    /// The state of such a cache.
    OtherState {
        /// Works.
        Working = "working",
        /// Writes everything to the disk, to be removed or changed then.
        Cleaning = "cleaning",
        /// The cache was stopped in use. It works until it is used no more; nothing is written back for that.
        Stopping = "stopping",
        /// Works without its SSD.
        WithoutSsd = "without-ssd",
        /// The cache has failed, or only reads are possible.
        Failed = "failed",
    }
}

words! {
    /// How such a cache treats writes.
    OtherMode {
        /// To disk and SSD.
        Writethrough = "writethrough",
        /// To the SSD, and to the disk later.
        Writeback = "writeback",
        /// To the disk only.
        Writearound = "writearound",
        /// The cache is not used.
        Off = "off",
        /// The system does not tell.
        Unknown = "unknown",
    }
}

/// A cache of another system at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct OtherCache {
    /// The system.
    pub kind: OtherKind,
    /// Names the cache in [`crate::ManagerProxy::plan_remove_other`], and in the job of the removal
    /// ([`crate::JobProxy::cache_uuid`]): the UUID of its mapping, or its name.
    pub id: String,
    /// The name by which the tools of that system know the cache: `bcache0`, `vg/lv`, the name of a mapping.
    pub name: String,
    /// The device that programs use; none if UDisks2 does not show it.
    pub mapped: OwnedObjectPath,
    /// Where that device is mounted.
    pub mount_points: Vec<String>,
    /// The drives below the cached disk.
    pub disks: Vec<DeviceText>,
    /// The drives below the cache; none while the SSD is missing, and for a cache in memory.
    pub ssds: Vec<DeviceText>,
    /// The state of the cache.
    pub state: OtherState,
    /// How it treats writes.
    pub mode: OtherMode,
    /// Bytes that the cache can hold; 0: not known.
    pub cache_bytes: u64,
    /// Bytes of that in use.
    pub used_bytes: u64,
    /// Bytes that the disk does not have, if [`Self::unwritten_known`]. bcache rounds them to three digits.
    pub unwritten_bytes: u64,
    /// Whether the system tells how much the disk does not have.
    pub unwritten_known: bool,
    /// Reads that the SSD has served, and those that the disk has. They are approximate, in units of the system: bcache loses
    /// counts, and dm-cache goes back to an earlier state when its table is loaded.
    pub read_hits: u64,
    /// See [`Self::read_hits`].
    pub read_misses: u64,
}

impl OtherCache {
    /// A cache of this name that works in write-back, and has no devices and no data.
    #[must_use]
    pub fn empty(kind: OtherKind, name: &str) -> Self {
        Self {
            kind,
            id: name.to_owned(),
            name: name.to_owned(),
            mapped: DeviceText::none().object,
            mount_points: Vec::new(),
            disks: Vec::new(),
            ssds: Vec::new(),
            state: OtherState::Working,
            mode: OtherMode::Writeback,
            cache_bytes: 0,
            used_bytes: 0,
            unwritten_bytes: 0,
            unwritten_known: true,
            read_hits: 0,
            read_misses: 0,
        }
    }
}

impl OtherKind {
    /// Whether the service can remove caches of this kind at all.
    #[must_use]
    pub fn can_be_removed(self) -> bool {
        match self {
            Self::Bcache
            | Self::LvmCache
            | Self::LvmWritecache
            | Self::DmCache
            | Self::DmWritecache => true,
            Self::DmWriteboost | Self::RapidDisk => false,
        }
    }

    /// Whether the service can have caches of this kind write everything back, and go on as before. LVM has no command that writes a
    /// write cache back and keeps it.
    #[must_use]
    pub fn can_write_back(self) -> bool {
        match self {
            Self::Bcache | Self::LvmCache | Self::DmCache | Self::DmWritecache => true,
            Self::LvmWritecache | Self::DmWriteboost | Self::RapidDisk => false,
        }
    }
}

impl OtherCache {
    /// Whether this is a bcache device from which the SSD was taken in order: the disk has everything. What is left to remove is
    /// bcache itself, so that the partition becomes a plain one.
    #[must_use]
    pub fn is_left_alone(&self) -> bool {
        self.kind == OtherKind::Bcache
            && self.state == OtherState::WithoutSsd
            && self.ssds.is_empty()
            && !self.may_be_unwritten()
    }

    /// Whether data may be on the SSD only.
    #[must_use]
    pub fn may_be_unwritten(&self) -> bool {
        match self.unwritten_known {
            true => self.unwritten_bytes > 0,
            // bcache keeps data of an earlier mode, and a failed cache tells nothing.
            false if self.kind == OtherKind::Bcache || self.state == OtherState::Failed => true,
            false => !matches!(self.mode, OtherMode::Writethrough | OtherMode::Writearound),
        }
    }
}
