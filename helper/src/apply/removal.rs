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
        let action = intent.actions[index].clone();
        let drains = |action: &Action| matches!(action, Action::Drain(_));
        let early = intent.actions[..index].iter().all(drains);
        // What is given up is so with its file system unmounted, which is taken back if the SSD stays.
        let takes_back = early || detaches(&intent.actions[index..]);
        if early && !past && watcher.cancelled() {
            return Err(give_up(engine, store, &intent, Failure::new(Kind::Cancelled)).await);
        }
        if !drains(&action) {
            watcher.no_return();
        }
        watcher.step(index, false);
        intent.done = index;
        store
            .save_intent(&intent)
            .map_err(|e| left_at(store, &intent, not_recorded(e)))?;
        // In another boot nothing is mounted as it was planned: who uses the file system keeps it, and the
        // kernel then refuses to unmap.
        if !same_boot && matches!(action, Action::Mount(..) | Action::Unmount(..)) {
            continue;
        }
        if let Action::Drain(pair) = &action {
            match drain(engine, store, &mut intent, pair, watcher).await {
                Ok(()) => continue,
                Err(e) => return Err(give_up(engine, store, &intent, named(e, &action)).await),
            }
        }
        let Err(failure) = apply(engine, &intent, &action).await else {
            continue;
        };
        let failure = named(failure, &action);
        if matches!(action, Action::FreeSsd(_)) {
            // A dying SSD must not keep the disk: without a record nothing uses it again.
            tracing::warn!("the SSD could not be wiped: {failure}");
            continue;
        }
        let ends = matches!(action, Action::Unmount(..) | Action::Unmap(_));
        if ends && !detaches(&intent.actions[index..]) {
            // The SSD is free; what is left is a matter of form that can wait for the next start.
            tracing::warn!("the mapping stays until the next start: {failure}");
            if same_boot {
                remount(engine, &intent, index).await;
            }
            detached = true;
            break;
        }
        // One that came to life all the same may have got the only copy of something since.
        if takes_back && (!past || attached(engine, &intent.uuid).await.unwrap_or(false)) {
            if same_boot {
                remount(engine, &intent, index).await;
            }
            // Nothing is given up yet.
            let data = match failure.data {
                DataState::Unchanged if intent.discard => DataState::Unwritten,
                data => data,
            };
            let failure = failure.data(data);
            return Err(give_up(engine, store, &intent, failure).await);
        }
        return Err(left_at(store, &intent, failure));
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

/// One change. What is on the SSD only is never left behind, unless it was given up by name.
async fn apply(engine: &dyn Engine, intent: &Intent, action: &Action) -> Result<(), Failure> {
    let Action::Detach(pair) = action else {
        return engine.apply(action).await;
    };
    if !attached(engine, &pair.uuid).await? {
        // Its disk may be gone, and nothing would have to be done with it.
        return Ok(());
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

/// Ends a job that has only drained: the mode holds again, and the cache goes on.
async fn give_up(engine: &dyn Engine, store: &Store, intent: &Intent, failure: Failure) -> Failure {
    if intent.actions.iter().any(|a| matches!(a, Action::Drain(_)))
        && let Err(e) = engine.tell(&intent.uuid, STOP).await
    {
        tracing::warn!("the flush goes on: {e}");
    }
    match store.drop_intent(intent) {
        Ok(()) => failure,
        Err(e) => not_recorded(e).data(left_by(store, intent, &failure)),
    }
}

/// Whether the SSD is still to go in these.
fn detaches(actions: &[Action]) -> bool {
    actions.iter().any(|a| matches!(a, Action::Detach(_)))
}

/// A removal ends at [`Intent::done`] and stays on record. Before the SSD goes, it may have something that is
/// nowhere else.
fn left_at(store: &Store, intent: &Intent, failure: Failure) -> Failure {
    let done = &intent.actions[..intent.done.min(intent.actions.len())];
    let gone = done.iter().any(|action| {
        matches!(
            action,
            Action::Detach(_) | Action::FreeSsd(_) | Action::Unmap(_)
        )
    });
    let data = match gone {
        true => DataState::Incomplete,
        false => left_by(store, intent, &failure),
    };
    failure.data(data)
}

/// Mounts again what a removal unmounted before it met a busy file system at `index`.
async fn remount(engine: &dyn Engine, intent: &Intent, index: usize) {
    for action in intent.actions[..=index].iter().rev() {
        if let Action::Unmount(Face::Mapped(_), _) = action {
            for back in action.undo() {
                if let Err(e) = engine.apply(&back).await {
                    tracing::error!("cannot mount again: {e}");
                }
            }
        }
    }
}
