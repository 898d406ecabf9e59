// SPDX-License-Identifier: GPL-3.0-or-later
//! The recent past of a cache as points of a chart. Plain Rust.

use std::collections::VecDeque;

use tandem_api::{SECTOR_BYTES, Sample};

/// How far back samples are kept, in microseconds.
pub const SPAN_US: u64 = 300_000_000;

/// Shortest time over which a rate is taken, so that a few quick requests do not make a peak; microseconds.
const WINDOW_US: u64 = 5_000_000;

/// A longer time than this between two samples breaks the line; microseconds. The service samples every 10 s when no
/// client watches.
const GAP_US: u64 = 25_000_000;

/// One moment of the chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Microseconds of `CLOCK_BOOTTIME`.
    pub time_us: u64,
    /// Start of the time over which the rates are taken; microseconds of the same clock.
    pub since_us: u64,
    /// Share of reads served by the SSD, 0 to 1; `None` while nothing is read.
    pub hit_rate: Option<f64>,
    /// Share of the cache that is not on the disk yet, 0 to 1.
    pub dirty: f64,
    /// Whether the line to the previous point is broken.
    pub starts: bool,
}

/// Samples of the last minutes, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Series {
    samples: VecDeque<Sample>,
    points: VecDeque<Point>,
}

impl Series {
    /// A series of samples that the service kept.
    #[must_use]
    pub fn from_history(history: Vec<Sample>) -> Self {
        let mut series = Self::default();
        for sample in history {
            series.push(sample);
        }
        series
    }

    /// Adds a sample. A sample that is not newer than the last one is left out. A sample whose counters went back
    /// starts the series anew.
    pub fn push(&mut self, sample: Sample) {
        if let Some(last) = self.samples.back() {
            if sample.time_us <= last.time_us {
                return;
            }
            if sample.read.requested < last.read.requested
                || sample.write.requested < last.write.requested
            {
                self.samples.clear();
            }
        }
        let silent = self
            .samples
            .back()
            .is_some_and(|last| sample.time_us - last.time_us > GAP_US);
        let earlier = self.window_start(sample.time_us);
        self.points.push_back(Point {
            time_us: sample.time_us,
            since_us: earlier.map_or(sample.time_us, |earlier| earlier.time_us),
            hit_rate: earlier.and_then(|earlier| sample.read_hit_rate_since(earlier)),
            dirty: dirty_share(&sample),
            starts: self.samples.is_empty() || silent,
        });
        let oldest = sample.time_us.saturating_sub(SPAN_US + WINDOW_US);
        self.samples.push_back(sample);
        while self
            .samples
            .front()
            .is_some_and(|sample| sample.time_us < oldest)
        {
            self.samples.pop_front();
        }
        while self
            .points
            .front()
            .is_some_and(|point| point.time_us < oldest)
        {
            self.points.pop_front();
        }
    }

    /// The newest sample that is at least a window old, or else the oldest sample.
    fn window_start(&self, now_us: u64) -> Option<&Sample> {
        let until = now_us.saturating_sub(WINDOW_US);
        self.samples
            .iter()
            .rev()
            .find(|sample| sample.time_us <= until)
            .or_else(|| self.samples.front())
    }

    /// The points, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> + Clone {
        self.points.iter()
    }

    /// The newest point.
    #[must_use]
    pub fn last(&self) -> Option<&Point> {
        self.points.back()
    }

    /// The newest sample.
    #[must_use]
    pub fn latest(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// Bytes that are on the SSD only according to the newest sample, and the seconds until they are on the disk.
    #[must_use]
    pub fn unwritten(&self) -> (u64, u64) {
        self.latest().map_or((0, 0), |sample| {
            let dirty = sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
            (dirty, sample.drain_seconds)
        })
    }

    /// Microseconds that dirty data can have waited at most: since the last sample without dirty data. `None` if nothing
    /// is dirty, or if that sample is older than the series.
    #[must_use]
    pub fn oldest_dirty_us(&self) -> Option<u64> {
        let latest = self.latest().filter(|sample| sample.dirty_sectors > 0)?;
        let clean = |sample: &&Sample| sample.dirty_sectors == 0;
        let last_clean = self.samples.iter().rev().find(clean)?;
        Some(latest.time_us - last_clean.time_us)
    }

    /// Seconds over which the newest rates are taken: the length of a window, or more while samples are rare.
    #[must_use]
    pub fn window_seconds(&self) -> u64 {
        let taken = self.last().map(|point| point.time_us - point.since_us);
        let window = taken.filter(|window| *window > 0).unwrap_or(WINDOW_US);
        (window + 500_000) / 1_000_000
    }

    /// Whether data was on the SSD only at any time since the cache was started, as far as the samples tell.
    #[must_use]
    pub fn had_dirty(&self) -> bool {
        let first = |sample: &Sample| sample.write_back_sectors > 0;
        self.latest().is_some_and(first) || self.points.iter().any(|point| point.dirty > 0.0)
    }

    /// The sample at the start of the last window, from which speeds are taken.
    #[must_use]
    pub fn earlier(&self) -> Option<&Sample> {
        let latest = self.samples.back()?;
        self.window_start(latest.time_us)
            .filter(|sample| sample.time_us < latest.time_us)
    }
}

/// Share of the cache's space with dirty data.
#[must_use]
pub fn dirty_share(sample: &Sample) -> f64 {
    let total = sample.frames_total.saturating_mul(sample.frame_sectors);
    if total == 0 {
        0.0
    } else {
        (sample.dirty_sectors as f64 / total as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::Direction;

    fn sample(seconds: u64, requested: u64, hit: u64) -> Sample {
        let read = Direction {
            requested,
            hit,
            ..Direction::default()
        };
        Sample {
            time_us: seconds * 1_000_000,
            read,
            frames_total: 10,
            frame_sectors: 32,
            dirty_sectors: 32,
            ..Sample::default()
        }
    }

    #[test]
    fn the_rate_is_that_of_the_last_five_seconds() {
        let series = Series::from_history(
            (0..=10)
                .map(|t| sample(t, t * 100, if t > 5 { (t - 5) * 100 } else { 0 }))
                .collect(),
        );
        let rates: Vec<_> = series.points().map(|point| point.hit_rate).collect();
        assert_eq!(rates[0], None);
        assert_eq!(rates[5], Some(0.0));
        assert_eq!(rates[6], Some(0.2));
        assert_eq!(rates[10], Some(1.0));
        assert_eq!(series.last().unwrap().dirty, 0.1);
    }

    #[test]
    fn the_time_of_a_rate_is_that_between_its_samples() {
        assert_eq!(Series::default().window_seconds(), 5);
        let every = |step: u64| {
            let samples = (0..=4).map(|n| sample(n * step, n * 100, 0)).collect();
            Series::from_history(samples).window_seconds()
        };
        assert_eq!((every(1), every(3), every(10)), (4, 6, 10));
        let long = Series::from_history((0..20).map(|t| sample(t, t, 0)).collect());
        assert_eq!(long.window_seconds(), 5);
    }

    #[test]
    fn dirty_data_is_at_most_as_old_as_the_last_sample_without_any() {
        let at = |seconds, dirty_sectors| Sample {
            dirty_sectors,
            ..sample(seconds, 0, 0)
        };
        let age = |samples| Series::from_history(samples).oldest_dirty_us();
        assert_eq!(age(vec![]), None);
        assert_eq!(age(vec![at(1, 0)]), None);
        assert_eq!(age(vec![at(1, 8), at(2, 8)]), None);
        let waiting = vec![at(1, 0), at(2, 8), at(3, 0), at(7, 8), at(9, 4)];
        assert_eq!(age(waiting), Some(6_000_000));
    }

    #[test]
    fn nothing_read_is_no_rate_and_not_zero() {
        let series = Series::from_history((0..=8).map(|t| sample(t, 100, 50)).collect());
        assert_eq!(series.last().unwrap().hit_rate, None);
    }

    #[test]
    fn counters_that_go_back_and_long_silence_break_the_line() {
        let mut series = Series::from_history(vec![sample(1, 100, 100), sample(2, 200, 200)]);
        series.push(sample(3, 10, 0));
        assert_eq!(series.last().unwrap().hit_rate, None);
        assert!(series.last().unwrap().starts);
        series.push(sample(4, 20, 0));
        assert!(!series.last().unwrap().starts);
        series.push(sample(60, 40, 0));
        assert!(series.last().unwrap().starts);
    }

    #[test]
    fn what_is_older_than_the_chart_goes_and_what_comes_twice_is_left_out() {
        let mut series = Series::from_history((0..1000).map(|t| sample(t, t, 0)).collect());
        assert!(series.points().count() <= 306);
        let before = series.points().count();
        series.push(sample(999, 2000, 0));
        assert_eq!(series.points().count(), before);
    }
}
