// SPDX-License-Identifier: GPL-3.0-or-later
//! A name that outlives the service, or cannot be recorded.

use crate::*;

#[tokio::test]
async fn a_name_outlives_the_service_and_a_job() {
    let mut bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let writeback = PlanSpec {
        mode: Mode::Writeback,
        ..bench.spec.clone()
    };
    // The cache is on the bus, and can have a name, before its creation has ended.
    levers.set_step_time(300).await.unwrap();
    let plan = bench.machine.plan(&writeback).await.unwrap();
    let manager = bench.machine.manager().await;
    let job = manager.create(&plan.plan_id, &plan.digest).await.unwrap();
    until("the cache", async || {
        !bench.machine.caches().await.is_empty()
    })
    .await;
    let cache = bench.the_cache().await;
    cache.set_name("Photos").await.unwrap();
    bench.machine.end(job).await.unwrap();
    assert_eq!(cache.chosen_name().await.unwrap(), "Photos");
    bench.machine.restart_service().await;
    let cache = bench.the_cache().await;
    assert_eq!(cache.chosen_name().await.unwrap(), "Photos");
}

#[tokio::test]
async fn a_name_that_cannot_be_recorded_is_not_shown() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    bench.machine.no_cache_record(&cache.uuid().await.unwrap());
    let failure = Failure::from(cache.set_name("Photos").await.unwrap_err());
    assert_eq!(failure.kind, Kind::Internal);
    assert_eq!(cache.chosen_name().await.unwrap(), "");
}
