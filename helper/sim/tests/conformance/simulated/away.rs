// SPDX-License-Identifier: GPL-3.0-or-later
//! The cache of a disk that can be unplugged is stopped in order when the disk is not used any more.

use super::fill;
use crate::common::until;
use crate::{Bench, refusal};
use std::time::{Duration, Instant};
use tandem_api::*;

/// Time limit from the end of the last use until the disk can be unplugged.
const SOON: Duration = Duration::from_secs(5);

/// A warm cache over a disk in a USB enclosure.
struct Warm {
    bench: Bench,
    cache: CacheProxy<'static>,
    levers: SimulationProxy<'static>,
    /// Frames that it has filled.
    full: u64,
}

async fn warm() -> Warm {
    warm_on("usb-disk").await
}

async fn warm_on(kind: &str) -> Warm {
    let mut bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let plugged = levers.plug(kind, "Carry", "C1", 1 << 40).await.unwrap();
    bench.spec.origin = plugged[1].clone();
    levers.mount(&bench.spec.origin, "/media/x").await.unwrap();
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let full = fill(&cache, &levers).await;
    Warm {
        bench,
        cache,
        levers,
        full,
    }
}

/// Waits until the cache works, and returns how many frames it has then.
async fn frames(how: &str, cache: &CacheProxy<'_>) -> u64 {
    until(how, async || cache.state().await == Ok(CacheState::Active)).await;
    let before = cache.latest().await.unwrap().time_us;
    let sample = async || cache.latest().await.unwrap();
    until("a sample", async || sample().await.time_us != before).await;
    sample().await.frames_used
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
    let Warm {
        bench,
        cache,
        levers,
        full,
    } = warm().await;
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
        assert!(frames(how, &cache).await >= full, "{how}");
        let mapped = cache.mapped().await.unwrap();
        levers.mount(&mapped, "/media/x").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    bench.machine.remove(&cache).await.unwrap();
}

// promise 21: programs/conformance::simulated::away::a_use_elsewhere_that_may_leave_no_trace_is_believed
#[tokio::test]
async fn a_use_elsewhere_that_may_leave_no_trace_is_believed() {
    let Warm {
        bench,
        cache,
        levers,
        full,
    } = warm_on("usb").await;
    unmount(&cache, &levers).await;
    until("the stop", async || is_put_away(&cache).await).await;
    levers.replug(&bench.spec.origin).await.unwrap();
    assert!(frames("the cache", &cache).await < full / 2);
}

#[tokio::test]
async fn a_disk_that_is_mounted_without_its_cache_gets_the_cache_again() {
    let Warm {
        bench,
        cache,
        levers,
        ..
    } = warm().await;
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
    let Warm { cache, levers, .. } = &warm().await;
    levers.fail_next(StepKind::Unmap).await.unwrap();
    unmount(cache, levers).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Active);
    until("the stop", async || is_put_away(cache).await).await;
}

#[tokio::test]
async fn a_cache_goes_on_that_nobody_can_carry_away_or_that_is_used_again_at_once() {
    let Warm {
        bench,
        cache,
        levers,
        ..
    } = warm().await;
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
