// SPDX-License-Identifier: GPL-3.0-or-later
//! Histories over looks at simulated times.

use super::*;
use crate::model::other_reading::{BlockTraffic, Counting, Counts};
use tandem_api::{OtherCache, OtherKind};

const SECOND: u64 = 1_000_000;
const BOOT: u64 = 20_000 * 24 * 3600 * SECOND;

fn seen(seconds: u64) -> OtherSeen {
    let block = |device: &str, read| BlockTraffic {
        device: device.into(),
        requests: seconds,
        read,
        written: seconds,
    };
    OtherSeen {
        cache: OtherCache {
            unwritten_bytes: 7,
            ..OtherCache::empty(OtherKind::Bcache, "bcache0")
        },
        reading: Some(OtherReading {
            time_us: seconds * SECOND,
            device: block("252:0 1", seconds * 4),
            disks: vec![block("8:0 1", seconds)],
            ssds: Some(vec![block("8:16 1", seconds * 3)]),
            counts: Counts {
                counting: Counting::FoldsAt16Bits,
                hits: seconds * 3,
                misses: seconds,
                beside: vec![],
            },
        }),
    }
}

fn add(history: &mut OtherHistory, seen: &OtherSeen) {
    history.add(seen, Duration::from_secs(10), BOOT);
}

#[test]
fn each_two_looks_make_a_period_without_gaps() {
    let mut history = OtherHistory::default();
    for look in 0..4 {
        add(&mut history, &seen(100 + look * 14));
    }
    let periods: Vec<_> = history.periods.iter().copied().collect();
    assert_eq!(periods.len(), 3);
    assert!(
        periods
            .windows(2)
            .all(|two| two[0].end_us == two[1].start_us)
    );
    let last = periods[2];
    assert_eq!(last.end_us, BOOT + 142 * SECOND);
    assert_eq!((last.read, last.read_disk, last.read_ssd), (56, 14, 42));
    assert_eq!((last.hits, last.misses, last.unwritten_bytes), (42, 14, 7));
    // The requests of before the first period are not known, and bcache may count them in it.
    assert_eq!((periods[0].hits, periods[0].misses), (0, 0));
}

#[test]
fn a_look_that_comes_too_early_is_part_of_the_next_period() {
    let mut history = OtherHistory::default();
    for seconds in [100, 101, 104, 114] {
        add(&mut history, &seen(seconds));
    }
    assert_eq!(history.periods.len(), 1);
    assert_eq!(history.periods[0].read_disk, 14);
}

#[test]
fn what_was_not_observed_has_no_period() {
    let mut history = OtherHistory::default();
    // The machine slept.
    for seconds in [100, 114, 5000, 5014] {
        add(&mut history, &seen(seconds));
    }
    // Both are in the last hour, which ends later than the sleep.
    let ends: Vec<_> = history.periods.iter().map(|p| p.end_us - BOOT).collect();
    assert_eq!(ends, [5014 * SECOND]);
    // The kernel does not tell the counters for once.
    let silent = OtherSeen {
        reading: None,
        ..seen(5028)
    };
    add(&mut history, &silent);
    add(&mut history, &seen(5042));
    assert_eq!(history.periods.len(), 1);
    add(&mut history, &seen(5056));
    assert_eq!(history.periods.len(), 2);
}

#[test]
fn another_disk_with_the_same_name_has_no_past() {
    let mut history = OtherHistory::default();
    for seconds in [100, 114] {
        add(&mut history, &seen(seconds));
    }
    let exchanged = |seconds| {
        let mut seen = seen(seconds);
        if let Some(reading) = &mut seen.reading {
            reading.disks[0].device = "8:32 9".into();
        }
        seen
    };
    add(&mut history, &exchanged(128));
    assert!(history.periods.is_empty());
    add(&mut history, &exchanged(142));
    assert_eq!(history.periods.len(), 1);
}

#[test]
fn a_day_stays_bounded_and_a_clock_that_is_set_back_leaves_no_future() {
    let mut history = OtherHistory::default();
    for look in 0..6000 {
        add(&mut history, &seen(100 + look * 14));
    }
    let most = 3600 / 14 + 1;
    assert!((250..=most).contains(&history.periods.len()));
    let next = seen(100 + 6000 * 14);
    history.add(&next, Duration::from_secs(10), BOOT - 7200 * SECOND);
    assert_eq!(history.periods.len(), 1);
}

#[test]
fn caches_that_are_gone_are_forgotten_and_not_all_are_kept() {
    let mut all = OtherHistories::default();
    let many = |seconds, count: usize| -> Vec<_> {
        let named = |n| {
            let mut seen = seen(seconds);
            seen.cache.id = format!("bcache{n}");
            seen
        };
        (0..count).map(named).collect()
    };
    let sample = Duration::from_secs(1);
    for seconds in [100, 114] {
        all.add(&many(seconds, 200), sample);
    }
    assert_eq!(all.0.len(), MOST_CACHES);
    assert_eq!(all.of("bcache0").len(), 1);
    assert_eq!(all.of("bcache199"), []);
    all.add(&[], sample);
    assert!(all.0.is_empty() && all.of("bcache0").is_empty());
}
