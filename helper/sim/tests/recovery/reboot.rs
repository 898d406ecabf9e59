// SPDX-License-Identifier: GPL-3.0-or-later
//! Removals that are not finished before another start of the machine, and mappings that do not run.

use crate::mortal::Mortal;
use crate::writeback::{Dirty, run_dying};
use crate::{Folder, UUID, common, creation, facts, path, removal};
use std::sync::Arc;
use std::time::Duration;
use tandem_api::*;
use tandem_helper::decide::plan::{self, Plan};
use tandem_helper::host::Host;
use tandem_helper::host::traits::{Computer, Mappings};
use tandem_helper::machine::store::Store;
use tandem_helper::model::action::{Action, MountDevice, Pair};
use tandem_helper::model::facts::{Device, Mount};
use tandem_helper::service::Service;
use tandem_helper::service::apply::{self, Unwatched};
use tandem_simulated::{Simulated, World};

const POINT: &str = "/media/anna/Archive";

/// The mount points of the device with this name. `None`: there is no such device.
async fn points(host: &dyn Host, name: &str) -> Option<Vec<String>> {
    let facts = facts(host).await;
    facts.device(path(name).as_str()).map(Device::mount_points)
}

/// Whether a mapping uses its SSD.
async fn is_attached(host: &dyn Host) -> bool {
    let live = host.live_mappings().await.unwrap();
    live.iter().any(|live| live.attached)
}

/// The mapping and the mount that a removal unmounts first.
fn planned(plan: &Plan) -> (Box<Pair>, Mount) {
    let found = plan.actions.iter().find_map(|action| match action {
        Action::Unmount(MountDevice::Mapping(pair), mount) => Some((pair.clone(), mount.clone())),
        _ => None,
    });
    found.expect("the mapping is mounted when the plan is made")
}

/// Starts the machine again, and assembles the cache.
async fn start_again(world: &Arc<World>, host: &dyn Host, store: &Store) {
    world.restart();
    let pair = store.caches().pop().unwrap().pair;
    let assembly = plan::assemble(&pair, &[]);
    apply::run(host, store, &assembly, 0, &Unwatched)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_removal_that_ends_in_another_boot_leaves_a_mounted_file_system_mounted() {
    for mounted in [true, false] {
        let Dirty {
            world,
            store,
            host,
            _folder,
        } = Dirty::new(&format!("mounted-{mounted}"), None).await;
        let host = &*host;
        let plan = removal(host, &store).await;
        assert!(run_dying(&world, &store, &plan).await);
        start_again(&world, host, &store).await;
        let (pair, mount) = planned(&plan);
        if mounted {
            let mount = Action::Mount(MountDevice::Mapping(pair), mount);
            host.apply(&mount).await.unwrap();
        }
        world.set_drain_rate(u64::MAX / 4096);
        let intent = store.intents().pop().unwrap();
        apply::recover(host, &store, intent, &Unwatched)
            .await
            .unwrap();
        assert!(store.intents().is_empty());
        assert_eq!(world.lost_bytes(), 0);
        let live = host.live_mappings().await.unwrap();
        let facts = facts(host).await;
        let ssd = facts.device(path("sdc").as_str()).unwrap();
        assert!(ssd.blank, "the SSD is free");
        if mounted {
            assert_eq!(points(host, "dm_2d1").await, Some(vec![POINT.to_owned()]));
            assert!(live.iter().all(|live| !live.attached) && live.len() == 1);
            let record = store.caches().pop().unwrap();
            assert_eq!(record.detached_in, Some(host.boot_id()));
            assert!(!record.may_be_dirty);
        } else {
            assert_eq!(points(host, "dm_2d1").await, None);
            assert!(live.is_empty() && store.caches().is_empty());
        }
    }
}

#[tokio::test]
async fn a_removal_that_is_past_its_drain_ends_in_another_boot_without_its_disk() {
    for restarts in [true, false] {
        let Dirty {
            world,
            store,
            host,
            _folder,
        } = Dirty::new(&format!("past-{restarts}"), Some(u64::MAX / 4096)).await;
        let host = &*host;
        let plan = removal(host, &store).await;
        assert!(matches!(plan.actions[1], Action::Detach(_)));
        let mortal = Mortal::new(&world, 1, false);
        let job = apply::run(&mortal, &store, &plan, 0, &Unwatched);
        assert!(mortal.until_death(job).await);
        if restarts {
            world.restart();
        }
        // As if the disk, or UDisks2, were not there.
        world.fail_next(StepKind::Detach);
        let intent = store.intents().pop().unwrap();
        let recovered = apply::recover(host, &store, intent, &Unwatched).await;
        if restarts {
            // No mapping is left, so there is nothing to detach.
            recovered.unwrap();
            assert!(store.caches().is_empty());
        } else {
            // The cache goes on as before.
            let failed = recovered.unwrap_err();
            assert_eq!(failed.kind, Kind::StepFailed);
            assert_eq!(failed.data, DataState::Unchanged);
            assert_eq!(store.caches().len(), 1);
        }
        assert!(store.intents().is_empty());
        assert_eq!(world.lost_bytes(), 0);
    }
}

#[tokio::test]
async fn a_removal_that_meets_its_cache_alive_again_does_not_leave_it_between() {
    let Dirty {
        world,
        store,
        host,
        _folder,
    } = Dirty::new("alive", Some(u64::MAX / 4096)).await;
    let host = &*host;
    let plan = removal(host, &store).await;
    let mortal = Mortal::new(&world, 1, false);
    let job = apply::run(&mortal, &store, &plan, 0, &Unwatched);
    assert!(mortal.until_death(job).await);
    let intent = store.intents().pop().unwrap();
    start_again(&world, host, &store).await;
    world.set_drain_rate(1_000);
    world.advance(std::time::Duration::from_secs(20));
    assert!(host.status(UUID).await.unwrap().sample.dirty_sectors > 0);
    let failed = apply::recover(host, &store, intent, &Unwatched).await;
    assert_eq!(failed.unwrap_err().kind, Kind::UnwrittenData);
    // If the job were still on record, the next start would not hold the disk.
    assert!(store.intents().is_empty() && store.caches().len() == 1);
    assert_eq!(world.lost_bytes(), 0);
}

// promise 23: programs/recovery::reboot::a_mapping_that_did_not_start_counts_nothing_and_is_not_removed
#[tokio::test]
async fn a_mapping_that_did_not_start_counts_nothing_and_is_not_removed() {
    for drains in [true, false] {
        let Dirty {
            world,
            store,
            host,
            _folder,
        } = Dirty::new(&format!("silent-{drains}"), None).await;
        let mut plan = removal(&*host, &store).await;
        if !drains {
            plan.actions.retain(|a| !matches!(a, Action::Drain(_)));
        }
        let silent = Mortal::not_started(&world);
        let refused = apply::run(&silent, &store, &plan, 0, &Unwatched).await;
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.kind, refused.name.as_str()),
            (Kind::WrongState, "suspended")
        );
        assert_eq!(world.lost_bytes(), 0);
        assert!(store.caches().pop().unwrap().may_be_dirty);
        assert!(is_attached(&*host).await);
        assert!(store.intents().is_empty());
    }
}

#[tokio::test]
async fn a_mapping_that_did_not_start_is_not_undone() {
    let Dirty {
        world,
        store,
        host,
        _folder,
    } = Dirty::new("silent-undo", None).await;
    // The plan mounts the file system, and the mount fails after the mapping is in force.
    let pair = store.caches().pop().unwrap().pair;
    let (_, mount) = planned(&removal(&*host, &store).await);
    let assembly = plan::assemble(&pair, &[mount]);
    world.fail_next(StepKind::Mount);
    let silent = Mortal::not_started(&world);
    let failed = apply::run(&silent, &store, &assembly, 0, &Unwatched).await;
    assert_eq!(failed.unwrap_err().data, DataState::Unwritten);
    assert!(is_attached(&*host).await);
    assert_eq!(world.lost_bytes(), 0);
    assert!(store.caches().pop().unwrap().may_be_dirty);
}

#[tokio::test]
async fn an_ssd_that_is_lost_while_a_mount_of_its_assembly_hangs_is_recorded_at_once() {
    let world = Arc::new(World::default());
    world.set_step_time(Duration::ZERO);
    let folder = Folder::new("hangs");
    let store = Store::open(&folder.0).unwrap();
    let host = Simulated::new(world.clone());
    apply::run(&host, &store, &creation(&host).await, 0, &Unwatched)
        .await
        .unwrap();
    let (_, mount) = planned(&removal(&host, &store).await);
    world.restart();
    let pair = store.caches().pop().unwrap().pair;
    let assembly = plan::assemble(&pair, &[mount]);
    let mounts = |action: &Action| matches!(action, Action::Mount(..));
    let at = assembly.actions.iter().position(mounts).unwrap();
    let mortal = Mortal::new(&world, at, false);
    let job = apply::run(&mortal, &store, &assembly, 0, &Unwatched);
    assert!(mortal.until_death(job).await);
    assert!(is_attached(&host).await);

    // The next start of the service finishes the assembly, and waits for a check of the file system.
    let hangs = Arc::new(Mortal::new(&world, 0, false));
    let (_machine, connection) = common::Machine::empty().await;
    let started = tokio::spawn(Service::start(hangs.clone(), store.clone(), connection));
    assert!(hangs.until_death(std::future::pending::<()>()).await);
    world.lose_ssd(UUID);
    // The module waits a second for the record.
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(!started.is_finished());
    assert!(store.caches().pop().unwrap().pair.copies_stale);
    started.abort();
}
