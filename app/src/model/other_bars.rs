// SPDX-License-Identifier: GPL-3.0-or-later
//! The bars of a cache of another system, and its hit rate. Plain Rust.

use tandem_api::OtherPeriod;

use super::bars::{Bar, Totals};

/// The chart of such a cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherBars {
    /// The bars, oldest first.
    pub bars: Vec<Bar>,
    /// Whether the bars show all reads as those of the disk, since those of the SSD are not known.
    pub whole: bool,
    /// Whether data waits on the SSD, or has waited.
    pub dirty: bool,
}

/// The bars of these periods. While the reads of the SSD are known, the periods in which they were not have no bar.
#[must_use]
pub fn other_bars(periods: &[OtherPeriod]) -> OtherBars {
    let whole = periods.last().is_some_and(|period| !period.ssd_known);
    let shown = periods.iter().filter(|period| whole || period.ssd_known);
    let bar = |period: &OtherPeriod| {
        let totals = Totals {
            ssd: if whole { 0 } else { period.read_ssd },
            disk: if whole { period.read } else { period.read_disk },
            written: period.written,
        };
        let seconds = |us: u64| us as f64 / 1e6;
        let (start, end) = (seconds(period.start_us), seconds(period.end_us));
        Bar {
            dirty_unknown: !period.unwritten_known,
            ..totals.over(start, end, period.unwritten_bytes)
        }
    };
    let bars: Vec<_> = shown.map(bar).collect();
    let dirty = bars.iter().any(|bar| bar.dirty > 0);
    OtherBars { bars, whole, dirty }
}

/// Share of what the system has counted that the SSD has served; `None` if nothing was counted that can be believed.
#[must_use]
pub fn other_hit_rate(periods: &[OtherPeriod]) -> Option<f64> {
    let sum = |part: fn(&OtherPeriod) -> u64| periods.iter().map(part).fold(0, u64::saturating_add);
    let (hits, misses) = (sum(|period| period.hits), sum(|period| period.misses));
    let all = hits.saturating_add(misses);
    (all > 0).then(|| hits as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(start: u64, ssd_known: bool) -> OtherPeriod {
        OtherPeriod {
            start_us: start * 1_000_000,
            end_us: (start + 10) * 1_000_000,
            read: 900,
            written: 300,
            read_disk: 200,
            read_ssd: if ssd_known { 700 } else { 0 },
            ssd_known,
            hits: 9,
            misses: 1,
            unwritten_bytes: 5,
            unwritten_known: true,
        }
    }

    #[test]
    fn bars_are_rates_of_the_block_devices() {
        let shown = other_bars(&[period(100, true), period(110, true)]);
        assert!(!shown.whole && shown.dirty);
        let bar = shown.bars[1];
        assert_eq!((bar.start, bar.end), (110.0, 120.0));
        assert_eq!((bar.ssd, bar.disk, bar.written), (70, 20, 30));
        assert_eq!(other_bars(&[]), OtherBars::default());
    }

    #[test]
    fn reads_of_the_ssd_that_nobody_knows_are_not_shown_as_none() {
        // The SSD was exchanged in the first period.
        let shown = other_bars(&[period(100, false), period(110, true)]);
        assert!(!shown.whole && shown.bars.len() == 1);
        let shown = other_bars(&[period(100, true), period(110, false)]);
        assert!(shown.whole && shown.bars.len() == 2);
        assert!(shown.bars.iter().all(|bar| (bar.ssd, bar.disk) == (0, 90)));
    }

    #[test]
    fn what_waits_is_unknown_where_the_system_does_not_tell() {
        let silent = OtherPeriod {
            unwritten_bytes: 0,
            unwritten_known: false,
            ..period(100, true)
        };
        let shown = other_bars(&[silent]);
        assert!(shown.bars[0].dirty_unknown && !shown.dirty);
    }

    #[test]
    fn the_rate_is_that_of_all_periods_that_have_counts() {
        let none = OtherPeriod {
            hits: 0,
            misses: 0,
            ..period(100, true)
        };
        assert_eq!(other_hit_rate(&[none, period(110, true)]), Some(0.9));
        assert_eq!(other_hit_rate(&[none]), None);
        assert_eq!(other_hit_rate(&[]), None);
    }
}
