// SPDX-License-Identifier: GPL-3.0-or-later
//! What the service has seen of a disk that it watches, and whether a cache would help the disk.

use crate::DeviceText;
use crate::words::words;
use serde::{Deserialize, Serialize};

words! {
    /// Whether the service gets the requests of a disk that it watches.
    WatchState {
        /// The service gets them.
        Watching = "watching",
        /// The disk is not plugged in, or several devices agree with what the service knows of it. The watch goes on when
        /// the disk is back.
        Away = "away",
        /// The kernel does not tell the service of the requests. The service tries again.
        Blind = "blind",
    }
}

words! {
    /// Whether a cache would help a disk.
    Verdict {
        /// The service has watched the disk for less than a day: see [`DiskWatch::wait_seconds`].
        TooEarly = "too-early",
        /// A cache helps: see [`DiskWatch::enough_bytes`].
        Helps = "helps",
        /// A cache does not help: the disk is hardly read.
        FewReads = "few-reads",
        /// A cache does not help: most requests are writes.
        MostlyWrites = "mostly-writes",
        /// A cache does not help: most data is read in long runs and not again.
        MostlySequential = "mostly-sequential",
        /// A cache does not help: what is read is not read again.
        NothingReadAgain = "nothing-read-again",
        /// Not clear: the service has missed more than a tenth of the requests: see [`DiskWatch::lost`].
        Incomplete = "incomplete",
    }
}

/// What a cache of one size would have done. In 19 of 20 cases a share is off by no more than its error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct AdvicePoint {
    /// Room for data on the SSD, in bytes.
    pub bytes: u64,
    /// Thousandths of the reads that the SSD alone would have served.
    pub reads_permille: u32,
    /// How far off `reads_permille` may be.
    pub reads_error: u32,
    /// Thousandths of the bytes read that the SSD would have served.
    pub bytes_permille: u32,
    /// How far off `bytes_permille` may be.
    pub bytes_error: u32,
}

/// A disk that the service watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct DiskWatch {
    /// Names the watch in calls: 32 hex digits.
    pub id: String,
    /// The disk. Its object path is `/` while the disk is away.
    pub disk: DeviceText,
    /// Whether the service gets the requests now.
    pub state: WatchState,
    /// The beginning of the watch, in seconds of Unix time.
    pub since: u64,
    /// Seconds in which the service got the requests.
    pub watched_seconds: u64,
    /// Number of reads.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes of the reads that were parts of long runs.
    pub sequential_bytes: u64,
    /// Number of writes and discards.
    pub writes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Requests that the service did not get, because they came too fast. The shares leave them out.
    pub lost: u64,
    /// Whether a cache would help.
    pub verdict: Verdict,
    /// Seconds until there is a verdict; 0 if there is one.
    pub wait_seconds: u64,
    /// The size of the cache beyond which little is gained, in bytes; 0 unless a cache helps.
    pub enough_bytes: u64,
    /// The prediction, smallest cache first. A cache that is larger than the last does what the last does.
    pub points: Vec<AdvicePoint>,
}

impl DiskWatch {
    /// The prediction for a cache of this size: between two points, on the straight line. `None` without points.
    #[must_use]
    pub fn at(&self, bytes: u64) -> Option<AdvicePoint> {
        let last = *self.points.last()?;
        let Some(above) = self.points.iter().position(|point| point.bytes >= bytes) else {
            return Some(AdvicePoint { bytes, ..last });
        };
        let high = self.points[above];
        let low = match above.checked_sub(1) {
            Some(below) => self.points[below],
            None => AdvicePoint::default(),
        };
        let width = (high.bytes - low.bytes).max(1);
        let part = (bytes - low.bytes) as f64 / width as f64;
        let between = |low: u32, high: u32| {
            let (low, high) = (f64::from(low), f64::from(high));
            (low + (high - low) * part).round() as u32
        };
        Some(AdvicePoint {
            bytes,
            reads_permille: between(low.reads_permille, high.reads_permille),
            reads_error: low.reads_error.max(high.reads_error),
            bytes_permille: between(low.bytes_permille, high.bytes_permille),
            bytes_error: low.bytes_error.max(high.bytes_error),
        })
    }

    /// Whether the watch is about this device, by its object path.
    #[must_use]
    pub fn is_of(&self, object: &str) -> bool {
        self.disk.object.as_str() == object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_between_two_points_gets_a_share_between_theirs() {
        let point = |bytes, reads_permille, reads_error| AdvicePoint {
            bytes,
            reads_permille,
            reads_error,
            ..AdvicePoint::default()
        };
        let mut watch = DiskWatch {
            id: String::new(),
            disk: DeviceText::none(),
            state: WatchState::Watching,
            since: 0,
            watched_seconds: 0,
            reads: 0,
            read_bytes: 0,
            sequential_bytes: 0,
            writes: 0,
            written_bytes: 0,
            lost: 0,
            verdict: Verdict::TooEarly,
            wait_seconds: 0,
            enough_bytes: 0,
            points: Vec::new(),
        };
        assert_eq!(watch.at(1), None);
        watch.points = vec![point(100, 200, 5), point(200, 400, 30)];
        assert_eq!(watch.at(50), Some(point(50, 100, 5)));
        assert_eq!(watch.at(100), Some(point(100, 200, 5)));
        assert_eq!(watch.at(150), Some(point(150, 300, 30)));
        assert_eq!(watch.at(1000), Some(point(1000, 400, 30)));
        assert_eq!(watch.at(0), Some(point(0, 0, 5)));
    }
}
