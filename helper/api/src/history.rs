// SPDX-License-Identifier: GPL-3.0-or-later
//! The activity of a cache over hours, days and weeks.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// How far back a long history goes.
    Span {
        /// An hour, in periods of 10 seconds.
        Hour = "hour",
        /// A day, in periods of 5 minutes.
        Day = "day",
        /// Thirty days, in periods of an hour.
        Month = "month",
    }
}

impl Span {
    /// Length of a period, in seconds.
    #[must_use]
    pub const fn period_seconds(self) -> u64 {
        match self {
            Self::Hour => 10,
            Self::Day => 300,
            Self::Month => 3600,
        }
    }

    /// Length of the span, in seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Hour => 3600,
            Self::Day => 24 * 3600,
            Self::Month => 30 * 24 * 3600,
        }
    }
}

/// The activity of a cache in a period. Amounts are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Period {
    /// Beginning of the period, in seconds of Unix time.
    pub start: u64,
    /// Seconds of the period in which the service observed the cache. Less than a second counts as 0.
    pub seconds: u64,
    /// Bytes that were read from the SSD.
    pub read_ssd: u64,
    /// Bytes that were read from the disk.
    pub read_disk: u64,
    /// Bytes that were written to the disk, to the SSD or to both.
    pub written: u64,
    /// The most bytes that were on the SSD only at one time.
    pub dirty: u64,
}

/// What a cache itself has written to its SSD.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct SsdWritten {
    /// Since when the service counts, in seconds of Unix time; 0: nothing is counted yet.
    pub since: u64,
    /// Bytes; the cache has written somewhat more: see [`crate::Sample::written_to_ssd`].
    pub bytes: u64,
}

/// The long history of a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct LongHistory {
    /// All activity since the cache was created or the statistics were reset, which is the time in `start`.
    pub total: Period,
    /// Whether the statistics were reset.
    pub was_reset: bool,
    /// What the cache has written to its SSD. A reset of the statistics does not change it.
    pub ssd_written: SsdWritten,
    /// The periods, oldest first. A period in which the service did not observe the cache is left out.
    pub periods: Vec<Period>,
}
