// SPDX-License-Identifier: GPL-3.0-or-later
//! Carries out a plan, and repairs the state after a failure, a cancellation or a crash.
//!
//! Before each action a record on disk says how far the plan is. A creation that fails is undone, beginning with the
//! action that may be half done. A removal is undone as long as the SSD is still in use, and completed after that.
//! A resize goes on from the detached SSD to the new partition, or ends as a removal.
//! The removal of the record is the commit, so the next start of the service always finds out what to do.

mod creation;
mod drain;
mod in_place;
mod other;
mod removal;
mod resize;
mod settle;
mod undo;

pub use drain::Drained;
pub(super) use in_place::record_size;
pub use other::remove as remove_other;

use crate::decide::plan::Plan;
use crate::host::Host;
use crate::machine::store::Store;
use crate::model::action::{Action, MountDevice};
use crate::model::live::Status;
use crate::model::record::Intent;
use std::io;
use tandem_api::{Failure, JobKind, Kind, SECTOR_BYTES};

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
    host: &dyn Host,
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
        boot_id: host.boot_id(),
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
        JobKind::Create => creation::create(host, store, intent, watcher).await,
        JobKind::Remove | JobKind::Flush => removal::remove(host, store, intent, watcher).await,
        JobKind::Resize => resize::resize(host, store, intent, watcher).await,
        // No job of a cache of Tandem: see `other`.
        JobKind::MakePlain => Err(Failure::new(Kind::WrongState)),
    }
}

/// Finishes or undoes a job after the service died in the middle of it.
///
/// # Errors
/// What could not be put right; the record stays, and the next start tries again.
pub async fn recover(
    host: &dyn Host,
    store: &Store,
    intent: Intent,
    watcher: &dyn Watcher,
) -> Result<(), Failure> {
    tracing::warn!(uuid = intent.uuid, kind = %intent.kind, done = intent.done, "unfinished job found");
    match intent.kind {
        JobKind::Create => creation::recover(host, store, intent, watcher).await,
        JobKind::Remove | JobKind::Flush => removal::recover(host, store, intent, watcher).await,
        JobKind::Resize => resize::recover(host, store, intent, watcher).await,
        JobKind::MakePlain => Err(Failure::new(Kind::WrongState)),
    }
}

/// Whether nothing is left to do of an action that failed so: a disk that was unplugged took its mounts with it, and what
/// is plugged in again is mounted by the system, if at all.
fn is_moot(action: &Action, failure: &Failure) -> bool {
    matches!(action, Action::Mount(MountDevice::Origin(_), _)) && failure.kind == Kind::DeviceGone
}

/// Whether the mapping of a cache uses its SSD.
async fn attached(host: &dyn Host, uuid: &str) -> Result<bool, Failure> {
    let live = host.live_mappings().await?;
    Ok(live.iter().any(|live| live.uuid == uuid && live.attached))
}

/// Bytes that are on the SSD only, as the module says; none if it is not there to be asked.
async fn unwritten(host: &dyn Host, uuid: &str) -> Result<u64, Failure> {
    if !attached(host, uuid).await? {
        return Ok(0);
    }
    let status = module_status(host, uuid).await?;
    Ok(status.sample.dirty_sectors.saturating_mul(SECTOR_BYTES))
}

/// What the module says, if it knows.
async fn module_status(host: &dyn Host, uuid: &str) -> Result<Status, Failure> {
    let status = host.status(uuid).await?;
    if status.counters_valid() {
        return Ok(status);
    }
    Err(Failure::new(Kind::WrongState)
        .name(&status.state)
        .detail("the mapping does not run: what is on the SSD only is not known"))
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
