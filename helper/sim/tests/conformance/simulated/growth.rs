// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk or an SSD that grows below its cache.

use crate::*;

#[tokio::test]
async fn the_cache_grows_with_its_disk() {
    let bench = Bench::simulated().await;
    let points = bench.points().await;
    let levers = bench.machine.simulation().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mapped = cache.mapped().await.unwrap();
    let size = async || bench.machine.size(&mapped).await;
    let before = size().await;

    levers
        .grow(&bench.spec.origin, before + (1 << 30))
        .await
        .unwrap();
    until("the mapping has grown", async || {
        size().await == before + (1 << 30)
    })
    .await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Active);
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}

#[tokio::test]
async fn the_cache_uses_all_of_an_ssd_that_grows() {
    let bench = Bench::simulated().await;
    let points = bench.points().await;
    let levers = bench.machine.simulation().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mut samples = cache.receive_sampled().await.unwrap();
    cache.watch().await.unwrap();
    let mut slots = async || {
        let signal = samples.next().await.unwrap();
        signal.args().unwrap().sample.frames_total
    };
    let (before, size) = (slots().await, cache.ssd_text().await.unwrap().size);
    levers.grow(&bench.spec.ssd, size * 2).await.unwrap();
    let grown = async { while slots().await != before * 2 {} };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, grown).await.unwrap();
    assert_eq!(cache.state().await.unwrap(), CacheState::Active);
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}
