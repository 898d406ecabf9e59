// SPDX-License-Identifier: GPL-3.0-or-later
//! The disk is on the network, where another computer can change it.

use super::fill;
use super::sharing::leaves_write_back;
use crate::Bench;
use crate::common::until;
use tandem_api::*;

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
    let levers = bench.machine.simulation().await;
    let disk = &bench.spec.origin;
    levers.set_network(disk, true).await.unwrap();
    levers.mount(disk, "/media/x").await.unwrap();
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
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
