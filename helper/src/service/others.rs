// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches of other systems, on the bus.

use super::Service;
use crate::kinds::may_hang;
use crate::model::other_reading::OtherSeen;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{Failure, Kind, OtherCache, OtherPeriod};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Time between two looks at their figures, in sample periods of the machine. bcache counts anew every 13 s or so.
const PERIOD: u32 = 14;
/// Longest wait for an answer: see [`may_hang`].
const LIMIT: Duration = Duration::from_secs(5);

impl Service {
    /// `Manager.OtherCaches`.
    pub(crate) fn other_caches(&self) -> Vec<OtherCache> {
        self.inner().others.clone()
    }

    /// `Manager.OtherHistory`. A caller causes no work but a copy.
    pub(crate) fn other_history(&self, id: &str) -> Result<Vec<OtherPeriod>, Failure> {
        let inner = self.inner();
        match inner.others.iter().any(|cache| cache.id == id) {
            true => Ok(inner.other_histories.of(id)),
            false => Err(Failure::new(Kind::WrongState).name("not-found")),
        }
    }

    /// Looks at them after each refresh, and at their figures, which change without an event. A look that hangs cannot be
    /// stopped, so no second one is begun beside it, and nothing else waits for it.
    pub(super) async fn follow_others(self: Arc<Self>) {
        let mut hanging: Option<JoinHandle<Vec<OtherSeen>>> = None;
        loop {
            let there = hanging.is_some() || !self.other_caches().is_empty();
            tokio::select! {
                () = self.others_again.notified() => {}
                () = sleep(self.host.sample_period() * PERIOD), if there => {}
            }
            let begin = || {
                let (host, facts) = (self.host.clone(), self.inner().devices.clone());
                tokio::spawn(async move { host.other_caches(facts).await })
            };
            let was_hanging = hanging.is_some();
            let mut look = hanging.take().unwrap_or_else(begin);
            match timeout(LIMIT, &mut look).await {
                Ok(Ok(seen)) => {
                    let sample = self.host.sample_period();
                    self.inner().other_histories.add(&seen, sample);
                    let now = seen.into_iter().map(|seen| seen.cache).collect();
                    self.show_others(now).await;
                    if was_hanging {
                        // What has happened meanwhile is not in it.
                        self.others_again.notify_one();
                    }
                }
                Ok(Err(e)) => tracing::error!("cannot look at the caches of other systems: {e}"),
                Err(_) => {
                    self.show_others(in_doubt(self.other_caches())).await;
                    hanging = Some(look);
                }
            }
            self.others_looked.notify_one();
        }
    }

    /// Waits for the first look, so that no client gets an answer from before it.
    pub(super) async fn others_known(&self) {
        // A look that hangs is over after the same time.
        let _ = timeout(LIMIT, self.others_looked.notified()).await;
    }

    async fn show_others(self: &Arc<Self>, now: Vec<OtherCache>) {
        let before = std::mem::replace(&mut self.inner().others, now.clone());
        if before == now {
            return;
        }
        let came = not_in(&before, &now);
        if !came.is_empty() {
            self.take_up_removals_of(&came).await;
        }
        if !not_in(&now, &before).is_empty() {
            // A volume without its cache may get another one. LVM may take long to say so.
            let this = self.clone();
            tokio::spawn(async move { this.awaits_a_cache().await });
        }
        self.tell("the caches of other systems", async |manager, emitter| {
            manager.other_caches_changed(emitter).await
        })
        .await;
    }
}

/// The caches of `these` that are not among `others`.
fn not_in(others: &[OtherCache], these: &[OtherCache]) -> Vec<OtherCache> {
    let is_new = |cache: &&OtherCache| others.iter().all(|other| other.id != cache.id);
    these.iter().filter(is_new).cloned().collect()
}

/// What was known of caches, now that a system does not answer.
fn in_doubt(mut caches: Vec<OtherCache>) -> Vec<OtherCache> {
    for cache in caches.iter_mut().filter(|cache| may_hang(cache.kind)) {
        cache.unwritten_known = false;
        cache.unwritten_bytes = 0;
    }
    caches
}
