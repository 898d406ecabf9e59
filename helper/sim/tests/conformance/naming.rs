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
    assert_eq!(cache.name().await.unwrap(), device);
    cache.set_name("  ").await.unwrap();
    named("").await;
    bench.machine.remove(&cache).await.unwrap();
}
