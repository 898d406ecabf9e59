// SPDX-License-Identifier: GPL-3.0-or-later
//! An SSD that says of itself that it fails.

use crate::*;

#[tokio::test]
async fn the_health_of_the_ssd_is_shown_as_it_changes() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    // This proxy keeps the value that it read first until the service signals a change.
    let follower = CacheProxy::builder(&bench.machine.connection)
        .path(cache.inner().path().to_owned())
        .build()
        .await
        .unwrap();
    let shows = async |wanted: SsdHealth| {
        until("the health", async || {
            follower.ssd_health().await.is_ok_and(|now| now == wanted)
        })
        .await;
        assert_eq!(cache.ssd_health().await.unwrap(), wanted);
    };
    let good = cache.ssd_health().await.unwrap();
    assert_eq!((good.report, good.used_percent), (SelfReport::Good, 6));
    shows(good).await;
    let ssd = cache.ssd().await.unwrap();
    for (report, used_percent) in [(SelfReport::Failing, 97), (SelfReport::Failing, -1)] {
        let health = SsdHealth {
            report,
            used_percent,
            hours_on: 40_000,
            read_at: good.read_at + u64::from(used_percent == -1) + 600,
        };
        levers.set_health(&ssd, &health).await.unwrap();
        shows(health).await;
    }
    levers
        .set_health(&ssd, &SsdHealth::unknown())
        .await
        .unwrap();
    shows(SsdHealth::unknown()).await;
    levers.set_health(&ssd, &good).await.unwrap();
    shows(good).await;
    // Nothing is known of an SSD that is missing.
    levers.unplug(&ssd).await.unwrap();
    shows(SsdHealth::unknown()).await;
}
