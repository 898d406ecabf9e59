// SPDX-License-Identifier: GPL-3.0-or-later
//! Undoing a creation or an assembly.

use super::creation::{is_creation, to_be_undone};
use super::settle::settle;
use super::{Watcher, not_recorded, unwritten};
use crate::action::Action;
use crate::engine::Engine;
use crate::state::{CacheRecord, Intent, Store};
use tandem_api::{DataState, Failure, Kind};

/// The result of an undo.
pub(super) struct UndoResult {
    pub(super) data: DataState,
    /// The actions whose effect is still there, in the order of the plan.
    left: Vec<Action>,
}

impl UndoResult {
    /// The failure with what became of the data after these actions were begun and then undone. Erased content does not
    /// come back.
    pub(super) fn of(self, failure: Failure, begun: &[Action]) -> Failure {
        let erases = |action: &&Action| matches!(action, Action::Erase(_));
        let erased: Vec<Action> = begun.iter().filter(erases).cloned().collect();
        match self.data {
            DataState::Unchanged | DataState::Restored if !erased.is_empty() => {
                failure.data(DataState::Erased)
            }
            DataState::Incomplete => {
                let all: Vec<Action> = erased.into_iter().chain(self.left).collect();
                let steps = Action::steps(&all, 0, 0);
                failure.data(DataState::Incomplete).not_restored(steps)
            }
            data => failure.data(data),
        }
    }
}

/// Undoes the actions up to and including `last`, and forgets the job if that succeeds. As long as
/// something may be on the SSD only, the cache stays as it is and on record.
pub(super) async fn undo(
    engine: &dyn Engine,
    store: &Store,
    intent: &Intent,
    last: usize,
    watcher: &dyn Watcher,
) -> UndoResult {
    watcher.no_return();
    // The actions up to and including `last` that have an undo.
    let undoable = |last: usize| {
        let begun = intent.actions.iter().take(last + 1);
        let left = begun.filter(|action| !action.undo().is_empty());
        left.cloned().collect::<Vec<_>>()
    };
    if is_creation(intent)
        && let Err(e) = store.save_intent(&to_be_undone(intent))
    {
        tracing::warn!("what cannot be undone now may be finished later: {e}");
    }
    // The undo wipes the SSD, and unmounting writes data.
    if let Err(e) = settle(engine, &intent.uuid).await {
        tracing::error!("not undone: {e}");
        return UndoResult {
            data: data_after(store, intent, &e),
            left: undoable(last),
        };
    }
    let mut left = Vec::new();
    let same_boot = intent.boot_id == engine.boot_id();
    for index in (0..=last.min(intent.actions.len().saturating_sub(1))).rev() {
        watcher.step(index, true);
        for action in intent.actions[index].undo() {
            // In another boot nothing is mounted as before; the system has mounted its file systems itself.
            if !same_boot && matches!(action, Action::Mount(..)) {
                continue;
            }
            if matches!(action, Action::Unmap(_))
                && let Err(e) = may_end(engine, store, intent).await
            {
                tracing::error!("not undone any further: {e}");
                let before = undoable(index).into_iter();
                return UndoResult {
                    data: data_after(store, intent, &e),
                    left: before.chain(left).collect(),
                };
            }
            if matches!(action, Action::UpdateInitramfs(_))
                && let Err(e) = store.drop_cache(&intent.uuid)
            {
                tracing::error!("not undone any further: {e}");
                let before = undoable(index).into_iter();
                return UndoResult {
                    data: DataState::Incomplete,
                    left: before.chain(left).collect(),
                };
            }
            if let Err(e) = engine.apply(&action).await {
                tracing::error!(step = %action.kind(), "cannot undo: {e}");
                // An SSD that cannot be wiped does no harm once nothing is mapped to it, nor does a copy of the record
                // in an initial file system when the SSD is wiped.
                if !matches!(action, Action::FreeSsd(_) | Action::UpdateInitramfs(_)) {
                    left.insert(0, intent.actions[index].clone());
                }
            }
        }
    }
    if !left.is_empty() {
        return UndoResult {
            data: DataState::Incomplete,
            left,
        };
    }
    // If the job only assembles the cache again, the cache stays on record.
    let dropped = if is_creation(intent) {
        store.drop_cache(&intent.uuid)
    } else {
        Ok(())
    };
    let forgotten = dropped.and_then(|()| store.drop_intent(intent));
    let data = match forgotten {
        Ok(()) if last == 0 => DataState::Unchanged,
        Ok(()) => DataState::Restored,
        Err(_) => DataState::Incomplete,
    };
    UndoResult { data, left }
}

/// What became of the data of a cache that cannot be undone because of this failure. If the module cannot be asked,
/// the record counts.
pub(super) fn data_after(store: &Store, intent: &Intent, failure: &Failure) -> DataState {
    let at_risk = |record: &CacheRecord| record.pair.uuid == intent.uuid && record.may_be_dirty;
    if failure.kind == Kind::UnwrittenData || store.caches().iter().any(at_risk) {
        DataState::Unwritten
    } else {
        DataState::Incomplete
    }
}

/// Checks before a mapping is undone that no data is on its SSD only. A cache that this job creates is taken off the
/// record: with the record, the next start would take the creation for complete.
async fn may_end(engine: &dyn Engine, store: &Store, intent: &Intent) -> Result<(), Failure> {
    let bytes = unwritten(engine, &intent.uuid).await?;
    if bytes > 0 {
        return Err(Failure::new(Kind::UnwrittenData).sizes(bytes, 0));
    }
    if is_creation(intent) {
        store.drop_cache(&intent.uuid).map_err(not_recorded)?;
    }
    Ok(())
}
