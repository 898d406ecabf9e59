// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk that grows below its cache.

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
