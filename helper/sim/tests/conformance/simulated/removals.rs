// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that other systems have made are written back and removed.

use crate::common::{Machine, until};
use crate::{Bench, refusal};
use futures_util::StreamExt;
use tandem_api::*;

const MIB: u64 = 1 << 20;

/// A cache of another system over the disk `sda` and on the SSD `sdc`. The disk lacks `unwritten` bytes.
async fn cache(machine: &Machine, kind: OtherKind, unwritten: u64) -> OtherCache {
    let devices = machine.manager().await.devices().await.unwrap();
    let text = |name: &str| {
        let mut devices = devices.iter().map(|judged| &judged.device);
        devices.find(|device| device.name == name).unwrap().clone()
    };
    OtherCache {
        kind,
        id: format!("LVM-{}", "a1".repeat(32)),
        name: "films/my-movies".into(),
        mapped: DeviceText::none().object,
        mount_points: vec!["/srv".into()],
        disks: vec![text("sda")],
        ssds: vec![text("sdc")],
        state: OtherState::Working,
        mode: OtherMode::Writeback,
        cache_bytes: 1 << 30,
        used_bytes: 1 << 29,
        unwritten_bytes: unwritten,
        unwritten_known: true,
        read_hits: 0,
        read_misses: 0,
    }
}

/// Has the machine such a cache, and waits until the service knows it.
async fn show(machine: &Machine, cache: &OtherCache) {
    let simulation = machine.simulation().await;
    simulation
        .set_other_caches(std::slice::from_ref(cache))
        .await
        .unwrap();
    let manager = machine.manager().await;
    until("the cache of the other system", async || {
        manager.other_caches().await.unwrap() == std::slice::from_ref(cache)
    })
    .await;
}

/// Begins the removal, with the question that a client shows.
async fn begin(machine: &Machine, cache: &OtherCache) -> Result<JobProxy<'static>, Failure> {
    let manager = machine.manager().await;
    let plan = manager.plan_remove_other(&cache.id).await?;
    assert_eq!((&plan.origin, &plan.ssd), (&cache.disks[0], &cache.ssds[0]));
    let path = manager.remove_other(&plan.plan_id, &plan.digest).await?;
    Ok(machine.job(path).await)
}

async fn end(machine: &Machine, job: &JobProxy<'_>) -> Result<(), Failure> {
    machine.end(job.inner().path().to_owned().into()).await
}

#[tokio::test]
async fn a_cache_is_written_back_and_removed_with_progress() {
    let bench = Bench::simulated().await;
    let machine = &bench.machine;
    for kind in OtherKind::ALL
        .iter()
        .copied()
        .filter(|kind| kind.can_be_removed())
    {
        let lvm = cache(machine, kind, 100 * MIB).await;
        show(machine, &lvm).await;
        let job = begin(machine, &lvm).await.unwrap();
        assert_eq!(job.cache_uuid().await.unwrap(), lvm.id);
        assert_eq!(job.kind().await.unwrap(), JobKind::Remove);
        let steps: Vec<_> = job.steps().await.unwrap();
        assert_eq!(
            steps.iter().map(|s| s.kind).collect::<Vec<_>>(),
            [StepKind::Drain, StepKind::Detach, StepKind::FreeSsd]
        );
        assert_eq!(steps[0].bytes, 100 * MIB);
        let mut completed = job.receive_completed().await.unwrap();
        until("half of it", async || {
            let (done, rate) = (
                job.progress().await.unwrap(),
                job.rate_bytes().await.unwrap(),
            );
            (0.3..1.0).contains(&done) && rate > 0
        })
        .await;
        assert!(!job.pausable().await.unwrap() && job.cancellable().await.unwrap());
        assert!(completed.next().await.unwrap().args().unwrap().success);
        let manager = machine.manager().await;
        until("the cache to be gone", async || {
            manager.other_caches().await.unwrap().is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn a_removal_that_is_cancelled_keeps_the_cache_and_can_be_repeated() {
    let bench = Bench::simulated().await;
    let machine = &bench.machine;
    let simulation = machine.simulation().await;
    for (kind, name) in [
        (OtherKind::LvmCache, ""),
        (OtherKind::LvmWritecache, "cleaner"),
        (OtherKind::Bcache, ""),
        (OtherKind::DmCache, ""),
    ] {
        simulation.set_drain_rate(MIB).await.unwrap();
        let lvm = cache(machine, kind, 1_000 * MIB).await;
        show(machine, &lvm).await;
        let job = begin(machine, &lvm).await.unwrap();
        until("progress", async || job.progress().await.unwrap() > 0.0).await;
        // A second removal is refused meanwhile.
        let again = begin(machine, &lvm).await.unwrap_err();
        assert_eq!(again.kind, Kind::Busy);
        job.cancel().await.unwrap();
        let failure = end(machine, &job).await.unwrap_err();
        assert_eq!(
            (failure.kind, failure.name.as_str()),
            (Kind::Cancelled, name)
        );
        let manager = machine.manager().await;
        let left = manager.other_caches().await.unwrap();
        assert_eq!(left.len(), 1, "the cache stays");
        simulation.set_drain_rate(1_000 * MIB).await.unwrap();
        let job = begin(machine, &lvm).await.unwrap();
        end(machine, &job).await.unwrap();
    }
}

#[tokio::test]
async fn a_removal_that_its_system_does_not_end_says_that_data_is_on_the_ssd_only() {
    let bench = Bench::simulated().await;
    let machine = &bench.machine;
    let lvm = cache(machine, OtherKind::LvmCache, 100 * MIB).await;
    show(machine, &lvm).await;
    machine
        .simulation()
        .await
        .fail_next(StepKind::Drain)
        .await
        .unwrap();
    let job = begin(machine, &lvm).await.unwrap();
    let failure = end(machine, &job).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.name.as_str()),
        (Kind::StepFailed, "drain")
    );
    assert_eq!(failure.data, DataState::Unwritten);
    assert_eq!(failure.device, lvm.disks[0]);
    assert!(failure.detail.contains("aborted"), "{}", failure.detail);
    assert_eq!(
        machine.manager().await.other_caches().await.unwrap().len(),
        1
    );
}

#[tokio::test]
async fn a_cache_without_its_ssd_is_refused_and_so_is_a_kind_that_nothing_removes() {
    let bench = Bench::simulated().await;
    let machine = &bench.machine;
    let manager = machine.manager().await;
    let lvm = cache(machine, OtherKind::LvmCache, MIB).await;
    let missing = OtherCache {
        state: OtherState::WithoutSsd,
        ..lvm.clone()
    };
    let memory = OtherCache {
        kind: OtherKind::RapidDisk,
        ..lvm.clone()
    };
    for (shown, name) in [(&missing, "ssd-missing"), (&memory, "system")] {
        show(machine, shown).await;
        let refused = refusal(manager.plan_remove_other(&lvm.id).await);
        assert_eq!(refused, (Kind::OtherNotRemovable, name.to_owned()));
    }
    // bcache is left on the disk, and UDisks2 shows no such device.
    let alone = OtherCache {
        kind: OtherKind::Bcache,
        ssds: vec![],
        unwritten_bytes: 0,
        ..missing.clone()
    };
    show(machine, &alone).await;
    let refused = refusal(manager.plan_remove_other(&lvm.id).await);
    assert_eq!(refused, (Kind::StaysBcache, "unknown".to_owned()));
    let none = refusal(manager.plan_remove_other("films/my-movies").await);
    assert_eq!(
        none.0,
        Kind::WrongState,
        "only an id of the service names a cache"
    );
    // The SSD goes after the question was shown.
    show(machine, &lvm).await;
    let plan = manager.plan_remove_other(&lvm.id).await.unwrap();
    show(machine, &missing).await;
    let refused = refusal(manager.remove_other(&plan.plan_id, &plan.digest).await);
    assert_eq!(refused, (Kind::OtherNotRemovable, "ssd-missing".to_owned()));
}

#[tokio::test]
async fn a_caller_without_authorisation_and_a_plan_for_another_cache_remove_nothing() {
    let bench = Bench::simulated().await;
    let machine = &bench.machine;
    let (manager, simulation) = (machine.manager().await, machine.simulation().await);
    let lvm = cache(machine, OtherKind::LvmCache, MIB).await;
    show(machine, &lvm).await;
    let plan = manager.plan_remove_other(&lvm.id).await.unwrap();
    let digest = refusal(manager.remove_other(&plan.plan_id, "0").await);
    assert_eq!(digest.0, Kind::PlanUnknown);
    simulation.set_authorized(false).await.unwrap();
    let refused = refusal(manager.remove_other(&plan.plan_id, &plan.digest).await);
    assert_eq!(refused.0, Kind::NotAuthorized);
    let left = manager.other_caches().await.unwrap();
    assert_eq!(left.as_slice(), std::slice::from_ref(&lvm));
    simulation.set_authorized(true).await.unwrap();
    // A cache of Tandem is removed at its own object only.
    machine.create(&bench.spec).await.unwrap();
    let tandem = bench.the_cache().await;
    let other = tandem.plan_remove().await.unwrap();
    let refused = refusal(manager.remove_other(&other.plan_id, &other.digest).await);
    assert_eq!(refused.0, Kind::PlanUnknown);
    let refused = refusal(tandem.remove(&plan.plan_id, &plan.digest).await);
    assert_eq!(refused.0, Kind::PlanUnknown);
    assert_eq!(manager.other_caches().await.unwrap(), [lvm]);
}

#[tokio::test]
async fn what_is_written_back_alone_keeps_its_cache() {
    let bench = Bench::simulated().await;
    let machine = &bench.machine;
    let (manager, simulation) = (machine.manager().await, machine.simulation().await);
    for kind in OtherKind::ALL.iter().copied() {
        if !kind.can_write_back() {
            continue;
        }
        let other = cache(machine, kind, 10 * MIB).await;
        show(machine, &other).await;
        simulation.set_authorized(false).await.unwrap();
        let refused = refusal(manager.write_back_other(&other.id).await);
        assert_eq!(refused.0, Kind::NotAuthorized);
        simulation.set_authorized(true).await.unwrap();
        let path = manager.write_back_other(&other.id).await.unwrap();
        let job = machine.job(path).await;
        assert_eq!(job.kind().await.unwrap(), JobKind::Flush);
        let steps: Vec<_> = job.steps().await.unwrap();
        assert_eq!(
            steps.iter().map(|s| s.kind).collect::<Vec<_>>(),
            [StepKind::Drain]
        );
        end(machine, &job).await.unwrap();
        let clean = OtherCache {
            unwritten_bytes: 0,
            ..other
        };
        until("the cache to stay, with nothing unwritten", async || {
            manager.other_caches().await.unwrap() == std::slice::from_ref(&clean)
        })
        .await;
    }
    let write_cache = cache(machine, OtherKind::LvmWritecache, MIB).await;
    show(machine, &write_cache).await;
    let refused = refusal(manager.write_back_other(&write_cache.id).await);
    assert_eq!(refused, (Kind::OtherNotRemovable, "system".to_owned()));
}

#[tokio::test]
async fn a_write_back_that_is_cancelled_leaves_the_mode_as_before() {
    let bench = Bench::simulated().await;
    let machine = &bench.machine;
    let (manager, simulation) = (machine.manager().await, machine.simulation().await);
    simulation.set_drain_rate(MIB).await.unwrap();
    let lvm = cache(machine, OtherKind::LvmCache, 1_000 * MIB).await;
    show(machine, &lvm).await;
    let path = manager.write_back_other(&lvm.id).await.unwrap();
    let job = machine.job(path).await;
    until("progress", async || job.progress().await.unwrap() > 0.0).await;
    let again = refusal(manager.write_back_other(&lvm.id).await);
    assert_eq!(again.0, Kind::Busy);
    job.cancel().await.unwrap();
    let failure = end(machine, &job).await.unwrap_err();
    assert_eq!(failure.kind, Kind::Cancelled);
    until("the mode of before", async || {
        let left = manager.other_caches().await.unwrap();
        matches!(left.as_slice(), [cache] if cache.mode == lvm.mode && cache.unwritten_bytes > 0)
    })
    .await;
}
