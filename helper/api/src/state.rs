// SPDX-License-Identifier: GPL-3.0-or-later
//! Words for what a cache, a job and the kernel module are doing.

use crate::words::words;
use serde::{Deserialize, Serialize};
use zbus::Type;

words! {
    /// How writes are treated.
    Mode {
        /// Writes go to the disk and to the SSD, and are acknowledged when the disk has them.
        Writethrough = "writethrough",
        /// Writes go to the disk only; the SSD keeps what is read.
        Writearound = "writearound",
        /// Writes go to the SSD, are acknowledged when it has them, and reach the disk later: until
        /// then the disk alone is of no use.
        Writeback = "writeback",
    }
}

words! {
    /// Why a mode is not offered for a disk and an SSD.
    ModeRefusal {
        /// The disk or the SSD can be unplugged while data is on the SSD only.
        Removable = "removable",
        /// The file system is one that other systems write to, past the cache.
        OtherSystems = "other-systems",
        /// fstab mounts the disk at the start of the machine, before the cache is there: the disk would be
        /// changed past the data that is on the SSD only.
        MountedAtStart = "mounted-at-start",
        /// The running system is on the disk: its start would depend on the SSD.
        System = "system",
        /// The cache is put over the disk at the next start of the machine. The mode can be chosen after that.
        NextStart = "next-start",
        /// The SSD takes larger blocks than the disk, so that not every write can be on it alone.
        BlockSize = "block-size",
    }
}

/// A mode that is not offered. Every mode that is not named is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct RefusedMode {
    /// Which mode.
    pub mode: Mode,
    /// Why.
    pub reason: ModeRefusal,
}

words! {
    /// What a cache is doing, as `Cache.State`.
    CacheState {
        /// Hits are served from the SSD. `StateReason` is `disk-error` if the disk reported an error since
        /// the cache was assembled.
        Active = "active",
        /// Requests go to the disk; `StateReason` says why: `ssd-error`, or `ssd-gone-dirty` where the
        /// SSD took data with it that was only there. Then what is on the disk can still be read, and
        /// every write fails until the SSD is back or the data is given up.
        Bypass = "bypass",
        /// Requests wait because the mapping is suspended; lasts moments.
        Suspended = "suspended",
        /// The service knows the cache but it is not assembled; `StateReason` says why
        /// (`ssd-missing`, `ssd-gone-dirty`, `ssd-damaged`, `ssd-blocks`, `disk-missing`, `disk-changed`,
        /// `disk-in-use`, `module-not-built`, ...). `disk-elsewhere`: no device agrees with the whole record of the
        /// disk, for example because the disk is in another enclosure; the devices that may be the disk are held.
        /// `disk-in-doubt`: such a device was used without the cache.
        Stopped = "stopped",
        /// The SSD is prepared, the disk is used without it, and the next start of the machine puts the cache over the
        /// disk. Removing the cache cancels that.
        Pending = "pending",
        /// The cache has been removed and the SSD is free, but the file system is in use through a
        /// plain pass-through mapping that goes when it is unmounted or at the next start.
        Detached = "detached",
    }
}

words! {
    /// What a job does.
    JobKind {
        /// Puts a cache over a disk.
        Create = "create",
        /// Flushes a cache and gives the plain disk back.
        Remove = "remove",
        /// Writes all to the disk that is only on the SSD; the cache stays.
        Flush = "flush",
    }
}

words! {
    /// Whether the kernel can run a cache, as `Manager.ModuleState`.
    ModuleState {
        /// The module is loaded.
        Loaded = "loaded",
        /// Not loaded, but there is one for the running kernel.
        Available = "available",
        /// There is none for the running kernel.
        NotBuilt = "not-built",
        /// The kernel refused it (Secure Boot: not signed with a trusted key).
        Refused = "refused",
    }
}

words! {
    /// Why the running kernel has no module that it accepts, as `Manager.ModuleProblem`.
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
    /// The key that DKMS signs modules with, as `Manager.SigningKey`.
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
