// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes samples of one cache and keeps the newest: one sample each second while a program watches, else one each ten
//! seconds.

use crate::machine::clock::unix_seconds;
use crate::machine::store::Store;
use crate::service::Service;
use crate::service::history::History;
use crate::service::iface::bounded::Bounded;
use crate::service::iface::cache::CacheObject;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tandem_api::{Failure, Kind, LongHistory, Sample, Span};
use tokio::sync::Notify;
use zbus::object_server::InterfaceRef;

/// Number of samples that are kept: ten minutes while a program watches, else 100 minutes.
pub const HISTORY: usize = 600;
/// Watchers of one cache that one user may have. A program needs one watcher, however many windows it has.
const MAX_WATCHERS: usize = 16;
/// The time between two samples is so many times longer while no program watches.
const UNWATCHED_FACTOR: u32 = 10;

/// The samples of a cache and the programs that watch them.
#[derive(Default)]
pub struct Sampler {
    samples: Mutex<VecDeque<Sample>>,
    long: Mutex<History>,
    /// Held from the copy of `long` to the end of its write, so that the newest copy is written last. Taken before
    /// `long`.
    saving: Mutex<()>,
    /// The user of each watcher, by the watcher's unique bus name.
    watchers: Mutex<BTreeMap<String, u32>>,
    wake: Notify,
}

impl Sampler {
    /// A sampler that continues this history.
    pub fn new(history: History) -> Self {
        Self {
            long: Mutex::new(history),
            ..Self::default()
        }
    }

    /// The periods of this span.
    pub fn long_history(&self, span: Span) -> LongHistory {
        self.history_mut(|long| long.read(span))
    }

    /// Saves the long history if the last save is long enough ago, or if the service ends (`last`).
    pub fn save_history(&self, store: &Store, uuid: &str, last: bool) {
        let _alone = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = self.history_mut(|long| long.to_save(last));
        if let Some(kept) = kept
            && let Err(e) = store.save_history(uuid, &kept)
        {
            tracing::warn!(uuid, "the history was not saved: {e}");
        }
    }

    /// Begins the totals of the long history anew, or takes that back (`undo`), and saves the history.
    ///
    /// # Errors
    /// `WrongState` if there is nothing to take back; `Internal` if the new beginning cannot be saved, and then the
    /// totals are as before.
    pub fn reset_totals(&self, store: &Store, uuid: &str, undo: bool) -> Result<(), Failure> {
        let _alone = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, earlier) = self.history_mut(|long| {
            let mut earlier = None;
            if !undo {
                earlier = long.reset(unix_seconds());
            } else if !long.undo_reset() {
                return Err(Failure::new(Kind::WrongState).name("statistics"));
            }
            Ok((long.to_save(true), earlier))
        })?;
        match kept.map(|kept| store.save_history(uuid, &kept)) {
            Some(Err(e)) if undo => {
                tracing::warn!(uuid, "the history is saved later: {e}");
                Ok(())
            }
            Some(Err(e)) => {
                self.history_mut(|long| long.cancel_reset(earlier));
                Err(Failure::new(Kind::Internal).detail(format_args!("cannot save: {e}")))
            }
            Some(Ok(())) | None => Ok(()),
        }
    }

    fn history_mut<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        change(&mut self.long.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest sample; all 0 before the first.
    pub fn latest(&self) -> Sample {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.back().cloned().unwrap_or_default()
    }

    /// All samples, oldest first.
    pub fn history(&self) -> Vec<Sample> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().cloned().collect()
    }

    /// Adds a watcher of the user with this uid, by its unique bus name.
    ///
    /// # Errors
    /// `TooMany` of this user.
    pub fn watch(&self, who: String, uid: u32) -> Result<(), Failure> {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = watchers.values().filter(|of| **of == uid).count();
        if of_user >= MAX_WATCHERS && !watchers.contains_key(&who) {
            return Err(Failure::new(Kind::TooMany));
        }
        watchers.insert(who, uid);
        self.wake.notify_one();
        Ok(())
    }

    /// Removes a watcher.
    pub fn unwatch(&self, who: &str) {
        self.watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(who);
    }

    fn period(&self, watched_period: Duration) -> Duration {
        let watched = !self
            .watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty();
        if watched {
            watched_period
        } else {
            watched_period * UNWATCHED_FACTOR
        }
    }

    fn push(&self, sample: Sample) {
        self.history_mut(|long| long.add(&sample));
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == HISTORY {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Takes samples until the task is aborted.
    pub async fn run(
        self: Arc<Self>,
        service: Arc<Service>,
        uuid: String,
        object: InterfaceRef<Bounded<CacheObject>>,
    ) {
        loop {
            let began = tokio::time::Instant::now();
            if let Ok(status) = service.host().status(&uuid).await {
                let (before, now) = (self.latest(), &status.sample);
                let clean = |sample: &Sample| sample.dirty_sectors == 0;
                let failed = |sample: &Sample| sample.event("disk_errors") > 0;
                if clean(&before) != clean(now) || failed(&before) != failed(now) {
                    // The refresh updates the record and the view of the cache.
                    service.look_again();
                }
                self.push(status.sample.clone());
                let (sampler, store, uuid) = (self.clone(), service.store(), uuid.clone());
                let save = move || sampler.save_history(&store, &uuid, false);
                if let Err(e) = tokio::task::spawn_blocking(save).await {
                    tracing::warn!("the history was not saved: {e}");
                }
                if let Err(e) = CacheObject::sampled(object.signal_emitter(), status.sample).await {
                    tracing::warn!("cannot tell a sample: {e}");
                }
            }
            // A new watcher gets a sample at once, but many new watchers cause at most one sample a second.
            let period = service.host().sample_period();
            tokio::time::sleep_until(began + period).await;
            while began.elapsed() < self.period(period) {
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(began + self.period(period)) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_who_watches_often_keeps_no_other_from_watching() {
        let sampler = Sampler::default();
        for n in 0..MAX_WATCHERS {
            sampler.watch(format!(":1.{n}"), 1000).unwrap();
        }
        let refused = sampler.watch(":1.99".to_owned(), 1000).unwrap_err();
        assert_eq!(refused.kind, Kind::TooMany);
        // A watcher may be added twice.
        sampler.watch(":1.3".to_owned(), 1000).unwrap();
        sampler.watch(":1.100".to_owned(), 1001).unwrap();
        sampler.unwatch(":1.3");
        sampler.watch(":1.99".to_owned(), 1000).unwrap();
    }
}
