// SPDX-License-Identifier: GPL-3.0-or-later
//! What ends a speed test, and what makes its result unreliable.

use crate::common::until;
use crate::speed::running;
use crate::{Bench, refusal};
use tandem_api::*;

/// Milliseconds, far less than the limit of a wait: the service may be in a step when they come into force.
const STEP: u32 = 10_000;

#[tokio::test]
async fn a_device_that_goes_ends_the_test_and_the_last_result_stays() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mut last = cache.test_speed().await.unwrap();
    let levers = bench.machine.simulation().await;
    levers.set_step_time(STEP).await.unwrap();
    for (device, expected) in [
        (
            &bench.spec.ssd,
            (Kind::SpeedTestFailed, "changed".to_owned()),
        ),
        (&bench.spec.origin, (Kind::DeviceGone, String::new())),
    ] {
        let begun = running(&bench).await;
        let unplugged = async {
            begun.await;
            levers.unplug(device).await.unwrap();
        };
        let (result, ()) = tokio::join!(cache.test_speed(), unplugged);
        assert_eq!(refusal(result), expected);
        assert_eq!(cache.last_speed_test().await.unwrap(), last);
        // The mapping of a disk that was away is of no use any more, so that the disk goes last.
        if device == &bench.spec.origin {
            return;
        }
        levers.set_step_time(1).await.unwrap();
        levers.replug(device).await.unwrap();
        // The state alone is not enough: it may be of the time before the loss, and a job may still end.
        until("the next test", async || match cache.test_speed().await {
            Ok(result) => {
                last = result;
                true
            }
            Err(_) => false,
        })
        .await;
        levers.set_step_time(STEP).await.unwrap();
    }
}

#[tokio::test]
async fn the_test_of_a_program_that_leaves_the_bus_ends() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    levers.set_step_time(60_000).await.unwrap();
    let other = zbus::connection::Builder::address(bench.machine.address.as_str())
        .build()
        .await
        .unwrap();
    let disk = bench.spec.origin.clone();
    let begun = running(&bench).await;
    let leaving = tokio::spawn(async move {
        let manager = ManagerProxy::new(&other).await.unwrap();
        let _ = manager.test_speed(&disk).await;
    });
    begun.await;
    leaving.abort();
    let _ = leaving.await;
    levers.set_step_time(1).await.unwrap();
    let manager = bench.machine.manager().await;
    until("the next test", async || {
        manager.test_speed(&bench.spec.origin).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_result_says_that_other_programs_made_it_unreliable() {
    let bench = Bench::simulated().await;
    let manager = bench.machine.manager().await;
    let levers = bench.machine.simulation().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    for (percent, trust) in [
        (4, Trust::Reliable),
        (20, Trust::Disturbed),
        (0, Trust::Reliable),
    ] {
        levers.set_other_load(percent).await.unwrap();
        let plain = manager.test_speed(&bench.spec.origin).await.unwrap();
        let cached = cache.test_speed().await.unwrap();
        for result in [plain, cached] {
            assert_eq!(result.trust, trust, "{percent}: {result:?}");
            let share = result.others_permille;
            assert!(share.abs_diff(percent * 10) <= 10, "{percent}: {share}");
        }
    }
}

#[tokio::test]
async fn a_killed_service_changes_nothing_and_keeps_the_last_result() {
    let mut bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let last = cache.test_speed().await.unwrap();
    let levers = bench.machine.simulation().await;
    levers.set_step_time(60_000).await.unwrap();
    let begun = running(&bench).await;
    let test = cache.test_speed();
    tokio::pin!(test);
    tokio::select! {
        ended = &mut test => panic!("the test ended: {ended:?}"),
        () = begun => {}
    }
    let ((), result) = tokio::join!(bench.machine.restart_service(), test);
    assert_eq!(refusal(result).0, Kind::ServiceUnavailable);
    let mut again = None;
    until("the cache", async || {
        again = bench.machine.caches().await.pop();
        again.is_some()
    })
    .await;
    assert_eq!(again.unwrap().last_speed_test().await.unwrap(), last);
}

#[tokio::test]
async fn a_denied_user_tests_nothing() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let levers = bench.machine.simulation().await;
    levers.set_authorized(false).await.unwrap();
    let manager = bench.machine.manager().await;
    for refused in [
        cache.test_speed().await,
        manager.test_speed(&bench.spec.origin).await,
    ] {
        assert_eq!(refusal(refused).0, Kind::NotAuthorized);
    }
}
