// SPDX-License-Identifier: GPL-3.0-or-later
//! The recent past of a cache, sample by sample. Plain Rust.

use std::collections::VecDeque;

use tandem_api::{Latency, SECTOR_BYTES, Sample};

use super::bars::{Bar, Totals};

/// How far back samples are kept, in microseconds.
pub const SPAN_US: u64 = 300_000_000;

/// Shortest time over which a rate is taken, so that a few quick requests do not make a peak; microseconds.
const WINDOW_US: u64 = 5_000_000;

/// A longer time than this between two samples leaves a gap in the chart; microseconds. The service samples every 10 s
/// when no client watches.
const GAP_US: u64 = 25_000_000;

/// Samples of the last minutes, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Series {
    samples: VecDeque<Sample>,
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
        let oldest = sample.time_us.saturating_sub(SPAN_US + WINDOW_US);
        self.samples.push_back(sample);
        while self
            .samples
            .front()
            .is_some_and(|sample| sample.time_us < oldest)
        {
            self.samples.pop_front();
        }
    }

    /// The newest sample.
    #[must_use]
    pub fn latest(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// The sample at the start of the last window, from which rates are taken: the newest sample that is at least a
    /// window older than the latest one, or else the oldest sample.
    #[must_use]
    pub fn earlier(&self) -> Option<&Sample> {
        let latest = self.latest()?;
        let until = latest.time_us.saturating_sub(WINDOW_US);
        self.samples
            .iter()
            .rev()
            .find(|sample| sample.time_us <= until)
            .or_else(|| self.samples.front())
            .filter(|sample| sample.time_us < latest.time_us)
    }

    /// Share of reads that the SSD served in the last window, 0 to 1; `None` while nothing is read.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        self.latest()?.read_hit_rate_since(self.earlier()?)
    }

    /// Seconds over which the newest rates are taken: the length of a window, or more while samples are rare.
    #[must_use]
    pub fn window_seconds(&self) -> u64 {
        let taken = self.latest().zip(self.earlier());
        let window = taken.map_or(WINDOW_US, |(now, earlier)| now.time_us - earlier.time_us);
        (window + 500_000) / 1_000_000
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

    /// Whether data was on the SSD only at any time since the cache was started, as far as the samples tell.
    #[must_use]
    pub fn had_dirty(&self) -> bool {
        let first = |sample: &Sample| sample.write_back_sectors > 0;
        self.latest().is_some_and(first)
            || self.samples.iter().any(|sample| sample.dirty_sectors > 0)
    }

    /// Response times of the SSD and of the disk in the last minutes.
    #[must_use]
    pub fn latencies(&self) -> Option<(Latency, Latency)> {
        let (oldest, latest) = (self.samples.front()?, self.latest()?);
        Some((
            latest.ssd_latency.since(&oldest.ssd_latency),
            latest.disk_latency.since(&oldest.disk_latency),
        ))
    }

    /// The rates of the last minutes, oldest first. `now` is the time of the newest sample, in seconds of Unix time.
    ///
    /// A bar ends at the first sample of each window of the clock, so that bars stay as they are when a sample comes.
    #[must_use]
    pub fn bars(&self, now: f64) -> Vec<Bar> {
        let Some(latest) = self.latest() else {
            return Vec::new();
        };
        let moment = |sample: &Sample| now - (latest.time_us - sample.time_us) as f64 / 1e6;
        let mut bars = Vec::new();
        let mut start: Option<&Sample> = None;
        for sample in &self.samples {
            let Some(from) = start else {
                start = Some(sample);
                continue;
            };
            if sample.time_us - from.time_us > GAP_US {
                start = Some(sample);
                continue;
            }
            if sample.time_us / WINDOW_US > from.time_us / WINDOW_US {
                let dirty = sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
                let came = Totals::of(sample).since(&Totals::of(from));
                bars.push(came.over(moment(from), moment(sample), dirty));
                start = Some(sample);
            }
        }
        bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{Bucket, Direction};

    fn sample(seconds: u64, requested: u64, hit: u64) -> Sample {
        let read = Direction {
            requested,
            hit,
            missed: requested - hit,
            ..Direction::default()
        };
        Sample {
            time_us: seconds * 1_000_000,
            read,
            dirty_sectors: 32,
            ..Sample::default()
        }
    }

    #[test]
    fn the_rate_is_that_of_the_last_five_seconds() {
        let hits = |t: u64| t.saturating_sub(5) * 100;
        let until = |end| {
            let samples = (0..=end).map(|t| sample(t, t * 100, hits(t))).collect();
            Series::from_history(samples).hit_rate()
        };
        assert_eq!(until(0), None);
        assert_eq!(until(5), Some(0.0));
        assert_eq!(until(6), Some(0.2));
        assert_eq!(until(10), Some(1.0));
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
    fn response_times_are_those_of_the_samples_that_are_kept() {
        let at = |seconds, requests| {
            let below_us = 128;
            let buckets = vec![Bucket { below_us, requests }];
            Sample {
                ssd_latency: Latency { buckets },
                ..sample(seconds, 0, 0)
            }
        };
        let counted = |samples| {
            let (ssd, disk) = Series::from_history(samples).latencies()?;
            Some((ssd.requests(), disk.requests()))
        };
        assert_eq!(counted(vec![]), None);
        assert_eq!(counted(vec![at(1, 900), at(2, 901)]), Some((1, 0)));
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
    fn nothing_read_is_no_rate_and_bars_at_zero() {
        let series = Series::from_history((0..=20).map(|t| sample(t, 100, 50)).collect());
        assert_eq!(series.hit_rate(), None);
        let bars = series.bars(1000.0);
        assert_eq!(bars.len(), 4);
        assert!(
            bars.iter()
                .all(|bar| (bar.ssd, bar.disk, bar.written) == (0, 0, 0))
        );
    }

    #[test]
    fn bars_have_the_rates_of_their_time_and_stay_when_a_sample_comes() {
        let samples = |end| (0..=end).map(|t| sample(t, t * 300, t * 100)).collect();
        let bars = Series::from_history(samples(12)).bars(1012.0);
        assert_eq!(bars.len(), 2);
        assert_eq!((bars[0].start, bars[0].end), (1000.0, 1005.0));
        assert_eq!((bars[1].ssd, bars[1].disk), (100 * 512, 200 * 512));
        assert_eq!(bars[1].dirty, 32 * 512);
        let later = Series::from_history(samples(13)).bars(1013.0);
        assert_eq!(later, bars);
    }

    #[test]
    fn counters_that_go_back_and_long_silence_leave_a_gap() {
        let mut series = Series::from_history(vec![sample(1, 100, 100), sample(8, 200, 200)]);
        series.push(sample(9, 10, 0));
        assert_eq!(series.hit_rate(), None);
        assert!(series.bars(0.0).is_empty());
        series.push(sample(16, 20, 0));
        assert_eq!(series.bars(0.0).len(), 1);
        series.push(sample(60, 40, 0));
        assert_eq!(series.bars(0.0).len(), 1);
    }

    #[test]
    fn what_is_older_than_the_chart_goes_and_what_comes_twice_is_left_out() {
        let mut series = Series::from_history((0..1000).map(|t| sample(t, t, 0)).collect());
        assert!(series.samples.len() <= 306);
        let before = series.samples.len();
        series.push(sample(999, 2000, 0));
        assert_eq!(series.samples.len(), before);
    }
}
