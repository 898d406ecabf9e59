// SPDX-License-Identifier: GPL-3.0-or-later
//! The disk is on the network, where another computer can change it.

use super::fill;
use super::sharing::leaves_write_back;
use crate::Bench;
use crate::common::until;
use crate::writeback::reason;
use std::time::{Duration, Instant};
use tandem_api::*;

/// Time limit from the end of the last use until the cache starts: an event says so, and no timer.
const SOON: Duration = Duration::from_secs(10);

/// A cache over a mounted disk on the network, and the levers.
async fn mounted(bench: &Bench) -> (CacheProxy<'static>, SimulationProxy<'static>) {
    let levers = bench.machine.simulation().await;
    let disk = &bench.spec.origin;
    levers.set_network(disk, true).await.unwrap();
    levers.mount(disk, "/media/x").await.unwrap();
    bench.machine.create(&bench.spec).await.unwrap();
    (bench.the_cache().await, levers)
}

/// Starts the cache, unless it works, and mounts it before it is put away.
async fn mount(cache: &CacheProxy<'_>, levers: &SimulationProxy<'_>) {
    until("the mount", async || {
        let _ = cache.start().await;
        match cache.mapped().await {
            Ok(mapped) => levers.mount(&mapped, "/media/x").await.is_ok(),
            Err(_) => false,
        }
    })
    .await;
}

// promise 21: programs/conformance::simulated::network::each_start_is_cold_and_the_disk_is_left_when_nobody_uses_it
#[tokio::test]
async fn each_start_is_cold_and_the_disk_is_left_when_nobody_uses_it() {
    let bench = Bench::simulated().await;
    let (cache, levers) = mounted(&bench).await;
    let disk = &bench.spec.origin;
    assert_eq!(cache.sharing().await, Ok(Sharing::Network));
    let before = fill(&cache, &levers).await;
    assert!(before > 0);
    let is_cold = async |how: &str| {
        until(how, async || {
            let sample = cache.latest().await.unwrap();
            cache.state().await == Ok(CacheState::Active) && sample.frames_used < before / 2
        })
        .await;
    };
    let unmount = async || {
        let mapped = cache.mapped().await.unwrap();
        levers.unmount(&mapped).await.unwrap();
    };
    let left = async |how: &str| {
        until(how, async || {
            cache.state_reason().await.as_deref() == Ok("put-away")
        })
        .await;
        let held = levers.held(disk).await.unwrap();
        assert!(!held, "another computer can use it");
    };
    levers.restart().await.unwrap();
    mount(&cache, &levers).await;
    is_cold("a cold start").await;
    fill(&cache, &levers).await;
    unmount().await;
    left("the stop").await;
    mount(&cache, &levers).await;
    is_cold("cold after the absence").await;
    unmount().await;
    left("the second stop").await;
    // Without a first use, too.
    cache.start().await.unwrap();
    left("the third stop").await;
    mount(&cache, &levers).await;
    bench.machine.remove(&cache).await.unwrap();
}

/// A cache over a disk on the network that no program uses, and the levers.
async fn left(bench: &Bench) -> (CacheProxy<'static>, SimulationProxy<'static>) {
    let (cache, levers) = mounted(bench).await;
    let mapped = cache.mapped().await.unwrap();
    levers.unmount(&mapped).await.unwrap();
    reason(&cache, "put-away").await;
    (cache, levers)
}

// A new login to an iSCSI target: the service puts the cache over the disk, and the person mounts the disk meanwhile.
#[tokio::test]
async fn a_disk_that_is_mounted_while_its_cache_starts_gets_the_cache() {
    let bench = Bench::simulated().await;
    let (cache, levers) = left(&bench).await;
    let disk = &bench.spec.origin;
    levers.set_step_time(1500).await.unwrap();
    levers.replug(disk).await.unwrap();
    tokio::time::sleep(Duration::from_millis(800)).await;
    levers.mount(disk, "/media/x").await.unwrap();
    reason(&cache, "disk-in-use").await;
    levers.set_step_time(1).await.unwrap();
    until("the cache over the mounted disk", async || {
        cache.state().await == Ok(CacheState::Active)
            && cache.mount_points().await.unwrap() == ["/media/x"]
    })
    .await;
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_disk_that_a_program_uses_gets_its_cache_when_it_is_unmounted() {
    let bench = Bench::simulated().await;
    let (cache, levers) = left(&bench).await;
    let disk = &bench.spec.origin;
    bench.occupy(disk, "/media/x").await;
    levers.mount(disk, "/media/x").await.unwrap();
    reason(&cache, "disk-in-use").await;
    // No program is disturbed while nothing changes.
    tokio::time::sleep(Duration::from_secs(3)).await;
    reason(&cache, "disk-in-use").await;
    assert!(!levers.held(disk).await.unwrap());
    bench.leave(disk, None).await;
    // The end of a program is no event, so a person may ask.
    cache.start().await.unwrap();
    until("the start that was asked for", async || {
        cache.state().await == Ok(CacheState::Active)
            && cache.mount_points().await.unwrap() == ["/media/x"]
    })
    .await;
    let mapped = cache.mapped().await.unwrap();
    levers.unmount(&mapped).await.unwrap();
    reason(&cache, "put-away").await;
    bench.occupy(disk, "/media/x").await;
    levers.mount(disk, "/media/x").await.unwrap();
    reason(&cache, "disk-in-use").await;
    // The attempt has seen the program.
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.leave(disk, None).await;
    let unmounted = Instant::now();
    levers.unmount(disk).await.unwrap();
    until("the start", async || {
        cache.state().await == Ok(CacheState::Active)
    })
    .await;
    assert!(unmounted.elapsed() < SOON, "not by a timer");
    // No program uses the cache.
    reason(&cache, "put-away").await;
}

// An earlier version offered write-back for such a disk.
#[tokio::test]
async fn write_back_ends_when_the_disk_is_seen_to_be_on_the_network() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let levers = bench.machine.simulation().await;
    levers.set_network(&bench.spec.origin, true).await.unwrap();
    leaves_write_back(&cache, ModeRefusal::Network).await;
    bench.nothing_lost().await;
}
