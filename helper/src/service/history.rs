// SPDX-License-Identifier: GPL-3.0-or-later
//! The long history of a cache: the bytes that were read from the SSD, read from the disk, and written, in several
//! rings of periods. Each ring has periods of another length.
//!
//! The history is kept in one file below the folder of the records. The file is written at most every ten minutes and
//! at the end of the service, and only if data was read or written since. A power cut loses at most the last ten
//! minutes. The file has at most [`MAX_PERIODS`] periods, which is below 300 kB.

use crate::machine::clock::{boottime_us, unix_us};
use crate::machine::store::Store;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tandem_api::{LongHistory, Period, SECTOR_BYTES, Sample, Span, SsdWritten};

/// Least time between two writes of the file.
const SAVE_EVERY: Duration = Duration::from_secs(600);

/// If the counters began anew since the last sample, their values count for so many microseconds before the sample.
const RESET_SPREAD_US: u64 = 10_000_000;

/// Number of periods of all rings. Each ring has one period more than its span needs, because the newest period is not
/// complete.
#[cfg(test)]
const MAX_PERIODS: usize = 361 + 289 + 721;

/// The counters for the history, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counters {
    /// Microseconds of `CLOCK_BOOTTIME`.
    time_us: u64,
    read_ssd: u64,
    read_disk: u64,
    written: u64,
    /// Written by the cache to its SSD.
    #[serde(default)]
    ssd_written: u64,
}

impl Counters {
    fn of(sample: &Sample) -> Self {
        let traffic = sample.traffic();
        Self {
            time_us: sample.time_us,
            read_ssd: traffic.read_ssd,
            read_disk: traffic.read_disk,
            written: traffic.written,
            ssd_written: sample.written_to_ssd(),
        }
    }

    /// The bytes since `earlier`. If the counters began anew, by a start of the machine or a new assembly of the cache:
    /// all bytes, in a short time.
    fn since(&self, earlier: &Self) -> Self {
        let since = || {
            Some(Self {
                time_us: self.time_us.checked_sub(earlier.time_us)?,
                read_ssd: self.read_ssd.checked_sub(earlier.read_ssd)?,
                read_disk: self.read_disk.checked_sub(earlier.read_disk)?,
                written: self.written.checked_sub(earlier.written)?,
                ssd_written: self.ssd_written.checked_sub(earlier.ssd_written)?,
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

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StoredHistory {
    total: Period,
    #[serde(default)]
    was_reset: bool,
    #[serde(default)]
    ssd_written: SsdWritten,
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

    /// Adds the bytes of the last `came.time_us` microseconds before `end_us`. `end_us`: microseconds of Unix time.
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
        if self.ssd_written.since > 0 {
            let bytes = self.ssd_written.bytes;
            self.ssd_written.bytes = bytes.saturating_add(came.ssd_written);
        }
        let all = part(came, (from_us, end_us), (from_us, end_us));
        add_to(&mut self.total, &all, dirty);
    }
}

/// The share of `came` in a part of its time. `seconds`: whole seconds of the clock, so that the parts add up.
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

/// Adds bytes to the period that starts at `start`. If the clock went back, the newest period gets the bytes.
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

/// The totals, and whether they were reset.
pub type Totals = (Period, bool);

/// The long history of one cache.
#[derive(Debug, Default)]
pub struct History {
    kept: StoredHistory,
    /// The totals before the last reset by this process, for its undo.
    before_reset: Option<Totals>,
    /// The file is older than the history in memory.
    unsaved: bool,
    saved: Option<Instant>,
}

impl History {
    /// The history in the file of this cache. Without a file, or with a file that cannot be read, an empty history,
    /// which replaces the file at the next write.
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
        let now_us = unix_us();
        let boot_us = now_us.saturating_sub(boottime_us());
        self.add_at(sample, boot_us.saturating_add(sample.time_us));
    }

    /// Adds a sample of this moment, in microseconds of Unix time.
    fn add_at(&mut self, sample: &Sample, unix_us: u64) {
        let now = Counters::of(sample);
        let before = std::mem::replace(&mut self.kept.last, now);
        let dirty = sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
        if before == Counters::default() {
            // The first values of the counters are from before the history began.
            self.kept.total.start = unix_us / 1_000_000;
            self.kept.ssd_written.since = unix_us / 1_000_000;
            self.unsaved = true;
            return;
        }
        let came = now.since(&before);
        self.unsaved |= !came.is_idle();
        self.kept.add(&came, dirty, unix_us);
        // A file of an older version has no count of what was written before.
        if self.kept.ssd_written.since == 0 {
            self.kept.ssd_written.since = unix_us / 1_000_000;
        }
    }

    /// Begins the totals anew, at a moment in seconds of Unix time. Returns what [`Self::undo_reset`] would have brought
    /// back until now.
    pub fn reset(&mut self, now: u64) -> Option<Totals> {
        let totals = (self.kept.total, self.kept.was_reset);
        let earlier = self.before_reset.replace(totals);
        self.kept.total = Period {
            start: now,
            ..Period::default()
        };
        self.kept.was_reset = true;
        self.unsaved = true;
        earlier
    }

    /// Takes back a [`Self::reset`] that failed. `earlier`: what it has returned.
    pub fn cancel_reset(&mut self, earlier: Option<Totals>) {
        self.undo_reset();
        self.before_reset = earlier;
    }

    /// Takes back the last [`Self::reset`]: what came since counts for the totals of before. Returns whether there was a
    /// reset that can be taken back.
    pub fn undo_reset(&mut self) -> bool {
        let Some((before, was_reset)) = self.before_reset.take() else {
            return false;
        };
        let since = std::mem::replace(&mut self.kept.total, before);
        add_to(&mut self.kept.total, &since, since.dirty);
        self.kept.was_reset = was_reset;
        self.unsaved = true;
        true
    }

    /// The part of the history in this span.
    pub fn read(&self, span: Span) -> LongHistory {
        let periods = match span {
            Span::Hour => &self.kept.hour,
            Span::Day => &self.kept.day,
            Span::Month => &self.kept.month,
        };
        LongHistory {
            total: self.kept.total,
            was_reset: self.kept.was_reset,
            ssd_written: self.kept.ssd_written,
            periods: periods.clone(),
        }
    }

    /// The new content of the file. None if the history has not changed, or if the last write was a short time ago and
    /// the service does not end (`last`).
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
mod tests;
