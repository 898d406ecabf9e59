// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches of other systems are told, with each change.

use crate::Bench;
use crate::common::until;
use tandem_api::*;

#[tokio::test]
async fn a_cache_of_another_system_is_told_until_it_is_gone() {
    let bench = Bench::simulated().await;
    let manager = bench.machine.manager().await;
    let simulation = bench.machine.simulation().await;
    assert!(manager.other_caches().await.unwrap().is_empty());
    let mut cache = OtherCache {
        kind: OtherKind::Bcache,
        id: "bcache0".into(),
        name: "bcache0".into(),
        mapped: DeviceText::none().object,
        mount_points: vec!["/srv".into()],
        disks: vec![],
        ssds: vec![],
        state: OtherState::Working,
        mode: OtherMode::Writeback,
        cache_bytes: 1 << 30,
        used_bytes: 1 << 20,
        unwritten_bytes: 4096,
        unwritten_known: true,
        read_hits: 1,
        read_misses: 2,
    };
    let told = async |expected: &[OtherCache]| {
        simulation.set_other_caches(expected).await.unwrap();
        until("the other caches", async || {
            manager.other_caches().await.unwrap() == expected
        })
        .await;
    };
    told(std::slice::from_ref(&cache)).await;
    cache.unwritten_bytes = 0;
    told(&[cache]).await;
    told(&[]).await;
}
