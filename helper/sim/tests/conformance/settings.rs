// SPDX-License-Identifier: GPL-3.0-or-later
//! Settings that only our module has: another mode, the limit of dirty data, and the pause.

use super::*;
use crate::speed::{running, set_step_time};
use tandem_api::DirtyLimit;

pub(crate) const LIMIT: DirtyLimit = DirtyLimit {
    seconds: 10,
    bytes: 64 << 20,
    rest: 60,
};

#[tokio::test]
async fn a_limit_of_dirty_data_is_taken_kept_and_refused() {
    let mut bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.dirty_limit().await.unwrap(), DirtyLimit::default());
    cache.set_dirty_limit(LIMIT).await.unwrap();
    assert_eq!(cache.dirty_limit().await.unwrap(), LIMIT);
    for (seconds, bytes, rest) in [
        (0, 0, 0),
        (3601, 0, 0),
        (30, 1, 0),
        (30, (1 << 20) - 1, 0),
        (30, 0, 24 * 60 + 1),
    ] {
        let limit = DirtyLimit {
            seconds,
            bytes,
            rest,
        };
        let refused = cache.set_dirty_limit(limit).await;
        let failure = Failure::from(refused.unwrap_err());
        assert_eq!(
            (failure.kind, failure.name.as_str()),
            (Kind::InvalidArgument, "limit"),
            "{limit:?}"
        );
        assert_eq!(cache.dirty_limit().await.unwrap(), LIMIT);
    }
    // Another setting leaves it.
    cache.set_mode(Mode::Writearound).await.unwrap();
    cache.set_shutdown_minutes(5).await.unwrap();
    assert_eq!(cache.dirty_limit().await.unwrap(), LIMIT);
    cache.set_shutdown_minutes(0).await.unwrap();
    // The service of a real machine is not killed here.
    if bench.real {
        bench.machine.remove(&cache).await.unwrap();
        return;
    }
    bench.machine.restart_service().await;
    let cache = bench.the_cache().await;
    assert_eq!(cache.dirty_limit().await.unwrap(), LIMIT);
}

/// The first sample that `holds`. A sample may be on its way from before a change.
async fn sample(cache: &CacheProxy<'_>, mut holds: impl FnMut(&Sample) -> bool) -> Sample {
    let mut samples = cache.receive_sampled().await.unwrap();
    cache.watch().await.unwrap();
    let found = async {
        loop {
            let signal = samples.next().await.unwrap();
            let sample = &signal.args().unwrap().sample;
            if holds(sample) {
                break sample.clone();
            }
        }
    };
    let found = tokio::time::timeout(common::LIMIT, found).await;
    cache.unwatch().await.unwrap();
    found.expect("a sample comes that shows the change")
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
        let before = sample(&cache, |sample| sample.paused() == Some(paused)).await;
        if bench.real {
            continue;
        }
        bench.machine.simulation().await.advance(60).await.unwrap();
        // The first sample may have been gathered before that minute.
        let mut first = true;
        let after = sample(&cache, |_| !std::mem::take(&mut first)).await;
        assert_eq!(after.frames_used > before.frames_used, !paused);
    }
    // A change of the mode does not end the pause.
    cache.set_mode(Mode::Writearound).await.unwrap();
    assert!(cache.paused().await.unwrap());
    cache.set_paused(false).await.unwrap();
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_new_mode_and_time_leave_the_name() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let device = cache.name().await.unwrap();
    cache.set_name("Photos").await.unwrap();
    cache.set_mode(Mode::Writearound).await.unwrap();
    cache.set_shutdown_minutes(5).await.unwrap();
    cache.set_mode(Mode::Writethrough).await.unwrap();
    assert_eq!(cache.chosen_name().await.unwrap(), "Photos");
    assert_eq!(cache.shutdown_minutes().await.unwrap(), 5);
    assert_eq!(cache.name().await.unwrap(), device);
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_new_mode_comes_before_a_speed_test() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    set_step_time(&bench, 60_000).await;
    let begun = running(&bench).await;
    let changed = async {
        begun.await;
        cache.set_mode(Mode::Writearound).await.unwrap();
    };
    let (result, ()) = tokio::join!(cache.test_speed(), changed);
    let ended = (Kind::SpeedTestFailed, "changed".to_owned());
    assert_eq!(refusal(result), ended);
    set_step_time(&bench, 1).await;
    bench.machine.remove(&cache).await.unwrap();
}
