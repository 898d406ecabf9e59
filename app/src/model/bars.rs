// SPDX-License-Identifier: GPL-3.0-or-later
//! The bars of the chart: what was read and written in a time, as rates. Plain Rust.

use tandem_api::{LongHistory, Period, Sample, Span};

/// One bar of the chart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// When it begins, in seconds of Unix time.
    pub start: f64,
    /// When it ends.
    pub end: f64,
    /// Bytes a second read from the SSD.
    pub ssd: u64,
    /// Bytes a second read from the disk.
    pub disk: u64,
    /// Bytes a second written.
    pub written: u64,
    /// Bytes that were on the SSD only.
    pub dirty: u64,
    /// Whether that amount is not known.
    pub dirty_unknown: bool,
}

impl Bar {
    /// Bytes a second read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.ssd.saturating_add(self.disk)
    }
}

/// Bytes since the cache was assembled, or in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Read from the SSD.
    pub ssd: u64,
    /// Read from the disk.
    pub disk: u64,
    /// Written by programs.
    pub written: u64,
}

impl Totals {
    /// The totals of a sample.
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        let traffic = sample.traffic();
        Self {
            ssd: traffic.read_ssd,
            disk: traffic.read_disk,
            written: traffic.written,
        }
    }

    /// The bytes since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            ssd: self.ssd.saturating_sub(earlier.ssd),
            disk: self.disk.saturating_sub(earlier.disk),
            written: self.written.saturating_sub(earlier.written),
        }
    }

    /// The bar of these totals.
    #[must_use]
    pub fn over(&self, start: f64, end: f64, dirty: u64) -> Bar {
        let rate = |bytes: u64| (bytes as f64 / (end - start).max(1e-3)).round() as u64;
        Bar {
            start,
            end,
            ssd: rate(self.ssd),
            disk: rate(self.disk),
            written: rate(self.written),
            dirty,
            dirty_unknown: false,
        }
    }

    fn of_period(period: &Period) -> Self {
        Self {
            ssd: period.read_ssd,
            disk: period.read_disk,
            written: period.written,
        }
    }
}

/// The bars of a long history. A period that was observed only in part has the rate of that part.
#[must_use]
pub fn long_bars(history: &LongHistory, span: Span) -> Vec<Bar> {
    let length = span.period_seconds();
    let bar = |period: &Period| {
        let observed = period.seconds.clamp(1, length);
        let totals = Totals::of_period(period);
        let start = period.start as f64;
        let mut bar = totals.over(start, start + observed as f64, period.dirty);
        bar.end = start + length as f64;
        bar
    };
    history.periods.iter().map(bar).collect()
}

/// Share of reads that the SSD served from `since` on, in seconds of Unix time; `None` if nothing was read.
#[must_use]
pub fn hit_rate_since(history: &LongHistory, since: u64) -> Option<f64> {
    let periods = history
        .periods
        .iter()
        .filter(|period| period.start >= since);
    let (ssd, all) = periods.fold((0_u64, 0_u64), |(ssd, all), period| {
        (
            ssd.saturating_add(period.read_ssd),
            all.saturating_add(period.read_ssd)
                .saturating_add(period.read_disk),
        )
    });
    (all > 0).then(|| ssd as f64 / all as f64)
}

/// Share of reads that the SSD served since the cache was set up, or its statistics were reset; `None` if nothing was read.
#[must_use]
pub fn total_hit_rate(history: &LongHistory) -> Option<f64> {
    let all = history
        .total
        .read_ssd
        .saturating_add(history.total.read_disk);
    (all > 0).then(|| history.total.read_ssd as f64 / all as f64)
}

/// The bars as a table for other programs: `time` gives the text of a moment.
#[must_use]
pub fn csv(bars: &[Bar], time: impl Fn(f64) -> String) -> String {
    let head = "start,end,read_ssd_bytes_per_second,read_disk_bytes_per_second,written_bytes_per_second,waiting_bytes\n";
    let row = |bar: &Bar| {
        format!(
            "{},{},{},{},{},{}\n",
            time(bar.start),
            time(bar.end),
            bar.ssd,
            bar.disk,
            bar.written,
            bar.dirty
        )
    };
    std::iter::once(head.to_owned())
        .chain(bars.iter().map(row))
        .collect()
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `most` and at least a million: the top of an axis.
#[must_use]
pub fn axis_top(most: u64) -> u64 {
    let mut power = 1_000_000_u64;
    loop {
        for step in [1, 2, 5] {
            let top = power.saturating_mul(step);
            if top >= most || top == u64::MAX {
                return top;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{Counter, Direction};

    fn period(start: u64, seconds: u64, read_ssd: u64, read_disk: u64) -> Period {
        Period {
            start,
            seconds,
            read_ssd,
            read_disk,
            written: 3000,
            dirty: 7,
        }
    }

    fn history(periods: Vec<Period>) -> LongHistory {
        LongHistory {
            total: period(0, 0, 300, 100),
            periods,
            ..LongHistory::default()
        }
    }

    #[test]
    fn a_period_has_the_rate_of_the_time_in_which_it_was_observed() {
        let history = history(vec![period(300, 300, 3000, 600), period(600, 30, 3000, 0)]);
        let bars = long_bars(&history, Span::Day);
        assert_eq!((bars[0].ssd, bars[0].disk, bars[0].written), (10, 2, 10));
        assert_eq!((bars[1].ssd, bars[1].read(), bars[1].dirty), (100, 100, 7));
        assert_eq!((bars[1].start, bars[1].end), (600.0, 900.0));
    }

    #[test]
    fn the_rate_of_today_begins_at_midnight() {
        let history = history(vec![period(0, 300, 0, 900), period(300, 300, 30, 10)]);
        assert_eq!(hit_rate_since(&history, 300), Some(0.75));
        assert_eq!(hit_rate_since(&history, 600), None);
        assert_eq!(total_hit_rate(&history), Some(0.75));
        assert_eq!(total_hit_rate(&LongHistory::default()), None);
    }

    #[test]
    fn freed_space_is_not_written() {
        let counter = |name: &str, value| Counter {
            name: name.to_owned(),
            value,
        };
        let sample = Sample {
            read: Direction {
                requested: 6,
                hit: 1,
                missed: 2,
                bypassed: vec![counter("busy", 3)],
            },
            write: Direction {
                requested: 15,
                hit: 1,
                missed: 2,
                bypassed: vec![counter("discard", 8), counter("busy", 4)],
            },
            ..Sample::default()
        };
        let totals = Totals::of(&sample);
        assert_eq!(
            (totals.ssd, totals.disk, totals.written),
            (512, 5 * 512, 7 * 512)
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_bar() {
        let bars = [Totals {
            ssd: 10,
            disk: 20,
            written: 30,
        }
        .over(5.0, 10.0, 9)];
        let table = csv(&bars, |time| format!("t{time}"));
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines[1..], ["t5,t10,2,4,6,9"]);
        let columns = |line: &str| line.split(',').count();
        assert_eq!(columns(lines[0]), columns(lines[1]));
    }

    #[test]
    fn the_top_of_an_axis_is_a_round_number() {
        assert_eq!(axis_top(0), 1_000_000);
        assert_eq!(axis_top(1_000_001), 2_000_000);
        assert_eq!(axis_top(214_000_000), 500_000_000);
        assert_eq!(axis_top(u64::MAX), u64::MAX);
    }
}
