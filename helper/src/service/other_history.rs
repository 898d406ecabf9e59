// SPDX-License-Identifier: GPL-3.0-or-later
//! The last hour of each cache of another system, in memory: a period for each two looks. The looks are 14 s apart, since bcache
//! counts only once in 13.6 s; a look that an event of the machine has caused is too early to count.

use crate::machine::clock::{boottime_us, unix_us};
use crate::model::other_reading::{OtherCame, OtherReading, OtherSeen};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tandem_api::{OtherPeriod, Span};

/// Caches of which a history is kept. No machine of a person has so many.
const MOST_CACHES: usize = 64;
/// The shortest period, in sample periods of the machine.
const LEAST: u32 = 10;
/// What came in a longer time was not observed: the machine slept, or the system did not answer.
const LONGEST: Duration = Duration::from_secs(60);
/// Periods of a cache: an hour of the shortest ones.
const MOST_PERIODS: usize = 360;

/// The histories by the ids of the caches.
#[derive(Debug, Default)]
pub struct OtherHistories(BTreeMap<String, OtherHistory>);

/// The history of a cache.
#[derive(Debug, Default)]
struct OtherHistory {
    last: Option<OtherReading>,
    /// Requests of the last period. More than a cache answers if they are not known.
    requests: u64,
    periods: VecDeque<OtherPeriod>,
}

impl OtherHistories {
    /// Adds what was just seen, and forgets the caches that are gone. `sample`: the sample period of the machine.
    pub fn add(&mut self, seen: &[OtherSeen], sample: Duration) {
        let ids: BTreeSet<_> = seen.iter().map(|seen| &seen.cache.id).collect();
        self.0.retain(|id, _| ids.contains(id));
        let boot_us = unix_us().saturating_sub(boottime_us());
        for seen in seen.iter().take(MOST_CACHES) {
            let history = self.0.entry(seen.cache.id.clone()).or_default();
            history.add(seen, sample * LEAST, boot_us);
        }
    }

    /// The periods of the cache with this id, oldest first.
    pub fn of(&self, id: &str) -> Vec<OtherPeriod> {
        let history = self.0.get(id);
        history.map_or_else(Vec::new, |history| {
            history.periods.iter().copied().collect()
        })
    }
}

impl OtherHistory {
    /// `boot_us`: when the machine was started, in microseconds of Unix time.
    fn add(&mut self, seen: &OtherSeen, least: Duration, boot_us: u64) {
        let Some(now) = &seen.reading else {
            self.last = None;
            return;
        };
        let Some(last) = &self.last else {
            return self.begin(now);
        };
        if !now.same_cache(last) {
            // Another cache has the name.
            self.periods.clear();
            return self.begin(now);
        }
        let passed = Duration::from_micros(now.time_us.saturating_sub(last.time_us));
        if passed < least {
            return;
        }
        let came = now.since(last, self.requests);
        self.begin(now);
        if let Some(came) = came {
            self.requests = came.requests;
            if passed <= LONGEST {
                self.push(period(seen, &came, boot_us.saturating_add(now.time_us)));
            }
        }
    }

    fn begin(&mut self, now: &OtherReading) {
        self.last = Some(now.clone());
        self.requests = u64::MAX;
    }

    fn push(&mut self, period: OtherPeriod) {
        let hour_us = Span::Hour.seconds() * 1_000_000;
        let oldest = period.end_us.saturating_sub(hour_us);
        self.periods.push_back(period);
        let extra = self.periods.len().saturating_sub(MOST_PERIODS);
        self.periods.drain(..extra);
        // The clock may have been set back: what seems to come later is left out as well.
        self.periods
            .retain(|old| (oldest..=period.end_us).contains(&old.end_us));
    }
}

fn period(seen: &OtherSeen, came: &OtherCame, end_us: u64) -> OtherPeriod {
    let (hits, misses) = came.hits.unwrap_or_default();
    OtherPeriod {
        start_us: end_us.saturating_sub(came.time_us),
        end_us,
        read: came.read,
        written: came.written,
        read_disk: came.read_disk,
        read_ssd: came.read_ssd.unwrap_or(0),
        ssd_known: came.read_ssd.is_some(),
        hits,
        misses,
        unwritten_bytes: seen.cache.unwritten_bytes,
        unwritten_known: seen.cache.unwritten_known,
    }
}

#[cfg(test)]
mod tests;
