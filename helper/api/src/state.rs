// SPDX-License-Identifier: GPL-3.0-or-later
//! Words for what a cache, a job and the kernel module are doing.

use crate::words::words;

words! {
    /// How writes are treated.
    Mode {
        /// Writes go to the disk and to the SSD, and are acknowledged when the disk has them.
        Writethrough = "writethrough",
        /// Writes go to the disk only; the SSD keeps what is read.
        Writearound = "writearound",
    }
}

words! {
    /// What a cache is doing, as `Cache.State`.
    CacheState {
        /// Hits are served from the SSD.
        Active = "active",
        /// All requests go to the disk; `StateReason` says why (`ssd-error`, ...).
        Bypass = "bypass",
        /// Requests wait because the mapping is suspended; lasts moments.
        Suspended = "suspended",
        /// The service knows the cache but it is not assembled; `StateReason` says why
        /// (`ssd-missing`, `disk-missing`, `module`, ...).
        Stopped = "stopped",
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
