// SPDX-License-Identifier: GPL-3.0-or-later
//! Shares of an SSD: a failing step, a second disk, and the SSD that the system runs from.

use crate::shared::BYTES;
use crate::*;

#[tokio::test]
async fn a_partition_is_deleted_if_the_cache_cannot_be_made() {
    let bench = Bench::simulated().await;
    let points = bench.points().await;
    let levers = bench.machine.simulation().await;
    for step in [StepKind::CreatePartition, StepKind::Map, StepKind::Mount] {
        levers.fail_next(step).await.unwrap();
        let failure = bench
            .machine
            .create(&bench.sharing(None))
            .await
            .unwrap_err();
        assert_eq!(failure.data, DataState::Restored, "{step}: {failure}");
        bench.as_before(&points).await;
    }
}

#[tokio::test]
async fn two_disks_share_an_ssd_and_the_first_leaves_the_second_its_share() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.sharing(None)).await.unwrap();
    bench
        .machine
        .create(&bench.sharing(Some("sda2")))
        .await
        .unwrap();
    let caches = bench.machine.caches().await;
    assert_eq!(caches.len(), 2);
    let used = async || {
        let layout = bench.layout(&bench.spec.ssd).await;
        let ours = layout.iter().filter(|part| part.used_for == PartUse::Cache);
        ours.count()
    };
    assert_eq!(used().await, 2);
    // The whole SSD cannot become a cache while it has such partitions, also if the user agrees to erase it.
    let all = PlanSpec {
        erase_ssd: true,
        ..spec("sdb1", "sdc")
    };
    let refused = bench.machine.plan(&all).await.unwrap_err();
    assert_eq!(refused.kind, Kind::AlreadyCached);
    bench.machine.remove(&caches[0]).await.unwrap();
    let left = bench.the_cache().await;
    assert_eq!(left.state().await.unwrap(), CacheState::Active);
    assert_eq!(used().await, 1);
}

#[tokio::test]
async fn free_space_of_the_ssd_that_the_system_runs_from_is_taken_and_given_back() {
    let bench = Bench::simulated().await;
    let system = common::block("nvme0n1");
    let before = bench.layout(&system).await;
    let spec = PlanSpec {
        ssd: system.clone(),
        ..bench.sharing(None)
    };
    let plan = bench.machine.plan(&spec).await.unwrap();
    assert!(plan.steps.iter().all(|s| s.kind != StepKind::EraseSsd));
    bench.machine.create(&spec).await.unwrap();
    let during = bench.layout(&system).await;
    let others = |parts: &[SsdPart]| {
        let other = parts.iter().filter(|part| part.used_for == PartUse::Other);
        other.cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(&during), others(&before));
    assert!(during.iter().any(|part| part.used_for == PartUse::Cache));
    // The whole of such an SSD never becomes a cache.
    let whole = PlanSpec {
        erase_ssd: true,
        partition_bytes: 0,
        target: tandem_api::Target::Tandem,
        origin: common::block("sda2"),
        ..spec
    };
    assert!(bench.machine.plan(&whole).await.is_err());
    bench
        .machine
        .remove(&bench.the_cache().await)
        .await
        .unwrap();
    assert_eq!(bench.layout(&system).await, before);
}

#[tokio::test]
async fn a_share_that_cannot_be_made_anew_leaves_the_disk_with_its_data_and_without_a_cache() {
    let bench = Bench::simulated().await;
    let points = bench.points().await;
    bench.machine.create(&bench.sharing(None)).await.unwrap();
    let cache = bench.the_cache().await;
    // Behind it, so that it moves to become larger.
    let second = bench.sharing(Some("sda2"));
    bench.machine.create(&second).await.unwrap();
    let levers = bench.machine.simulation().await;
    levers.fail_next(StepKind::CreatePartition).await.unwrap();
    let failure = bench.machine.resize(&cache, 2 * BYTES).await.unwrap_err();
    assert_eq!(failure.data, DataState::Removed);
    assert_eq!(cache.state().await.unwrap(), CacheState::Detached);
    assert_eq!(cache.mount_points().await.unwrap(), points);
    let layout = bench.layout(&bench.spec.ssd).await;
    let caches = layout.iter().filter(|part| part.used_for == PartUse::Cache);
    assert_eq!(caches.count(), 1);
    levers.restart().await.unwrap();
    until("the mapping to go", async || {
        bench.machine.caches().await.len() == 1
    })
    .await;
}
