// SPDX-License-Identifier: GPL-3.0-or-later
//! A plan: the steps that the service would do, before any of them is done.

use crate::words::words;
use crate::{DeviceText, FileUser, Mode, OwnedObjectPath, RefusedMode, Target};
use serde::{Deserialize, Serialize};

/// The choices of a person: the argument of `Manager.Plan`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct PlanSpec {
    /// UDisks2 block object of the disk or partition that holds the data.
    pub origin: OwnedObjectPath,
    /// UDisks2 block object of the SSD, of a partition on it, or of a logical volume of LVM.
    pub ssd: OwnedObjectPath,
    /// How writes are treated.
    pub mode: Mode,
    /// The person has agreed that all content of the SSD is erased.
    pub erase_ssd: bool,
    /// The disk stays in use: the service prepares the SSD now, and the next start of the machine puts the cache over
    /// the disk. For the root file system of the running system there is no other way.
    pub at_next_start: bool,
    /// 0: the cache takes all of the device [`Self::ssd`].
    ///
    /// If not, [`Self::ssd`] is a whole SSD, and the service makes a partition of so many bytes, rounded down to
    /// whole MiB, in the free space of the SSD: see [`crate::ManagerProxy::ssd_layout`]. Other partitions are not
    /// touched and may be in use. An SSD without a partition table gets a table; the old content of such an SSD is
    /// erased first, which needs [`Self::erase_ssd`]. The removal of the cache deletes the partition.
    pub partition_bytes: u64,
    /// The target that serves the cache. [`Target::DmCache`] takes [`Mode::Writethrough`] only.
    pub target: Target,
    /// 0: the cache is on the device [`Self::ssd`].
    ///
    /// If not, the cache takes so many bytes of the computer's memory, rounded down to whole MiB, and [`Self::ssd`] is `/`:
    /// see [`crate::ManagerProxy::memory_for_caches`]. Such a cache begins empty at each start of the machine, is never in
    /// write-back, and gives its memory back while programs need it. Not with [`Self::at_next_start`],
    /// [`Self::partition_bytes`] or [`Target::DmCache`].
    pub memory_bytes: u64,
}

words! {
    /// The effect of a step. The service does the steps in their order. If a step fails, the service undoes the steps
    /// in reverse order.
    StepKind {
        /// Loads the kernel module.
        LoadModule = "load-module",
        /// Unmounts `device` from `target`.
        Unmount = "unmount",
        /// Erases the old content of the SSD, `device`. This step cannot be undone.
        EraseSsd = "erase-ssd",
        /// Makes a partition of `bytes` for the cache in the free space of the SSD, `device`. An SSD without a
        /// partition table gets a table first.
        CreatePartition = "create-partition",
        /// Writes the format of the cache to the SSD, and maps `device` (the disk) through the SSD. `bytes`: size of
        /// the cache.
        Map = "map",
        /// Writes the format of the cache to the SSD. `device`: the disk, which is used as before until the next start
        /// of the machine. `bytes`: size of the cache.
        Prepare = "prepare",
        /// Makes the initial file system of each installed kernel anew, so that the next start puts the cache over
        /// `device` (the disk of the running system), or does not do so any more.
        UpdateInitramfs = "update-initramfs",
        /// Mounts `device` at `target`, as before: through the cache, or after a removal without the cache.
        Mount = "mount",
        /// From this step on, data for `device` (the disk) may be on the SSD only. This is the last step of a creation:
        /// before this step no data is on the SSD only, so all steps can be undone.
        EnableWriteback = "enable-writeback",
        /// Writes all data that is on the SSD only to `device` (the disk). New writes go to the disk. `bytes`: amount
        /// of that data when the plan was made. The step may take hours, and can be paused.
        Drain = "drain",
        /// Ends the use of the SSD while `device` (the disk) stays mounted. `bytes`: see [`PlanReply::lost_bytes`].
        Detach = "detach",
        /// Frees the SSD, `device`: wipes the format of the cache and discards the copies. `bytes`: as for `Detach`.
        FreeSsd = "free-ssd",
        /// Deletes the partition that the service made for this cache, `device`, of `bytes`.
        DeletePartition = "delete-partition",
        /// Makes the partition that the service made for this cache, `device`, as large as `bytes`, where it is.
        ResizePartition = "resize-partition",
        /// Lets the cache over `device`, the disk, use more or less of its SSD, and keep the copies that stay in
        /// their place there. `bytes`: size of the cache.
        ResizeCache = "resize-cache",
        /// Removes the mapping over `device`, the disk. `bytes`: as for `Detach`.
        Unmap = "unmap",
        /// Stops the device of another system over `device`, a partition. No cache is left there.
        StopOther = "stop-other",
        /// Has the partition `device` begin `bytes` later, where its file system begins. Its end stays, and no data moves.
        MovePartition = "move-partition",
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Step {
    /// The effect.
    pub kind: StepKind,
    /// The device of the step; none for [`StepKind::LoadModule`].
    pub device: DeviceText,
    /// Mount point, or empty.
    pub target: String,
    /// A number of bytes: see the kind. 0 for other kinds.
    pub bytes: u64,
}

words! {
    /// What a person should know before agreeing. The device is in [`Warning::device`].
    WarningKind {
        /// All content of the SSD will be lost. [`Warning::device`] describes the content as far as it is known.
        ErasesSsd = "erases-ssd",
        /// The SSD has content without a known signature, perhaps encrypted. All content will be lost.
        ErasesUnknown = "erases-unknown",
        /// A cache of another system on the SSD will be erased, and with it data that its hard disk may lack; `device.content`
        /// is the system.
        ErasesOtherCache = "erases-other-cache",
        /// The file system is not available from its unmount until its mount, for some moments.
        Unavailable = "unavailable",
        /// Programs use the file system ([`Warning::users`]). While they do, an execution fails with
        /// [`crate::Kind::FilesystemBusy`].
        InUse = "in-use",
        /// The device can be unplugged while it works (USB, card). Without the device the cache stops.
        Removable = "removable",
        /// The chosen SSD reports that it has spinning platters.
        SsdRotates = "ssd-rotates",
        /// The disk reports that it is an SSD itself, so a cache gains little.
        OriginIsSsd = "origin-is-ssd",
        /// Disk and SSD are parts of the same drive, so a cache gains little.
        SameDrive = "same-drive",
        /// The disk has content without a known signature. The content stays as it is.
        OriginUnknown = "origin-unknown",
        /// The running system is on the disk: the machine does not hibernate while it has a cache.
        NoHibernation = "no-hibernation",
        /// Other systems on this machine, and boot loaders, do not know the cache. While the cache exists, they must
        /// not write to the disk.
        OtherSystems = "other-systems",
        /// The disk is on the network. No other computer may write to it while it is used here, and the cache begins empty
        /// each time.
        Network = "network",
        /// The file system is in use ([`Warning::users`]), so it stays mounted through a plain mapping until the next
        /// start.
        StaysMapped = "stays-mapped",
        /// Write-back: if the SSD dies while data is on the SSD only, the file system on the disk may be damaged beyond
        /// repair.
        WritebackRisk = "writeback-risk",
        /// Write-back: while data is on the SSD only, no other system or computer may open the disk.
        WritebackElsewhere = "writeback-elsewhere",
        /// The disk is an unlocked encrypted volume: copies of its clear text will lie on the SSD.
        ClearText = "clear-text",
        /// The data that is on the SSD only will be lost, and the file system may be damaged beyond repair.
        LosesUnwritten = "loses-unwritten",
        /// As `LosesUnwritten`, but the file system is mounted and in use ([`Warning::users`]), and may damage itself
        /// further. The file system stays mounted through a plain mapping until the next start.
        LosesInUse = "loses-in-use",
        /// The cache is in the computer's memory: it begins empty at each start, and the kernel keeps what was read lately in
        /// free memory anyway.
        InMemory = "in-memory",
        /// The cache starts empty: `device`, the SSD, has no copies yet.
        StartsEmpty = "starts-empty",
        /// Before data is given up, the file system is unmounted. It is not mounted again, because it has to be checked
        /// first.
        StaysUnmounted = "stays-unmounted",
    }
}

/// A fact that a person should know before agreeing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Warning {
    /// The kind of warning.
    pub kind: WarningKind,
    /// The device.
    pub device: DeviceText,
    /// The programs; empty for kinds that concern no programs.
    pub users: Vec<FileUser>,
}

/// The answer to a request for a plan: exactly what an execution with this id and digest does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct PlanReply {
    /// The id of the plan. An execution names it. The plan is valid once, for [`Self::valid_seconds`], for the user
    /// that asked for it.
    pub plan_id: String,
    /// SHA-256 over this whole answer, in hex. The execution repeats the digest.
    pub digest: String,
    /// The steps in their order.
    pub steps: Vec<Step>,
    /// What a person should know before agreeing.
    pub warnings: Vec<Warning>,
    /// The disk.
    pub origin: DeviceText,
    /// The SSD, or the partition or volume that becomes the cache. Before its partition is made: the SSD, with the size
    /// of the partition.
    pub ssd: DeviceText,
    /// Mode of the cache.
    pub mode: Mode,
    /// Modes that the service refuses for this disk and this SSD, with the reasons.
    pub refused_modes: Vec<RefusedMode>,
    /// The cache is used from the next start of the machine on: see [`PlanSpec::at_next_start`].
    pub at_next_start: bool,
    /// The present mount points of the disk. Afterwards the disk is mounted there again, unless a step or a warning
    /// says otherwise.
    pub mount_points: Vec<String>,
    /// Bytes of data that the cache can hold.
    pub cache_bytes: u64,
    /// Bytes of kernel memory that the cache needs while it is assembled.
    pub memory_bytes: u64,
    /// Seconds until the plan is forgotten.
    pub valid_seconds: u32,
}

impl PlanReply {
    /// Bytes of data on the SSD only that the user gives up by this plan, counted when the plan was made. The first
    /// step that releases the SSD names the amount. 0: none, or the amount is unknown.
    pub fn lost_bytes(&self) -> u64 {
        let goes = [StepKind::Detach, StepKind::Unmap, StepKind::FreeSsd];
        let steps = self.steps.iter().filter(|step| goes.contains(&step.kind));
        steps.map(|step| step.bytes).sum()
    }
}
