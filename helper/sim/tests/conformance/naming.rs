// SPDX-License-Identifier: GPL-3.0-or-later
//! The name that a user gives a cache.

use super::*;

#[tokio::test]
async fn a_cache_keeps_the_name_that_it_was_given_until_that_is_taken_away() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    // This proxy keeps the value that it read first until the service signals a change.
    let follower = CacheProxy::builder(&bench.machine.connection)
        .path(cache.inner().path().to_owned())
        .build()
        .await
        .unwrap();
    let named = async |wanted: &str| {
        assert_eq!(cache.chosen_name().await.unwrap(), wanted);
        until("the signal of the name", async || {
            follower
                .chosen_name()
                .await
                .is_ok_and(|name| name == wanted)
        })
        .await;
    };
    named("").await;
    let device = cache.name().await.unwrap();
    cache.set_name(" Photos & films ").await.unwrap();
    named("Photos & films").await;
    for refused in [
        "two\nlines",
        "\u{202e}sotohP",
        &"a".repeat(MAX_NAME_CHARS + 1),
    ] {
        let failure = Failure::from(cache.set_name(refused).await.unwrap_err());
        assert_eq!(
            (failure.kind, failure.name.as_str()),
            (Kind::InvalidArgument, "name"),
            "{refused:?}"
        );
        named("Photos & films").await;
    }
    // Other settings leave the name, and the name leaves the mapped device.
    cache.set_mode(Mode::Writearound).await.unwrap();
    cache.set_shutdown_minutes(5).await.unwrap();
    cache.set_mode(Mode::Writethrough).await.unwrap();
    named("Photos & films").await;
    assert_eq!(cache.shutdown_minutes().await.unwrap(), 5);
    assert_eq!(cache.name().await.unwrap(), device);
    cache.set_name("  ").await.unwrap();
    named("").await;
    cache.set_shutdown_minutes(0).await.unwrap();
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_name_outlives_the_service_and_a_job() {
    let mut bench = Bench::new().await;
    if bench.is_skipped("the service of a real machine is not killed here") {
        return;
    }
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
    let bench = Bench::new().await;
    if bench.is_skipped("only the simulated machine has a record that cannot be written") {
        return;
    }
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    bench.machine.no_cache_record(&cache.uuid().await.unwrap());
    let failure = Failure::from(cache.set_name("Photos").await.unwrap_err());
    assert_eq!(failure.kind, Kind::Internal);
    assert_eq!(cache.chosen_name().await.unwrap(), "");
}
