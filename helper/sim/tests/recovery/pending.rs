// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache that the next start of the machine puts over its disk: the service is killed at every action of the
//! preparation, and of its cancellation. The disk is used all the time.

use crate::{Folder, UUID, facts, path, run_and_die};
use std::sync::Arc;
use std::time::Duration;
use tandem_api::*;
use tandem_helper::decide::plan::{self, Plan, RemoveInput, Unwritten};
use tandem_helper::host::Host;
use tandem_helper::host::traits::Mappings;
use tandem_helper::machine::store::Store;
use tandem_helper::model::action::Action;
use tandem_helper::model::record::Setup;
use tandem_helper::service::apply::{self, Unwatched};
use tandem_simulated::{Simulated, World};

/// The preparation for the disk of the running system: it has every kind of action.
async fn preparation(host: &dyn Host, target: Target) -> Plan {
    let spec = PlanSpec {
        origin: path("sda1"),
        ssd: path("sdc"),
        mode: Mode::Writethrough,
        erase_ssd: false,
        at_next_start: true,
        partition_bytes: 0,
        target,
        memory_bytes: 0,
    };
    let mut facts = facts(host).await;
    facts.initramfs = true;
    for device in &mut facts.devices {
        device.found_at_start = true;
        for mount in device.mounts.iter_mut().take(1) {
            if device.ident.text.name == "sda1" {
                mount.point = "/".to_owned();
            }
        }
    }
    let plan = plan::create(&spec, UUID, &facts, &[], Vec::new()).unwrap();
    assert!(matches!(
        plan.actions.last(),
        Some(Action::UpdateInitramfs(_))
    ));
    plan
}

fn cancellation(store: &Store) -> Plan {
    let record = store.caches().remove(0);
    let input = RemoveInput {
        pair: &record.pair,
        attached: false,
        orphaned: false,
        mapped: false,
        ssd_present: true,
        mounts: &[],
        users: Vec::new(),
        pinned: false,
        unwritten: Unwritten::default(),
        pending: true,
        in_initramfs: record.in_initramfs,
        discard: false,
    };
    plan::remove(input).unwrap()
}

/// The state of the machine: `plain` or `pending`. In both the disk is mounted without a mapping.
async fn state(host: &dyn Host, store: &Store) -> &'static str {
    assert!(store.intents().is_empty(), "the job is still recorded");
    assert!(host.live_mappings().await.unwrap().is_empty());
    let facts = facts(host).await;
    let device = |name: &str| facts.device(path(name).as_str()).unwrap();
    assert_eq!(device("sda1").mount_points().len(), 1);
    let caches = store.caches();
    match (caches.as_slice(), device("sdc").blank) {
        ([], true) => "plain",
        ([record], false) => {
            assert!(record.setup.waits_in(&host.boot_id()));
            assert!(record.in_initramfs && record.pair.copies_stale && !record.may_be_dirty);
            "pending"
        }
        (caches, blank) => panic!("in between: {caches:?}, SSD blank {blank}"),
    }
}

#[tokio::test]
async fn a_killed_preparation_leaves_the_plain_disk_or_a_cache_for_the_next_start() {
    let deaths = Target::ALL
        .iter()
        .flat_map(|target| (0..4).map(|at| (*target, at)));
    for (target, at) in deaths {
        for after in [false, true] {
            let world = Arc::new(World::default());
            world.set_step_time(Duration::ZERO);
            let folder = Folder::new(&format!("prepare-{target}-{at}-{after}"));
            let store = Store::open(&folder.0).unwrap();
            let host = Simulated::new(world.clone());
            let plan = preparation(&host, target).await;
            let died = run_and_die(&world, &store, &plan, at, after).await;
            assert_eq!(died, at < plan.actions.len());
            // The cache is recorded before the last action. From then on the preparation is finished.
            let expected = if at + 1 < plan.actions.len() {
                "plain"
            } else {
                "pending"
            };
            assert_eq!(
                state(&host, &store).await,
                expected,
                "{target} {at} {after}"
            );
        }
    }
}

#[tokio::test]
async fn a_killed_cancellation_leaves_the_plain_disk() {
    let deaths = Target::ALL
        .iter()
        .flat_map(|target| (0..3).map(|at| (*target, at)));
    for (target, at) in deaths {
        for after in [false, true] {
            let world = Arc::new(World::default());
            world.set_step_time(Duration::ZERO);
            let folder = Folder::new(&format!("cancel-{target}-{at}-{after}"));
            let store = Store::open(&folder.0).unwrap();
            let host = Simulated::new(world.clone());
            let plan = preparation(&host, target).await;
            let made = apply::run(&host, &store, &plan, 0, &Unwatched).await;
            made.unwrap();
            assert_eq!(state(&host, &store).await, "pending");
            let plan = cancellation(&store);
            assert_eq!(plan.actions.len(), 2);
            assert_eq!(run_and_die(&world, &store, &plan, at, after).await, at < 2);
            assert_eq!(state(&host, &store).await, "plain", "{at}, {after}");
        }
    }
}

#[tokio::test]
async fn a_step_that_fails_leaves_the_plain_disk() {
    for step in [StepKind::Prepare, StepKind::UpdateInitramfs] {
        let world = Arc::new(World::default());
        world.set_step_time(Duration::ZERO);
        let folder = Folder::new(&format!("fails-{step}"));
        let store = Store::open(&folder.0).unwrap();
        let host = Simulated::new(world.clone());
        let plan = preparation(&host, Target::Tandem).await;
        world.fail_next(step);
        let failed = apply::run(&host, &store, &plan, 0, &Unwatched).await;
        assert_eq!(failed.unwrap_err().data, DataState::Restored);
        assert_eq!(state(&host, &store).await, "plain");
    }
}

#[tokio::test]
async fn a_preparation_that_a_start_of_the_machine_overtakes_is_finished() {
    let world = Arc::new(World::default());
    world.set_step_time(Duration::ZERO);
    let folder = Folder::new("overtaken");
    let store = Store::open(&folder.0).unwrap();
    let host = Simulated::new(world.clone());
    let plan = preparation(&host, Target::Tandem).await;
    let last = plan.actions.len() - 1;
    let mortal = crate::Mortal::new(&world, last, false);
    let job = apply::run(&mortal, &store, &plan, 0, &Unwatched);
    assert!(mortal.until_death(job).await);
    // The start of the machine maps the recorded cache, and records that.
    world.restart();
    let record = store.caches().remove(0);
    host.apply(&Action::Assemble(tandem_helper::model::action::Pair {
        origin: now(&host, &record.pair.origin).await,
        ssd: now(&host, &record.pair.ssd).await,
        ..record.pair.clone()
    }))
    .await
    .unwrap();
    store
        .change_cache(UUID, |mut record| {
            record.setup = Setup::Done;
            record
        })
        .unwrap();
    let intent = store.intents().remove(0);
    apply::recover(&host, &store, intent, &Unwatched)
        .await
        .unwrap();
    assert!(store.intents().is_empty());
    assert!(host.live_mappings().await.unwrap()[0].attached);
    let records = store.caches();
    assert_eq!((records.len(), &records[0].setup), (1, &Setup::Done));
}

async fn now(
    host: &dyn Host,
    ident: &tandem_helper::model::facts::Ident,
) -> tandem_helper::model::facts::Ident {
    let facts = facts(host).await;
    facts.same_hardware(ident).unwrap().ident.clone()
}
