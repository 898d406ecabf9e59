// SPDX-License-Identifier: GPL-3.0-or-later
//! The service is killed before and after every action of a creation and of a removal. The next start reaches the old
//! state or the new state, never a state in between.
//!
//! To kill the service, a test drops the job in the middle of a call of the host: no code of the job runs any more,
//! and only the records and the state of the machine are left. The tests in the VM kill the process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod drain;
mod giving_up;
mod in_place;
mod memory;
mod mortal;
mod partition;
mod pending;
mod reboot;
mod resize;
mod undo;
mod unplugged;
mod writeback;

use mortal::Mortal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::*;
use tandem_helper::decide::plan::{self, Plan, RemoveInput, Unwritten};
use tandem_helper::host::Host;
use tandem_helper::host::traits::{Disks, Mappings};
use tandem_helper::machine::store::Store;
use tandem_helper::model::action::Action;
use tandem_helper::model::facts::{Device, Facts};
use tandem_helper::service::apply::{self, Unwatched};
use tandem_simulated::{Simulated, World};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("tandem-recovery-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const UUID: &str = "0123456789abcdef0123456789abcdef";

fn path(name: &str) -> zbus::OwnedObjectPath {
    format!("/org/freedesktop/UDisks2/block_devices/{name}")
        .try_into()
        .unwrap()
}

async fn facts(host: &dyn Host) -> Facts {
    let mut facts = host.facts().await.unwrap();
    for device in &mut facts.devices {
        device.blank = device.usage.is_empty() && host.blank(device).await.unwrap();
    }
    facts
}

async fn creation(host: &dyn Host) -> Plan {
    creation_in(host, Mode::Writethrough).await
}

async fn creation_in(host: &dyn Host, mode: Mode) -> Plan {
    creation_on(host, mode, 0).await
}

async fn creation_on(host: &dyn Host, mode: Mode, partition_bytes: u64) -> Plan {
    let spec = PlanSpec {
        origin: path("sda1"),
        ssd: path("sdc"),
        mode,
        erase_ssd: false,
        at_next_start: false,
        partition_bytes,
        target: common::target(),
        memory_bytes: 0,
    };
    plan::create(&spec, UUID, &facts(host).await, &[], Vec::new()).unwrap()
}

async fn removal(host: &dyn Host, store: &Store) -> Plan {
    let unwritten = Unwritten {
        possible: store.caches()[0].may_be_dirty,
        ..Unwritten::default()
    };
    removing(host, store, unwritten, false).await
}

async fn removing(host: &dyn Host, store: &Store, unwritten: Unwritten, discard: bool) -> Plan {
    let facts = facts(host).await;
    let record = store.caches().remove(0);
    let pair = record.pair.clone();
    let mapped = facts
        .devices
        .iter()
        .find(|d| d.ident.hardware == pair.dm_uuid())
        .unwrap();
    plan::remove(RemoveInput {
        pair: &pair,
        attached: true,
        orphaned: false,
        mapped: true,
        ssd_present: true,
        mounts: &mapped.mounts,
        users: Vec::new(),
        pinned: false,
        unwritten,
        pending: false,
        in_initramfs: false,
        discard,
    })
    .unwrap()
}

/// The state of the machine: `plain` or `cached`. Panics in a state in between.
async fn state(host: &dyn Host, store: &Store) -> &'static str {
    let facts = facts(host).await;
    let points = |name: &str| {
        facts
            .device(path(name).as_str())
            .map(Device::mount_points)
            .unwrap_or_default()
    };
    let home = ["/media/anna/Archive".to_owned()];
    let ssd_blank = facts.device(path("sdc").as_str()).unwrap().blank;
    let live = host.live_mappings().await.unwrap();
    assert!(store.intents().is_empty(), "the job is still recorded");
    match (live.as_slice(), store.caches().len()) {
        ([], 0) if ssd_blank && points("sda1") == home => "plain",
        ([map], 1) if map.attached && points("dm_2d1") == home && points("sda1").is_empty() => {
            "cached"
        }
        (live, caches) => panic!(
            "in between: {live:?}, {caches} records, sda1 at {:?}, SSD blank {ssd_blank}",
            points("sda1")
        ),
    }
}

/// Runs a plan on a host that dies, and then recovers its jobs. Returns whether the host died.
async fn run_and_die(
    world: &Arc<World>,
    store: &Store,
    plan: &Plan,
    at: usize,
    after: bool,
) -> bool {
    let mortal = Mortal::new(world, at, after);
    let job = apply::run(&mortal, store, plan, 0, &Unwatched);
    let died = mortal.until_death(job).await;
    let host = Simulated::new(world.clone());
    for intent in store.intents() {
        apply::recover(&host, store, intent, &Unwatched)
            .await
            .unwrap();
    }
    died
}

// promise 32: programs/recovery::a_killed_creation_leaves_the_plain_disk_or_the_cache
#[tokio::test]
async fn a_killed_creation_leaves_the_plain_disk_or_the_cache() {
    let mut seen = Vec::new();
    for at in 0..6 {
        for after in [false, true] {
            let world = Arc::new(World::default());
            world.set_step_time(Duration::ZERO);
            let folder = Folder::new(&format!("create-{at}-{after}"));
            let store = Store::open(&folder.0).unwrap();
            let host = Simulated::new(world.clone());
            let plan = creation(&host).await;
            let died = run_and_die(&world, &store, &plan, at, after).await;
            let state = state(&host, &store).await;
            assert_eq!(died, at < plan.actions.len(), "at {at}");
            // A program may use the mapping as soon as it works, so from then on the creation is finished.
            let map = plan
                .actions
                .iter()
                .position(|a| matches!(a, Action::Map(_)))
                .unwrap();
            let mapped = at > map || (at == map && after);
            let expected = if mapped { "cached" } else { "plain" };
            assert_eq!(state, expected, "at {at}, after {after}");
            seen.push(state);
            if state == "plain" {
                // The cache can be created again without an agreement to erase the SSD.
                apply::run(&host, &store, &creation(&host).await, 0, &Unwatched)
                    .await
                    .unwrap();
                assert_eq!(self::state(&host, &store).await, "cached");
            }
        }
    }
    assert!(seen.contains(&"plain") && seen.contains(&"cached"));
}

#[tokio::test]
async fn a_killed_removal_leaves_the_cache_or_the_plain_disk() {
    for at in 0..7 {
        for after in [false, true] {
            let world = Arc::new(World::default());
            world.set_step_time(Duration::ZERO);
            let folder = Folder::new(&format!("remove-{at}-{after}"));
            let store = Store::open(&folder.0).unwrap();
            let host = Simulated::new(world.clone());
            apply::run(&host, &store, &creation(&host).await, 0, &Unwatched)
                .await
                .unwrap();
            let plan = removal(&host, &store).await;
            assert_eq!(plan.actions.len(), 5);
            let died = run_and_die(&world, &store, &plan, at, after).await;
            assert_eq!(died, at < plan.actions.len());
            assert_eq!(
                state(&host, &store).await,
                "plain",
                "at {at}, after {after}"
            );
        }
    }
}

#[tokio::test]
async fn a_kill_while_undoing_is_recovered_too() {
    for at in 0..8 {
        for after in [false, true] {
            let world = Arc::new(World::default());
            world.set_step_time(Duration::ZERO);
            let folder = Folder::new(&format!("undo-{at}-{after}"));
            let store = Store::open(&folder.0).unwrap();
            let host = Simulated::new(world.clone());
            let plan = creation(&host).await;
            // The host dies before the mapping is there, and once more in the recovery.
            let map = plan
                .actions
                .iter()
                .position(|a| matches!(a, Action::Map(_)));
            let first = Mortal::new(&world, map.unwrap(), false);
            let job = apply::run(&first, &store, &plan, 0, &Unwatched);
            assert!(first.until_death(job).await);
            let second = Mortal::new(&world, at, after);
            for intent in store.intents() {
                let recovery = apply::recover(&second, &store, intent, &Unwatched);
                second.until_death(recovery).await;
            }
            for intent in store.intents() {
                apply::recover(&host, &store, intent, &Unwatched)
                    .await
                    .unwrap();
            }
            assert_eq!(
                state(&host, &store).await,
                "plain",
                "at {at}, after {after}"
            );
        }
    }
}

#[tokio::test]
async fn a_step_that_fails_is_undone_as_a_whole() {
    let mut failed = 0;
    for at in 0.. {
        let world = Arc::new(World::default());
        world.set_step_time(Duration::ZERO);
        let folder = Folder::new(&format!("fail-{at}"));
        let store = Store::open(&folder.0).unwrap();
        let host = Simulated::new(world.clone());
        let plan = creation(&host).await;
        if at == plan.actions.len() {
            break;
        }
        world.fail_next(plan.actions[at].kind());
        let failure = apply::run(&host, &store, &plan, 0, &Unwatched)
            .await
            .unwrap_err();
        assert_eq!(failure.kind, Kind::StepFailed);
        assert_eq!(failure.name, plan.actions[at].kind().as_str());
        let data = if at == 0 {
            DataState::Unchanged
        } else {
            DataState::Restored
        };
        assert_eq!(failure.data, data, "at {at}");
        assert_eq!(state(&host, &store).await, "plain");
        failed += 1;
    }
    assert!(failed >= 3, "{failed}");
}

#[tokio::test]
async fn an_ssd_that_cannot_be_wiped_does_not_keep_the_disk() {
    let world = Arc::new(World::default());
    world.set_step_time(Duration::ZERO);
    let folder = Folder::new("unwiped");
    let store = Store::open(&folder.0).unwrap();
    let host = Simulated::new(world.clone());
    apply::run(&host, &store, &creation(&host).await, 0, &Unwatched)
        .await
        .unwrap();
    world.fail_next(StepKind::FreeSsd);
    let plan = removal(&host, &store).await;
    apply::run(&host, &store, &plan, 0, &Unwatched)
        .await
        .unwrap();
    assert!(store.caches().is_empty() && store.intents().is_empty());
    assert!(host.live_mappings().await.unwrap().is_empty());
    let facts = host.facts().await.unwrap();
    let disk = facts.device(path("sda1").as_str()).unwrap();
    assert_eq!(disk.mount_points(), ["/media/anna/Archive"]);
}

#[tokio::test]
async fn a_creation_that_cannot_be_finished_after_a_kill_is_undone() {
    let world = Arc::new(World::default());
    world.set_step_time(Duration::ZERO);
    let folder = Folder::new("unfinished");
    let store = Store::open(&folder.0).unwrap();
    let host = Simulated::new(world.clone());
    let plan = creation(&host).await;
    let mortal = Mortal::new(&world, plan.actions.len() - 1, false);
    assert!(
        mortal
            .until_death(apply::run(&mortal, &store, &plan, 0, &Unwatched))
            .await
    );
    world.fail_next(StepKind::Mount);
    for intent in store.intents() {
        apply::recover(&host, &store, intent, &Unwatched)
            .await
            .unwrap();
    }
    assert_eq!(state(&host, &store).await, "plain");
}

#[tokio::test]
async fn a_killed_assembly_is_finished_or_undone_and_keeps_the_cache() {
    for at in 0..5 {
        for after in [false, true] {
            let world = Arc::new(World::default());
            world.set_step_time(Duration::ZERO);
            let folder = Folder::new(&format!("assemble-{at}-{after}"));
            let store = Store::open(&folder.0).unwrap();
            let host = Simulated::new(world.clone());
            let plan = creation(&host).await;
            apply::run(&host, &store, &plan, 0, &Unwatched)
                .await
                .unwrap();
            // The state after a start of the machine: no mapping, and the plain disk is mounted.
            let record = store.caches().remove(0);
            for action in plan.actions.iter().rev() {
                for back in action
                    .undo()
                    .into_iter()
                    .filter(|a| !matches!(a, Action::FreeSsd(_)))
                {
                    host.apply(&back).await.unwrap();
                }
            }
            let facts = host.facts().await.unwrap();
            let mounts = &facts.device(path("sda1").as_str()).unwrap().mounts;
            let plan = plan::assemble(&record.pair, mounts);
            let died = run_and_die(&world, &store, &plan, at, after).await;
            assert_eq!(died, at < plan.actions.len());
            assert_eq!(store.caches(), [record], "at {at}, after {after}");
            assert!(store.intents().is_empty());
            let live = host.live_mappings().await.unwrap();
            let facts = host.facts().await.unwrap();
            let points = |name: &str| facts.device(path(name).as_str()).map(Device::mount_points);
            let home = vec!["/media/anna/Archive".to_owned()];
            if live.is_empty() {
                assert_eq!(points("sda1"), Some(home), "at {at}, after {after}");
            } else {
                assert_eq!(points("dm_2d1"), Some(home), "at {at}, after {after}");
            }
        }
    }
}
