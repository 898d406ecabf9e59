// SPDX-License-Identifier: GPL-3.0-or-later
//! Words for the states of a cache, of a job and of the kernel module.

use crate::words::words;
use serde::{Deserialize, Serialize};

words! {
    /// How a cache handles writes.
    Mode {
        /// A write goes to the disk and to the SSD, and is acknowledged when the disk has the data.
        Writethrough = "writethrough",
        /// A write goes to the disk only. The SSD gets copies of data that is read.
        Writearound = "writearound",
        /// A write goes to the SSD, is acknowledged when the SSD has the data, and reaches the disk later. Until then
        /// the disk alone is of no use.
        Writeback = "writeback",
    }
}

words! {
    /// The target of the device mapper that serves a cache.
    Target {
        /// `dm-tandem`, Tandem's own module.
        Tandem = "tandem",
        /// `dm-cache`, which comes with the kernel. The service runs it in write-through only. It begins empty unless it was
        /// stopped in order and the disk has ext4 or Btrfs. It cannot be paused, and it knows no other setting.
        DmCache = "cache",
    }
}

/// The only target that earlier versions know.
impl Default for Target {
    fn default() -> Self {
        Self::Tandem
    }
}

words! {
    /// Why the service refuses a mode for a disk and an SSD.
    ModeRefusal {
        /// The disk or the SSD can be unplugged while data is on the SSD only.
        Removable = "removable",
        /// The disk is on the network: another computer that uses it would miss what is on the SSD only.
        Network = "network",
        /// Other systems on this machine may write to the file system past the cache.
        OtherSystems = "other-systems",
        /// fstab mounts the disk at the start of the machine, before the cache is there: programs would change the disk
        /// while newer data is on the SSD only.
        MountedAtStart = "mounted-at-start",
        /// crypttab unlocks the disk at the start of the machine. While the SSD is missing the disk is held, and the start
        /// would wait in vain for what is in it: no table says which mounts that are.
        UnlockedAtStart = "unlocked-at-start",
        /// The running system is on the disk: its start would depend on the SSD.
        System = "system",
        /// The cache is put over the disk at the next start of the machine. The mode can be chosen after that.
        NextStart = "next-start",
        /// Something beside the cache changes the disk: see [`crate::Sharing`].
        Shared = "shared",
        /// The SSD takes larger blocks than the disk, so that not every write can be on it alone.
        BlockSize = "block-size",
        /// The target of the cache is run without this mode: see [`Target::DmCache`].
        Target = "target",
        /// The cache is in the computer's memory, which a power cut empties.
        Memory = "memory",
    }
}

/// A mode that the service refuses. The service offers every mode that is not in the list of refused modes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct RefusedMode {
    /// The mode.
    pub mode: Mode,
    /// The reason.
    pub reason: ModeRefusal,
}

words! {
    /// State of a cache, as in `Cache.State`.
    CacheState {
        /// The SSD serves hits. `StateReason` is `disk-error` if the disk reported an error since the cache was
        /// assembled.
        Active = "active",
        /// Requests go to the disk. `StateReason` is `ssd-error`, or `ssd-gone-dirty` if data was on the SSD only.
        /// After `ssd-gone-dirty`, the data on the disk can still be read, and every write fails until the SSD is back
        /// or the data is given up. `memory-needed`: the cache was in memory that programs need now; it is made anew, empty,
        /// when enough memory has been free for a while.
        Bypass = "bypass",
        /// The mapping is suspended for some moments, and requests wait. Also while the cache gets another share of its
        /// SSD; then requests go to the disk.
        Suspended = "suspended",
        /// The cache is on record and is not assembled. `StateReason` is the reason
        /// (`ssd-missing`, `ssd-gone-dirty`, `ssd-damaged`, `ssd-blocks`, `disk-missing`, `disk-changed`,
        /// `disk-in-use`, `module-not-built`, ...). `disk-elsewhere`: no device agrees with the whole record of the
        /// disk, for example because the disk is in another enclosure; the devices that may be the disk are held.
        /// `disk-in-doubt`: such a device was used without the cache. `put-away`: the disk can be unplugged, and nobody
        /// used it any more.
        Stopped = "stopped",
        /// The SSD is prepared, the disk is used without the SSD, and the next start of the machine puts the cache over
        /// the disk. A removal of the cache cancels that.
        Pending = "pending",
        /// The cache was removed and the SSD is free. The file system is still in use through a mapping that passes all
        /// requests to the disk. The mapping disappears when the file system is unmounted, or at the next start.
        Detached = "detached",
    }
}

words! {
    /// Kind of a job.
    JobKind {
        /// The job puts a cache over a disk.
        Create = "create",
        /// Writes all dirty data to the disk and gives the plain disk back.
        Remove = "remove",
        /// Writes all dirty data to the disk. The cache stays.
        Flush = "flush",
        /// The job gives the cache a partition of another size on its SSD. The disk stays in use, and the cache starts
        /// empty.
        Resize = "resize",
        /// A partition that a cache of another system has left becomes a plain one.
        MakePlain = "make-plain",
    }
}

words! {
    /// Whether the running kernel can run a cache, as in `Manager.ModuleState`.
    ModuleState {
        /// The module is loaded.
        Loaded = "loaded",
        /// The running kernel has a module, which is not loaded.
        Available = "available",
        /// There is no module for the running kernel.
        NotBuilt = "not-built",
        /// The kernel refuses the module because of Secure Boot: the module has no signature by a trusted key.
        Refused = "refused",
    }
}

words! {
    /// Why the running kernel has no module that it accepts, as in `Manager.ModuleProblem`.
    ModuleProblem {
        /// The running kernel has the module.
        None = "none",
        /// The module's sources are not installed, or DKMS was not run for this kernel.
        NotInstalled = "not-installed",
        /// The headers of this kernel are not installed.
        NoHeaders = "no-headers",
        /// This kernel is made without device-mapper, so DKMS skips it.
        Excluded = "excluded",
        /// The build failed.
        BuildFailed = "build-failed",
        /// The module has no signature, and this machine refuses such modules.
        NotSigned = "not-signed",
        /// The module is signed with a key that this machine does not trust.
        KeyNotTrusted = "key-not-trusted",
    }
}

words! {
    /// State of the key that DKMS signs modules with, as in `Manager.SigningKey`.
    SigningKey {
        /// This machine takes modules without a signature.
        NotNeeded = "not-needed",
        /// DKMS has made no key.
        Missing = "missing",
        /// The firmware does not trust the key.
        NotEnrolled = "not-enrolled",
        /// The firmware asks at the next start whether to trust the key.
        Pending = "pending",
        /// The firmware trusts the key.
        Enrolled = "enrolled",
        /// The firmware cannot be asked.
        Unknown = "unknown",
    }
}
