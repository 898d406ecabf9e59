// SPDX-License-Identifier: GPL-3.0-or-later
//! What a cache did over hours, days and weeks.

use serde::{Deserialize, Serialize};
use zbus::Type;

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

    /// How far back it goes, in seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Hour => 3600,
            Self::Day => 24 * 3600,
            Self::Month => 30 * 24 * 3600,
        }
    }
}

/// What a cache did in a time. Amounts are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct Period {
    /// When it began, in seconds of Unix time.
    pub start: u64,
    /// Seconds of it in which the cache was observed; 0 is possible for a part of a second.
    pub seconds: u64,
    /// Bytes that were read from the SSD.
    pub read_ssd: u64,
    /// Bytes that were read from the disk.
    pub read_disk: u64,
    /// Bytes that were written, to whichever device.
    pub written: u64,
    /// The most bytes that were on the SSD only at one time.
    pub dirty: u64,
}

/// The kept past of a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct LongHistory {
    /// Everything since the history began, which is when the cache was set up. `start` is that time.
    pub total: Period,
    /// Oldest first. A period in which the cache was not observed is left out.
    pub periods: Vec<Period>,
}
