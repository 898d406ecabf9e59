// SPDX-License-Identifier: GPL-3.0-or-later
//! Data that cannot be written to the disk is given up by an explicit request only.

use crate::Bench;
use crate::common::until;
use crate::writeback::reason;
use tandem_api::*;

// promise 20: programs/conformance::simulated::giving_up::what_a_lost_ssd_had_is_given_up_by_name_only
#[tokio::test]
async fn what_a_lost_ssd_had_is_given_up_by_name_only() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    simulation.unplug(&bench.spec.ssd).await.unwrap();
    reason(&cache, "ssd-gone-dirty").await;
    let refused = Failure::from(cache.plan_remove().await.unwrap_err());
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::UnwrittenData, "ssd-gone-dirty")
    );
    assert!(refused.needed > 0);
    let plan = cache.plan_discard().await.unwrap();
    let kinds: Vec<_> = plan.warnings.iter().map(|w| w.kind).collect();
    assert!(kinds.contains(&WarningKind::LosesUnwritten));
    bench.nothing_lost().await;
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap();
    assert!(simulation.lost_bytes().await.unwrap() > 0);
    assert!(bench.machine.caches().await.is_empty());
}

#[tokio::test]
async fn an_ssd_that_is_lost_with_nothing_on_it_only_is_no_obstacle() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    // The disk takes in each moment what became dirty in it, for the limit leaves no time.
    bench.rate(1 << 40).await;
    let limit = DirtyLimit {
        seconds: 1,
        ..DirtyLimit::default()
    };
    cache.set_dirty_limit(limit).await.unwrap();
    bench
        .machine
        .end(cache.flush().await.unwrap())
        .await
        .unwrap();
    let simulation = bench.machine.simulation().await;
    simulation.unplug(&bench.spec.ssd).await.unwrap();
    until("the loss", async || {
        cache.state().await.unwrap() == CacheState::Bypass
    })
    .await;
    assert_eq!(cache.state_reason().await.unwrap(), "ssd-error");
    assert_eq!(cache.mode().await.unwrap(), Mode::Writeback);
    let refused = Failure::from(cache.plan_discard().await.unwrap_err());
    assert_eq!(refused.kind, Kind::WrongState, "nothing has to be given up");
    let plan = cache.plan_remove().await.unwrap();
    assert!(plan.steps.iter().all(|s| s.kind != StepKind::Drain));
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
    assert!(bench.machine.caches().await.is_empty());
}

/// A cache with data on its SSD only, whose disk fails all writes.
pub async fn refusing(bench: &Bench) -> CacheProxy<'static> {
    let cache = bench.dirty().await;
    let uuid = cache.uuid().await.unwrap();
    let simulation = bench.machine.simulation().await;
    simulation
        .set_state(&uuid, CacheState::Active, "disk-error")
        .await
        .unwrap();
    reason(&cache, "disk-error").await;
    cache
}

#[tokio::test]
async fn what_a_disk_refuses_can_be_given_up_by_name() {
    let bench = Bench::simulated().await;
    let points = bench.points().await;
    let simulation = bench.machine.simulation().await;
    let cache = refusing(&bench).await;
    // A removal may try to write the data nevertheless.
    let plan = cache.plan_remove().await.unwrap();
    assert_eq!(plan.steps[0].kind, StepKind::Drain);
    simulation.set_stall_limit(1_000).await.unwrap();
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    let refused = bench.machine.end(job).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.name.as_str(), refused.data),
        (Kind::UnwrittenData, "disk-error", DataState::Unwritten)
    );
    let mapped = cache.mapped().await.unwrap();
    assert_eq!(bench.machine.mounted(mapped.as_str()).await, points);
    let plan = cache.plan_discard().await.unwrap();
    let kinds: Vec<_> = plan.steps.iter().map(|s| s.kind).collect();
    let place = |wanted| kinds.iter().position(|kind| *kind == wanted);
    assert_eq!(place(StepKind::Drain), None);
    assert!(place(StepKind::Unmount) < place(StepKind::Unmap));
    assert_eq!(place(StepKind::Detach), None);
    let kinds: Vec<_> = plan.warnings.iter().map(|w| w.kind).collect();
    for kind in [WarningKind::LosesUnwritten, WarningKind::StaysUnmounted] {
        assert!(kinds.contains(&kind), "{kind}");
    }
    bench.nothing_lost().await;
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap();
    assert!(simulation.lost_bytes().await.unwrap() > 0);
    assert!(bench.machine.caches().await.is_empty());
    // The file system has to be checked before it is mounted again.
    let plain = bench.spec.origin.as_str();
    assert!(bench.machine.mounted(plain).await.is_empty());
}

#[tokio::test]
async fn what_a_disk_refuses_under_a_file_system_in_use_can_be_given_up_with_a_warning() {
    let bench = Bench::simulated().await;
    let points = bench.points().await;
    let simulation = bench.machine.simulation().await;
    let cache = refusing(&bench).await;
    let mapped = cache.mapped().await.unwrap();
    let idle = cache.plan_discard().await.unwrap();
    let sleeper = bench.occupy(&mapped, &points[0]).await;
    // The plan was made when no program used the file system, so its steps do not fit any more.
    let changed = cache.remove(&idle.plan_id, &idle.digest).await.unwrap_err();
    assert_eq!(Failure::from(changed).kind, Kind::DeviceChanged);
    bench.nothing_lost().await;
    let plan = cache.plan_discard().await.unwrap();
    let warning = plan
        .warnings
        .iter()
        .find(|w| w.kind == WarningKind::LosesInUse);
    assert!(!warning.unwrap().users.is_empty());
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap();
    assert!(simulation.lost_bytes().await.unwrap() > 0);
    assert_eq!(bench.machine.mounted(mapped.as_str()).await, points);
    bench.leave(&mapped, sleeper).await;
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}
