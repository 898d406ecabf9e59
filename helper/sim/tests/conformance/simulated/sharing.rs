// SPDX-License-Identifier: GPL-3.0-or-later
//! Something beside the cache changes its disk.

use super::fill;
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
    assert!(is(Sharing::Alone).await);
    let before = fill(&cache, &simulation).await;
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

/// Waits until the cache has left write-back, which is refused for this reason from then on, and all of its data is on the disk.
pub async fn leaves_write_back(cache: &CacheProxy<'_>, why: ModeRefusal) {
    until("the other mode", async || {
        cache.mode().await == Ok(Mode::Writethrough)
    })
    .await;
    let refused = Failure::from(cache.set_mode(Mode::Writeback).await.unwrap_err());
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::ModeRefused, why.as_str())
    );
    until("nothing on the SSD only", async || {
        cache.may_be_unwritten().await == Ok(false)
    })
    .await;
}

// promise 1: programs/conformance::simulated::sharing::write_back_ends_when_something_else_changes_the_disk
#[tokio::test]
async fn write_back_ends_when_something_else_changes_the_disk() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let levers = bench.machine.simulation().await;
    let disk = &bench.spec.origin;
    assert_eq!(cache.mode().await.unwrap(), Mode::Writeback);
    levers.set_snapshots(disk, true).await.unwrap();
    leaves_write_back(&cache, ModeRefusal::Shared).await;
    levers.set_snapshots(disk, false).await.unwrap();
    until("the end", async || {
        cache.refused_modes().await.unwrap().is_empty()
    })
    .await;
    cache.set_mode(Mode::Writeback).await.unwrap();
    bench.nothing_lost().await;
}
