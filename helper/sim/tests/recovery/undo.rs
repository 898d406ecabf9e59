// SPDX-License-Identifier: GPL-3.0-or-later
//! Creations that fail late and are undone. The unmount of the undo writes data through the cache.

use crate::mortal::Mortal;
use crate::{Folder, UUID, creation_in, facts, path, state};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tandem_api::*;
use tandem_helper::decide::plan;
use tandem_helper::host::traits::Mappings;
use tandem_helper::machine::store::Store;
use tandem_helper::service::apply::{self, Unwatched, Watcher};
use tandem_simulated::{Simulated, World};

/// Runs a creation that cannot be recorded after write-back is on. `then` runs before the undo. Returns the failure.
async fn unrecorded(
    world: &Arc<World>,
    root: &Path,
    then: impl Fn() + Send + Sync + 'static,
) -> Failure {
    world.set_step_time(Duration::ZERO);
    let store = Store::open(root).unwrap();
    let plan = creation_in(&Simulated::new(world.clone()), Mode::Writeback).await;
    let beside = root.join(format!("caches/{UUID}.cache.new"));
    let stumbling = beside.clone();
    let host = Mortal::immortal(world, plan.actions.len() - 1, move || {
        std::fs::create_dir(&stumbling).unwrap();
        then();
    });
    let job = apply::run(&host, &store, &plan, 0, &Unwatched);
    let failure = job.await.unwrap_err();
    std::fs::remove_dir(beside).unwrap();
    failure
}

#[tokio::test]
async fn what_unmounting_writes_is_not_lost_with_a_creation_that_is_undone() {
    for worked in [false, true] {
        let world = Arc::new(World::default());
        let folder = Folder::new(&format!("unrecorded-{worked}"));
        world.set_drain_rate(u64::MAX / 4096);
        let used = world.clone();
        let failure = unrecorded(&world, &folder.0, move || {
            if worked {
                used.advance(Duration::from_secs(20));
            }
        })
        .await;
        assert_eq!(world.lost_bytes(), 0, "worked: {worked}");
        assert_eq!(failure.data, DataState::Restored);
        let store = Store::open(&folder.0).unwrap();
        assert_eq!(state(&Simulated::new(world), &store).await, "plain");
    }
}

#[tokio::test]
async fn a_creation_whose_ssd_does_not_drain_is_not_undone_and_stays_on_record() {
    for restarts in [false, true] {
        let world = Arc::new(World::default());
        let folder = Folder::new(&format!("undrained-{restarts}"));
        let used = world.clone();
        let failure = unrecorded(&world, &folder.0, move || {
            used.advance(Duration::from_secs(20));
            used.lose_ssd(UUID);
        })
        .await;
        assert_eq!(failure.data, DataState::Unwritten);
        assert_eq!(world.lost_bytes(), 0);
        let store = Store::open(&folder.0).unwrap();
        let record = store.caches().pop().unwrap();
        assert!(record.may_be_dirty, "or the disk would be used alone");
        let host = Simulated::new(world.clone());
        let status = host.status(UUID).await.unwrap();
        assert_eq!(status.mode, Mode::Writeback, "it goes on as it was");
        // The cache also stays after a start of the machine. The job is over, so the user can give up the data.
        if restarts {
            world.restart();
        }
        let intent = store.intents().pop().unwrap();
        apply::recover(&host, &store, intent, &Unwatched)
            .await
            .unwrap();
        assert_eq!((store.caches().len(), world.lost_bytes()), (1, 0));
        assert!(store.intents().is_empty());
    }
}

/// Cancels the job when the flag is set.
struct Stops(Arc<AtomicBool>);

impl Watcher for Stops {
    fn cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_creation_that_was_cancelled_does_not_come_true_when_it_cannot_be_undone() {
    let world = Arc::new(World::default());
    world.set_step_time(Duration::ZERO);
    let folder = Folder::new("cancelled");
    let store = Store::open(&folder.0).unwrap();
    let host = Simulated::new(world.clone());
    let plan = creation_in(&host, Mode::Writeback).await;
    let mount = plan.actions.len() - 2;
    assert_eq!(plan.actions[mount].kind(), StepKind::Mount);
    let stops = Stops(Arc::default());
    let (stop, used) = (stops.0.clone(), world.clone());
    let cancelled = Mortal::immortal(&world, mount, move || {
        stop.store(true, Ordering::SeqCst);
        // As if a program used the file system as soon as it is mounted.
        used.fail_next(StepKind::Unmount);
    });
    let job = apply::run(&cancelled, &store, &plan, 0, &stops);
    let failure = job.await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.data),
        (Kind::Cancelled, DataState::Incomplete)
    );
    let unfinished = || store.intents().pop().unwrap();
    world.fail_next(StepKind::Unmount);
    let still = apply::recover(&host, &store, unfinished(), &Unwatched).await;
    assert_eq!(still.unwrap_err().data, DataState::Incomplete);
    assert_eq!(host.status(UUID).await.unwrap().mode, Mode::Writethrough);
    apply::recover(&host, &store, unfinished(), &Unwatched)
        .await
        .unwrap();
    assert_eq!(state(&host, &store).await, "plain");
}

#[tokio::test]
async fn a_failure_says_exactly_what_could_not_be_restored() {
    let world = Arc::new(World::default());
    world.set_step_time(Duration::ZERO);
    let folder = Folder::new("not-restored");
    let store = Store::open(&folder.0).unwrap();
    let spec = PlanSpec {
        origin: path("sda1"),
        ssd: path("sdd"),
        mode: Mode::Writethrough,
        erase_ssd: true,
        at_next_start: false,
        partition_bytes: 1 << 30,
        target: tandem_api::Target::Tandem,
        memory_bytes: 0,
    };
    // An SSD with a file system and without a partition table.
    let facts = {
        let mut facts = facts(&Simulated::new(world.clone())).await;
        facts.devices.retain(|d| d.ident.text.name != "sdd1");
        let ssd = facts.devices.iter_mut();
        let ssd = ssd.filter(|d| d.ident.text.name == "sdd");
        ssd.for_each(|d| d.partitioned = false);
        facts
    };
    let plan = plan::create(&spec, UUID, &facts, &[], Vec::new()).unwrap();
    let place = |kind| plan.reply.steps.iter().position(|s| s.kind == kind);
    let map = place(StepKind::Map).unwrap();
    // The mapping cannot be made, and then the disk cannot be mounted again.
    world.fail_next(StepKind::Map);
    let breaks = world.clone();
    let host = Mortal::immortal(&world, map, move || breaks.fail_next(StepKind::Mount));
    let job = apply::run(&host, &store, &plan, 0, &Unwatched);
    let failure = job.await.unwrap_err();
    assert_eq!(failure.data, DataState::Incomplete);
    let left = failure.not_restored.iter();
    let left: Vec<_> = left
        .map(|step| (step.kind, step.device.name.as_str(), step.target.as_str()))
        .collect();
    assert_eq!(
        left,
        [
            (StepKind::EraseSsd, "sdd", ""),
            (StepKind::Unmount, "sda1", "/media/anna/Archive"),
        ]
    );
}
