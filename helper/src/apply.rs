// SPDX-License-Identifier: GPL-3.0-or-later
//! Carries out a plan, and repairs the state after a failure, a cancellation or a crash.
//!
//! Before each action a record on disk says how far the plan is. A creation that fails is undone, beginning with the
//! action that may be half done. A removal is undone as long as the SSD is still in use, and completed after that.
//! The removal of the record is the commit, so the next start of the service always finds out what to do.

mod drain;
mod removal;
mod settle;

pub use drain::Drained;
use removal::remove;
use settle::settle;

use crate::action::{Action, Pair};
use crate::engine::{Engine, Status};
use crate::plan::Plan;
use crate::state::{CacheRecord, Intent, Store};
use std::io;
use tandem_api::{DataState, Failure, JobKind, Kind, SECTOR_BYTES};

/// How a job came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done.
    Done,
    /// The cache is gone and the SSD free, but the file system could not be unmounted and stays on
    /// a mapping that passes through.
    Detached,
}

/// How a running job reports its progress and asks for decisions. The default answers let the job run without a wait.
pub trait Watcher: Send + Sync {
    /// Action `index` begins, or is being undone.
    fn step(&self, _index: usize, _undoing: bool) {}
    /// Whether the user cancels the job.
    fn cancelled(&self) -> bool {
        false
    }
    /// From now on the job cannot be cancelled.
    fn no_return(&self) {}
    /// Whether the user pauses the job. This is asked repeatedly while data is moved.
    fn paused(&self) -> bool {
        false
    }
    /// The job begins to move data (`Some`: whether it is paused from the beginning), or ends to move data (`None`).
    fn data_moves(&self, _paused: Option<bool>) {}
    /// How much data is moved already.
    fn drained(&self, _drained: Drained) {}
}

/// A watcher that ignores all reports.
pub struct Unwatched;

impl Watcher for Unwatched {}

/// Carries out `plan` for the user with this uid.
///
/// # Errors
/// Why the plan did not end; [`Failure::data`] says what became of the data and the set-up.
pub async fn run(
    engine: &dyn Engine,
    store: &Store,
    plan: &Plan,
    owner: u32,
    watcher: &dyn Watcher,
) -> Result<Outcome, Failure> {
    let intent = Intent {
        kind: plan.kind,
        uuid: plan.uuid.clone(),
        actions: plan.actions.clone(),
        done: 0,
        boot_id: engine.boot_id(),
        discard: plan.discards,
        paused: false,
        owner,
    };
    if let Err(e) = store.save_intent(&intent) {
        // The record may exist all the same, and a later start of the service would carry it out.
        let dropped = store.drop_intent(&intent);
        tracing::warn!("no record of a job that does not begin: {dropped:?}");
        return Err(not_recorded(e));
    }
    match plan.kind {
        JobKind::Create => create(engine, store, intent, watcher).await,
        JobKind::Remove | JobKind::Flush => remove(engine, store, intent, watcher).await,
    }
}

/// Finishes or undoes a job after the service died in the middle of it.
///
/// # Errors
/// What could not be put right; the record stays, and the next start tries again.
pub async fn recover(
    engine: &dyn Engine,
    store: &Store,
    intent: Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    tracing::warn!(uuid = intent.uuid, kind = %intent.kind, done = intent.done, "unfinished job found");
    match intent.kind {
        JobKind::Create => recover_creation(engine, store, intent, watcher).await,
        JobKind::Remove | JobKind::Flush => removal::recover(engine, store, intent, watcher).await,
    }
}

/// A working cache may be in use already, so its creation is finished. Otherwise the finished actions are undone. A
/// creation that was being undone is not wanted any more: the undo goes on.
async fn recover_creation(
    engine: &dyn Engine,
    store: &Store,
    intent: Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let live = attached(engine, &intent.uuid).await?;
    if prepares(&intent) {
        return recover_preparation(engine, store, intent, live, watcher).await;
    }
    // An earlier process of the service may have recorded the cache; finishing the job records it, too.
    let recorded = store
        .caches()
        .iter()
        .any(|record| record.pair.uuid == intent.uuid);
    let goes_on = live && undoing(&intent);
    if live && !goes_on && finish(engine, store, &intent).await {
        return Ok(());
    }
    if is_creation(&intent) && recorded && !goes_on {
        // The creation was complete; a fault since then has another cause.
        return store.drop_intent(&intent).map_err(not_recorded);
    }
    let undone = undo(engine, store, &intent, intent.done, watcher).await;
    match undone.data {
        // The cache is on record, and its data can be drained or given up as for any other cache.
        DataState::Unwritten if is_creation(&intent) && recorded => {
            store.drop_intent(&intent).map_err(not_recorded)
        }
        DataState::Incomplete | DataState::Unwritten => {
            let begun = &intent.actions[..intent.actions.len().min(intent.done + 1)];
            Err(undone.of(Failure::new(Kind::Interrupted), begun))
        }
        _ => Ok(()),
    }
}

/// A cache that was recorded is wanted, unless the job was being undone: the remaining actions are done, with the cache
/// mapped by a start since or not. Otherwise the finished actions are undone.
async fn recover_preparation(
    engine: &dyn Engine,
    store: &Store,
    intent: Intent,
    live: bool,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    let ours = |record: &CacheRecord| record.pair.uuid == intent.uuid;
    let recorded = store.caches().iter().any(ours);
    let wanted = live || (recorded && !undoing(&intent));
    if wanted && finish(engine, store, &intent).await {
        return Ok(());
    }
    if live {
        // The file system of the disk is in use through the cache, which stays.
        return store.drop_intent(&intent).map_err(not_recorded);
    }
    let undone = undo(engine, store, &intent, intent.done, watcher).await;
    match undone.data {
        DataState::Incomplete | DataState::Unwritten => {
            let begun = &intent.actions[..intent.actions.len().min(intent.done + 1)];
            Err(undone.of(Failure::new(Kind::Interrupted), begun))
        }
        _ => Ok(()),
    }
}

/// Does the remaining actions of a creation whose mapping exists. Returns whether that succeeded.
async fn finish(engine: &dyn Engine, store: &Store, intent: &Intent) -> bool {
    for action in &intent.actions[intent.done.min(intent.actions.len())..] {
        let made = match record_before(store, intent, action) {
            Ok(()) => engine.apply(action).await,
            Err(e) => Err(not_recorded(e)),
        };
        if let Err(e) = made {
            tracing::warn!(step = %action.kind(), "cannot finish the creation: {e}");
            return false;
        }
    }
    record(store, intent)
        .map_err(|e| tracing::error!("cannot record the cache: {e}"))
        .is_ok()
}

/// Commits a creation: first the cache is recorded, then the job's record is dropped. A cache that was only assembled
/// again is on record already.
fn record(store: &Store, intent: &Intent) -> io::Result<()> {
    for action in &intent.actions {
        match action {
            Action::Map(pair) => store.save_cache(&CacheRecord::new(pair.clone()))?,
            Action::Prepare(_) => record_prepared(store, intent)?,
            _ => {}
        }
    }
    store.drop_intent(intent)
}

async fn create(
    engine: &dyn Engine,
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
                    match engine.apply(action).await {
                        Ok(()) => adopt_partition(engine, &mut intent, index).await,
                        failed => failed,
                    }
                }
                Err(e) => Err(not_recorded(e)),
            }
        };
        if let Err(failure) = made {
            let failure = named(failure, &intent.actions[index]);
            let undone = undo(engine, store, &intent, index, watcher).await;
            let begun = &intent.actions[..index + usize::from(begun)];
            return Err(undone.of(failure, begun));
        }
    }
    if let Err(e) = record(store, &intent) {
        let last = intent.actions.len().saturating_sub(1);
        let undone = undo(engine, store, &intent, last, watcher).await;
        return Err(undone.of(not_recorded(e), &intent.actions));
    }
    Ok(Outcome::Done)
}

/// After the partition of a cache is made: the partition takes the place of the planned one in all actions. It is on
/// record before the next action begins.
async fn adopt_partition(
    engine: &dyn Engine,
    intent: &mut Intent,
    index: usize,
) -> Result<(), Failure> {
    let Action::CreatePartition(pair) = &intent.actions[index] else {
        return Ok(());
    };
    let facts = engine.facts().await?;
    let made = facts.made_partition(pair, &engine.boot_id());
    let made = made.ok_or_else(|| {
        Failure::new(Kind::StepFailed).detail("the new partition is not found on the SSD")
    })?;
    for pair in intent.actions.iter_mut().filter_map(Action::pair_mut) {
        pair.ssd = made.ident.clone();
    }
    Ok(())
}

/// The result of an undo.
struct UndoResult {
    data: DataState,
    /// The actions whose effect is still there, in the order of the plan.
    left: Vec<Action>,
}

impl UndoResult {
    /// The failure with what became of the data after these actions were begun and then undone. Erased content does not
    /// come back.
    fn of(self, failure: Failure, begun: &[Action]) -> Failure {
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

/// Records what has to be on record before an action of a creation: that data may be on the SSD only (only the
/// module's status takes that back), and the cache of which the initial file systems get a copy.
fn record_before(store: &Store, intent: &Intent, action: &Action) -> io::Result<()> {
    match action {
        Action::EnableWriteback(pair) => store.save_cache(&CacheRecord::new(pair.clone())),
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
fn is_creation(intent: &Intent) -> bool {
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
fn to_be_undone(intent: &Intent) -> Intent {
    Intent {
        done: intent.actions.len(),
        ..intent.clone()
    }
}

/// Whether this is such a record.
fn undoing(intent: &Intent) -> bool {
    is_creation(intent) && intent.done >= intent.actions.len()
}

/// Whether the mapping of a cache uses its SSD.
async fn attached(engine: &dyn Engine, uuid: &str) -> Result<bool, Failure> {
    let live = engine.live_mappings().await?;
    Ok(live.iter().any(|live| live.uuid == uuid && live.attached))
}

/// Bytes that are on the SSD only, as the module says; none if it is not there to be asked.
async fn unwritten(engine: &dyn Engine, uuid: &str) -> Result<u64, Failure> {
    if !attached(engine, uuid).await? {
        return Ok(0);
    }
    let status = module_status(engine, uuid).await?;
    Ok(status.sample.dirty_sectors.saturating_mul(SECTOR_BYTES))
}

/// What the module says, if it knows.
async fn module_status(engine: &dyn Engine, uuid: &str) -> Result<Status, Failure> {
    let status = engine.status(uuid).await?;
    if status.counters_valid() {
        return Ok(status);
    }
    Err(Failure::new(Kind::WrongState)
        .name(&status.state)
        .detail("the mapping does not run: what is on the SSD only is not known"))
}

/// Undoes the actions up to and including `last`, and forgets the job if that succeeds. As long as
/// something may be on the SSD only, the cache stays as it is and on record.
async fn undo(
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
fn data_after(store: &Store, intent: &Intent, failure: &Failure) -> DataState {
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

/// A failure of the general kind (`StepFailed`) without a name gets the name of its step.
fn named(failure: Failure, action: &Action) -> Failure {
    if failure.kind != Kind::StepFailed || !failure.name.is_empty() {
        return failure;
    }
    let failure = failure.name(action.kind().as_str());
    if failure.device.is_none() {
        failure.device(&action.device())
    } else {
        failure
    }
}

fn not_recorded(error: io::Error) -> Failure {
    Failure::new(Kind::Internal).detail(format_args!("cannot record the job: {error}"))
}
