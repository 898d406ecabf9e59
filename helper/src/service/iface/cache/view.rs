// SPDX-License-Identifier: GPL-3.0-or-later
//! The properties of a cache, as clients see them.

use tandem_api::{
    CacheState, DeviceText, DirtyLimit, DiskCandidate, Mode, RefusedMode, Sharing, SsdHealth,
};
use zbus::OwnedObjectPath;

/// The properties of a cache that can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The disk, with `/` as object while it is missing.
    pub origin: DeviceText,
    /// The SSD, with `/` as object while it is missing.
    pub ssd: DeviceText,
    /// The mode.
    pub mode: Mode,
    /// The modes that are refused, with the reasons.
    pub refused_modes: Vec<RefusedMode>,
    /// Whether data may be on the SSD only.
    pub may_be_unwritten: bool,
    /// Whether write-back waits until each kernel that may start next has the module.
    pub waits_for_kernel: bool,
    /// Whether GRUB could not start the machine after its next update, because of this cache.
    pub grub_would_fail: bool,
    /// Snapshots or other disks that change the disk beside the cache.
    pub sharing: Sharing,
    /// Minutes that a shutdown may take to write all dirty data to the disk.
    pub shutdown_minutes: u32,
    /// How much data may be on the SSD only.
    pub dirty_limit: DirtyLimit,
    /// Whether the cache stores nothing new.
    pub paused: bool,
    /// Name that the user gave the cache; empty: none.
    pub chosen_name: String,
    /// The report of the SSD about its health.
    pub health: SsdHealth,
    /// The devices that may be the disk.
    pub candidates: Vec<DiskCandidate>,
    /// The state.
    pub state: CacheState,
    /// The reason of the state.
    pub reason: String,
    /// The mapped device, or `/`.
    pub mapped: OwnedObjectPath,
    /// Mount points of the mapped device.
    pub mount_points: Vec<String>,
    /// Size of the cache in bytes.
    pub cache_bytes: u64,
    /// The job that works on the cache, or `/`.
    pub job: OwnedObjectPath,
}
