// SPDX-License-Identifier: GPL-3.0-or-later
//! Writing back the data that is only on the SSD. The module does it; this code watches, reports and waits.

use super::{Watcher, module_status};
use crate::host::Host;
use crate::machine::dm::message::{Flush, Message};
use crate::machine::store::Store;
use crate::model::action::{Action, Pair};
use crate::model::record::Intent;
use std::collections::VecDeque;
use std::time::Duration;
use tandem_api::{DataState, Failure, Kind, SECTOR_BYTES, Sample};
use tokio::time::Instant;

/// Time between two queries of the status. The module has no event for progress.
pub(super) const QUERY_INTERVAL: Duration = Duration::from_millis(500);
/// The rate is measured over so many queries.
const RATE_QUERIES: usize = 20;
/// After so many failed queries in a row the mapping counts as gone.
pub(super) const MAX_FAILED_QUERIES: u32 = 10;

/// How far a drain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Bytes that are still on the SSD only.
    pub left: u64,
    /// The most bytes that were on the SSD only during this drain.
    pub total: u64,
    /// Bytes a second, measured over the last queries.
    pub rate: u64,
    /// Seconds until the end, 0 if unknown.
    pub seconds: u64,
}

/// The bytes that were left at the last queries.
#[derive(Default)]
pub(super) struct DrainRate {
    looks: VecDeque<(Instant, u64)>,
    total: u64,
}

impl DrainRate {
    fn update(&mut self, now: Instant, sample: &Sample) -> Drained {
        let left = sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
        // The estimate is the module's: it knows the order in which it writes, and when it knows enough for an
        // estimate.
        let seconds = sample.drain_seconds;
        Drained {
            seconds,
            ..self.measure(now, left)
        }
    }

    /// Bytes that are left. The estimate is made of the rate.
    pub(super) fn measure(&mut self, now: Instant, left: u64) -> Drained {
        self.total = self.total.max(left);
        if self.looks.len() == RATE_QUERIES {
            self.looks.pop_front();
        }
        self.looks.push_back((now, left));
        let rate = self.looks.front().map_or(0.0, |(then, had)| {
            let time = now.saturating_duration_since(*then).as_secs_f64();
            let written = had.saturating_sub(left) as f64;
            if time > 0.0 { written / time } else { 0.0 }
        });
        let rate = rate as u64;
        Drained {
            left,
            total: self.total,
            rate,
            seconds: left.checked_div(rate).unwrap_or(0),
        }
    }
}

/// Since when the disk has accepted no data.
struct Stall {
    since: Instant,
    least: u64,
    errors: u64,
    limit: Duration,
}

impl Stall {
    fn new(now: Instant, sample: &Sample, limit: Duration) -> Self {
        Self {
            limit,
            since: now,
            least: sample.dirty_sectors,
            errors: sample.event("disk_errors"),
        }
    }

    /// Whether the disk has accepted no data for so long, and reports errors. A disk that is only slow or busy
    /// reports no errors.
    fn update(&mut self, now: Instant, sample: &Sample) -> bool {
        let errors = sample.event("disk_errors");
        if sample.dirty_sectors < self.least {
            *self = Self::new(now, sample, self.limit);
        }
        // The module counts errors from 0 again when a table is loaded anew.
        self.errors = self.errors.min(errors);
        errors > self.errors && now.saturating_duration_since(self.since) > self.limit
    }
}

/// Writes back all data that is on the SSD only. `intent` records whether the job is paused.
///
/// # Errors
/// `Cancelled`, `SsdLost`, `UnwrittenData` if the disk does not take it, or that the module cannot be reached.
pub(super) async fn drain(
    host: &dyn Host,
    store: &Store,
    intent: &mut Intent,
    pair: &Pair,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    host.apply(&Action::Drain(pair.clone())).await?;
    watcher.data_moves(Some(intent.paused));
    let result = follow(host, store, intent, pair, watcher).await;
    watcher.data_moves(None);
    result
}

async fn follow(
    host: &dyn Host,
    store: &Store,
    intent: &mut Intent,
    pair: &Pair,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let mut pace = DrainRate::default();
    let (mut told, mut failed_queries, mut stall) = (false, 0, None::<Stall>);
    // Requests that were in flight when the flush began may still have left dirty data.
    let mut clean = false;
    loop {
        if watcher.cancelled() {
            return Err(Failure::new(Kind::Cancelled));
        }
        let paused = watcher.paused();
        if paused != intent.paused {
            intent.paused = paused;
            // The job is paused all the same. Without the record it would go on after a restart of the service, which
            // does no harm.
            if let Err(e) = store.save_intent(intent) {
                tracing::warn!("cannot record that a flush waits, or no longer: {e}");
            }
        }
        if paused != told {
            let flush = if paused { Flush::Pause } else { Flush::Resume };
            host.send_message(&pair.uuid, Message::Flush(flush)).await?;
            (told, pace.looks, stall) = (paused, VecDeque::new(), None);
        }
        match module_status(host, &pair.uuid).await {
            Ok(status) if status.sample.dirty_sectors == 0 && clean => return Ok(()),
            Ok(status) => {
                failed_queries = 0;
                clean = status.sample.dirty_sectors == 0;
                let now = Instant::now();
                let drained = pace.update(now, &status.sample);
                if drained.left > 0 && status.reason.starts_with("ssd-") {
                    return Err(Failure::new(Kind::SsdLost)
                        .device(&pair.ssd.text)
                        .sizes(drained.left, 0)
                        .data(DataState::Unwritten)
                        .detail(&status.reason));
                }
                let stall = stall
                    .get_or_insert_with(|| Stall::new(now, &status.sample, host.stall_limit()));
                if !paused && stall.update(now, &status.sample) {
                    return Err(Failure::new(Kind::UnwrittenData)
                        .device(&pair.ssd.text)
                        .name("disk-error")
                        .sizes(drained.left, 0)
                        .data(DataState::Unwritten)
                        .detail("the disk refuses what is to be written"));
                }
                watcher.drained(drained);
            }
            Err(e) if failed_queries == MAX_FAILED_QUERIES => return Err(e),
            Err(_) => failed_queries += 1,
        }
        tokio::time::sleep(QUERY_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::Counter;

    fn at(dirty_sectors: u64, drain_seconds: u64) -> Sample {
        Sample {
            dirty_sectors,
            drain_seconds,
            ..Sample::default()
        }
    }

    #[test]
    fn the_pace_follows_what_is_left_and_the_estimate_is_the_modules() {
        let mut pace = DrainRate::default();
        let begun = Instant::now();
        let first = pace.update(begun, &at(2_000_000, 0));
        assert_eq!((first.rate, first.seconds), (0, 0));
        let later = pace.update(begun + Duration::from_secs(2), &at(1_500_000, 0));
        assert_eq!(
            (later.left, later.total),
            (1_500_000 * 512, 2_000_000 * 512)
        );
        assert_eq!((later.rate, later.seconds), (250_000 * 512, 0));
        let said = pace.update(begun + Duration::from_secs(4), &at(1_000_000, 40));
        assert_eq!(said.seconds, 40);
    }

    #[test]
    fn the_pace_is_that_of_the_last_looks() {
        let mut pace = DrainRate::default();
        let begun = Instant::now();
        let (slow, fast) = (RATE_QUERIES as u64 * 2, RATE_QUERIES as u64);
        let mut left = 1_000_000;
        for second in 0..slow + fast {
            left -= if second < slow { 1 } else { 1000 };
            let seen = pace.measure(begun + Duration::from_secs(second), left);
            let known = second > 0 && (second < slow || second == slow + fast - 1);
            let rate = if second < slow { 1 } else { 1000 };
            assert!(!known || seen.rate == rate, "{second} s: {}", seen.rate);
        }
    }

    #[test]
    fn a_disk_is_given_up_that_takes_nothing_and_says_so_for_long() {
        let of = |dirty_sectors, errors| Sample {
            events: vec![Counter {
                name: "disk_errors".into(),
                value: errors,
            }],
            ..at(dirty_sectors, 0)
        };
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let (soon, late) = (119, 121);
        let mut stall = Stall::new(begun, &of(1_000, 7), Duration::from_secs(120));
        assert!(!stall.update(after(late), &of(1_000, 7)), "only slow");
        assert!(!stall.update(after(soon), &of(1_000, 8)), "not for long");
        assert!(stall.update(after(late), &of(1_000, 8)));
        // With each sector that the disk accepts, the time begins anew.
        assert!(!stall.update(after(late), &of(992, 9)));
        assert!(!stall.update(after(late + soon), &of(992, 10)));
        assert!(stall.update(after(late + late), &of(992, 11)));
        // A table that was loaded anew counts from 0.
        assert!(!stall.update(after(late + late), &of(992, 0)));
        assert!(stall.update(after(late + late), &of(992, 1)));
    }
}
