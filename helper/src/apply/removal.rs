// SPDX-License-Identifier: GPL-3.0-or-later
//! Giving the plain disk back, and flushing, which is how that begins.

use super::drain::drain;
use super::{Outcome, Watcher, attached, left_by, named, not_recorded, unwritten};
use crate::action::{Action, Face};
use crate::dm::message::{Flush, Message};
use crate::engine::Engine;
use crate::state::{CacheRecord, Intent, Store};
use tandem_api::{DataState, Failure, JobKind, Kind};

const STOP: Message = Message::Flush(Flush::Stop);

/// Continues a removal or a flush at `intent.done`. It can be cancelled as long as it only drains.
pub(super) async fn remove(
    engine: &dyn Engine,
    store: &Store,
    mut intent: Intent,
    watcher: &dyn Watcher,
) -> Result<Outcome, Failure> {
    let same_boot = intent.boot_id == engine.boot_id();
    // The start of the machine has left this cache alone for good, so there is nothing to go back to.
    let past = !same_boot && intent.draining().is_none();
    let mut detached = false;
    let stays = !intent.actions.iter().any(|a| matches!(a, Action::Unmap(_)));
    for index in intent.done..intent.actions.len() {
        let early = early(&intent, index);
        if early && !past && watcher.cancelled() {
            let cancelled = Failure::new(Kind::Cancelled);
            return Err(take_back(engine, store, &intent, cancelled).await);
        }
        if !matches!(intent.actions[index], Action::Drain(_)) {
            watcher.no_return();
        }
        watcher.step(index, false);
        intent.done = index;
        let (recorded, ended) = match store.save_intent(&intent) {
            Ok(()) => (true, perform(engine, store, &mut intent, watcher).await),
            Err(e) => (false, Err(not_recorded(e))),
        };
        let Err(failure) = ended else {
            continue;
        };
        // One that came to life all the same may have got the only copy of something since. And of an action that may
        // be half done the kernel says what has become.
        let tried = recorded && intent.goes_at() == Some(index);
        let uses = || async { attached(engine, &intent.uuid).await.unwrap_or(false) };
        match then(&intent, recorded) {
            // A dying SSD must not keep the disk: without a record nothing uses it again.
            Then::GoOn => tracing::warn!("the SSD could not be wiped: {failure}"),
            Then::StayMapped if !uses().await => {
                tracing::warn!("the mapping stays until the next start: {failure}");
                remount(engine, &intent).await;
                detached = true;
                break;
            }
            Then::StayMapped | Then::TakeBack if !past && !tried || uses().await => {
                return Err(take_back(engine, store, &intent, failure).await);
            }
            _ => {
                let went = tried && matches!(attached(engine, &intent.uuid).await, Ok(false));
                return Err(left_at(store, &intent, went, failure));
            }
        }
    }
    if intent.kind == JobKind::Flush {
        engine.tell(&intent.uuid, STOP).await?;
        store.drop_intent(&intent).map_err(not_recorded)?;
        return Ok(Outcome::Done);
    }
    let incomplete = |e| not_recorded(e).data(DataState::Incomplete);
    if (detached || stays)
        && let Some(pair) = intent.actions.iter().find_map(|action| match action {
            Action::Detach(pair) | Action::FreeSsd(pair) | Action::Unmap(pair) => {
                Some(pair.clone())
            }
            _ => None,
        })
    {
        let record = CacheRecord {
            pair,
            detached_in: Some(engine.boot_id()),
            may_be_dirty: false,
            forked: false,
        };
        store.save_cache(&record).map_err(incomplete)?;
        detached = true;
    } else {
        store.drop_cache(&intent.uuid).map_err(incomplete)?;
    }
    store.drop_intent(&intent).map_err(incomplete)?;
    Ok(if detached {
        Outcome::Detached
    } else {
        Outcome::Done
    })
}

/// Does what is at [`Intent::done`].
async fn perform(
    engine: &dyn Engine,
    store: &Store,
    intent: &mut Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let action = intent.actions[intent.done].clone();
    let ended = match &action {
        Action::Drain(pair) => drain(engine, store, intent, pair, watcher).await,
        // In another boot nothing is mounted as it was planned: who uses the file system keeps it, and the
        // kernel then refuses to unmap.
        Action::Mount(..) | Action::Unmount(..) if intent.boot_id != engine.boot_id() => Ok(()),
        _ => apply(engine, intent, &action).await,
    };
    ended.map_err(|failure| named(failure, &action))
}

/// One change. What is on the SSD only is never left behind, unless it was given up by name.
async fn apply(engine: &dyn Engine, intent: &Intent, action: &Action) -> Result<(), Failure> {
    let Some(pair) = action
        .pair()
        .filter(|_| intent.goes_at() == Some(intent.done))
    else {
        return engine.apply(action).await;
    };
    if !attached(engine, &pair.uuid).await? {
        return match action {
            // Its disk may be gone, and nothing would have to be done with it.
            Action::Detach(_) => Ok(()),
            _ => engine.apply(action).await,
        };
    }
    // Given up was what the SSD had in that boot, with the file system as it was mounted then.
    let bytes = match intent.discard && intent.boot_id == engine.boot_id() {
        true => 0,
        false => unwritten(engine, &pair.uuid).await?,
    };
    if bytes > 0 {
        return Err(Failure::new(Kind::UnwrittenData)
            .device(&pair.ssd.text)
            .name("dirty")
            .sizes(bytes, 0)
            .data(DataState::Unwritten));
    }
    engine.apply(action).await
}

/// What follows from a failure at [`Intent::done`].
enum Then {
    /// It does not matter.
    GoOn,
    /// The SSD is free; what is left is a matter of form that can wait for the next start.
    StayMapped,
    /// Nothing has happened yet that cannot be taken back.
    TakeBack,
    /// It stays on record, and is tried again.
    Leave,
}

/// Decides by where it happened; `recorded`: it is on record that it came so far.
fn then(intent: &Intent, recorded: bool) -> Then {
    let to_go = intent.goes_at().is_some_and(|at| intent.done <= at);
    match &intent.actions[intent.done] {
        Action::FreeSsd(_) if recorded => Then::GoOn,
        Action::Unmount(..) | Action::Unmap(_) if recorded && !to_go => Then::StayMapped,
        // What is given up is so with its file system unmounted.
        _ if to_go || early(intent, intent.done) => Then::TakeBack,
        _ => Then::Leave,
    }
}

/// Whether nothing is done before this but to drain.
fn early(intent: &Intent, index: usize) -> bool {
    intent.actions[..index]
        .iter()
        .all(|action| matches!(action, Action::Drain(_)))
}

/// Has all as it was before, with what was to be given up. Nobody finds a record and goes on below the file system when
/// that is there again: as long as the record cannot be dropped it stays away.
async fn take_back(
    engine: &dyn Engine,
    store: &Store,
    intent: &Intent,
    failure: Failure,
) -> Failure {
    // Nothing is given up yet.
    let data = match failure.data {
        DataState::Unchanged if intent.discard => DataState::Unwritten,
        data => data,
    };
    match forget(engine, store, intent).await {
        Ok(()) => {
            remount(engine, intent).await;
            failure.data(data)
        }
        Err(e) => e.data(left_by(store, intent, &failure)),
    }
}

/// Continues a removal or a flush that a dead service has left. What has not been given up yet is not: nobody is there
/// who would be told, and the file system may be in use again.
///
/// # Errors
/// What could not be put right; the record stays, and the next start tries again.
pub(super) async fn recover(
    engine: &dyn Engine,
    store: &Store,
    intent: Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let whole = intent.discard && attached(engine, &intent.uuid).await?;
    if whole || intent.given_up_later() {
        store.drop_intent(&intent).map_err(not_recorded)?;
        let at = Intent {
            done: intent.done.min(intent.actions.len().saturating_sub(1)),
            ..intent
        };
        remount(engine, &at).await;
        return Ok(());
    }
    remove(engine, store, intent, watcher).await.map(drop)
}

/// Ends a job that has given nothing up: the mode holds again, and the cache goes on.
async fn forget(engine: &dyn Engine, store: &Store, intent: &Intent) -> Result<(), Failure> {
    if intent.actions.iter().any(|a| matches!(a, Action::Drain(_)))
        && let Err(e) = engine.tell(&intent.uuid, STOP).await
    {
        tracing::warn!("the flush goes on: {e}");
    }
    store.drop_intent(intent).map_err(not_recorded)
}

/// A removal ends at [`Intent::done`] and stays on record. Before the SSD goes, it may have something that is
/// nowhere else. `went`: it did, in an action that failed all the same.
fn left_at(store: &Store, intent: &Intent, went: bool, failure: Failure) -> Failure {
    let done = &intent.actions[..intent.done.min(intent.actions.len())];
    let gone = done.iter().any(|action| {
        matches!(
            action,
            Action::Detach(_) | Action::FreeSsd(_) | Action::Unmap(_)
        )
    });
    let data = match gone || went {
        true => DataState::Incomplete,
        false => left_by(store, intent, &failure),
    };
    failure.data(data)
}

/// Mounts again what a removal unmounted in this boot before it met a failure.
async fn remount(engine: &dyn Engine, intent: &Intent) {
    if intent.boot_id != engine.boot_id() {
        return;
    }
    for action in intent.actions[..=intent.done].iter().rev() {
        if let Action::Unmount(Face::Mapped(_), _) = action {
            for back in action.undo() {
                if let Err(e) = engine.apply(&back).await {
                    tracing::error!("cannot mount again: {e}");
                }
            }
        }
    }
}
