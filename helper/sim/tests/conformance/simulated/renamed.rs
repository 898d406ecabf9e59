// SPDX-License-Identifier: GPL-3.0-or-later
//! Devices that come back under other names.

use crate::Bench;
use crate::common::until;
use tandem_api::*;

#[tokio::test]
async fn an_ssd_with_unwritten_data_in_another_enclosure_works_again() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let simulation = bench.machine.simulation().await;
    let active = async || cache.state().await.unwrap() == CacheState::Active;
    cache.set_mode(Mode::Writeback).await.unwrap();
    bench.soil(&cache).await;
    simulation
        .rehouse(&bench.spec.ssd, "ENCLOSURE")
        .await
        .unwrap();
    simulation.restart().await.unwrap();
    until("the cache with its SSD elsewhere", async || {
        active().await && cache.ssd_text().await.unwrap().serial == "ENCLOSURE"
    })
    .await;
    assert!(cache.dirty_bytes().await.unwrap() > 0);
    // The record has the new name by now.
    simulation.restart().await.unwrap();
    until("the removal", async || {
        bench.machine.remove(&cache).await.is_ok()
    })
    .await;
    bench.nothing_lost().await;
}
