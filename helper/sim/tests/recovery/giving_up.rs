// SPDX-License-Identifier: GPL-3.0-or-later
//! Giving up data whose disk fails all writes, with obstacles on the way.

use crate::mortal::Mortal;
use crate::writeback::{Dirty, run_dying};
use crate::{UUID, removing};
use std::path::PathBuf;
use tandem_api::*;
use tandem_helper::decide::plan::{Plan, Unwritten};
use tandem_helper::host::traits::{Disks, Mappings};
use tandem_helper::model::action::Action;
use tandem_helper::service::apply::{self, Unwatched, Watcher};

/// A plan that gives up the data. The file system is mounted, and no program uses it.
async fn giving_up(dirty: &Dirty) -> Plan {
    dirty.world.refuse_writes(UUID);
    let unwritten = Unwritten {
        possible: true,
        refused: true,
        ..Unwritten::default()
    };
    let plan = removing(&*dirty.host, &dirty.store, unwritten, true).await;
    let kinds: Vec<_> = plan.actions.iter().map(Action::kind).collect();
    assert_eq!(
        kinds,
        [StepKind::Unmount, StepKind::Unmap, StepKind::FreeSsd]
    );
    plan
}

/// Checks that no data was given up, that the mounts are as before, and that the job is over.
async fn as_before(dirty: &Dirty, mounts: &[String]) {
    assert_eq!(mounted(dirty).await, mounts);
    assert_eq!(dirty.world.lost_bytes(), 0);
    assert!(dirty.store.intents().is_empty());
    assert!(dirty.store.caches()[0].may_be_dirty);
}

/// Runs a plan that fails, and returns how it failed.
async fn failing(dirty: &Dirty, plan: &Plan, watcher: &dyn Watcher) -> (Kind, DataState) {
    let ended = apply::run(&*dirty.host, &dirty.store, plan, 0, watcher).await;
    let failure = ended.unwrap_err();
    (failure.kind, failure.data)
}

/// The mount points of the cache.
async fn mounted(dirty: &Dirty) -> Vec<String> {
    let devices = dirty.host.facts().await.unwrap().devices;
    let ours = devices.iter().find(|d| d.ident.hardware.contains(UUID));
    let mounts = ours.map(|d| d.mounts.iter().map(|m| m.point.clone()));
    mounts.map(Iterator::collect).unwrap_or_default()
}

#[tokio::test]
async fn what_cannot_be_given_up_is_mounted_as_before_with_all_its_data() {
    for step in [StepKind::Unmount, StepKind::Unmap] {
        let dirty = Dirty::new(&format!("giving-up-{step}"), None).await;
        let plan = giving_up(&dirty).await;
        let before = mounted(&dirty).await;
        assert!(!before.is_empty());
        dirty.world.fail_next(step);
        let (_, data) = failing(&dirty, &plan, &Unwatched).await;
        assert_eq!(data, DataState::Unwritten, "{step}");
        as_before(&dirty, &before).await;
        // A second attempt succeeds.
        apply::run(&*dirty.host, &dirty.store, &plan, 0, &Unwatched)
            .await
            .unwrap();
        assert!(dirty.world.lost_bytes() > 0);
        assert!(dirty.store.caches().is_empty());
    }
}

#[tokio::test]
async fn what_a_dead_service_had_not_given_up_yet_is_not_given_up() {
    // The service dies in the unmount (0) or just before the removal of the mapping (1). In some cases an automount
    // then mounts the file system before the service starts again.
    for (died, mounted_since, restarts) in [
        (0, true, false),
        (0, false, false),
        (1, true, false),
        (0, false, true),
    ] {
        let name = format!("died-giving-up-{died}-{mounted_since}-{restarts}");
        let dirty = Dirty::new(&name, None).await;
        let plan = giving_up(&dirty).await;
        let before = mounted(&dirty).await;
        let Action::Unmount(device, mount) = plan.actions[0].clone() else {
            panic!("it is unmounted first");
        };
        assert!(run_dying(&dirty.world, &dirty.store, &plan).await);
        assert!(mounted(&dirty).await.is_empty());
        let mut intent = dirty.store.intents().remove(0);
        intent.done = died;
        dirty.store.save_intent(&intent).unwrap();
        assert_eq!(intent.abandons_cache(UUID), died == 1);
        if restarts {
            dirty.world.restart();
        }
        if mounted_since {
            let again = Action::Mount(device, mount);
            dirty.host.apply(&again).await.unwrap();
        }
        apply::recover(&*dirty.host, &dirty.store, intent, &Unwatched)
            .await
            .unwrap();
        as_before(&dirty, if restarts { &[] } else { &before }).await;
    }
}

#[tokio::test]
async fn what_is_in_use_is_not_given_up_below_it() {
    let dirty = Dirty::new("mounted-meanwhile", None).await;
    let mut plan = giving_up(&dirty).await;
    let before = mounted(&dirty).await;
    // As if the file system had been unmounted, and mounted again.
    plan.actions.remove(0);
    assert_eq!(
        failing(&dirty, &plan, &Unwatched).await,
        (Kind::FilesystemBusy, DataState::Unwritten)
    );
    as_before(&dirty, &before).await;
}

#[tokio::test]
async fn what_is_given_up_although_that_failed_is_not_taken_back() {
    let dirty = Dirty::new("given-up-late", None).await;
    let plan = giving_up(&dirty).await;
    let late = Mortal::failing_late(&dirty.world, StepKind::Unmap);
    let ended = apply::run(&late, &dirty.store, &plan, 0, &Unwatched).await;
    assert_eq!(ended.unwrap_err().data, DataState::Incomplete);
    // Programs can write to the disk alone now, so the data on the SSD must never be written to the disk.
    let intent = dirty.store.intents().remove(0);
    assert!(intent.abandons_cache(UUID) && mounted(&dirty).await.is_empty());
    apply::recover(&*dirty.host, &dirty.store, intent, &Unwatched)
        .await
        .unwrap();
    assert!(dirty.store.intents().is_empty() && dirty.store.caches().is_empty());
}

#[tokio::test]
async fn what_is_mounted_again_is_no_job_any_more() {
    let dirty = Dirty::new("mounted-again", None).await;
    let plan = giving_up(&dirty).await;
    dirty.world.fail_next(StepKind::Unmap);
    // The calls are: unmount, the removal of the mapping (which fails), mount.
    let mortal = Mortal::new(&dirty.world, 2, false);
    assert!(
        mortal
            .until_death(apply::run(&mortal, &dirty.store, &plan, 0, &Unwatched))
            .await
    );
    assert!(mounted(&dirty).await.is_empty());
    assert!(dirty.store.intents().is_empty());
    assert_eq!(dirty.world.lost_bytes(), 0);
}

/// Makes a record impossible to write when the job comes to a step: the path of the record, and the step.
struct Full(PathBuf, usize);

impl Watcher for Full {
    fn step(&self, index: usize, _: bool) {
        if index == self.1 {
            let _ = std::fs::remove_file(&self.0);
            std::fs::create_dir(&self.0).unwrap();
        }
    }
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_given_up_later_either() {
    for step in [0, 1] {
        let dirty = Dirty::new(&format!("giving-up-full-{step}"), None).await;
        let plan = giving_up(&dirty).await;
        let before = mounted(&dirty).await;
        let full = Full(
            dirty._folder.0.join(format!("jobs/{UUID}.remove.new")),
            step,
        );
        assert_eq!(
            failing(&dirty, &plan, &full).await,
            (Kind::Internal, DataState::Unwritten)
        );
        assert!(full.0.is_dir());
        as_before(&dirty, &before).await;
    }
}

#[tokio::test]
async fn what_may_be_given_up_later_is_not_mounted_until_then() {
    let dirty = Dirty::new("giving-up-read-only", None).await;
    let plan = giving_up(&dirty).await;
    // The record of the job can be neither written nor dropped.
    let full = Full(dirty._folder.0.join(format!("jobs/{UUID}.remove.json")), 1);
    assert_eq!(
        failing(&dirty, &plan, &full).await,
        (Kind::Internal, DataState::Unwritten)
    );
    assert!(mounted(&dirty).await.is_empty());
    assert_eq!(dirty.world.lost_bytes(), 0);
    assert!(dirty.store.caches()[0].may_be_dirty);
}

#[tokio::test]
async fn a_cache_whose_mapping_does_not_go_is_not_called_detached() {
    let dirty = Dirty::new("orphaned", None).await;
    // A cache whose disk was unplugged while the file system was mounted has such a plan.
    let mut plan = giving_up(&dirty).await;
    plan.discards = false;
    let before = mounted(&dirty).await;
    dirty.world.fail_next(StepKind::Unmap);
    failing(&dirty, &plan, &Unwatched).await;
    as_before(&dirty, &before).await;
    assert!(dirty.store.caches()[0].detached_in.is_none());
}
