// SPDX-License-Identifier: GPL-3.0-or-later
//! The cache of a disk that can be unplugged is stopped in order when the disk is not used any more.

use crate::common::{block, until};
use crate::{Bench, refusal};
use std::time::{Duration, Instant};
use tandem_api::*;

/// Time limit from the end of the last use until the disk can be unplugged.
const SOON: Duration = Duration::from_secs(5);

/// A warm cache over a disk in a USB enclosure.
async fn warm() -> (Bench, CacheProxy<'static>, SimulationProxy<'static>) {
    let mut bench = Bench::simulated().await;
    bench.spec.origin = block("sdg1");
    warm_on(bench).await
}

async fn warm_on(bench: Bench) -> (Bench, CacheProxy<'static>, SimulationProxy<'static>) {
    let levers = bench.machine.simulation().await;
    if bench.points().await.is_empty() {
        levers.mount(&bench.spec.origin, "/media/x").await.unwrap();
    }
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    cache.watch().await.unwrap();
    levers.advance(600).await.unwrap();
    until("a warm cache", async || is_warm(&cache).await).await;
    (bench, cache, levers)
}

async fn is_warm(cache: &CacheProxy<'_>) -> bool {
    let filled = cache.latest().await.unwrap().frames_used > 0;
    cache.state().await == Ok(CacheState::Active) && filled
}

async fn unmount(cache: &CacheProxy<'_>, levers: &SimulationProxy<'_>) {
    let mapped = cache.mapped().await.unwrap();
    levers.unmount(&mapped).await.unwrap();
}

async fn is_put_away(cache: &CacheProxy<'_>) -> bool {
    cache.state().await == Ok(CacheState::Stopped)
        && cache.state_reason().await.as_deref() == Ok("put-away")
}

// promise 13: programs/conformance::simulated::away::a_disk_that_is_left_can_be_unplugged_and_comes_back_warm
#[tokio::test]
async fn a_disk_that_is_left_can_be_unplugged_and_comes_back_warm() {
    let (bench, cache, levers) = warm().await;
    let disk = &bench.spec.origin;
    let (kind, _) = refusal(cache.start().await);
    assert_eq!(kind, Kind::WrongState);
    for how in ["plugged in again", "asked to start"] {
        assert!(levers.held(disk).await.unwrap());
        let left = Instant::now();
        unmount(&cache, &levers).await;
        until("the stop", async || is_put_away(&cache).await).await;
        assert!(left.elapsed() < SOON, "{:?}", left.elapsed());
        assert!(!levers.held(disk).await.unwrap(), "nothing has it open");
        // The cache stays stopped until the disk is back or somebody asks.
        tokio::time::sleep(SOON).await;
        assert!(is_put_away(&cache).await);
        match how {
            "plugged in again" => levers.replug(disk).await.unwrap(),
            _ => cache.start().await.unwrap(),
        }
        until(how, async || is_warm(&cache).await).await;
        let mapped = cache.mapped().await.unwrap();
        levers.mount(&mapped, "/media/x").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    bench.machine.remove(&cache).await.unwrap();
}

// promise 21: programs/conformance::simulated::away::a_use_elsewhere_that_may_leave_no_trace_is_believed
#[tokio::test]
async fn a_use_elsewhere_that_may_leave_no_trace_is_believed() {
    let mut bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let stick = levers.plug("usb", "Stick", "S1", 1 << 40).await.unwrap();
    bench.spec.origin = stick[1].clone();
    let (bench, cache, levers) = warm_on(bench).await;
    let full = cache.latest().await.unwrap().frames_used;
    unmount(&cache, &levers).await;
    until("the stop", async || is_put_away(&cache).await).await;
    levers.replug(&bench.spec.origin).await.unwrap();
    until("the cold start", async || {
        let used = cache.latest().await.unwrap().frames_used;
        cache.state().await == Ok(CacheState::Active) && used < full / 2
    })
    .await;
}

#[tokio::test]
async fn a_disk_that_is_mounted_without_its_cache_gets_the_cache_again() {
    let (bench, cache, levers) = warm().await;
    unmount(&cache, &levers).await;
    until("the stop", async || is_put_away(&cache).await).await;
    levers.mount(&bench.spec.origin, "/media/x").await.unwrap();
    until("the cache", async || {
        cache.state().await == Ok(CacheState::Active)
            && cache.mount_points().await.unwrap() == ["/media/x"]
    })
    .await;
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_program_that_has_the_mapping_open_is_waited_for() {
    let (_bench, cache, levers) = warm().await;
    levers.fail_next(StepKind::Unmap).await.unwrap();
    unmount(&cache, &levers).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Active);
    until("the stop", async || is_put_away(&cache).await).await;
}

#[tokio::test]
async fn a_cache_goes_on_that_nobody_can_carry_away_or_that_is_used_again_at_once() {
    let (bench, cache, levers) = warm().await;
    // A check of the file system between two mounts.
    let mapped = cache.mapped().await.unwrap();
    levers.unmount(&mapped).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    levers.mount(&mapped, "/media/x").await.unwrap();
    tokio::time::sleep(SOON).await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Active);
    bench.machine.remove(&cache).await.unwrap();
    // A disk inside the computer.
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    unmount(&cache, &bench.machine.simulation().await).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Active);
}
