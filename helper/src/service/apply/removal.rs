// SPDX-License-Identifier: GPL-3.0-or-later
//! Removing a cache, and flushing: a removal begins with a flush.

use super::drain::drain;
use super::undo::data_after;
use super::{Outcome, Watcher, attached, is_moot, named, not_recorded, unwritten};
use crate::host::Host;
use crate::machine::dm::message::{Flush, Message};
use crate::machine::store::Store;
use crate::model::action::{Action, MountDevice};
use crate::model::record::{CacheRecord, Intent};
use std::io;
use tandem_api::{DataState, Failure, JobKind, Kind};

pub(super) const STOP: Message = Message::Flush(Flush::Stop);

/// Continues a removal or a flush at `intent.done`. It can be cancelled as long as it only drains.
pub(super) async fn remove(
    host: &dyn Host,
    store: &Store,
    mut intent: Intent,
    watcher: &dyn Watcher,
) -> Result<Outcome, Failure> {
    let same_boot = intent.boot_id == host.boot_id();
    // The start of the machine does not assemble this cache any more, so there is no earlier state to go back to.
    let past = !same_boot && intent.draining().is_none();
    let mut detached = false;
    let stays = !intent.actions.iter().any(|a| matches!(a, Action::Unmap(_)));
    for index in intent.done..intent.actions.len() {
        let cancellable = only_drains_before(&intent, index);
        if cancellable && !past && watcher.cancelled() {
            let cancelled = Failure::new(Kind::Cancelled);
            return Err(undo_removal(host, store, &intent, cancelled).await);
        }
        if !matches!(intent.actions[index], Action::Drain(_)) {
            watcher.no_return();
        }
        watcher.step(index, false);
        intent.done = index;
        if matches!(intent.actions[index], Action::UpdateInitramfs(_)) {
            // The initial file systems get copies of what is on record by then.
            commit(host, store, &intent, detached || stays)
                .map_err(|e| not_recorded(e).data(DataState::Incomplete))?;
        }
        let (recorded, ended) = match store.save_intent(&intent) {
            Ok(()) => (true, carry_out(host, store, &mut intent, watcher).await),
            Err(e) => (false, Err(not_recorded(e))),
        };
        let Err(failure) = ended else {
            continue;
        };
        // A failed action may have taken effect all the same, or the SSD may have got new data that is nowhere else.
        // So for an action that may be half done, the kernel is asked for the state of the mapping.
        let tried = recorded && intent.ssd_released_at() == Some(index);
        let uses = || async { attached(host, &intent.uuid).await.unwrap_or(false) };
        match after_failure(&intent, recorded) {
            // A failing SSD must not prevent the removal: without a record no program uses the SSD for this cache
            // again.
            AfterFailure::GoOn => tracing::warn!("the removal goes on: {failure}"),
            AfterFailure::StayMapped if !uses().await => {
                tracing::warn!("the mapping stays until the next start: {failure}");
                remount(host, &intent).await;
                detached = true;
                break;
            }
            AfterFailure::StayMapped | AfterFailure::TakeBack
                if !past && !tried || uses().await =>
            {
                return Err(undo_removal(host, store, &intent, failure).await);
            }
            _ => {
                let went = tried && matches!(attached(host, &intent.uuid).await, Ok(false));
                return Err(failure_at(store, &intent, went, failure));
            }
        }
    }
    if intent.kind == JobKind::Flush {
        host.send_message(&intent.uuid, STOP).await?;
        store.drop_intent(&intent).map_err(not_recorded)?;
        return Ok(Outcome::Done);
    }
    let incomplete = |e| not_recorded(e).data(DataState::Incomplete);
    let detached = commit(host, store, &intent, detached || stays).map_err(incomplete)?;
    store.drop_intent(&intent).map_err(incomplete)?;
    Ok(if detached {
        Outcome::Detached
    } else {
        Outcome::Done
    })
}

/// Ends the record of a removed cache. A cache whose mapping `stays` is recorded as detached, unless only its SSD was
/// prepared. Returns whether it is.
fn commit(host: &dyn Host, store: &Store, intent: &Intent, stays: bool) -> io::Result<bool> {
    let boot = host.boot_id();
    let was_mapped =
        |record: &CacheRecord| record.pair.uuid == intent.uuid && !record.setup.waits_in(&boot);
    let pair = intent.actions.iter().find_map(|action| match action {
        Action::Detach(pair) | Action::FreeSsd(pair) | Action::Unmap(pair) => Some(pair.clone()),
        _ => None,
    });
    match pair.filter(|_| stays && store.caches().iter().any(was_mapped)) {
        Some(pair) => {
            store.change_cache(&intent.uuid, |now| {
                now.keep_choices(CacheRecord {
                    detached_in: Some(boot),
                    may_be_dirty: false,
                    ..CacheRecord::new(pair)
                })
            })?;
            Ok(true)
        }
        None => {
            store.drop_cache(&intent.uuid)?;
            Ok(false)
        }
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
    let ended = match &action {
        Action::Drain(pair) => drain(host, store, intent, pair, watcher).await,
        // In another boot nothing is mounted as planned. A program that uses the file system keeps it, and then the
        // kernel refuses to remove the mapping.
        Action::Mount(..) | Action::Unmount(..) if intent.boot_id != host.boot_id() => Ok(()),
        _ => match apply(host, intent, &action).await {
            Err(e) if is_moot(&action, &e) => Ok(()),
            applied => applied,
        },
    };
    ended.map_err(|failure| named(failure, &action))
}

/// Makes one change. Data that is on the SSD only is never left behind, unless the user gave it up explicitly.
async fn apply(host: &dyn Host, intent: &Intent, action: &Action) -> Result<(), Failure> {
    let Some(pair) = action
        .pair()
        .filter(|_| intent.ssd_released_at() == Some(intent.done))
    else {
        return host.apply(action).await;
    };
    if !attached(host, &pair.uuid).await? {
        return match action {
            // The disk may be gone, and nothing has to be done with it.
            Action::Detach(_) => Ok(()),
            _ => host.apply(action).await,
        };
    }
    // The user gave up the data that the SSD had in that boot, with the file system as it was mounted then.
    let bytes = match intent.discard && intent.boot_id == host.boot_id() {
        true => 0,
        false => unwritten(host, &pair.uuid).await?,
    };
    if bytes > 0 {
        return Err(Failure::new(Kind::UnwrittenData)
            .device(&pair.ssd.text)
            .name("dirty")
            .sizes(bytes, 0)
            .data(DataState::Unwritten));
    }
    host.apply(action).await
}

/// How a removal goes on after a failure at [`Intent::done`].
enum AfterFailure {
    /// The failure does not matter: the next action follows.
    GoOn,
    /// The SSD is free. The remaining actions can wait for the next start of the machine.
    StayMapped,
    /// Everything that has happened can be undone, and is undone.
    TakeBack,
    /// The job stays on record, and is tried again.
    Leave,
}

/// Decides by the action that failed. `recorded`: the record says that the job has come to this action.
fn after_failure(intent: &Intent, recorded: bool) -> AfterFailure {
    let to_go = intent.ssd_released_at().is_some_and(|at| intent.done <= at);
    match &intent.actions[intent.done] {
        // A copy of the record in an initial file system does no harm without an SSD that has the cache's format, nor
        // does an empty partition.
        Action::FreeSsd(_) | Action::DeletePartition(_) | Action::UpdateInitramfs(_)
            if recorded =>
        {
            AfterFailure::GoOn
        }
        Action::Unmount(..) | Action::Unmap(_) if recorded && !to_go => AfterFailure::StayMapped,
        // Data is given up only after its file system is unmounted.
        _ if to_go || only_drains_before(intent, intent.done) => AfterFailure::TakeBack,
        _ => AfterFailure::Leave,
    }
}

/// Whether all actions before this one are drains.
pub(super) fn only_drains_before(intent: &Intent, index: usize) -> bool {
    intent.actions[..index]
        .iter()
        .all(|action| matches!(action, Action::Drain(_)))
}

/// Undoes the removal; the data that was to be given up stays. The record is dropped before the file system is
/// mounted again. While the record cannot be dropped, the file system stays unmounted: otherwise a later start of the
/// service could find the record and go on below the mounted file system.
async fn undo_removal(
    host: &dyn Host,
    store: &Store,
    intent: &Intent,
    failure: Failure,
) -> Failure {
    // No data is given up yet.
    let data = match failure.data {
        DataState::Unchanged if intent.discard => DataState::Unwritten,
        data => data,
    };
    match end_without_discard(host, store, intent).await {
        Ok(()) => {
            remount(host, intent).await;
            failure.data(data)
        }
        Err(e) => e.data(data_after(store, intent, &failure)),
    }
}

/// Continues a removal or a flush that an earlier process of the service did not finish. Data that is not given up
/// yet is kept: no client waits for the result, and the file system may be in use again.
///
/// # Errors
/// What could not be put right; the record stays, and the next start tries again.
pub(super) async fn recover(
    host: &dyn Host,
    store: &Store,
    intent: Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let whole = intent.discard && attached(host, &intent.uuid).await?;
    if whole || intent.discards_later() {
        store.drop_intent(&intent).map_err(not_recorded)?;
        let at = Intent {
            done: intent.done.min(intent.actions.len().saturating_sub(1)),
            ..intent
        };
        remount(host, &at).await;
        return Ok(());
    }
    remove(host, store, intent, watcher).await.map(drop)
}

/// Ends a job that has given up no data: the mode applies again, and the cache goes on.
async fn end_without_discard(
    host: &dyn Host,
    store: &Store,
    intent: &Intent,
) -> Result<(), Failure> {
    if intent.actions.iter().any(|a| matches!(a, Action::Drain(_)))
        && let Err(e) = host.send_message(&intent.uuid, STOP).await
    {
        tracing::warn!("the flush goes on: {e}");
    }
    store.drop_intent(intent).map_err(not_recorded)
}

/// The failure of a removal that ends at [`Intent::done`] and stays on record. Before the SSD is released, the SSD
/// may have data that is nowhere else. `went`: the failed action has released the SSD all the same.
fn failure_at(store: &Store, intent: &Intent, went: bool, failure: Failure) -> Failure {
    let done = &intent.actions[..intent.done.min(intent.actions.len())];
    let gone = done.iter().any(|action| {
        matches!(
            action,
            Action::Detach(_) | Action::FreeSsd(_) | Action::Unmap(_)
        )
    });
    let data = match gone || went {
        true => DataState::Incomplete,
        false => data_after(store, intent, &failure),
    };
    failure.data(data)
}

/// Mounts the file systems again that a removal unmounted in this boot before it failed.
async fn remount(host: &dyn Host, intent: &Intent) {
    if intent.boot_id != host.boot_id() {
        return;
    }
    for action in intent.actions[..=intent.done].iter().rev() {
        if let Action::Unmount(MountDevice::Mapping(_), _) = action {
            for back in action.undo() {
                if let Err(e) = host.apply(&back).await {
                    tracing::error!("cannot mount again: {e}");
                }
            }
        }
    }
}
