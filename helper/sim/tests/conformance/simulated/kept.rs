// SPDX-License-Identifier: GPL-3.0-or-later
//! No program can use a disk whose newest data is on an SSD only without that SSD, at any time and not only at a start
//! of the machine. The disks here are simulated; vm-restart unplugs real disks.

use super::giving_up::refusing;
use crate::Bench;
use crate::common::until;
use crate::writeback::reason;
use std::time::Duration;
use tandem_api::*;

// promise 32: programs/conformance::simulated::kept::a_disk_that_lacks_something_is_kept_whenever_it_appears
#[tokio::test]
async fn a_disk_that_lacks_something_is_kept_whenever_it_appears() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    let (disk, ssd) = (&bench.spec.origin, &bench.spec.ssd);
    let held = async || simulation.held(disk).await.unwrap_or(false);
    simulation.set_module(ModuleState::Refused).await.unwrap();
    simulation.restart().await.unwrap();
    until("the hold", held).await;
    simulation.unplug(ssd).await.unwrap();
    // A disk that is plugged in again is another device.
    simulation.replug(disk).await.unwrap();
    until("the hold over the disk that is back", held).await;
    simulation.set_module(ModuleState::Loaded).await.unwrap();
    // A failed assembly does not end the hold.
    simulation.fail_next(StepKind::Map).await.unwrap();
    simulation.replug(ssd).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_ne!(cache.state().await.unwrap(), CacheState::Active);
    assert!(held().await, "after an attempt");
    simulation.replug(ssd).await.unwrap();
    until("the cache", async || {
        cache.state().await.unwrap() == CacheState::Active
    })
    .await;
    bench.machine.remove(&cache).await.unwrap();
    assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
    assert!(!held().await, "after the removal");
}

#[tokio::test]
async fn a_disk_in_another_enclosure_is_shown_as_held() {
    let mut bench = Bench::simulated().await;
    let simulation = bench.machine.simulation().await;
    let plugged = simulation.plug("disk", "Barge", "B1", 1 << 40).await;
    bench.spec.origin = plugged.unwrap().remove(1);
    let cache = bench.dirty().await;
    let disk = bench.spec.origin.clone();
    let held = async || simulation.held(&disk).await.unwrap_or(false);
    simulation.set_module(ModuleState::Refused).await.unwrap();
    simulation.restart().await.unwrap();
    until("the hold", held).await;
    simulation.rehouse(&disk, "box").await.unwrap();
    reason(&cache, "disk-elsewhere").await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Stopped);
    until("the hold over the disk in the enclosure", held).await;
    simulation.set_module(ModuleState::Loaded).await.unwrap();
    // The same drive is back at its own port.
    simulation.rehouse(&disk, "B1").await.unwrap();
    until("the cache", async || {
        cache.state().await.unwrap() == CacheState::Active
    })
    .await;
    bench.machine.remove(&cache).await.unwrap();
    assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
}

#[tokio::test]
async fn a_device_that_may_be_the_disk_in_use_gives_up_nothing_and_nothing_is_assembled() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    let disk = &bench.spec.origin;
    let serial = cache.origin_text().await.unwrap().serial;
    simulation.rehouse(disk, "box").await.unwrap();
    reason(&cache, "disk-missing").await;
    simulation.mount(disk, "/mnt").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    simulation.restart().await.unwrap();
    reason(&cache, "disk-in-doubt").await;
    // The disk is back at its own port, and may have been the device that was used.
    simulation.rehouse(disk, &serial).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cache.state_reason().await.unwrap(), "disk-in-doubt");
    assert_eq!(cache.state().await.unwrap(), CacheState::Stopped);
    assert!(simulation.held(disk).await.unwrap());
    assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
    // The user decides.
    let refused = Failure::from(cache.plan_remove().await.unwrap_err());
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::UnwrittenData, "disk-in-doubt")
    );
    let plan = cache.plan_discard().await.unwrap();
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap();
    assert!(bench.machine.caches().await.is_empty());
}

// promise 21: programs/conformance::simulated::kept::a_disk_used_beside_its_mapping_is_not_overwritten
#[tokio::test]
async fn a_disk_used_beside_its_mapping_is_not_overwritten() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    simulation.replug(&bench.spec.origin).await.unwrap();
    reason(&cache, "disk-missing").await;
    // A program that takes no notice of the hold, as on another computer.
    simulation.mount(&bench.spec.origin, "/mnt").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    simulation.restart().await.unwrap();
    reason(&cache, "disk-changed").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Stopped);
}

// promise 21: programs/conformance::simulated::kept::a_disk_that_was_used_alone_is_called_so_whatever_else_is_amiss
#[tokio::test]
async fn a_disk_that_was_used_alone_is_called_so_whatever_else_is_amiss() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    let (disk, ssd) = (&bench.spec.origin, &bench.spec.ssd);
    simulation.set_module(ModuleState::Refused).await.unwrap();
    simulation.restart().await.unwrap();
    reason(&cache, "module-refused").await;
    simulation.mount(disk, "/mnt").await.unwrap();
    // Each other reason would say that no data is lost.
    reason(&cache, "disk-changed").await;
    let called_so = async |amiss: &str| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            cache.state_reason().await.unwrap(),
            "disk-changed",
            "{amiss}"
        );
        let refused = Failure::from(cache.plan_remove().await.unwrap_err());
        assert_eq!(
            (refused.kind, refused.name.as_str()),
            (Kind::UnwrittenData, "disk-changed"),
            "{amiss}"
        );
    };
    called_so("refused").await;
    simulation.set_module(ModuleState::NotBuilt).await.unwrap();
    called_so("not built").await;
    simulation.unplug(ssd).await.unwrap();
    called_so("no SSD").await;
    simulation.set_module(ModuleState::Loaded).await.unwrap();
    called_so("nothing but the SSD").await;
}

// promise 21: programs/conformance::simulated::kept::a_cache_that_was_given_up_does_not_start_again
#[tokio::test]
async fn a_cache_that_was_given_up_does_not_start_again() {
    let bench = Bench::simulated().await;
    let simulation = bench.machine.simulation().await;
    let cache = bench.dirty().await;
    simulation.unplug(&bench.spec.ssd).await.unwrap();
    reason(&cache, "ssd-gone-dirty").await;
    let plan = cache.plan_discard().await.unwrap();
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap();
    simulation.replug(&bench.spec.ssd).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(bench.machine.caches().await.is_empty());
}

// promise 21: programs/conformance::simulated::kept::a_cache_whose_removal_did_not_come_to_its_end_does_not_start_again
#[tokio::test]
async fn a_cache_whose_removal_did_not_come_to_its_end_does_not_start_again() {
    let bench = Bench::simulated().await;
    let simulation = bench.machine.simulation().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    simulation.unplug(&bench.spec.ssd).await.unwrap();
    reason(&cache, "ssd-error").await;
    let plan = cache.plan_remove().await.unwrap();
    // The removal fails after its last use of the SSD, which is unplugged and so is not wiped.
    simulation.fail_next(StepKind::Mount).await.unwrap();
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap_err();
    simulation.replug(&bench.spec.ssd).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_ne!(cache.state().await.unwrap(), CacheState::Active);
}

// promise 32: programs/conformance::simulated::kept::a_disk_that_comes_back_under_a_mapping_in_use_is_held
#[tokio::test]
async fn a_disk_that_comes_back_under_a_mapping_in_use_is_held() {
    let bench = Bench::simulated().await;
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    // The mounted mapping leads to the device that is gone, and keeps no program from the new one.
    simulation.replug(&bench.spec.origin).await.unwrap();
    reason(&cache, "disk-missing").await;
    until("the hold of the new device", async || {
        simulation.held(&bench.spec.origin).await.unwrap()
    })
    .await;
    assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
}

#[tokio::test]
async fn a_disk_that_comes_back_under_a_mapping_that_nobody_uses_is_kept() {
    let mut bench = Bench::simulated().await;
    let simulation = bench.machine.simulation().await;
    // The file system of this disk is not mounted.
    let plugged = simulation.plug("disk", "Barge", "B1", 1 << 40).await;
    bench.spec.origin = plugged.unwrap().remove(1);
    let cache = bench.dirty().await;
    let dirty = cache.dirty_bytes().await.unwrap();
    simulation.replug(&bench.spec.origin).await.unwrap();
    until("the cache over the disk that is back", async || {
        cache.state().await.unwrap() == CacheState::Active
            && cache.dirty_bytes().await.unwrap() >= dirty / 2
    })
    .await;
    // The cache is also active before the service sees the disk come back, and cannot be removed while it is assembled.
    until("the end of assembling", async || {
        match bench.machine.remove(&cache).await {
            Err(failure) if failure.kind == Kind::Busy => false,
            result => {
                result.unwrap();
                true
            }
        }
    })
    .await;
    assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
}

#[tokio::test]
async fn what_was_given_up_and_cannot_be_recorded_is_no_failed_ssd_that_lost_nothing() {
    let bench = Bench::simulated().await;
    let cache = refusing(&bench).await;
    let mapped = cache.mapped().await.unwrap();
    let point = bench.points_of(&cache).await.remove(0);
    bench.occupy(&mapped, &point).await;
    let plan = cache.plan_discard().await.unwrap();
    bench.machine.no_cache_record(&cache.uuid().await.unwrap());
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    let failure = bench.machine.end(job).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.data),
        (Kind::Internal, DataState::Incomplete)
    );
    let simulation = bench.machine.simulation().await;
    assert!(simulation.lost_bytes().await.unwrap() > 0);
    // "ssd-error" would say that nothing was lost.
    assert_eq!(
        (
            cache.state().await.unwrap(),
            cache.state_reason().await.unwrap().as_str()
        ),
        (CacheState::Detached, "")
    );
}
