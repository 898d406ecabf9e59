// SPDX-License-Identifier: GPL-3.0-or-later
//! Giving a cache a partition of another size, while its disk stays in use. A partition that stays where it is is
//! `in_place`; what follows is about one that moves.
//!
//! The record of the cache stays during the job and is true at each moment, so a start of the machine in the middle of
//! the job needs no knowledge of the job. Before the SSD is detached, the record says that no data is on the SSD only
//! and that its copies are old. Before the new format is written, the record names the new partition.
//!
//! Until the SSD is detached, a failure leaves the old cache. After that, a failure removes the cache: its mapping
//! passes everything to the disk.

use super::creation::adopt_partition;
use super::drain::drain;
use super::in_place;
use super::removal::{STOP, only_drains_before};
use super::undo::data_after;
use super::{Outcome, Watcher, attached, named, not_recorded, unwritten};
use crate::host::Host;
use crate::machine::dm::message::Message;
use crate::machine::store::Store;
use crate::model::action::{Action, Pair};
use crate::model::record::{CacheRecord, Intent};
use std::io;
use tandem_api::{DataState, Failure, Kind, Mode};

/// Continues the job at `intent.done`. It can be cancelled as long as it only drains.
pub(super) async fn resize(
    host: &dyn Host,
    store: &Store,
    mut intent: Intent,
    watcher: &dyn Watcher,
) -> Result<Outcome, Failure> {
    if in_place::is_meant(&intent) {
        return in_place::resize(host, store, intent, watcher).await;
    }
    for index in intent.done..intent.actions.len() {
        if only_drains_before(&intent, index) && watcher.cancelled() {
            let cancelled = Failure::new(Kind::Cancelled);
            return Err(take_back(host, store, &intent, cancelled).await);
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
            return Err(after_failure(host, store, &intent, watcher, failure).await);
        }
    }
    let incomplete = |e| not_recorded(e).data(DataState::Incomplete);
    record_new(store, &intent).map_err(incomplete)?;
    store.drop_intent(&intent).map_err(incomplete)?;
    Ok(Outcome::Done)
}

/// Finishes the job, or gives the plain disk back.
///
/// # Errors
/// What could not be put right; the record stays, and the next start tries again.
pub(super) async fn recover(
    host: &dyn Host,
    store: &Store,
    intent: Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    if in_place::is_meant(&intent) {
        return in_place::recover(host, store, intent, watcher).await;
    }
    // The cache was removed after a failure; only the record of the job is left.
    if is_removed(store, &intent.uuid) {
        return store.drop_intent(&intent).map_err(not_recorded);
    }
    let live = host.live_mappings().await?;
    let live = live.iter().find(|live| live.uuid == intent.uuid);
    match live.map(|live| live.attached) {
        // A start of the machine has assembled the old cache again.
        Some(true) if intent.done < map_at(&intent) && intent.draining().is_none() => {
            let at_detach = Intent {
                done: detach_at(&intent),
                ..intent
            };
            resize(host, store, at_detach, watcher).await.map(drop)
        }
        Some(_) => resize(host, store, intent, watcher).await.map(drop),
        // The cache on record is assembled when its devices are there. The disk may lack data: then the cache is needed,
        // the old one before it is detached or the new one. Or the old SSD was not given up: then its copies count as
        // old if they may be.
        None if may_be_dirty(store, &intent.uuid) || intent.done <= detach_at(&intent) => {
            store.drop_intent(&intent).map_err(not_recorded)
        }
        None => give_up(host, store, &intent).await.map_err(not_recorded),
    }
}

/// Carries out the action at [`Intent::done`].
async fn carry_out(
    host: &dyn Host,
    store: &Store,
    intent: &mut Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let action = intent.actions[intent.done].clone();
    match &action {
        Action::Drain(pair) => return drain(host, store, intent, pair, watcher).await,
        Action::Detach(pair) => withdraw(host, store, pair).await?,
        Action::Map(pair) => {
            let new = |record| withdrawn(with_pair(record, pair));
            store
                .change_cache(&intent.uuid, new)
                .map_err(not_recorded)?;
        }
        Action::EnableWriteback(_) => record_new(store, intent).map_err(not_recorded)?,
        _ => {}
    }
    host.apply(&action).await?;
    adopt_partition(host, intent, intent.done).await
}

/// Makes every write go to the disk, and records that the disk lacks nothing and that the copies on the SSD get old.
async fn withdraw(host: &dyn Host, store: &Store, pair: &Pair) -> Result<(), Failure> {
    if attached(host, &pair.uuid).await? {
        if pair.mode == Mode::Writeback {
            let through = Message::Mode(Mode::Writethrough);
            host.send_message(&pair.uuid, through).await?;
        }
        let bytes = unwritten(host, &pair.uuid).await?;
        if bytes > 0 {
            return Err(Failure::new(Kind::UnwrittenData)
                .device(&pair.ssd.text)
                .name("dirty")
                .sizes(bytes, 0)
                .data(DataState::Unwritten));
        }
    }
    let recorded = store.change_cache(&pair.uuid, withdrawn);
    recorded.map(drop).map_err(not_recorded)
}

/// The record of a cache whose SSD has nothing that counts.
fn withdrawn(mut record: CacheRecord) -> CacheRecord {
    record.may_be_dirty = false;
    record.pair.copies_stale = true;
    if record.pair.mode == Mode::Writeback {
        record.pair.mode = Mode::Writethrough;
    }
    record
}

/// The record of a cache on another SSD or partition, in the mode of `pair`.
fn with_pair(record: CacheRecord, pair: &Pair) -> CacheRecord {
    CacheRecord {
        may_be_dirty: record.may_be_dirty || pair.mode == Mode::Writeback,
        pair: Pair {
            origin: record.pair.origin,
            dirty_limit: record.pair.dirty_limit,
            ..pair.clone()
        },
        ..record
    }
}

/// Records the new cache, which works. Write-back is on record before it begins.
fn record_new(store: &Store, intent: &Intent) -> io::Result<()> {
    let new = intent.actions.iter().find_map(|action| match action {
        Action::Map(pair) => Some(pair),
        _ => None,
    });
    if let Some(pair) = new {
        store.change_cache(&intent.uuid, |record| with_pair(record, pair))?;
    }
    Ok(())
}

/// What becomes of the cache after a failure at [`Intent::done`]: the kernel knows whether its mapping uses an SSD.
async fn after_failure(
    host: &dyn Host,
    store: &Store,
    intent: &Intent,
    watcher: &dyn Watcher,
    failure: Failure,
) -> Failure {
    if intent.done < detach_at(intent) {
        return take_back(host, store, intent, failure).await;
    }
    match attached(host, &intent.uuid).await {
        Ok(true) if intent.done < map_at(intent) => take_back(host, store, intent, failure).await,
        // The new cache works; the rest is tried again.
        Ok(true) => failure.data(DataState::Incomplete),
        Ok(false) if !may_be_dirty(store, &intent.uuid) => {
            watcher.step(intent.done, true);
            let data = match give_up(host, store, intent).await {
                Ok(()) => DataState::Removed,
                Err(_) => DataState::Incomplete,
            };
            failure.data(data)
        }
        // The job stays on record, and the next start looks again.
        _ => {
            let data = data_after(store, intent, &failure);
            failure.data(data)
        }
    }
}

/// Ends the job before the SSD is detached: the cache goes on as before.
async fn take_back(host: &dyn Host, store: &Store, intent: &Intent, failure: Failure) -> Failure {
    let Some(Action::Detach(old)) = intent.actions.get(detach_at(intent)) else {
        return failure;
    };
    let as_before = |record: CacheRecord| CacheRecord {
        may_be_dirty: record.may_be_dirty || old.mode == Mode::Writeback,
        pair: Pair {
            mode: old.mode,
            copies_stale: old.copies_stale,
            ..record.pair
        },
        ..record
    };
    let unrecorded = |e| not_recorded(e).data(data_after(store, intent, &failure));
    // Write-back is on record before it begins.
    if let Err(e) = store.change_cache(&intent.uuid, as_before) {
        return unrecorded(e);
    }
    for message in [Message::Mode(old.mode), STOP] {
        if let Err(e) = host.send_message(&intent.uuid, message).await {
            tracing::warn!("the cache does not go on as before: {e}");
        }
    }
    match store.drop_intent(intent) {
        Ok(()) => failure,
        Err(e) => unrecorded(e),
    }
}

/// Removes the cache after its SSD is detached. A failing SSD must not prevent that: without a record no program uses
/// the SSD for this cache again. A mapping stays, because the file system may be in use.
async fn give_up(host: &dyn Host, store: &Store, intent: &Intent) -> io::Result<()> {
    let mut pairs = intent.actions.iter().filter_map(Action::pair);
    let (old, new) = (pairs.next(), pairs.next_back());
    let frees = old.into_iter().chain(new).cloned().map(Action::FreeSsd);
    // The new pair knows whether the partition table goes with the partition.
    let deletes = new.cloned().map(Action::DeletePartition);
    for action in frees.chain(deletes) {
        if let Err(e) = host.apply(&action).await {
            tracing::warn!(step = %action.kind(), "the removal goes on: {e}");
        }
    }
    let live = host.live_mappings().await;
    let live = live.map_err(|e| io::Error::other(e.to_string()))?;
    let is_mapped = live.iter().any(|live| live.uuid == intent.uuid);
    if is_mapped {
        let boot = host.boot_id();
        store.change_cache(&intent.uuid, |record| CacheRecord {
            detached_in: Some(boot),
            may_be_dirty: false,
            ..record
        })?;
    } else {
        store.drop_cache(&intent.uuid)?;
    }
    store.drop_intent(intent)
}

fn is_removed(store: &Store, uuid: &str) -> bool {
    let caches = store.caches();
    let record = caches.iter().find(|r| r.pair.uuid == uuid);
    record.is_none_or(|record| record.detached_in.is_some())
}

fn may_be_dirty(store: &Store, uuid: &str) -> bool {
    let caches = store.caches();
    caches.iter().any(|r| r.pair.uuid == uuid && r.may_be_dirty)
}

/// Index of the action that takes the SSD from the mapping.
fn detach_at(intent: &Intent) -> usize {
    position(intent, |action| matches!(action, Action::Detach(_)))
}

/// Index of the action that gives the mapping the new partition.
fn map_at(intent: &Intent) -> usize {
    position(intent, |action| matches!(action, Action::Map(_)))
}

fn position(intent: &Intent, is: impl Fn(&Action) -> bool) -> usize {
    let actions = &intent.actions;
    actions.iter().position(is).unwrap_or(actions.len())
}
