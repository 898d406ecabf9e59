// SPDX-License-Identifier: GPL-3.0-or-later
//! A drain that is cancelled, and disks that get no write-back.

use crate::Bench;
use crate::common::{spec, until};
use tandem_api::*;

#[tokio::test]
async fn a_drain_that_is_cancelled_leaves_the_cache_as_it_was() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    bench.rate(1_000).await;
    for removes in [true, false] {
        let path = if removes {
            let plan = cache.plan_remove().await.unwrap();
            cache.remove(&plan.plan_id, &plan.digest).await.unwrap()
        } else {
            cache.flush().await.unwrap()
        };
        let job = bench.machine.job(path.clone()).await;
        until("the drain", async || job.pausable().await.unwrap()).await;
        assert!(job.cancellable().await.unwrap());
        // The service refuses another change of the cache.
        let busy = Failure::from(cache.set_mode(Mode::Writearound).await.unwrap_err());
        assert_eq!(busy.kind, Kind::Busy);
        job.cancel().await.unwrap();
        let ended = bench.machine.end(path).await.unwrap_err();
        assert_eq!(
            (ended.kind, ended.data),
            (Kind::Cancelled, DataState::Unchanged)
        );
        assert_eq!(cache.state().await.unwrap(), CacheState::Active);
        assert_eq!(cache.mode().await.unwrap(), Mode::Writeback);
    }
    bench.nothing_lost().await;
}

#[tokio::test]
async fn write_back_is_not_offered_for_disks_that_others_read() {
    let bench = Bench::simulated().await;
    for (disk, reason) in [
        ("sda2", ModeRefusal::OtherSystems),
        ("sdb1", ModeRefusal::MountedAtStart),
        ("sdg1", ModeRefusal::Removable),
    ] {
        let spec = spec(disk, "sdc");
        let plan = bench.machine.plan(&spec).await.unwrap();
        let mode = Mode::Writeback;
        assert_eq!(plan.refused_modes, [RefusedMode { mode, reason }], "{disk}");
        let refused = bench.machine.plan(&PlanSpec { mode, ..spec }).await;
        assert_eq!(refused.unwrap_err().kind, Kind::ModeRefused, "{disk}");
    }
    // The service also refuses write-back for a cache that exists already.
    bench.machine.create(&spec("sda2", "sdc")).await.unwrap();
    let cache = bench.the_cache().await;
    let offered = cache.refused_modes().await.unwrap();
    assert_eq!(offered[0].reason, ModeRefusal::OtherSystems);
    let refused = Failure::from(cache.set_mode(Mode::Writeback).await.unwrap_err());
    assert_eq!(refused.kind, Kind::ModeRefused);
    assert_eq!(cache.mode().await.unwrap(), Mode::Writethrough);
    cache.set_mode(Mode::Writearound).await.unwrap();
}
