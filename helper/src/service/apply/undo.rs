// SPDX-License-Identifier: GPL-3.0-or-later
//! Undoing a creation or an assembly.

use super::creation::{is_creation, to_be_undone};
use super::settle::settle;
use super::{Watcher, is_moot, not_recorded, unwritten};
use crate::host::Host;
use crate::machine::store::Store;
use crate::model::action::Action;
use crate::model::record::{CacheRecord, Intent};
use tandem_api::{DataState, Failure, Kind};

/// The result of an undo.
pub(super) struct UndoResult {
    pub(super) data: DataState,
    /// The actions whose effect is still there, in the order of the plan.
    left: Vec<Action>,
}

impl UndoResult {
    /// Adds to the failure what became of the data. `begun`: the actions that were begun before the undo. No undo brings
    /// back erased content.
    pub(super) fn add_to(self, failure: Failure, begun: &[Action]) -> Failure {
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

/// Undoes the actions up to and including `last`, in reverse order. If that succeeds, the service forgets the job.
/// While data may be on the SSD only, the cache stays mapped and on record.
pub(super) async fn undo(
    host: &dyn Host,
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
    // The undo wipes the SSD, so first all dirty data is written back. Unmounting writes data, so the cache is in
    // write-through from here on.
    if let Err(e) = settle(host, &intent.uuid).await {
        tracing::error!("not undone: {e}");
        return UndoResult {
            data: data_after(store, intent, &e),
            left: undoable(last),
        };
    }
    let mut left = Vec::new();
    let same_boot = intent.boot_id == host.boot_id();
    for index in (0..=last.min(intent.actions.len().saturating_sub(1))).rev() {
        watcher.step(index, true);
        for action in intent.actions[index].undo() {
            // After a restart, the system has mounted its file systems by itself.
            if !same_boot && matches!(action, Action::Mount(..)) {
                continue;
            }
            if matches!(action, Action::Unmap(_))
                && let Err(e) = check_before_unmap(host, store, intent).await
            {
                tracing::error!("not undone any further: {e}");
                let before = undoable(index).into_iter();
                return UndoResult {
                    data: data_after(store, intent, &e),
                    left: before.chain(left).collect(),
                };
            }
            // A new initial file system takes its records from the store, so the record of this cache goes first.
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
            if let Err(e) = host.apply(&action).await
                && !is_moot(&action, &e)
            {
                tracing::error!(step = %action.kind(), "cannot undo: {e}");
                // Without a mapping, an SSD that is not wiped does no harm. Once the SSD is wiped, a record in an
                // initial file system does no harm.
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

/// What became of the data of a cache whose undo stops at this failure. If the module does not answer, the record
/// decides.
pub(super) fn data_after(store: &Store, intent: &Intent, failure: &Failure) -> DataState {
    let at_risk = |record: &CacheRecord| record.pair.uuid == intent.uuid && record.may_be_dirty;
    if failure.kind == Kind::UnwrittenData || store.caches().iter().any(at_risk) {
        DataState::Unwritten
    } else {
        DataState::Incomplete
    }
}

/// Checks that no data is on the SSD only, and removes the record of a cache that this job creates. If the service died
/// with the mapping gone and the record still there, the next process would take the creation for complete.
async fn check_before_unmap(
    host: &dyn Host,
    store: &Store,
    intent: &Intent,
) -> Result<(), Failure> {
    let bytes = unwritten(host, &intent.uuid).await?;
    if bytes > 0 {
        return Err(Failure::new(Kind::UnwrittenData).sizes(bytes, 0));
    }
    if is_creation(intent) {
        store.drop_cache(&intent.uuid).map_err(not_recorded)?;
    }
    Ok(())
}
