// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches of which there is no record, and disks that a person confirms.

use crate::Bench;
use crate::common::until;
use tandem_api::*;

/// A cache with data that the disk lacks. Its record is lost with the system, which is started anew.
async fn orphan(bench: &Bench) -> FoundCache {
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    cache.set_mode(Mode::Writeback).await.unwrap();
    bench.soil(&cache).await;
    bench.machine.lose_record(&cache.uuid().await.unwrap());
    let simulation = bench.machine.simulation().await;
    simulation.restart().await.unwrap();
    let manager = bench.machine.manager().await;
    until("the found cache", async || {
        manager.found_caches().await.unwrap().len() == 1
    })
    .await;
    // A refresh that read the record before shows the cache once more.
    until("no cache on record", async || {
        bench.machine.caches().await.is_empty()
    })
    .await;
    manager.found_caches().await.unwrap().remove(0)
}

#[tokio::test]
async fn unwritten_data_without_a_record_is_shown_taken_over_and_written_back() {
    let bench = Bench::simulated().await;
    let found = orphan(&bench).await;
    assert_eq!(found.ssd.object, bench.spec.ssd);
    assert_eq!(found.disk.object, bench.spec.origin);
    assert!(found.may_be_unwritten);
    let manager = bench.machine.manager().await;
    // A new cache would erase that data, whatever the caller has agreed to.
    let erasing = PlanSpec {
        erase_ssd: true,
        ..bench.spec.clone()
    };
    let refused = bench.machine.plan(&erasing).await.unwrap_err();
    assert_eq!(refused.kind, Kind::SsdHoldsUnwritten);
    // The cache would overwrite data that is written to the mounted disk.
    let simulation = bench.machine.simulation().await;
    simulation.mount(&bench.spec.origin, "/mnt").await.unwrap();
    let used = manager
        .take_over(&found.ssd.object, &found.uuid)
        .await
        .unwrap_err();
    assert_eq!(Failure::from(used).kind, Kind::OriginInUse);
    simulation.restart().await.unwrap();
    // Neither another device, nor another cache on the SSD that was asked about.
    let ssd = &found.ssd.object;
    for (ssd, uuid) in [(&bench.spec.origin, &*found.uuid), (ssd, &*"ab".repeat(16))] {
        let other = manager.take_over(ssd, uuid).await.unwrap_err();
        assert_eq!(Failure::from(other).kind, Kind::WrongState);
        let other = manager.discard_found(ssd, uuid).await.unwrap_err();
        assert_eq!(Failure::from(other).kind, Kind::WrongState);
    }

    until("the take-over", async || {
        manager
            .take_over(&found.ssd.object, &found.uuid)
            .await
            .is_ok()
    })
    .await;
    until("the cache", async || {
        let caches = bench.machine.caches().await;
        match caches.first() {
            Some(cache) => cache.state().await == Ok(CacheState::Active),
            None => false,
        }
    })
    .await;
    assert!(manager.found_caches().await.unwrap().is_empty());
    let cache = bench.the_cache().await;
    assert_eq!(cache.mode().await.unwrap(), Mode::Writethrough);
    until("the removal", async || {
        bench.machine.remove(&cache).await.is_ok()
    })
    .await;
    bench.nothing_lost().await;
}

#[tokio::test]
async fn unwritten_data_without_a_record_is_erased_only_if_it_is_given_up() {
    let bench = Bench::simulated().await;
    let found = orphan(&bench).await;
    let (manager, simulation) = (
        bench.machine.manager().await,
        bench.machine.simulation().await,
    );
    simulation.set_authorized(false).await.unwrap();
    for refused in [
        manager.discard_found(&found.ssd.object, &found.uuid).await,
        manager.take_over(&found.ssd.object, &found.uuid).await,
    ] {
        let failure = Failure::from(refused.unwrap_err());
        assert_eq!(failure.kind, Kind::NotAuthorized);
    }
    bench.nothing_lost().await;
    simulation.set_authorized(true).await.unwrap();
    manager
        .discard_found(&found.ssd.object, &found.uuid)
        .await
        .unwrap();
    assert!(simulation.lost_bytes().await.unwrap() > 0);
    assert!(manager.found_caches().await.unwrap().is_empty());
    bench.machine.plan(&bench.spec).await.unwrap();
}

#[tokio::test]
async fn a_disk_that_is_not_sure_is_confirmed_by_the_user_and_gets_what_it_lacks() {
    let bench = Bench::simulated().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let simulation = bench.machine.simulation().await;
    cache.set_mode(Mode::Writeback).await.unwrap();
    bench.soil(&cache).await;
    assert!(cache.candidates().await.unwrap().is_empty());
    let known = cache.confirm_disk(&bench.spec.origin).await.unwrap_err();
    assert_eq!(Failure::from(known).name, "disk-known");
    simulation
        .rehouse(&bench.spec.origin, "ENCLOSURE")
        .await
        .unwrap();
    simulation.restart().await.unwrap();
    until("the question", async || {
        !cache.candidates().await.unwrap().is_empty()
    })
    .await;
    let candidate = cache.candidates().await.unwrap().remove(0);
    assert_eq!(candidate.device.serial, "ENCLOSURE");
    assert!(candidate.agreeing.contains(&DiskMark::Content));
    assert!(candidate.differing.contains(&DiskMark::Serial));
    let other = cache.confirm_disk(&bench.spec.ssd).await.unwrap_err();
    assert_eq!(Failure::from(other).name, "other-disk");

    cache.confirm_disk(&candidate.device.object).await.unwrap();
    until("the cache", async || {
        cache.state().await == Ok(CacheState::Active)
    })
    .await;
    assert!(cache.candidates().await.unwrap().is_empty());
    assert!(cache.dirty_bytes().await.unwrap() > 0);
    until("the removal", async || {
        bench.machine.remove(&cache).await.is_ok()
    })
    .await;
    bench.nothing_lost().await;
}

// promise 22: programs/conformance::simulated::found::of_two_ssds_with_one_cache_none_is_taken_over
#[tokio::test]
async fn of_two_ssds_with_one_cache_none_is_taken_over() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    for serial in ["D1", "D2"] {
        let disk = &bench.spec.origin;
        levers.plug_cache(disk, "Dart", serial, 0).await.unwrap();
    }
    let found = async || manager.found_caches().await.unwrap();
    until("both", async || found().await.len() == 2).await;
    let both = found().await;
    for (one, other) in [(&both[0], &both[1]), (&both[1], &both[0])] {
        let refused = manager
            .take_over(&one.ssd.object, &one.uuid)
            .await
            .unwrap_err();
        let refused = Failure::from(refused);
        assert_eq!(refused.kind, Kind::Indistinguishable);
        assert_eq!(
            (&refused.device, &refused.name),
            (&one.ssd, &other.ssd.name)
        );
    }
    assert!(bench.machine.caches().await.is_empty());
    levers.unplug(&both[1].ssd.object).await.unwrap();
    until("one", async || found().await.len() == 1).await;
    manager
        .take_over(&both[0].ssd.object, &both[0].uuid)
        .await
        .unwrap();
}
