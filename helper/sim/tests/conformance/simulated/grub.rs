// SPDX-License-Identifier: GPL-3.0-or-later
//! GRUB starts the machine from a disk.

use crate::Bench;
use crate::common::until;
use tandem_api::*;

#[tokio::test]
async fn grubs_disk_is_refused_and_a_cache_that_it_has_is_told() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let points = bench.points().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert!(!cache.grub_would_fail().await.unwrap());
    levers.set_grub_disk(&bench.spec.origin).await.unwrap();
    until("the cache to be told", async || {
        cache.grub_would_fail().await.is_ok_and(|told| told)
    })
    .await;
    // The cache can be removed, and is not made again.
    bench.machine.remove(&cache).await.unwrap();
    let refused = bench.machine.create(&bench.spec).await.unwrap_err();
    assert_eq!(refused.kind, Kind::OriginGrub);
    assert_eq!(refused.mount_points, points);
    assert_eq!(bench.points().await, points);
}
