// SPDX-License-Identifier: GPL-3.0-or-later
//! Creating a cache, and assembling one: both are undone if they fail.

use super::undo::undo;
use super::{Outcome, Watcher, attached, named, not_recorded};
use crate::host::Host;
use crate::machine::store::Store;
use crate::model::action::{Action, Pair};
use crate::model::record::{CacheRecord, Intent};
use std::io;
use tandem_api::{DataState, Failure, Kind, Target};

/// A working cache may be in use already, so its creation is finished. Otherwise the finished actions are undone. A
/// creation that was being undone is not wanted any more: the undo goes on.
pub(super) async fn recover(
    host: &dyn Host,
    store: &Store,
    intent: Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let live = attached(host, &intent.uuid).await?;
    if prepares(&intent) {
        return recover_preparation(host, store, intent, live, watcher).await;
    }
    // An earlier process of the service may have recorded the cache; finishing the job records it, too.
    let recorded = store
        .caches()
        .iter()
        .any(|record| record.pair.uuid == intent.uuid);
    let goes_on = live && undoing(&intent);
    if live && !goes_on && finish(host, store, &intent).await {
        return Ok(());
    }
    if is_creation(&intent) && recorded && !goes_on {
        // The creation was complete; a fault since then has another cause.
        return store.drop_intent(&intent).map_err(not_recorded);
    }
    let undone = undo(host, store, &intent, intent.done, watcher).await;
    match undone.data {
        // The cache is on record, and its data can be drained or given up as for any other cache.
        DataState::Unwritten if is_creation(&intent) && recorded => {
            store.drop_intent(&intent).map_err(not_recorded)
        }
        DataState::Incomplete | DataState::Unwritten => {
            let begun = &intent.actions[..intent.actions.len().min(intent.done + 1)];
            Err(undone.add_to(Failure::new(Kind::Interrupted), begun))
        }
        _ => Ok(()),
    }
}

/// A cache that was recorded is wanted, unless the job was being undone: the remaining actions are done, with the cache
/// mapped by a start since or not. Otherwise the finished actions are undone.
async fn recover_preparation(
    host: &dyn Host,
    store: &Store,
    intent: Intent,
    live: bool,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let ours = |record: &CacheRecord| record.pair.uuid == intent.uuid;
    let recorded = store.caches().iter().any(ours);
    let wanted = live || (recorded && !undoing(&intent));
    if wanted && finish(host, store, &intent).await {
        return Ok(());
    }
    if live {
        // The file system of the disk is in use through the cache, which stays.
        return store.drop_intent(&intent).map_err(not_recorded);
    }
    let undone = undo(host, store, &intent, intent.done, watcher).await;
    match undone.data {
        DataState::Incomplete | DataState::Unwritten => {
            let begun = &intent.actions[..intent.actions.len().min(intent.done + 1)];
            Err(undone.add_to(Failure::new(Kind::Interrupted), begun))
        }
        _ => Ok(()),
    }
}

/// Does the remaining actions of a creation whose mapping exists. Returns whether that succeeded.
async fn finish(host: &dyn Host, store: &Store, intent: &Intent) -> bool {
    for action in &intent.actions[intent.done.min(intent.actions.len())..] {
        let made = match record_before(store, intent, action) {
            Ok(()) => host.apply(action).await,
            Err(e) => Err(not_recorded(e)),
        };
        if let Err(e) = made {
            tracing::warn!(step = %action.kind(), "cannot finish the creation: {e}");
            return false;
        }
    }
    let recorded = record(store, intent);
    if recorded.is_ok() {
        stop_in_order(host, intent).await;
    }
    recorded
        .map_err(|e| tracing::error!("cannot record the cache: {e}"))
        .is_ok()
}

/// dm-cache starts warm only if the end of the shutdown notes its disk: see [`crate::start::kernel_caches`].
async fn stop_in_order(host: &dyn Host, intent: &Intent) {
    let of_kernel =
        |action: &Action| matches!(action, Action::Map(pair) if pair.target == Target::DmCache);
    if intent.actions.iter().any(of_kernel)
        && let Err(e) = host.drain_at_shutdown().await
    {
        tracing::warn!("the cache starts empty next time: {e}");
    }
}

/// Commits a creation: first the cache is recorded, then the job's record is dropped. A cache that was only assembled
/// again is on record already.
fn record(store: &Store, intent: &Intent) -> io::Result<()> {
    for action in &intent.actions {
        match action {
            Action::Map(pair) => store.save_created(pair)?,
            Action::Prepare(_) => record_prepared(store, intent)?,
            _ => {}
        }
    }
    store.drop_intent(intent)
}

pub(super) async fn create(
    host: &dyn Host,
    store: &Store,
    mut intent: Intent,
    watcher: &dyn Watcher,
) -> Result<Outcome, Failure> {
    for index in 0..intent.actions.len() {
        let mut begun = false;
        let made = if watcher.cancelled() {
            Err(Failure::new(Kind::Cancelled))
        } else {
            intent.done = index;
            watcher.step(index, false);
            let action = &intent.actions[index];
            match store
                .save_intent(&intent)
                .and_then(|()| record_before(store, &intent, action))
            {
                Ok(()) => {
                    begun = true;
                    match host.apply(action).await {
                        Ok(()) => adopt_partition(host, &mut intent, index).await,
                        failed => failed,
                    }
                }
                Err(e) => Err(not_recorded(e)),
            }
        };
        if let Err(failure) = made {
            let failure = named(failure, &intent.actions[index]);
            let undone = undo(host, store, &intent, index, watcher).await;
            let begun = &intent.actions[..index + usize::from(begun)];
            return Err(undone.add_to(failure, begun));
        }
    }
    if let Err(e) = record(store, &intent) {
        let last = intent.actions.len().saturating_sub(1);
        let undone = undo(host, store, &intent, last, watcher).await;
        return Err(undone.add_to(not_recorded(e), &intent.actions));
    }
    stop_in_order(host, &intent).await;
    Ok(Outcome::Done)
}

/// After the partition of a cache is made: the partition takes the place of the planned one in this action and all that
/// follow. It is on record before the next action begins.
pub(super) async fn adopt_partition(
    host: &dyn Host,
    intent: &mut Intent,
    index: usize,
) -> Result<(), Failure> {
    let Action::CreatePartition(pair) = &intent.actions[index] else {
        return Ok(());
    };
    let facts = host.facts().await?;
    let made = facts.made_partition(pair, &host.boot_id());
    let made = made.ok_or_else(|| {
        Failure::new(Kind::StepFailed).detail("the new partition is not found on the SSD")
    })?;
    let from_here = intent.actions[index..].iter_mut();
    for pair in from_here.filter_map(Action::pair_mut) {
        pair.ssd = made.ident.clone();
    }
    Ok(())
}

/// Records what has to be on record before an action of a creation: that data may be on the SSD only (only the
/// module's status takes that back), and the cache of which the initial file systems get a copy.
fn record_before(store: &Store, intent: &Intent, action: &Action) -> io::Result<()> {
    match action {
        Action::EnableWriteback(pair) => store.save_created(pair),
        Action::UpdateInitramfs(_) => record_prepared(store, intent),
        _ => Ok(()),
    }
}

/// Records a cache whose SSD is prepared. A start of the machine since may have changed the record already.
fn record_prepared(store: &Store, intent: &Intent) -> io::Result<()> {
    let recorded = |pair: &Pair| store.caches().iter().any(|r| r.pair.uuid == pair.uuid);
    let system = |action: &Action| matches!(action, Action::UpdateInitramfs(_));
    let in_initramfs = intent.actions.iter().any(system);
    for action in &intent.actions {
        if let Action::Prepare(pair) = action
            && !recorded(pair)
        {
            let (pair, boot) = (pair.clone(), intent.boot_id.clone());
            store.save_cache(&CacheRecord::prepared(pair, boot, in_initramfs))?;
        }
    }
    Ok(())
}

/// Whether the job creates a cache; otherwise it assembles a recorded cache.
pub(super) fn is_creation(intent: &Intent) -> bool {
    let makes = |action: &Action| matches!(action, Action::Map(_) | Action::Prepare(_));
    intent.actions.iter().any(makes)
}

/// Whether the job creates a cache that the next start of the machine maps.
fn prepares(intent: &Intent) -> bool {
    let prepares = |action: &Action| matches!(action, Action::Prepare(_));
    intent.actions.iter().any(prepares)
}

/// The record of a creation that is being undone: it has no actions left to do. No other record is like that.
/// (Undoing an action that was not done changes nothing.)
pub(super) fn to_be_undone(intent: &Intent) -> Intent {
    Intent {
        done: intent.actions.len(),
        ..intent.clone()
    }
}

/// Whether the creation is being undone: see [`to_be_undone`].
fn undoing(intent: &Intent) -> bool {
    is_creation(intent) && intent.done >= intent.actions.len()
}
