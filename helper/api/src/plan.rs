// SPDX-License-Identifier: GPL-3.0-or-later
//! What will be done, step by step, before anything is done.

use crate::words::words;
use crate::{DeviceText, FileUser, Mode, RefusedMode};
use serde::{Deserialize, Serialize};
use zbus::{OwnedObjectPath, Type};

/// What a person chose: the argument of `Manager.Plan`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Type)]
pub struct PlanSpec {
    /// UDisks2 block object of the disk or partition that holds the data.
    pub origin: OwnedObjectPath,
    /// UDisks2 block object of the SSD, of a partition on it, or of a logical volume of LVM.
    pub ssd: OwnedObjectPath,
    /// How writes are treated.
    pub mode: Mode,
    /// The person has said that whatever is on the SSD may be erased.
    pub erase_ssd: bool,
    /// The disk is in use and stays in use: the SSD is prepared now, and the cache is put over the disk when the machine
    /// starts next. The only way for the file system of the running system.
    pub at_next_start: bool,
    /// 0: the cache takes all of the device [`Self::ssd`].
    ///
    /// Otherwise [`Self::ssd`] is a whole SSD, and the service makes a partition of so many bytes, rounded down to
    /// whole MiB, in the free space of the SSD: see [`crate::ManagerProxy::ssd_layout`]. Other partitions are not
    /// touched and may be in use. An SSD without a partition table gets one; content that it has is erased first, which
    /// needs [`Self::erase_ssd`]. The partition is deleted when the cache is removed.
    pub partition_bytes: u64,
}

words! {
    /// What a step does. Steps are done in the order given, and undone in reverse if one fails.
    StepKind {
        /// Loads the kernel module.
        LoadModule = "load-module",
        /// Unmounts `device` from `target`.
        Unmount = "unmount",
        /// Erases the old content of the SSD, `device`; cannot be undone.
        EraseSsd = "erase-ssd",
        /// Makes a partition of `bytes` for the cache in the free space of the SSD, `device`. An SSD without a partition
        /// table gets one first.
        CreatePartition = "create-partition",
        /// Makes the cache: writes its format to the SSD, maps `device` (the disk) through it.
        /// `bytes` is the size of the cache.
        Map = "map",
        /// Writes the cache's format to the SSD for `device` (the disk), which is used as before until the machine
        /// starts next. `bytes` is the size of the cache.
        Prepare = "prepare",
        /// Makes the initial file system of each installed kernel anew, so that it finds `device` (the disk of the
        /// running system) through the cache, or not any more.
        UpdateInitramfs = "update-initramfs",
        /// Mounts `device` (through the cache, or plain after a removal) at `target`, as before.
        Mount = "mount",
        /// From now on, writes to `device` (the disk) may wait on the SSD. The last step of a creation:
        /// until then nothing is on the SSD only, so that all can be undone.
        EnableWriteback = "enable-writeback",
        /// Writes to `device` (the disk) what is only on the SSD, and lets nothing new stay there.
        /// `bytes` is how much that was when the plan was made. May take hours; can be paused.
        Drain = "drain",
        /// Stops using the SSD, without unmounting `device` (the disk). `bytes`: see [`PlanReply::lost_bytes`].
        Detach = "detach",
        /// Frees the SSD, `device`: wipes the cache's format from it and discards the copies. `bytes` as of `Detach`.
        FreeSsd = "free-ssd",
        /// Deletes the partition that the service made for this cache, `device`, of `bytes`.
        DeletePartition = "delete-partition",
        /// Removes the mapping over `device`, the disk. `bytes` as of `Detach`.
        Unmap = "unmap",
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct Step {
    /// What is done.
    pub kind: StepKind,
    /// What it is done to; none for [`StepKind::LoadModule`].
    pub device: DeviceText,
    /// Mount point, or empty.
    pub target: String,
    /// Bytes, see the kind; 0 where it has no meaning.
    pub bytes: u64,
}

words! {
    /// What a person should know before agreeing. The device is in [`Warning::device`].
    WarningKind {
        /// All content of the SSD will be lost; [`Warning::device`] has what is known of it.
        ErasesSsd = "erases-ssd",
        /// The SSD has content without a known signature, perhaps encrypted, and it will be lost.
        ErasesUnknown = "erases-unknown",
        /// The file system is not available for the moments between unmount and mount.
        Unavailable = "unavailable",
        /// Programs use the file system and must close it first; see [`Warning::users`].
        /// Execution fails with [`crate::Kind::FilesystemBusy`] as long as they do.
        InUse = "in-use",
        /// The device can be unplugged while it works (USB, card); the cache then stops.
        Removable = "removable",
        /// The chosen SSD says that it has spinning platters.
        SsdRotates = "ssd-rotates",
        /// The disk says that it is an SSD itself; a cache gains little.
        OriginIsSsd = "origin-is-ssd",
        /// Disk and SSD are parts of the same drive; a cache gains little.
        SameDrive = "same-drive",
        /// The disk has content without a known signature; it is kept as it is.
        OriginUnknown = "origin-unknown",
        /// Other systems on this machine and boot loaders do not know about the cache; while it
        /// exists they must not write to the disk.
        OtherSystems = "other-systems",
        /// The file system stays mounted through a plain mapping until the next start, because it
        /// is in use; see [`Warning::users`].
        StaysMapped = "stays-mapped",
        /// Write-back: if the SSD dies while data is only there, the file system on the disk may be
        /// damaged beyond repair.
        WritebackRisk = "writeback-risk",
        /// Write-back: the disk must not be opened in another system or computer while data is only on
        /// the SSD.
        WritebackElsewhere = "writeback-elsewhere",
        /// The disk is an unlocked encrypted volume: copies of its clear text will lie on the SSD.
        ClearText = "clear-text",
        /// What is only on the SSD will be lost, and the file system may be damaged beyond repair.
        LosesUnwritten = "loses-unwritten",
        /// That happens under a mounted file system, which is in use (see [`Warning::users`]) and may damage
        /// itself further. It stays mounted through a plain mapping until the next start.
        LosesInUse = "loses-in-use",
        /// The file system is unmounted before that, and not mounted again: it has to be checked first.
        StaysUnmounted = "stays-unmounted",
    }
}

/// Something to know before agreeing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct Warning {
    /// What.
    pub kind: WarningKind,
    /// Of which device.
    pub device: DeviceText,
    /// Programs concerned; empty where the kind does not speak of any.
    pub users: Vec<FileUser>,
}

/// The answer to a plan: exactly what an execution with this id and digest will do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct PlanReply {
    /// Names the plan in an execution. Valid once, for [`Self::valid_seconds`], for whoever asked for it.
    pub plan_id: String,
    /// SHA-256 over all that is in this answer, in hex; the execution repeats it.
    pub digest: String,
    /// What will be done, in order.
    pub steps: Vec<Step>,
    /// What to know before.
    pub warnings: Vec<Warning>,
    /// The disk.
    pub origin: DeviceText,
    /// The SSD, or the partition or volume that becomes the cache. Before its partition is made: the SSD, with the size
    /// of the partition.
    pub ssd: DeviceText,
    /// Mode of the cache.
    pub mode: Mode,
    /// Modes that are not offered for these two, and why.
    pub refused_modes: Vec<RefusedMode>,
    /// The cache is not used before the machine starts next: as [`PlanSpec::at_next_start`].
    pub at_next_start: bool,
    /// Where the disk is mounted now, and will be again unless a step or a warning says otherwise.
    pub mount_points: Vec<String>,
    /// Bytes of data that the cache can hold.
    pub cache_bytes: u64,
    /// Bytes of kernel memory that it needs while assembled.
    pub memory_bytes: u64,
    /// Seconds until the plan is forgotten.
    pub valid_seconds: u32,
}

impl PlanReply {
    /// How much was only on the SSD when the plan was made and is lost with it, as given up: what the first step says
    /// with which the SSD goes. 0 if nothing, or if that is not known.
    pub fn lost_bytes(&self) -> u64 {
        let goes = [StepKind::Detach, StepKind::Unmap, StepKind::FreeSsd];
        let steps = self.steps.iter().filter(|step| goes.contains(&step.kind));
        steps.map(|step| step.bytes).sum()
    }
}
