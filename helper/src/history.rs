// SPDX-License-Identifier: GPL-3.0-or-later
//! The long history of a cache: how much was read from the SSD, read from the disk and written, in rings of periods of
//! several lengths.
//!
//! The history is kept in one file below the folder of the records. The file is written at most every ten minutes and
//! at the end of the service, and only if something was read or written since; a power cut costs at most the last ten
//! minutes. It has at most [`MAX_PERIODS`] periods, which is below 300 kB.

use crate::state::Store;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tandem_api::{LongHistory, Period, SECTOR_BYTES, Sample, Span};

/// Least time between two writes of the file.
const SAVE_EVERY: Duration = Duration::from_secs(600);

/// Time over which counters are spread that began anew since the last sample, in microseconds.
const RESET_SPREAD_US: u64 = 10_000_000;

/// Periods of all rings. Each ring has one more than its span needs, because the newest is not complete.
#[cfg(test)]
const MAX_PERIODS: usize = 361 + 289 + 721;

/// The counters that the history is made of, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counters {
    /// Microseconds of `CLOCK_BOOTTIME`.
    time_us: u64,
    read_ssd: u64,
    read_disk: u64,
    written: u64,
}

impl Counters {
    fn of(sample: &Sample) -> Self {
        let traffic = sample.traffic();
        Self {
            time_us: sample.time_us,
            read_ssd: traffic.read_ssd,
            read_disk: traffic.read_disk,
            written: traffic.written,
        }
    }

    /// What came since `earlier`. All of it, in a short time, if the counters began anew: after a start of the machine
    /// or a new assembly of the cache.
    fn since(&self, earlier: &Self) -> Self {
        let since = || {
            Some(Self {
                time_us: self.time_us.checked_sub(earlier.time_us)?,
                read_ssd: self.read_ssd.checked_sub(earlier.read_ssd)?,
                read_disk: self.read_disk.checked_sub(earlier.read_disk)?,
                written: self.written.checked_sub(earlier.written)?,
            })
        };
        since().unwrap_or(Self {
            time_us: RESET_SPREAD_US.min(self.time_us),
            ..*self
        })
    }

    fn is_idle(&self) -> bool {
        (self.read_ssd, self.read_disk, self.written) == (0, 0, 0)
    }
}

/// What is in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StoredHistory {
    total: Period,
    last: Counters,
    hour: Vec<Period>,
    day: Vec<Period>,
    month: Vec<Period>,
}

impl StoredHistory {
    fn periods_mut(&mut self, span: Span) -> &mut Vec<Period> {
        match span {
            Span::Hour => &mut self.hour,
            Span::Day => &mut self.day,
            Span::Month => &mut self.month,
        }
    }

    /// Adds what came in `came.time_us` microseconds before `end_us`, in microseconds of Unix time.
    fn add(&mut self, came: &Counters, dirty: u64, end_us: u64) {
        let from_us = end_us.saturating_sub(came.time_us);
        for span in Span::ALL.iter().copied() {
            let length_us = span.period_seconds() * 1_000_000;
            let oldest_us = end_us.saturating_sub(span.seconds() * 1_000_000);
            let mut at_us = from_us.max(oldest_us);
            loop {
                let start_us = at_us - at_us % length_us;
                let until_us = end_us.min(start_us + length_us);
                let part = part(came, (from_us, end_us), (at_us, until_us));
                merge(self.periods_mut(span), start_us / 1_000_000, &part, dirty);
                at_us = until_us;
                if at_us >= end_us {
                    break;
                }
            }
            let most = usize::try_from(span.seconds() / span.period_seconds() + 1);
            let ring = self.periods_mut(span);
            let extra = ring.len().saturating_sub(most.unwrap_or(usize::MAX));
            ring.drain(..extra);
            let oldest = (oldest_us - oldest_us % length_us) / 1_000_000;
            ring.retain(|period| period.start >= oldest);
        }
        let all = part(came, (from_us, end_us), (from_us, end_us));
        add_to(&mut self.total, &all, dirty);
    }
}

/// The share of `came` in a part of its time; `seconds` are whole seconds of the clock, so that parts add up.
fn part(came: &Counters, (from, end): (u64, u64), (at, until): (u64, u64)) -> Period {
    let whole = u128::from(end - from);
    let share = |amount: u64| {
        let before = |time: u64| {
            let done = u128::from(amount) * u128::from(time - from);
            done.checked_div(whole).unwrap_or_default()
        };
        let after = if until == end {
            u128::from(amount)
        } else {
            before(until)
        };
        u64::try_from(after - before(at)).unwrap_or(u64::MAX)
    };
    Period {
        start: 0,
        seconds: until / 1_000_000 - at / 1_000_000,
        read_ssd: share(came.read_ssd),
        read_disk: share(came.read_disk),
        written: share(came.written),
        dirty: 0,
    }
}

fn add_to(period: &mut Period, more: &Period, dirty: u64) {
    period.seconds = period.seconds.saturating_add(more.seconds);
    period.read_ssd = period.read_ssd.saturating_add(more.read_ssd);
    period.read_disk = period.read_disk.saturating_add(more.read_disk);
    period.written = period.written.saturating_add(more.written);
    period.dirty = period.dirty.max(dirty);
}

/// Adds to the period that starts at `start`. If the clock went back, the newest period takes it.
fn merge(ring: &mut Vec<Period>, start: u64, more: &Period, dirty: u64) {
    if ring.last().is_none_or(|last| last.start < start) {
        ring.push(Period {
            start,
            ..Period::default()
        });
    }
    if let Some(last) = ring.last_mut() {
        add_to(last, more, dirty);
    }
}

/// The long history of one cache.
#[derive(Debug, Default)]
pub struct History {
    kept: StoredHistory,
    /// Whether the file is older than what happened.
    unsaved: bool,
    saved: Option<Instant>,
}

impl History {
    /// The history that is kept of this cache, or an empty one. A file that cannot be read is replaced at the next
    /// write.
    pub fn load(store: &Store, uuid: &str) -> Self {
        let kept = store.load_history(uuid).unwrap_or_else(|e| {
            tracing::warn!(uuid, "the history begins anew: {e}");
            None
        });
        Self {
            kept: kept.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Adds a sample that was just taken.
    pub fn add(&mut self, sample: &Sample) {
        let now_us = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(0));
        let boot_us = now_us.saturating_sub(crate::sampler::boottime_us());
        self.add_at(sample, boot_us.saturating_add(sample.time_us));
    }

    /// Adds a sample of this moment, in microseconds of Unix time.
    fn add_at(&mut self, sample: &Sample, unix_us: u64) {
        let now = Counters::of(sample);
        let before = std::mem::replace(&mut self.kept.last, now);
        let dirty = sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
        if before == Counters::default() {
            // What the counters say already was before the history began.
            self.kept.total.start = unix_us / 1_000_000;
            self.unsaved = true;
            return;
        }
        let came = now.since(&before);
        self.unsaved |= !came.is_idle();
        self.kept.add(&came, dirty, unix_us);
    }

    /// The past of this span.
    pub fn read(&self, span: Span) -> LongHistory {
        let periods = match span {
            Span::Hour => &self.kept.hour,
            Span::Day => &self.kept.day,
            Span::Month => &self.kept.month,
        };
        LongHistory {
            total: self.kept.total,
            periods: periods.clone(),
        }
    }

    /// What to write to the file, if there is something new and it is time to write it, or the service ends (`last`).
    pub fn to_save(&mut self, last: bool) -> Option<impl Serialize + Send + use<>> {
        let due = self
            .saved
            .is_none_or(|saved| last || saved.elapsed() >= SAVE_EVERY);
        if !self.unsaved || !due {
            return None;
        }
        self.unsaved = false;
        self.saved = Some(Instant::now());
        Some(self.kept.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Pair;
    use crate::state::CacheRecord;
    use std::fs;
    use std::path::PathBuf;
    use tandem_api::{Counter, Direction, Mode};

    /// A time of the clock at which every period of every span begins, in seconds.
    const MIDNIGHT: u64 = 20_000 * 24 * 3600;

    /// A sample so many seconds after the start of the machine; read and written are bytes.
    fn sample(seconds: u64, ssd: u64, disk: u64, written: u64) -> Sample {
        let sectors = |bytes: u64| bytes / SECTOR_BYTES;
        Sample {
            time_us: seconds * 1_000_000,
            read: Direction {
                requested: sectors(ssd + disk),
                hit: sectors(ssd),
                missed: sectors(disk),
                bypassed: vec![],
            },
            write: Direction {
                requested: sectors(written) + 7,
                hit: sectors(written),
                missed: 0,
                bypassed: vec![Counter {
                    name: "discard".to_owned(),
                    value: 7,
                }],
            },
            ..Sample::default()
        }
    }

    fn add(history: &mut History, seconds: u64, sample: &Sample) {
        history.add_at(sample, (MIDNIGHT + seconds) * 1_000_000);
    }

    fn sum(periods: &[Period]) -> [u64; 4] {
        let of = |part: fn(&Period) -> u64| periods.iter().map(part).sum();
        [
            of(|p| p.seconds),
            of(|p| p.read_ssd),
            of(|p| p.read_disk),
            of(|p| p.written),
        ]
    }

    struct Folder(PathBuf, Store);

    impl Folder {
        /// A folder of records with one cache.
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("tandem-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            let store = Store::open(&root).unwrap();
            let mut record = CacheRecord::new(Pair::nowhere(Mode::Writethrough));
            record.pair.uuid = UUID.to_owned();
            store.save_cache(&record).unwrap();
            Self(root, store)
        }

        fn save(&self, history: &mut History, last: bool) -> bool {
            let kept = history.to_save(last);
            if let Some(kept) = &kept {
                self.1.save_history(UUID, kept).unwrap();
            }
            kept.is_some()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const UUID: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn every_ring_has_every_byte_and_every_second() {
        let mut history = History::default();
        let mut at = 0;
        add(&mut history, 3, &sample(1003, 5120, 512, 0));
        for step in 1..200_u64 {
            at += 1 + step % 13;
            let now = sample(1003 + at, 5120 + at * 1024, 512 + at * 512, step * 512);
            add(&mut history, 3 + at, &now);
        }
        let all = [at, at * 1024, at * 512, 199 * 512];
        for span in Span::ALL.iter().copied() {
            let periods = history.read(span).periods;
            assert_eq!(sum(&periods), all, "{span}");
            let starts = |p: &Period| p.start.is_multiple_of(span.period_seconds());
            assert!(periods.iter().all(starts));
            assert!(periods.iter().all(|p| p.seconds <= span.period_seconds()));
            assert!(periods.windows(2).all(|pair| pair[0].start < pair[1].start));
        }
        assert_eq!(sum(&[history.read(Span::Day).total]), all);
        assert_eq!(history.read(Span::Day).total.start, MIDNIGHT + 3);
    }

    #[test]
    fn what_came_in_a_long_time_is_spread_over_it() {
        let mut history = History::default();
        add(&mut history, 0, &sample(100, 0, 0, 512));
        add(&mut history, 40, &sample(140, 4096, 8192, 512));
        let hour = history.read(Span::Hour).periods;
        assert_eq!(
            hour.iter()
                .map(|p| (p.read_ssd, p.read_disk))
                .collect::<Vec<_>>(),
            [(1024, 2048); 4]
        );
        // A machine that slept for a day, with nothing read meanwhile.
        add(&mut history, 100_000, &sample(100_100, 4096, 8192, 512));
        assert_eq!(sum(&history.read(Span::Hour).periods)[1..], [0, 0, 0]);
        assert_eq!(
            sum(&history.read(Span::Month).periods)[1..],
            [4096, 8192, 0]
        );
    }

    #[test]
    fn counters_that_begin_anew_count_whole() {
        let mut history = History::default();
        add(&mut history, 0, &sample(100, 51_200, 512, 512));
        // The machine was restarted: its clock and all counters are younger.
        add(&mut history, 500, &sample(50, 1024, 512, 0));
        // The cache was assembled anew, in the same boot.
        add(&mut history, 600, &sample(150, 512, 512, 512));
        let total = history.read(Span::Hour).total;
        assert_eq!(
            (total.read_ssd, total.read_disk, total.written),
            (1536, 1024, 512)
        );
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let mut history = History::default();
        add(&mut history, 5000, &sample(10, 0, 512, 0));
        add(&mut history, 5010, &sample(20, 1024, 512, 0));
        add(&mut history, 1000, &sample(30, 2048, 512, 0));
        for span in Span::ALL.iter().copied() {
            let periods = history.read(span).periods;
            assert_eq!(sum(&periods)[1], 2048, "{span}");
            assert!(periods.windows(2).all(|pair| pair[0].start < pair[1].start));
        }
    }

    #[test]
    fn forty_days_stay_bounded() {
        let mut history = History::default();
        for minute in 1..40 * 24 * 60_u64 {
            let now = sample(minute * 60, minute * 51_200, minute * 512, minute * 1024);
            add(&mut history, minute * 60, &now);
        }
        let all = Span::ALL
            .iter()
            .map(|span| history.read(*span).periods.len());
        assert!(all.sum::<usize>() <= MAX_PERIODS);
        assert!(history.read(Span::Month).periods.len() >= 720);
        let file = serde_json::to_vec(&history.kept).unwrap().len();
        assert!(file < 300_000, "{file}");
    }

    #[test]
    fn the_file_is_written_rarely_and_only_if_something_happened() {
        let folder = Folder::new("history-save");
        let mut history = History::load(&folder.1, UUID);
        assert!(!folder.save(&mut history, true));
        add(&mut history, 0, &sample(100, 0, 512, 0));
        assert!(folder.save(&mut history, false), "the history begins");
        add(&mut history, 10, &sample(110, 512, 512, 0));
        assert!(
            !folder.save(&mut history, false),
            "ten minutes are not over"
        );
        assert!(folder.save(&mut history, true));
        add(&mut history, 20, &sample(120, 512, 512, 0));
        assert!(
            !folder.save(&mut history, true),
            "nothing was read or written"
        );
        let again = History::load(&folder.1, UUID);
        assert_eq!(again.kept.total.read_ssd, 512);
        history.saved = Instant::now().checked_sub(SAVE_EVERY);
        add(&mut history, 30, &sample(130, 1024, 512, 0));
        assert!(history.saved.is_some() && folder.save(&mut history, false));
    }

    #[test]
    fn a_cut_leaves_the_old_history_and_a_damaged_file_a_new_one() {
        let folder = Folder::new("history-cut");
        let mut history = History::load(&folder.1, UUID);
        add(&mut history, 0, &sample(100, 0, 512, 0));
        add(&mut history, 10, &sample(110, 512, 512, 0));
        assert!(folder.save(&mut history, false));
        let file = folder
            .0
            .join("history")
            .join(format!("{UUID}.history.json"));
        // Half of the next file was written when the power went out.
        let whole = fs::read(&file).unwrap();
        fs::write(file.with_extension("new"), &whole[..whole.len() / 2]).unwrap();
        let store = Store::open(&folder.0).unwrap();
        assert_eq!(History::load(&store, UUID).kept, history.kept);
        assert!(!file.with_extension("new").exists());
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(History::load(&store, UUID).kept, StoredHistory::default());
    }

    #[test]
    fn a_removed_cache_leaves_no_history() {
        let folder = Folder::new("history-removed");
        let mut history = History::default();
        add(&mut history, 0, &sample(100, 0, 512, 0));
        assert!(folder.save(&mut history, false));
        folder.1.drop_cache(UUID).unwrap();
        // The sampler of the removed cache may run a moment longer.
        add(&mut history, 10, &sample(110, 512, 512, 0));
        assert!(folder.save(&mut history, true));
        assert_eq!(fs::read_dir(folder.0.join("history")).unwrap().count(), 0);
    }
}
