// SPDX-License-Identifier: GPL-3.0-or-later
//! The report of an SSD about its own health.

use crate::words::words;
use serde::{Deserialize, Serialize};

words! {
    /// Whether an SSD reports that it is failing.
    SelfReport {
        /// The SSD does not tell, or UDisks2 cannot read it.
        Unknown = "unknown",
        /// The SSD reports no problem.
        Good = "good",
        /// The SSD reports that it is failing.
        Failing = "failing",
    }
}

/// The health of an SSD (SMART), as UDisks2 last read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct SsdHealth {
    /// Whether the SSD reports that it is failing.
    pub report: SelfReport,
    /// Share of its life that the SSD has used, in percent, by its own estimate; more than 100 is possible. -1: not
    /// known.
    pub used_percent: i32,
    /// Hours for which the SSD was on; 0: not known.
    pub hours_on: u64,
    /// When UDisks2 read this, in seconds of Unix time; 0: never.
    pub read_at: u64,
}

impl SsdHealth {
    /// Nothing is known.
    pub const fn unknown() -> Self {
        Self {
            report: SelfReport::Unknown,
            used_percent: -1,
            hours_on: 0,
            read_at: 0,
        }
    }

    /// The time for which the SSD will last at the pace so far, by its own estimate.
    pub fn lifetime(&self) -> Lifetime {
        if self.report == SelfReport::Failing {
            return Lifetime::Failing;
        }
        let used = match u64::try_from(self.used_percent) {
            Ok(0) => return Lifetime::LittleUsed,
            Ok(used) => used,
            Err(_) => return Lifetime::NotKnown,
        };
        match self.hours_on {
            0 => Lifetime::NotKnown,
            _ if used >= 100 => Lifetime::Over,
            hours if hours < LEAST_HOURS => Lifetime::TooNew,
            hours => Lifetime::Hours(hours.saturating_mul(100 - used) / used),
        }
    }
}

/// A shorter time on says too little about the pace: 30 days.
const LEAST_HOURS: u64 = 30 * 24;

/// How long an SSD will last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// The SSD tells no share of its life, or not how long it was on.
    NotKnown,
    /// Less than a percent is used so far, from which no time can be estimated.
    LittleUsed,
    /// The SSD reports that it is failing, which may take a day or a year.
    Failing,
    /// The SSD was on for too short a time.
    TooNew,
    /// The SSD has used the whole life that its maker planned. It may work on.
    Over,
    /// Hours of being on that are left.
    Hours(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_estimated_only_from_what_is_known() {
        let health = |used_percent, hours_on| SsdHealth {
            used_percent,
            hours_on,
            ..SsdHealth::unknown()
        };
        for (used, hours, expected) in [
            (-1, 5000, Lifetime::NotKnown),
            (5, 0, Lifetime::NotKnown),
            (0, 5000, Lifetime::LittleUsed),
            (1, 700, Lifetime::TooNew),
            (10, 9000, Lifetime::Hours(81_000)),
            (99, 9900, Lifetime::Hours(100)),
            (100, 9000, Lifetime::Over),
            (130, 9000, Lifetime::Over),
        ] {
            let mut health = health(used, hours);
            assert_eq!(health.lifetime(), expected, "{used} {hours}");
            health.report = SelfReport::Failing;
            assert_eq!(health.lifetime(), Lifetime::Failing, "{used} {hours}");
        }
    }
}
