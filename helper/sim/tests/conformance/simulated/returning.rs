// SPDX-License-Identifier: GPL-3.0-or-later
//! What a cache does when its SSD, its module or the machine was away and is back.

use crate::Bench;
use crate::common::until;
use crate::writeback::reason;
use std::time::Duration;
use tandem_api::*;

#[tokio::test]
async fn an_ssd_that_is_back_is_used_again_unless_a_file_system_would_miss_something() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let simulation = bench.machine.simulation().await;
    let active = async || cache.state().await.unwrap() == CacheState::Active;
    let why = async |reason: &str| cache.state_reason().await.unwrap() == reason;
    for _ in 0..2 {
        simulation.unplug(&bench.spec.ssd).await.unwrap();
        until("the state", async || why("ssd-error").await).await;
        simulation.replug(&bench.spec.ssd).await.unwrap();
        until("the cache", active).await;
    }
    // The service may still be at work on the record of the cache that goes on.
    until("write-back", async || {
        cache.set_mode(Mode::Writeback).await.is_ok()
    })
    .await;
    bench.soil(&cache).await;
    simulation.unplug(&bench.spec.ssd).await.unwrap();
    until("the state", async || why("ssd-gone-dirty").await).await;
    let dirty = cache.dirty_bytes().await.unwrap();
    simulation.replug(&bench.spec.ssd).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(why("ssd-gone-dirty").await, "a mounted file system goes on");
    // A start of the machine mounts the file system anew.
    simulation.restart().await.unwrap();
    until("the cache", active).await;
    assert!(dirty > 0 && cache.dirty_bytes().await.unwrap() >= dirty / 2);
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
}

#[tokio::test]
async fn a_cache_comes_back_by_itself_with_what_is_on_its_ssd_only() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    // The drain is so slow that it can be paused in the middle.
    bench.rate(1_000).await;
    let path = cache.flush().await.unwrap();
    let job = bench.machine.job(path.clone()).await;
    until("the drain", async || job.pausable().await.unwrap()).await;
    job.pause().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let dirty = cache.dirty_bytes().await.unwrap();
    simulation.restart().await.unwrap();
    // The job fails because its mapping is gone. The cache comes back with its dirty data.
    until("the cache", async || {
        cache.state().await.unwrap() == CacheState::Active
            && cache.dirty_bytes().await.unwrap() >= dirty / 2
    })
    .await;
    bench.rate(1 << 40).await;
    bench.nothing_lost().await;
}

#[tokio::test]
async fn a_disk_that_was_used_without_its_ssd_is_not_overwritten() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    let disk = bench.spec.origin.clone();
    // A program uses the disk before the cache is assembled.
    simulation.set_module(ModuleState::Refused).await.unwrap();
    simulation.restart().await.unwrap();
    until("a stop", async || {
        cache.state().await.unwrap() == CacheState::Stopped
    })
    .await;
    simulation.mount(&disk, "/mnt").await.unwrap();
    reason(&cache, "disk-changed").await;
    simulation.set_module(ModuleState::Loaded).await.unwrap();
    reason(&cache, "disk-changed").await;
    let refused = Failure::from(cache.plan_remove().await.unwrap_err());
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::UnwrittenData, "disk-changed")
    );
    bench.nothing_lost().await;
    let plan = cache.plan_discard().await.unwrap();
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap();
    assert!(bench.machine.caches().await.is_empty());
}

// promise 19: programs/conformance::simulated::returning::a_cache_comes_back_warm_unless_the_disk_was_used_without_it
#[tokio::test]
async fn a_cache_comes_back_warm_unless_the_disk_was_used_without_it() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let simulation = bench.machine.simulation().await;
    simulation.advance(600).await.unwrap();
    cache.watch().await.unwrap();
    let used = async || cache.latest().await.unwrap().frames_used;
    until("a warm cache", async || used().await > 50_000).await;
    let active = async || cache.state().await.unwrap() == CacheState::Active;

    // The record of the use in the first run has no effect in the second run.
    for uses in [true, false] {
        simulation.set_module(ModuleState::Refused).await.unwrap();
        simulation.restart().await.unwrap();
        until("a stop", async || !active().await).await;
        if uses {
            // A program uses the disk before the cache is assembled.
            simulation.mount(&bench.spec.origin, "/mnt").await.unwrap();
        }
        reason(&cache, "module-refused").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        simulation.set_module(ModuleState::Available).await.unwrap();
        simulation.replug(&bench.spec.ssd).await.unwrap();
        until("the cache", active).await;
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(used().await > 50_000, !uses);
        if uses {
            simulation.advance(600).await.unwrap();
            until("a warm cache", async || used().await > 50_000).await;
        }
    }
}
