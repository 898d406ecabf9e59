// SPDX-License-Identifier: GPL-3.0-or-later
//! A part of the computer's memory is in the place of the SSD.

use super::starts;
use crate::Bench;
use crate::common::{block, until};
use std::time::{Duration, Instant};
use tandem_api::*;
use zbus::OwnedObjectPath;

const GIB: u64 = 1 << 30;

fn no_ssd() -> OwnedObjectPath {
    OwnedObjectPath::try_from("/".to_owned()).unwrap()
}

/// A request for a cache of one GiB of memory.
async fn bench() -> (Bench, SimulationProxy<'static>) {
    let mut bench = Bench::simulated().await;
    bench.spec.ssd = no_ssd();
    bench.spec.memory_bytes = GIB + 7;
    let levers = bench.machine.simulation().await;
    (bench, levers)
}

/// The state of a cache, its reason, and whether the mounts are as they were.
async fn is(cache: &CacheProxy<'_>, state: CacheState, reason: &str, mounts: &[String]) -> bool {
    cache.state().await == Ok(state)
        && cache.state_reason().await.as_deref() == Ok(reason)
        && cache.mount_points().await.as_deref() == Ok(mounts)
}

#[tokio::test]
async fn a_cache_in_memory_is_made_used_and_removed() {
    let (bench, _) = bench().await;
    let machine = &bench.machine;
    let most = machine.manager().await.memory_for_caches().await.unwrap();
    assert_eq!(most, 8 * GIB);
    let plan = machine.plan(&bench.spec).await.unwrap();
    assert_eq!(plan.ssd, DeviceText::memory(GIB));
    assert!(plan.steps.iter().all(|s| s.kind != StepKind::EraseSsd));
    let warned = |kind| plan.warnings.iter().any(|warning| warning.kind == kind);
    assert!(warned(WarningKind::InMemory) && !warned(WarningKind::SsdRotates));

    machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.state().await, Ok(CacheState::Active));
    let ssd = cache.ssd_text().await.unwrap();
    assert!(ssd.is_memory() && ssd.size == GIB, "{ssd:?}");
    let offered = cache.refused_modes().await.unwrap();
    assert_eq!(offered.len(), 1);
    assert_eq!(offered[0].mode, Mode::Writeback);
    assert_eq!(offered[0].reason, ModeRefusal::Memory);
    cache.set_mode(Mode::Writearound).await.unwrap();
    let refused = Failure::from(cache.set_mode(Mode::Writeback).await.unwrap_err());
    assert_eq!(refused.kind, Kind::ModeRefused);
    let refused = Failure::from(cache.plan_resize(2 * GIB).await.unwrap_err());
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::NotResizable, "memory")
    );

    // Half of the memory at most, for all caches together.
    let other = |bytes| PlanSpec {
        origin: block("sdb1"),
        memory_bytes: bytes,
        ..bench.spec.clone()
    };
    machine.plan(&other(7 * GIB)).await.unwrap();
    let refused = machine.plan(&other(7 * GIB + (1 << 20))).await.unwrap_err();
    assert_eq!(refused.kind, Kind::MemoryUnable);
    assert_eq!(
        (refused.actual, refused.needed),
        (7 * GIB, 7 * GIB + (1 << 20))
    );

    machine.remove(&cache).await.unwrap();
    assert!(machine.caches().await.is_empty());
    bench.nothing_lost().await;
    // The same again: nothing is left of the first.
    machine.create(&bench.spec).await.unwrap();
    machine.remove(&bench.the_cache().await).await.unwrap();
}

#[tokio::test]
async fn what_memory_cannot_do_is_refused_and_changes_nothing() {
    let (bench, _) = bench().await;
    let machine = &bench.machine;
    let refused = async |change: &dyn Fn(&mut PlanSpec)| {
        let mut spec = bench.spec.clone();
        change(&mut spec);
        let refused = machine.plan(&spec).await.unwrap_err();
        (refused.kind, refused.name)
    };
    let unable = |name: &str| (Kind::MemoryUnable, name.to_owned());
    assert_eq!(
        refused(&|s| s.memory_bytes = (64 << 20) - 1).await,
        unable("too-small")
    );
    assert_eq!(
        refused(&|s| s.memory_bytes = 8 * GIB + (1 << 20)).await,
        unable("too-large")
    );
    assert_eq!(
        refused(&|s| s.memory_bytes = u64::MAX).await,
        unable("too-large")
    );
    assert_eq!(
        refused(&|s| s.at_next_start = true).await,
        unable("at-next-start")
    );
    assert_eq!(
        refused(&|s| s.target = Target::DmCache).await,
        unable("target")
    );
    assert_eq!(
        refused(&|s| s.mode = Mode::Writeback).await.0,
        Kind::ModeRefused
    );
    let both = |s: &mut PlanSpec| s.ssd = s.origin.clone();
    assert_eq!(refused(&both).await.0, Kind::InvalidArgument);
    let part = |s: &mut PlanSpec| s.partition_bytes = GIB;
    assert_eq!(refused(&part).await.0, Kind::InvalidArgument);
    assert!(machine.caches().await.is_empty());
}

#[tokio::test]
async fn each_start_makes_the_memory_anew() {
    let (bench, levers) = bench().await;
    starts(false, &bench, &levers).await;
    bench.nothing_lost().await;
}

#[tokio::test]
async fn memory_that_programs_need_is_given_back_and_taken_again() {
    let (bench, levers) = bench().await;
    levers.set_sample_period(10).await.unwrap();
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mounts = cache.mount_points().await.unwrap();
    assert!(!mounts.is_empty());
    for fails in [false, true] {
        if fails {
            levers.fail_next(StepKind::FreeSsd).await.unwrap();
        }
        levers.set_memory_available(GIB).await.unwrap();
        disk_alone(&cache, &mounts).await;
        // At the second attempt if the first fails.
        no_memory(&bench).await;
        let ssd = cache.ssd_text().await.unwrap();
        assert_eq!(ssd, DeviceText::memory(GIB));
        // There is no room for the cache beside a fifth of the memory.
        levers.set_memory_available(4 * GIB).await.unwrap();
        // Three times as long as a cache waits that has room.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(3 * 60 * 10) {
            assert!(is(&cache, CacheState::Bypass, "memory-needed", &mounts).await);
        }
        levers.set_memory_available(5 * GIB).await.unwrap();
        until("the memory is taken again", async || {
            is(&cache, CacheState::Active, "", &mounts).await
        })
        .await;
    }
    // A cache without its memory can be removed.
    levers.set_memory_available(0).await.unwrap();
    disk_alone(&cache, &mounts).await;
    bench.machine.remove(&cache).await.unwrap();
    assert!(bench.machine.caches().await.is_empty());
    bench.nothing_lost().await;
}

/// Waits until a cache has given its memory back, under its mounts.
async fn disk_alone(cache: &CacheProxy<'_>, mounts: &[String]) {
    until("the disk alone", async || {
        is(cache, CacheState::Bypass, "memory-needed", mounts).await
    })
    .await;
}

/// Waits until no cache has memory.
async fn no_memory(bench: &Bench) {
    until("no device in memory", async || {
        let devices = bench.machine.manager().await.devices().await.unwrap();
        devices.iter().all(|d| !d.device.name.starts_with("zram"))
    })
    .await;
}

#[tokio::test]
async fn a_disk_that_is_gone_keeps_no_memory() {
    let (bench, levers) = bench().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    levers
        .unmount(&cache.mapped().await.unwrap())
        .await
        .unwrap();
    levers.unplug(&bench.spec.origin).await.unwrap();
    no_memory(&bench).await;
    levers.replug(&bench.spec.origin).await.unwrap();
    until("the cache", async || {
        cache.state().await == Ok(CacheState::Active)
    })
    .await;
    bench.machine.remove(&cache).await.unwrap();
}

/// The file system above the cache may not know what was written to the disk elsewhere.
#[tokio::test]
async fn a_disk_plugged_in_again_gets_no_memory_under_its_old_mount() {
    let (bench, levers) = bench().await;
    levers.set_sample_period(10).await.unwrap();
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mounts = cache.mount_points().await.unwrap();
    levers.set_memory_available(GIB).await.unwrap();
    disk_alone(&cache, &mounts).await;
    levers.replug(&bench.spec.origin).await.unwrap();
    levers.set_memory_available(8 * GIB).await.unwrap();
    // Three times as long as a cache waits that has room.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(3 * 60 * 10) {
        assert_ne!(cache.state().await, Ok(CacheState::Active));
        assert_eq!(cache.mount_points().await.as_deref(), Ok(&mounts[..]));
    }
    levers
        .unmount(&cache.mapped().await.unwrap())
        .await
        .unwrap();
    until("the cache", async || {
        cache.state().await == Ok(CacheState::Active)
    })
    .await;
    bench.nothing_lost().await;
}

/// Two caches that have given their memory back take it again together only if both fit.
#[tokio::test]
async fn two_caches_share_the_room() {
    let (bench, levers) = bench().await;
    levers.set_sample_period(10).await.unwrap();
    let specs = ["sda1", "sda2"].map(|disk| PlanSpec {
        origin: block(disk),
        memory_bytes: 4 * GIB,
        ..bench.spec.clone()
    });
    for spec in &specs {
        bench.machine.create(spec).await.unwrap();
    }
    let count = async |state| {
        let mut count = 0;
        for cache in bench.machine.caches().await {
            count += u32::from(cache.state().await == Ok(state));
        }
        count
    };
    levers.set_memory_available(GIB).await.unwrap();
    until("no cache", async || count(CacheState::Bypass).await == 2).await;
    no_memory(&bench).await;
    levers.set_memory_available(8 * GIB).await.unwrap();
    until("one cache", async || count(CacheState::Active).await == 1).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(3 * 60 * 10) {
        assert_eq!(count(CacheState::Active).await, 1, "one cache has room");
    }
    levers.set_memory_available(12 * GIB).await.unwrap();
    until("both caches", async || count(CacheState::Active).await == 2).await;
    for cache in bench.machine.caches().await {
        bench.machine.remove(&cache).await.unwrap();
    }
}
