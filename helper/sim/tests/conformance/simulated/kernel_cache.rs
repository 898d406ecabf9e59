// SPDX-License-Identifier: GPL-3.0-or-later
//! dm-cache of the kernel serves the cache, on a machine that cannot load the module.

use super::starts;
use crate::Bench;
use crate::common::{LIMIT, until};
use crate::writeback::reason;
use futures_util::StreamExt;
use tandem_api::*;
use zbus::fdo::PropertiesProxy;

/// A request for a cache of dm-cache, on a machine without the module.
async fn bench() -> (Bench, SimulationProxy<'static>) {
    let mut bench = Bench::simulated().await;
    bench.spec.target = Target::DmCache;
    let levers = bench.machine.simulation().await;
    levers.set_module(ModuleState::NotBuilt).await.unwrap();
    (bench, levers)
}

#[tokio::test]
async fn without_the_module_a_cache_is_made_used_and_removed() {
    let (bench, _) = bench().await;
    let machine = &bench.machine;
    assert_eq!(machine.manager().await.has_dm_cache().await, Ok(true));
    let own = PlanSpec {
        target: Target::Tandem,
        ..bench.spec.clone()
    };
    let refused = machine.create(&own).await.unwrap_err();
    assert_eq!(refused.kind, Kind::ModuleNotBuilt);
    let plan = machine.plan(&bench.spec).await.unwrap();
    assert!(plan.steps.iter().all(|s| s.kind != StepKind::LoadModule));
    for mode in [Mode::Writeback, Mode::Writearound] {
        let spec = PlanSpec {
            mode,
            ..bench.spec.clone()
        };
        assert_eq!(
            machine.plan(&spec).await.unwrap_err().kind,
            Kind::ModeRefused
        );
    }
    machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.target().await, Ok(Target::DmCache));
    assert_eq!(cache.state().await, Ok(CacheState::Active));
    let offered = cache.refused_modes().await.unwrap();
    assert!(offered.iter().all(|r| r.reason == ModeRefusal::Target));
    assert_eq!(offered.len(), 2);
    for mode in [Mode::Writeback, Mode::Writearound] {
        let refused = Failure::from(cache.set_mode(mode).await.unwrap_err());
        assert_eq!(refused.kind, Kind::ModeRefused, "{mode}");
    }
    for refused in [
        cache.set_paused(true).await.unwrap_err(),
        cache
            .set_dirty_limit(DirtyLimit::default())
            .await
            .unwrap_err(),
        cache.set_shutdown_minutes(5).await.unwrap_err(),
    ] {
        assert_eq!(Failure::from(refused).kind, Kind::TargetUnable);
    }
    machine.remove(&cache).await.unwrap();
    assert!(machine.caches().await.is_empty());
    bench.nothing_lost().await;
}

#[tokio::test]
async fn the_running_system_gets_its_cache_at_the_next_start() {
    let (mut bench, levers) = bench().await;
    let machine = &bench.machine;
    let system = levers.plug("disk", "System", "SYS", 1 << 40).await.unwrap();
    levers.mount(&system[1], "/").await.unwrap();
    bench.spec.origin = system[1].clone();
    let now = machine.plan(&bench.spec).await.unwrap_err();
    assert_eq!(now.kind, Kind::OriginRoot);
    bench.spec.at_next_start = true;
    let plan = machine.plan(&bench.spec).await.unwrap();
    let kinds: Vec<_> = plan.steps.iter().map(|s| s.kind).collect();
    assert_eq!(kinds, [StepKind::Prepare, StepKind::UpdateInitramfs]);
    for mode in [Mode::Writeback, Mode::Writearound] {
        let spec = PlanSpec {
            mode,
            ..bench.spec.clone()
        };
        let refused = machine.plan(&spec).await.unwrap_err();
        assert_eq!(refused.kind, Kind::ModeRefused);
    }
    machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.target().await, Ok(Target::DmCache));
    assert_eq!(cache.state().await, Ok(CacheState::Pending));
    machine.remove(&cache).await.unwrap();
    assert!(machine.caches().await.is_empty(), "it is cancelled");
    machine.create(&bench.spec).await.unwrap();
    levers.restart().await.unwrap();
    let cache = bench.the_cache().await;
    until("the start", async || {
        cache.state().await == Ok(CacheState::Active)
    })
    .await;
    machine.remove(&cache).await.unwrap();
    assert!(machine.caches().await.is_empty());
    bench.nothing_lost().await;
}

#[tokio::test]
async fn a_start_after_a_stop_in_order_is_warm() {
    let (bench, levers) = bench().await;
    starts(true, &bench, &levers).await;
}

#[tokio::test]
async fn a_lost_ssd_leaves_the_disk_alone_and_is_used_again_when_it_is_back() {
    let (bench, levers) = bench().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mounted = cache.mount_points().await.unwrap();
    assert!(!mounted.is_empty());
    for _ in 0..2 {
        levers.unplug(&bench.spec.ssd).await.unwrap();
        reason(&cache, "ssd-error").await;
        // dm-cache would answer with errors. The mapping leads to the disk alone.
        until("the disk alone", async || {
            cache.state().await == Ok(CacheState::Bypass)
                && cache.mount_points().await.unwrap() == mounted
        })
        .await;
        levers.replug(&bench.spec.ssd).await.unwrap();
        until("the SSD", async || {
            cache.state().await == Ok(CacheState::Active)
        })
        .await;
    }
    // The service learns of the loss when the SSD is there again already.
    let properties = PropertiesProxy::builder(&bench.machine.connection)
        .destination(BUS_NAME)
        .path(cache.inner().path().clone())
        .build()
        .await
        .unwrap();
    let mut changes = properties.receive_properties_changed().await.unwrap();
    levers.unplug(&bench.spec.ssd).await.unwrap();
    levers.replug(&bench.spec.ssd).await.unwrap();
    for state in ["bypass", "active"] {
        let is_there = async {
            while let Some(change) = changes.next().await {
                let changed = &change.args().unwrap().changed_properties;
                if changed.get("State") == Some(&state.into()) {
                    break;
                }
            }
        };
        let seen = tokio::time::timeout(LIMIT, is_there).await;
        assert!(seen.is_ok(), "waited in vain for {state}");
    }
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
}
