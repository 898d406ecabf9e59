// SPDX-License-Identifier: GPL-3.0-or-later
//! Why the service did not do what was asked, in a form that a client can put in words in any language.

use crate::words::words;
use crate::{DeviceText, ERROR_PREFIX, FileUser, Step, plain};
use serde::{Deserialize, Serialize};

words! {
    /// What happened. After each kind come the fields of [`Failure`] that this kind fills. Every kind also fills
    /// [`Failure::data`] and [`Failure::detail`].
    Kind {
        /// Disk and SSD are the same device, or one is a part of the other: `device`.
        SameDevice = "same-device",
        /// The SSD, or a partition on it, is mounted: `device`, `mount_points`.
        SsdMounted = "ssd-mounted",
        /// The SSD is used by something other than a mount: `device`, `name` (`swap`, `md`, `lvm`,
        /// `luks`, ... or the kernel name of the volume above it).
        SsdInUse = "ssd-in-use",
        /// The SSD holds data, and the user has not agreed to erase the data: `device` (`content` says which data).
        SsdHoldsData = "ssd-holds-data",
        /// The SSD has a cache of which there is no record, and data may be on the SSD only: `device`. Take the cache over, or
        /// discard that data first ([`crate::ManagerProxy::found_caches`]).
        SsdHoldsUnwritten = "ssd-holds-unwritten",
        /// The SSD holds unknown or encrypted content, and the user has not agreed to erase the content: `device`.
        SsdUnknownContent = "ssd-unknown-content",
        /// The SSD is a volume that would not be found early enough at the start of the machine, such as an unlocked
        /// encrypted device, or a volume that cannot have partitions: `device`, `name` (`luks`, `lvm`, ...).
        SsdIsVolume = "ssd-is-volume",
        /// The chosen SSD is on the network: `device`.
        SsdOnNetwork = "ssd-on-network",
        /// The SSD is too small: `device`, `needed`, `actual` (bytes).
        SsdTooSmall = "ssd-too-small",
        /// The SSD has no free space of the size that was asked for: `device`, `needed`, `actual` (bytes of the largest
        /// free space).
        SsdNoFreeSpace = "ssd-no-free-space",
        /// The service makes no partition on this SSD, because its partition table is not GPT: `device`, `name` (type
        /// of the table, as UDisks2 names it).
        SsdTable = "ssd-table",
        /// fstab or crypttab uses the SSD or a partition of it at the start of the machine, which would wait in vain for
        /// an erased SSD: `device`, `mount_points` (mount point, or name of the unlocked device).
        SsdUsedAtStart = "ssd-used-at-start",
        /// The disk is too small to be worth a cache: `device`, `needed`, `actual` (bytes).
        OriginTooSmall = "origin-too-small",
        /// A device cannot be written to: `device`.
        ReadOnly = "read-only",
        /// The disk is a swap partition: `device`.
        OriginSwap = "origin-swap",
        /// The disk holds /boot: `device`, `mount_points`.
        OriginBoot = "origin-boot",
        /// GRUB starts this machine from the disk, by BIOS or by an image without a signature, and could not start it after
        /// its next update if a cache were over the disk: `device`, `mount_points`.
        OriginGrub = "origin-grub",
        /// The disk is an EFI system partition: `device`.
        OriginEfi = "origin-efi",
        /// The disk holds the root file system or another file system of the running system: `device`, `mount_points`.
        /// The root file system can get a cache at the next start: [`crate::PlanSpec::at_next_start`].
        OriginRoot = "origin-root",
        /// The start of the machine would not put a cache over this device: `device`, `name` (`records`: the records
        /// of the caches cannot be read in time, or the start does not recognise the device; `initramfs`: the tool that
        /// makes the initial file system is missing or does not support caches; `volume`: the running system is, or its SSD
        /// would be, on a volume, which initial file systems unlock, activate or assemble in their own time; `early`: an
        /// initial file system mounts or unlocks the device before a cache can be there, by the entry of fstab or
        /// crypttab for `mount_points`).
        NotFoundAtStart = "not-found-at-start",
        /// The disk has partitions; choose one of them: `device`.
        OriginPartitioned = "origin-partitioned",
        /// The disk is used by something other than a mount: `device`, `name` as for `ssd-in-use`.
        OriginInUse = "origin-in-use",
        /// The device is one of several devices of a file system or volume: `device`, `name` (`btrfs`, `zfs`, `md`,
        /// `lvm`, ...). The system would find the same part twice: on the disk and on the mapping of the cache.
        PartOfVolume = "part-of-volume",
        /// The service cannot tell the device from another device, or the device has no property by which the service
        /// would find it again: `device`, `name` (kernel name of the other device, or empty).
        Indistinguishable = "indistinguishable",
        /// Nothing says which export a disk on the network (NBD) is, and no partition table on it does: `device`.
        ExportUnknown = "export-unknown",
        /// The mode is not offered for this disk and SSD: `device` (the disk), `name` (the
        /// [`crate::ModeRefusal`]).
        ModeRefused = "mode-refused",
        /// fstab names the disk in a way that does not lead to the mapping of the cache, so the file system could not
        /// be mounted again: `device`, `mount_points`, `name` (first field of fstab, such as `/dev/sda1`).
        FstabNamesDevice = "fstab-names-device",
        /// crypttab names the disk in a way that does not lead to the mapping of the cache, so the next start could not
        /// unlock the disk: `device`, `mount_points` (name of the unlocked device), `name` (second field of crypttab).
        CrypttabNamesDevice = "crypttab-names-device",
        /// A setting of GRUB has the next start look for the root file system by the name of a device: `device`,
        /// `mount_points` (the setting, such as `GRUB_CMDLINE_LINUX`), `name` (the word of it, such as
        /// `root=/dev/sda1`). An SSD that is added may take that name.
        GrubNamesDevice = "grub-names-device",
        /// As `grub-names-device`, where no setting of GRUB explains the name on the command line of the kernel, or where the
        /// command line has none:
        /// `device`, `mount_points` (the file with the name; empty text if no known file has it), `name` (the word that
        /// has to take its place, such as `root=UUID=0a1b..`).
        BootNamesDevice = "boot-names-device",
        /// A mount unit of systemd, which was not made from fstab, names the disk in a way that does not lead to the
        /// mapping of the cache: `device`, `mount_points` (path of the unit), `name` (its `What=`).
        UnitNamesDevice = "unit-names-device",
        /// The device is already part of a cache, or is the mapping of a cache: `device`, `name` (UUID of the cache;
        /// `other`: another system shows the device as its cached disk).
        AlreadyCached = "already-cached",
        /// The device is not there (any more): `device` as last known, with at least the object path.
        DeviceGone = "device-gone",
        /// The device changed since the plan was made (replaced, formatted, mounted elsewhere): `device`.
        DeviceChanged = "device-changed",
        /// Programs use the file system: `device`, `mount_points`, `users`.
        FilesystemBusy = "filesystem-busy",
        /// There is no such plan: the plan was used, is too old or belongs to another user, or the digest is wrong.
        PlanUnknown = "plan-unknown",
        /// The user did not authenticate or is not allowed.
        NotAuthorized = "not-authorized",
        /// The authority (polkit) did not answer. Without an answer nothing is allowed.
        AuthorityUnavailable = "authority-unavailable",
        /// The module is not built for the running kernel: `name` (its release).
        ModuleNotBuilt = "module-not-built",
        /// The kernel refused the module because of Secure Boot: `name` (kernel release).
        ModuleRefused = "module-refused",
        /// The module could not be loaded for another reason: `name` (kernel release).
        ModuleFailed = "module-failed",
        /// The module that is loaded is of an older version, which cannot do this. A newer one is loaded at the next
        /// start of the machine.
        ModuleTooOld = "module-too-old",
        /// Not enough memory for the cache: `needed` (bytes, 0 if unknown).
        OutOfMemory = "out-of-memory",
        /// Another job changes one of the devices: `device`. Or (`name`: `speed-test`) the speed test of `device` runs.
        Busy = "busy",
        /// This user has too many jobs or plans at once.
        TooMany = "too-many",
        /// The state of the cache does not allow the change: `name` (the state).
        WrongState = "wrong-state",
        /// The share of this cache cannot be changed: `device` (the SSD), `name` (`own-partition`: the service did not
        /// make the partition of the cache; `system`: the running system is on the disk).
        NotResizable = "not-resizable",
        /// The target of the cache cannot do that. `name`: `absent` (the kernel does not have the target), `block-size` (`device`: an
        /// SSD with larger blocks than the disk), `setting` or `shutdown` (settings that the target does not have).
        TargetUnable = "target-unable",
        /// A cache in the computer's memory cannot be like that: `name` (`absent`: the kernel has no compressed memory, `zram`;
        /// `too-large`, with `actual`: see [`crate::ManagerProxy::memory_for_caches`]; `too-small`, with `needed`;
        /// `at-next-start`: the running system is on the disk, or its cache is put over it at the next start; `target`).
        MemoryUnable = "memory-unable",
        /// The service cannot have this cache of another system removed: `device` (the disk), `name` (`ssd-missing`;
        /// `failed`: the cache has failed; `system`: another system than LVM has made it; `volume`: the volume is a hidden part
        /// of another one, or its devices are not known).
        OtherNotRemovable = "other-not-removable",
        /// The partition below a bcache device without a cache cannot become a plain one: `device` (the partition), `name`
        /// (`whole-disk`: bcache has the disk without a partition table; `table`: a table of another type than GPT and MBR;
        /// `table-damaged`; `another-move`: the same change of another disk has not ended; `logical`: not one of the four
        /// primary partitions of an MBR; `volume`: the partition is a part of a volume; `mounted`, with `mount_points`;
        /// `in-use`; `running-system`; `offset`: the file system does not begin at a sector; `content`: no file system is found
        /// there; `tool`: `sfdisk` or another program is missing; `unknown`: what is below the device is not known).
        StaysBcache = "stays-bcache",
        /// The SSD belongs to a cache of another disk: `device` (the SSD).
        WrongDisk = "wrong-disk",
        /// The metadata of the cache on the SSD is damaged, so no data on the SSD can be trusted: `device` (the SSD).
        SsdDamaged = "ssd-damaged",
        /// The SSD has larger blocks than the disk, and data may be on the SSD only, or is to be: `device` (the SSD).
        SsdBlocks = "ssd-blocks",
        /// Data that is on the SSD only cannot be written to the disk now: `device` (the SSD), `name` (the
        /// `StateReason` that prevents the write), `needed` (bytes of that data, 0 if unknown).
        UnwrittenData = "unwritten-data",
        /// The SSD failed or went away while data was on the SSD only: `device`, `needed` (bytes of that data).
        SsdLost = "ssd-lost",
        /// A step failed: `device`, `name` (the step's [`crate::StepKind`]).
        StepFailed = "step-failed",
        /// A speed test has no result: `device`, `name` (`read`: the device cannot be read; `slow`: the device does not
        /// answer in time, or wakes up too late; `changed`: the cache was changed meanwhile, or its SSD is gone).
        SpeedTestFailed = "speed-test-failed",
        /// The job was cancelled: `name` (`cleaner`: LVM was stopped, and its write cache goes on to write to the disk what is
        /// on the SSD only; otherwise empty).
        Cancelled = "cancelled",
        /// The service was killed in the middle of the job. The next start of the service undid or finished the job.
        Interrupted = "interrupted",
        /// An argument is not valid: `name` (the argument).
        InvalidArgument = "invalid-argument",
        /// UDisks2 or systemd did not answer: `name` (`udisks2` or `systemd`).
        ServiceUnavailable = "service-unavailable",
        /// A fault in the service itself.
        Internal = "internal",
    }
}

words! {
    /// The state of the user's data and set-up after the failure.
    DataState {
        /// Nothing was changed.
        Unchanged = "unchanged",
        /// Some steps were done, and all of them were undone: everything is as before.
        Restored = "restored",
        /// As `Restored`, but the old content of the SSD is erased. If the step that erases failed, at least a part of
        /// the content is erased.
        Erased = "erased",
        /// Some steps could not be undone, so that for example a mount or a mapping is not as before: see
        /// [`Failure::not_restored`]. No data is on the SSD only; data that the user gave up explicitly is lost. The
        /// service tries again at its next start.
        Incomplete = "incomplete",
        /// The cache is removed, and its SSD is free. The disk has all data and is used as before. If it was in use
        /// through the cache, it stays on a plain mapping until the next start.
        Removed = "removed",
        /// The cache of another system is gone, and the disk has all data and is used as before. Parts of the cache may still be
        /// on the SSD.
        OnDisk = "on-disk",
        /// Some data is on the SSD only. No data is lost as long as the SSD works or comes back.
        Unwritten = "unwritten",
    }
}

/// A failure with everything that its explanation needs. Unused fields are empty or 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Failure {
    /// What happened.
    pub kind: Kind,
    /// The state of the data and the set-up.
    pub data: DataState,
    /// The device concerned.
    pub device: DeviceText,
    /// Mount points concerned.
    pub mount_points: Vec<String>,
    /// Programs concerned.
    pub users: Vec<FileUser>,
    /// A name, see [`Kind`].
    pub name: String,
    /// Bytes that are needed.
    pub needed: u64,
    /// Bytes that are there.
    pub actual: u64,
    /// With [`DataState::Incomplete`]: the steps of the job that are still in effect. `unmount`: the file system is
    /// not mounted at `target`. `map`: the disk is still under the cache's mapping. `erase-ssd`: the old content of the
    /// SSD is gone. `create-partition`: the new partition is still on the SSD. Empty if that is not known, as after a
    /// removal.
    pub not_restored: Vec<Step>,
    /// Technical English for logs and a "details" view; never to be parsed.
    pub detail: String,
}

impl Failure {
    /// A failure of `kind` that changed nothing, with all other fields empty.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            data: DataState::Unchanged,
            device: DeviceText::none(),
            mount_points: Vec::new(),
            users: Vec::new(),
            name: String::new(),
            needed: 0,
            actual: 0,
            not_restored: Vec::new(),
            detail: String::new(),
        }
    }

    /// The empty failure that [`crate::JobProxy`] signals for a job that succeeded.
    pub fn none() -> Self {
        Self::new(Kind::Internal)
    }

    /// With the device concerned.
    #[must_use]
    pub fn device(mut self, device: &DeviceText) -> Self {
        self.device = device.clone();
        self
    }

    /// With a name, see [`Kind`].
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With mount points.
    #[must_use]
    pub fn mount_points(mut self, mount_points: Vec<String>) -> Self {
        self.mount_points = mount_points;
        self
    }

    /// With programs.
    #[must_use]
    pub fn users(mut self, users: Vec<FileUser>) -> Self {
        self.users = users;
        self
    }

    /// With the bytes that are needed and the bytes that are there.
    #[must_use]
    pub fn sizes(mut self, needed: u64, actual: u64) -> Self {
        (self.needed, self.actual) = (needed, actual);
        self
    }

    /// With technical detail.
    #[must_use]
    pub fn detail(mut self, detail: impl std::fmt::Display) -> Self {
        let lines = detail.to_string();
        self.detail = lines.lines().map(plain).collect::<Vec<_>>().join("\n");
        self
    }

    /// With the steps that are still in effect.
    #[must_use]
    pub fn not_restored(mut self, steps: Vec<Step>) -> Self {
        self.not_restored = steps;
        self
    }

    /// With the state of the data.
    #[must_use]
    pub fn data(mut self, data: DataState) -> Self {
        self.data = data;
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind)?;
        for part in [&self.device.name, &self.name, &self.detail] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl Kind {
    /// Name of the D-Bus error.
    pub fn error_name(self) -> String {
        let mut name = format!("{ERROR_PREFIX}.");
        for part in self.as_str().split('-') {
            let (first, rest) = part.split_at(1);
            name.push_str(&first.to_ascii_uppercase());
            name.push_str(rest);
        }
        name
    }
}
