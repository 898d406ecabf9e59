// SPDX-License-Identifier: GPL-3.0-or-later
//! Giving a cache more or less of its SSD, where its partition begins as before. The copies that stay in their place
//! stay cached.
//!
//! At each moment the partition is at least as large as the cache on it, and at least as large as the record says: so a
//! start of the machine finds the cache, whatever the job had done. A partition gets larger before its cache, and
//! smaller after it.

use super::drain::drain;
use super::removal::{STOP, only_drains_before};
use super::{Outcome, Watcher, attached, named, not_recorded};
use crate::host::Host;
use crate::machine::store::Store;
use crate::model::action::{Action, Pair};
use crate::model::record::{CacheRecord, Intent};
use tandem_api::{DataState, Failure, Kind};

/// Whether the job leaves the partition in its place.
pub(super) fn is_meant(intent: &Intent) -> bool {
    let resizes = |action: &Action| matches!(action, Action::ResizeCache(_));
    intent.actions.iter().any(resizes)
}

/// Continues the job at `intent.done`. It can be cancelled as long as it only drains.
pub(super) async fn resize(
    host: &dyn Host,
    store: &Store,
    mut intent: Intent,
    watcher: &dyn Watcher,
) -> Result<Outcome, Failure> {
    let before = recorded(store, &intent.uuid);
    for index in intent.done..intent.actions.len() {
        if only_drains_before(&intent, index) && watcher.cancelled() {
            let cancelled = Failure::new(Kind::Cancelled);
            return Err(end(host, store, &intent, cancelled).await);
        }
        if !matches!(intent.actions[index], Action::Drain(_)) {
            watcher.no_return();
        }
        watcher.step(index, false);
        intent.done = index;
        let ended = match store.save_intent(&intent) {
            Ok(()) => carry_out(host, store, &mut intent, watcher).await,
            Err(e) => Err(not_recorded(e)),
        };
        if let Err(failure) = ended {
            let failure = named(failure, &intent.actions[index]);
            watcher.step(index, true);
            if let Some(before) = &before {
                undo(host, store, &intent, before).await;
            }
            return Err(end(host, store, &intent, failure).await);
        }
    }
    go_on_saving(host, &intent).await;
    let incomplete = |e| not_recorded(e).data(DataState::Incomplete);
    store.drop_intent(&intent).map_err(incomplete)?;
    Ok(Outcome::Done)
}

/// Finishes the job of a cache that works; else the cache keeps the size that it has.
///
/// # Errors
/// Why the job could not be finished; it is undone then, as any that fails. What was not undone leaves a part of the
/// partition unused, and the service has the cache use it.
pub(super) async fn recover(
    host: &dyn Host,
    store: &Store,
    intent: Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    if attached(host, &intent.uuid).await? {
        // All steps can be done again, and something may be dirty again.
        let again = Intent { done: 0, ..intent };
        return resize(host, store, again, watcher).await.map(drop);
    }
    store.drop_intent(&intent).map_err(not_recorded)
}

async fn carry_out(
    host: &dyn Host,
    store: &Store,
    intent: &mut Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let action = intent.actions[intent.done].clone();
    match &action {
        Action::Drain(pair) => drain(host, store, intent, pair, watcher).await,
        Action::ResizeCache(pair) => {
            host.apply(&action).await?;
            record_size(store, pair).map_err(not_recorded)
        }
        _ => host.apply(&action).await,
    }
}

fn recorded(store: &Store, uuid: &str) -> Option<Pair> {
    let caches = store.caches();
    let found = caches.into_iter().find(|record| record.pair.uuid == uuid);
    found.map(|record| record.pair)
}

/// Records the size of `pair`.
pub(in crate::service) fn record_size(store: &Store, pair: &Pair) -> std::io::Result<()> {
    let resized = |record: CacheRecord| CacheRecord {
        pair: Pair {
            ssd: pair.ssd.clone(),
            partition: pair.partition.clone(),
            ..record.pair
        },
        ..record
    };
    store.change_cache(&pair.uuid, resized).map(drop)
}

/// Gives cache and partition the size of `before` again, in the reverse order. What cannot be undone does no harm: a
/// part of the partition stays unused.
async fn undo(host: &dyn Host, store: &Store, intent: &Intent, before: &Pair) {
    for action in intent.actions[..=intent.done].iter().rev() {
        let undone = match action {
            Action::ResizePartition(_) => {
                host.apply(&Action::ResizePartition(before.clone())).await
            }
            Action::ResizeCache(_) => {
                let undone = host.apply(&Action::ResizeCache(before.clone())).await;
                undone.and_then(|()| record_size(store, before).map_err(not_recorded))
            }
            _ => Ok(()),
        };
        if let Err(e) = undone {
            tracing::warn!(step = %action.kind(), "the size is not as before: {e}");
            return;
        }
    }
}

async fn go_on_saving(host: &dyn Host, intent: &Intent) {
    if let Err(e) = host.send_message(&intent.uuid, STOP).await {
        tracing::warn!("the cache does not go on as before: {e}");
    }
}

/// Ends a job that has failed. The cache works as before.
async fn end(host: &dyn Host, store: &Store, intent: &Intent, failure: Failure) -> Failure {
    go_on_saving(host, intent).await;
    match store.drop_intent(intent) {
        Ok(()) => failure.data(DataState::Unchanged),
        Err(e) => not_recorded(e).data(DataState::Incomplete),
    }
}
