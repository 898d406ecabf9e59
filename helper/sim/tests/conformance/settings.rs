// SPDX-License-Identifier: GPL-3.0-or-later
//! The limit of dirty data, and the pause.

use super::*;
use tandem_api::DirtyLimit;

const LIMIT: DirtyLimit = DirtyLimit {
    seconds: 10,
    bytes: 64 << 20,
};

#[tokio::test]
async fn a_limit_of_dirty_data_is_taken_kept_and_refused() {
    let mut bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.dirty_limit().await.unwrap(), DirtyLimit::default());
    cache.set_dirty_limit(LIMIT).await.unwrap();
    assert_eq!(cache.dirty_limit().await.unwrap(), LIMIT);
    for (seconds, bytes) in [(0, 0), (3601, 0), (30, 1), (30, (1 << 20) - 1)] {
        let refused = cache.set_dirty_limit(DirtyLimit { seconds, bytes }).await;
        let failure = Failure::from(refused.unwrap_err());
        assert_eq!(
            (failure.kind, failure.name.as_str()),
            (Kind::InvalidArgument, "limit"),
            "{seconds} s, {bytes} bytes"
        );
        assert_eq!(cache.dirty_limit().await.unwrap(), LIMIT);
    }
    // Another setting leaves it.
    cache.set_mode(Mode::Writearound).await.unwrap();
    cache.set_shutdown_minutes(5).await.unwrap();
    assert_eq!(cache.dirty_limit().await.unwrap(), LIMIT);
    cache.set_shutdown_minutes(0).await.unwrap();
    if bench.is_skipped("the service of a real machine is not killed here") {
        bench.machine.remove(&cache).await.unwrap();
        return;
    }
    bench.machine.restart_service().await;
    let cache = bench.the_cache().await;
    assert_eq!(cache.dirty_limit().await.unwrap(), LIMIT);
}

/// The next sample.
async fn fresh(cache: &CacheProxy<'_>) -> Sample {
    let mut samples = cache.receive_sampled().await.unwrap();
    cache.watch().await.unwrap();
    let sample = samples.next().await.unwrap();
    cache.unwatch().await.unwrap();
    sample.args().unwrap().sample.clone()
}

/// In a second 50 MB can be written, and no more may be dirty.
#[tokio::test]
async fn no_more_gets_dirty_than_the_limit_says() {
    let bench = Bench::new().await;
    if bench.is_skipped("only the simulated machine has programs that write") {
        return;
    }
    let writeback = PlanSpec {
        mode: Mode::Writeback,
        ..bench.spec.clone()
    };
    bench.machine.create(&writeback).await.unwrap();
    let cache = bench.the_cache().await;
    let limit = DirtyLimit {
        seconds: 30,
        bytes: 2 << 20,
    };
    cache.set_dirty_limit(limit).await.unwrap();
    let levers = bench.machine.simulation().await;
    levers.advance(600).await.unwrap();
    cache.watch().await.unwrap();
    until("a sample with dirty data", async || {
        cache.dirty_bytes().await.unwrap() > 0
    })
    .await;
    let dirty = cache.dirty_bytes().await.unwrap();
    assert!(dirty <= 2 * limit.bytes, "{dirty} bytes are dirty");
}

#[tokio::test]
async fn a_paused_cache_stores_nothing_until_it_goes_on() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert!(!cache.paused().await.unwrap());
    for paused in [true, true, false, false, true] {
        cache.set_paused(paused).await.unwrap();
        assert_eq!(cache.paused().await.unwrap(), paused);
        let frames = async || {
            let sample = fresh(&cache).await;
            assert_eq!(sample.paused(), Some(paused));
            sample.frames_used
        };
        if bench.real {
            continue;
        }
        let (before, after) = (frames().await, {
            bench.machine.simulation().await.advance(60).await.unwrap();
            frames().await
        });
        assert_eq!(after > before, !paused, "{before} frames, then {after}");
    }
    // A change of the mode does not end the pause.
    cache.set_mode(Mode::Writearound).await.unwrap();
    assert!(cache.paused().await.unwrap());
    cache.set_paused(false).await.unwrap();
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_limit_that_cannot_be_recorded_is_taken_back() {
    let bench = Bench::new().await;
    if bench.is_skipped("only the simulated machine has a record that cannot be written") {
        return;
    }
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    bench.machine.no_cache_record(&cache.uuid().await.unwrap());
    let failure = Failure::from(cache.set_dirty_limit(LIMIT).await.unwrap_err());
    assert_eq!(failure.kind, Kind::Internal);
    assert_eq!(cache.dirty_limit().await.unwrap(), DirtyLimit::default());
}
