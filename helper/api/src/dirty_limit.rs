// SPDX-License-Identifier: GPL-3.0-or-later
//! How much data may be on the SSD only, and how long.

use serde::{Deserialize, Serialize};

/// The user's limit of dirty data. The lower of the two limits counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct DirtyLimit {
    /// Seconds that writing the dirty data to the disk may take, as the module estimates it.
    pub seconds: u32,
    /// Bytes of dirty data; 0: three quarters of the cache.
    pub bytes: u64,
    /// Minutes that dirty data may wait while no program uses the hard disk, so that the disk can rest; 0: it does not wait.
    #[serde(default)]
    pub rest: u32,
}

impl DirtyLimit {
    /// The seconds of a new cache. A stop of the computer does not write back, so the time is only that of a removal.
    pub const SECONDS: u32 = 600;

    /// The largest valid number of seconds.
    pub const MAX_SECONDS: u32 = 3600;
    /// The smallest valid number of bytes above 0.
    pub const MIN_BYTES: u64 = 1 << 20;

    /// The largest valid number of minutes.
    pub const MAX_REST: u32 = 24 * 60;

    /// Whether the module takes this limit.
    pub fn is_valid(&self) -> bool {
        (1..=Self::MAX_SECONDS).contains(&self.seconds)
            && (self.bytes == 0 || self.bytes >= Self::MIN_BYTES)
            && self.rest <= Self::MAX_REST
    }

    /// Whether this is the limit of a new cache.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for DirtyLimit {
    /// The limit of a new cache.
    fn default() -> Self {
        Self {
            seconds: Self::SECONDS,
            bytes: 0,
            rest: 0,
        }
    }
}
