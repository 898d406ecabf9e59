// SPDX-License-Identifier: GPL-3.0-or-later
//! Something beside the cache changes its disk.

use crate::Bench;
use crate::common::until;
use tandem_api::*;

#[tokio::test]
async fn a_cache_of_a_volume_with_snapshots_says_so_and_starts_cold() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let simulation = bench.machine.simulation().await;
    let is = async |sharing: Sharing| cache.sharing().await == Ok(sharing);
    let warm = async || {
        cache.watch().await.unwrap();
        cache.state().await == Ok(CacheState::Active)
            && cache.latest().await.unwrap().frames_used > 0
    };
    assert!(is(Sharing::Alone).await);
    simulation.advance(600).await.unwrap();
    until("a warm cache", warm).await;
    let before = cache.latest().await.unwrap().frames_used;
    let disk = &bench.spec.origin;
    simulation.set_snapshots(disk, true).await.unwrap();
    until("the word", async || is(Sharing::Snapshots).await).await;
    simulation.restart().await.unwrap();
    until("the cold start", async || {
        let sample = cache.latest().await.unwrap();
        cache.state().await == Ok(CacheState::Active) && sample.frames_used < before / 2
    })
    .await;
    simulation.set_snapshots(disk, false).await.unwrap();
    until("the end", async || is(Sharing::Alone).await).await;
}
