// SPDX-License-Identifier: GPL-3.0-or-later
//! Speed tests: what they measure, and what ends them.

use crate::common::{LIMIT, until};
use crate::{Bench, refusal};
use futures_util::StreamExt;
use tandem_api::*;

/// Listens for a speed test that begins later. The returned future ends when that test runs; until then `test` is polled
/// elsewhere.
pub(crate) async fn running(bench: &Bench) -> impl Future<Output = ()> {
    let manager = bench.machine.manager().await;
    let mut told = manager.receive_speed_test_progressed().await.unwrap();
    async move {
        let told = tokio::time::timeout(LIMIT, told.next()).await;
        told.expect("the test tells its progress");
    }
}

/// How long each step of a simulated machine takes. Nothing changes on a real machine.
pub(crate) async fn set_step_time(bench: &Bench, milliseconds: u32) {
    if !bench.real {
        let levers = bench.machine.simulation().await;
        levers.set_step_time(milliseconds).await.unwrap();
    }
}

#[tokio::test]
async fn the_same_places_are_read_from_the_disk_and_through_the_cache() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert!(cache.last_speed_test().await.unwrap().is_none());
    let manager = bench.machine.manager().await;
    let mut progress = manager.receive_speed_test_progressed().await.unwrap();
    // The progress is read all the time: a full queue of signals keeps the answer back.
    let mut told = Vec::new();
    let mut test = std::pin::pin!(tokio::time::timeout(LIMIT, cache.test_speed()));
    let result = loop {
        tokio::select! {
            result = &mut test => break result,
            signal = progress.next() => told.push(signal.unwrap().args().unwrap().done),
        }
    };
    let result = result.expect("the test is bounded").unwrap();
    assert!(result.time > 1_700_000_000, "{result:?}");
    assert_eq!(result.disk, cache.origin_text().await.unwrap());
    assert_eq!(result.ssd, cache.ssd_text().await.unwrap());
    for (reads, bytes) in [(&result.random, 4096), (&result.sequential, 1 << 20)] {
        assert_eq!(reads.bytes, bytes);
        assert!(
            reads.count > 0 && reads.disk_us > 0 && reads.cache_us > 0,
            "{reads:?}"
        );
        // The first pass through the cache has stored what the last pass reads. The SSD of the real machine is so small
        // that a frame for each place does not fit, and dm-cache stores in its own time.
        let least = match (bench.real, bench.spec.target) {
            (false, _) => 990,
            (true, Target::Tandem) => 300,
            (true, Target::DmCache) => 1,
        };
        assert!(reads.ssd_permille >= least, "{reads:?}");
    }
    if told.is_empty() {
        let last = tokio::time::timeout(LIMIT, progress.next()).await.unwrap();
        told.push(last.unwrap().args().unwrap().done);
    }
    assert!(
        told.is_sorted() && told.iter().all(|done| (0.0..=1.0).contains(done)),
        "{told:?}"
    );
    assert_eq!(cache.last_speed_test().await.unwrap(), result);
    if !bench.real {
        assert_eq!(result.trust, Trust::Reliable, "{result:?}");
        assert_eq!(result.others_permille, 0);
        let factor = result.random.factor().unwrap();
        assert!((80.0..200.0).contains(&factor), "{factor}");
        let factor = result.sequential.factor().unwrap();
        assert!((2.0..5.0).contains(&factor), "{factor}");
    }
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_disk_without_a_cache_has_no_second_time() {
    let bench = Bench::new().await;
    let manager = bench.machine.manager().await;
    let result = manager.test_speed(&bench.spec.origin).await.unwrap();
    assert!(result.ssd.is_none() && !result.is_none());
    for reads in [&result.random, &result.sequential] {
        assert!(reads.count > 0 && reads.disk_us > 0, "{reads:?}");
        assert_eq!((reads.cache_us, reads.factor()), (0, None));
    }
    // Reads of a mapping would say nothing of its disk.
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mapped = cache.mapped().await.unwrap();
    let refused = refusal(manager.test_speed(&mapped).await);
    assert_eq!(refused.0, Kind::AlreadyCached);
    let nowhere = crate::common::block("nowhere");
    let refused = refusal(manager.test_speed(&nowhere).await);
    assert_eq!(refused.0, Kind::DeviceGone);
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_test_can_be_cancelled_and_a_second_test_is_refused_meanwhile() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let manager = bench.machine.manager().await;
    // Nothing runs: nothing happens.
    manager.cancel_speed_test().await.unwrap();
    set_step_time(&bench, 60_000).await;
    let begun = running(&bench).await;
    let meanwhile = async {
        begun.await;
        for second in [
            cache.test_speed().await,
            manager.test_speed(&bench.spec.origin).await,
        ] {
            assert_eq!(refusal(second), (Kind::Busy, "speed-test".to_owned()));
        }
        // The test keeps no other call waiting.
        bench.machine.plan(&bench.spec).await.unwrap_err();
        cache.history().await.unwrap();
        manager.cancel_speed_test().await.unwrap();
    };
    let (result, ()) = tokio::join!(cache.test_speed(), meanwhile);
    assert_eq!(refusal(result).0, Kind::Cancelled);
    assert!(cache.last_speed_test().await.unwrap().is_none());
    set_step_time(&bench, 1).await;
    // After the last read of the cancelled test, the next test can begin.
    until("the next test", async || match cache.test_speed().await {
        Ok(_) => true,
        Err(error) => Failure::from(error).kind != Kind::Busy,
    })
    .await;
    assert!(!cache.last_speed_test().await.unwrap().is_none());
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_job_comes_before_a_speed_test() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    set_step_time(&bench, 60_000).await;
    let begun = running(&bench).await;
    let removed = async {
        begun.await;
        let plan = cache.plan_remove().await.unwrap();
        let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
        set_step_time(&bench, 1).await;
        bench.machine.end(job).await.unwrap();
    };
    let (result, ()) = tokio::join!(cache.test_speed(), removed);
    let ended = (Kind::SpeedTestFailed, "changed".to_owned());
    assert_eq!(refusal(result), ended);
    assert!(bench.machine.caches().await.is_empty());
}
