// SPDX-License-Identifier: GPL-3.0-or-later
//! The result of a speed test.

use crate::DeviceText;
use crate::words::words;
use serde::{Deserialize, Serialize};

words! {
    /// How far other programs can have changed the times of a speed test.
    Trust {
        /// Other programs did at most 5 % of what the devices did during the test.
        Reliable = "reliable",
        /// Other programs did more than that: see [`SpeedTest::others_permille`].
        Disturbed = "disturbed",
        /// The kernel does not count the requests of the disk, so the service cannot tell.
        Unknown = "unknown",
    }
}

/// The reads of one size in a speed test. The places are the same on the disk and through the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct TimedReads {
    /// Bytes of each read.
    pub bytes: u64,
    /// Number of reads. They are made one after the other.
    pub count: u64,
    /// Microseconds that the reads took from the disk, all together.
    pub disk_us: u64,
    /// Microseconds that the reads took through the cache, all together; 0 without a cache.
    pub cache_us: u64,
    /// Thousandths of the bytes that the SSD delivered when the reads went through the cache, at least.
    pub ssd_permille: u32,
}

impl TimedReads {
    /// How many times as long the reads took from the disk as through the cache. `None` without a cache.
    #[must_use]
    pub fn factor(&self) -> Option<f64> {
        (self.cache_us > 0).then(|| self.disk_us as f64 / self.cache_us as f64)
    }

    /// Whether the SSD delivered at least half of the bytes. If not, [`Self::factor`] says nothing of the SSD: the drive may
    /// have kept the rest in its own memory.
    #[must_use]
    pub fn is_served_by_ssd(&self) -> bool {
        self.ssd_permille >= 500
    }

    /// Bytes a second, if all reads took so many microseconds.
    #[must_use]
    pub fn bytes_per_second(&self, us: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(self.count);
        u64::try_from(bytes * 1_000_000 / u128::from(us.max(1))).unwrap_or(u64::MAX)
    }

    /// Microseconds of one read on average, if all reads took so many microseconds.
    #[must_use]
    pub fn us_per_read(&self, us: u64) -> u64 {
        us / self.count.max(1)
    }
}

/// The result of a speed test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct SpeedTest {
    /// The end of the test, in seconds of Unix time; 0: there is no result.
    pub time: u64,
    /// The disk.
    pub disk: DeviceText,
    /// The SSD; none if the disk has no cache.
    pub ssd: DeviceText,
    /// Small reads (4 KiB) at random places, as when many small files are opened.
    pub random: TimedReads,
    /// Large reads (1 MiB) of long runs of the disk, as when a large file is read.
    pub sequential: TimedReads,
    /// Whether other programs can have changed the times.
    pub trust: Trust,
    /// Thousandths of what the devices did during the test that other programs did; the highest share of all parts of
    /// the test.
    pub others_permille: u32,
}

impl SpeedTest {
    /// No result.
    #[must_use]
    pub fn none() -> Self {
        Self {
            time: 0,
            disk: DeviceText::none(),
            ssd: DeviceText::none(),
            random: TimedReads::default(),
            sequential: TimedReads::default(),
            trust: Trust::Unknown,
            others_permille: 0,
        }
    }

    /// Whether there is no result.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.time == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_follow_from_times() {
        let reads = TimedReads {
            bytes: 4096,
            count: 500,
            disk_us: 5_000_000,
            cache_us: 50_000,
            ssd_permille: 1000,
        };
        assert_eq!(reads.factor(), Some(100.0));
        for (ssd_permille, served) in [(500, true), (499, false)] {
            let reads = TimedReads {
                ssd_permille,
                ..reads
            };
            assert_eq!(reads.is_served_by_ssd(), served);
        }
        assert_eq!(reads.bytes_per_second(reads.disk_us), 409_600);
        assert_eq!(reads.us_per_read(reads.cache_us), 100);
        let plain = TimedReads {
            cache_us: 0,
            ..reads
        };
        assert_eq!(plain.factor(), None);
        assert_eq!(TimedReads::default().bytes_per_second(0), 0);
        assert!(SpeedTest::none().is_none());
    }
}
