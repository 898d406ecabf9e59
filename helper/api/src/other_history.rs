// SPDX-License-Identifier: GPL-3.0-or-later
//! The history of a cache of another system.

use serde::{Deserialize, Serialize};

/// The work of a cache of another system between two looks at it. Amounts are bytes, as the kernel counts them at the block devices:
/// what the cache itself moves between SSD and disk is in them. A time in which the counters cannot be compared, because they
/// began anew or because a device was exchanged, has no period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct OtherPeriod {
    /// Beginning, in microseconds of Unix time.
    pub start_us: u64,
    /// End, in microseconds of Unix time.
    pub end_us: u64,
    /// Bytes that were read from the device that programs use.
    pub read: u64,
    /// Bytes that were written to the device that programs use.
    pub written: u64,
    /// Bytes that were read from the disk.
    pub read_disk: u64,
    /// Bytes that were read from the SSD, if [`Self::ssd_known`].
    pub read_ssd: u64,
    /// Whether the kernel tells what was read from the SSD for this cache alone.
    pub ssd_known: bool,
    /// Requests or blocks that the SSD has served, in units of the system. The numbers are approximate. Both this and
    /// [`Self::misses`] are 0 if nothing was counted, and if what was counted cannot be believed.
    pub hits: u64,
    /// Requests or blocks that the disk has served.
    pub misses: u64,
    /// Bytes at the end of the period that the disk did not have, if [`Self::unwritten_known`].
    pub unwritten_bytes: u64,
    /// Whether the system told that.
    pub unwritten_known: bool,
}
