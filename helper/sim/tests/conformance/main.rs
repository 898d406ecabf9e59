// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that every host must pass, and in `simulated` tests of states that only the simulated machine can be brought
//! into. The former run on the simulated machine, or on the real machine if `TANDEM_TEST_DISK`
//! and `TANDEM_TEST_SSD` are set to the kernel names (such as `sda1` and `sdb`) of a disk with a mounted file system
//! and of an empty SSD. The tests may destroy the content of both. Run as root, in the VM.
//!
//! `TANDEM_TEST_TARGET=dm-cache` runs them with dm-cache, but for `settings` and `writeback`, which test what dm-cache does not have.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod health;
mod naming;
mod settings;
mod shared;
mod simulated;
mod speed;
mod statistics;
mod writeback;

use common::{LIMIT, Machine, spec, until};
use futures_util::StreamExt;
use std::time::Duration;
use tandem_api::*;

/// Kind and name of a refusal, which changes nothing.
fn refusal<T: std::fmt::Debug>(result: zbus::Result<T>) -> (Kind, String) {
    let failure = Failure::from(result.unwrap_err());
    assert_eq!(failure.data, DataState::Unchanged);
    (failure.kind, failure.name)
}

/// A machine, and a disk and an SSD for the test. There is one pair of real devices, so one test runs at a time.
struct Bench {
    machine: Machine,
    spec: PlanSpec,
    real: bool,
    _alone: Option<tokio::sync::MutexGuard<'static, ()>>,
}

static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Bench {
    /// The simulated machine, whatever the environment names.
    async fn simulated() -> Self {
        Self {
            machine: Machine::simulated().await,
            spec: spec("sda1", "sdc"),
            real: false,
            _alone: None,
        }
    }

    async fn new() -> Self {
        let names = (
            std::env::var("TANDEM_TEST_DISK"),
            std::env::var("TANDEM_TEST_SSD"),
        );
        let (Ok(disk), Ok(ssd)) = names else {
            return Self::simulated().await;
        };
        let alone = ALONE.lock().await;
        let this = Self {
            machine: Machine::real().await,
            spec: spec(&disk, &ssd),
            real: true,
            _alone: Some(alone),
        };
        for cache in this.machine.caches().await {
            this.machine.remove(&cache).await.unwrap();
        }
        this
    }

    async fn points(&self) -> Vec<String> {
        self.machine.mounted(self.spec.origin.as_str()).await
    }

    /// Makes a program `sleep` use the folder `point` of this device: a process on a real machine, otherwise a
    /// simulated program.
    async fn occupy(
        &self,
        object: &zbus::OwnedObjectPath,
        point: &str,
    ) -> Option<std::process::Child> {
        if self.real {
            let child = std::process::Command::new("/bin/sleep")
                .arg("600")
                .current_dir(point)
                .spawn();
            return Some(child.unwrap());
        }
        let user = FileUser {
            pid: 4242,
            command: "sleep".into(),
            uid: 1000,
            user: "anna".into(),
        };
        let levers = self.machine.simulation().await;
        levers.set_users(object, &[user]).await.unwrap();
        None
    }

    /// Ends the program of [`Self::occupy`].
    async fn leave(&self, object: &zbus::OwnedObjectPath, sleeper: Option<std::process::Child>) {
        if let Some(mut child) = sleeper {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            let levers = self.machine.simulation().await;
            levers.set_users(object, &[]).await.unwrap();
        }
    }

    async fn the_cache(&self) -> CacheProxy<'static> {
        let mut caches = self.machine.caches().await;
        assert_eq!(caches.len(), 1);
        caches.remove(0)
    }

    /// Checks that there is no cache, and that the disk is mounted at the same mount points as before.
    async fn as_before(&self, points: &[String]) {
        assert!(self.machine.caches().await.is_empty());
        until("the disk at its place", async || {
            self.points().await == points
        })
        .await;
        // A new cache needs no agreement to erase the SSD.
        let plan = self.machine.plan(&self.spec).await.unwrap();
        assert!(
            plan.steps.iter().all(|s| s.kind != StepKind::EraseSsd),
            "{:?}",
            plan.steps
        );
    }
}

#[tokio::test]
async fn a_plan_changes_nothing_and_says_what_will_be_done() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    assert!(!points.is_empty(), "the test disk is mounted");
    let plan = bench.machine.plan(&bench.spec).await.unwrap();
    let kinds: Vec<_> = plan.steps.iter().map(|s| s.kind).collect();
    let load = (common::target() == Target::Tandem).then_some(StepKind::LoadModule);
    let over = [StepKind::Unmount, StepKind::Map, StepKind::Mount];
    assert_eq!(kinds, load.into_iter().chain(over).collect::<Vec<_>>());
    assert_eq!(plan.mount_points, points);
    assert!(plan.cache_bytes > 0 && plan.cache_bytes < plan.ssd.size);
    assert_eq!(plan.origin.object, bench.spec.origin);
    bench.as_before(&points).await;
}

#[tokio::test]
async fn a_cache_comes_and_goes() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    bench.machine.create(&bench.spec).await.unwrap();

    let cache = bench.the_cache().await;
    assert_eq!(cache.state().await.unwrap(), CacheState::Active);
    assert_eq!(cache.mode().await.unwrap(), Mode::Writethrough);
    assert_eq!(cache.origin().await.unwrap(), bench.spec.origin);
    assert_eq!(cache.ssd().await.unwrap(), bench.spec.ssd);
    assert_eq!(cache.mount_points().await.unwrap(), points);
    assert!(cache.cache_bytes().await.unwrap() > 0);
    let mapped = cache.mapped().await.unwrap();
    until("the mapping at the disk's place", async || {
        bench.machine.mounted(mapped.as_str()).await == points
    })
    .await;

    // Both devices are taken now.
    let refused = bench.machine.plan(&bench.spec).await.unwrap_err();
    assert_eq!(refused.kind, Kind::AlreadyCached);

    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}

#[tokio::test]
async fn samples_come_each_second_while_watched_and_add_up() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mut samples = cache.receive_sampled().await.unwrap();
    cache.watch().await.unwrap();
    let mut times = Vec::new();
    for _ in 0..4 {
        let signal = tokio::time::timeout(Duration::from_secs(12), samples.next())
            .await
            .unwrap()
            .unwrap();
        let sample = signal.args().unwrap().sample.clone();
        assert!(sample.frames_total > 0 && sample.frames_used <= sample.frames_total);
        times.push(sample.time_us);
    }
    let gap = Duration::from_micros(times[3] - times[2]);
    assert!(
        gap > Duration::from_millis(500) && gap < Duration::from_secs(4),
        "{gap:?}"
    );
    let history = cache.history().await.unwrap();
    assert!(history.len() >= 4 && history.windows(2).all(|w| w[0].time_us < w[1].time_us));
    assert_eq!(
        cache.latest().await.unwrap().time_us,
        history[history.len() - 1].time_us
    );

    cache.unwatch().await.unwrap();
    // A sample that was already on its way may still arrive.
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(1500), samples.next()).await
    {
    }
    let late = tokio::time::timeout(Duration::from_secs(4), samples.next()).await;
    assert!(late.is_err(), "unwatched, but sampled within four seconds");
    drop(samples);
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn a_plan_is_executed_once_and_only_with_its_digest() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    let manager = bench.machine.manager().await;
    let plan = bench.machine.plan(&bench.spec).await.unwrap();
    let refusal = async |id: &str, digest: &str| {
        Failure::from(
            manager
                .create(id, digest)
                .await
                .expect_err("must be refused"),
        )
        .kind
    };
    assert_eq!(refusal(&plan.plan_id, "00").await, Kind::PlanUnknown);
    assert_eq!(refusal("0123", &plan.digest).await, Kind::PlanUnknown);
    bench.as_before(&points).await;
    let job = manager.create(&plan.plan_id, &plan.digest).await.unwrap();
    assert_eq!(
        refusal(&plan.plan_id, &plan.digest).await,
        Kind::PlanUnknown
    );
    bench.machine.end(job).await.unwrap();
    let cache = bench.the_cache().await;
    // The plan of a removal does not execute as a creation.
    let removal = cache.plan_remove().await.unwrap();
    assert_eq!(
        refusal(&removal.plan_id, &removal.digest).await,
        Kind::PlanUnknown
    );
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}

#[tokio::test]
async fn a_second_job_on_the_same_devices_is_refused() {
    let bench = Bench::new().await;
    if !bench.real {
        bench
            .machine
            .simulation()
            .await
            .set_step_time(200)
            .await
            .unwrap();
    }
    let manager = bench.machine.manager().await;
    let (one, two) = (
        bench.machine.plan(&bench.spec).await.unwrap(),
        bench.machine.plan(&bench.spec).await.unwrap(),
    );
    let job = manager.create(&one.plan_id, &one.digest).await.unwrap();
    let refused = Failure::from(manager.create(&two.plan_id, &two.digest).await.unwrap_err());
    // The reason depends on the progress of the first job.
    let expected = [Kind::Busy, Kind::DeviceChanged, Kind::AlreadyCached];
    assert!(expected.contains(&refused.kind), "{refused}");
    bench.machine.end(job).await.unwrap();
    bench
        .machine
        .remove(&bench.the_cache().await)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_busy_file_system_is_answered_with_who_uses_it() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    let sleeper = bench.occupy(&bench.spec.origin, &points[0]).await;
    let plan = bench.machine.plan(&bench.spec).await.unwrap();
    let in_use = plan
        .warnings
        .iter()
        .find(|w| w.kind == WarningKind::InUse)
        .expect("a warning");
    assert!(in_use.users.iter().any(|u| u.command == "sleep"));
    let refused = bench.machine.create(&bench.spec).await.unwrap_err();
    assert_eq!(refused.kind, Kind::FilesystemBusy);
    assert_eq!(refused.data, DataState::Unchanged);
    assert_eq!(refused.mount_points, points);
    assert!(
        refused
            .users
            .iter()
            .any(|u| u.command == "sleep" && !u.user.is_empty() && u.pid > 0)
    );
    bench.leave(&bench.spec.origin, sleeper).await;
    bench.as_before(&points).await;
}

#[tokio::test]
async fn removing_under_a_busy_file_system_frees_the_ssd() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mapped = cache.mapped().await.unwrap();
    let sleeper = bench.occupy(&mapped, &points[0]).await;
    let plan = cache.plan_remove().await.unwrap();
    let stays = plan
        .warnings
        .iter()
        .find(|w| w.kind == WarningKind::StaysMapped)
        .expect("a warning");
    assert!(stays.users.iter().any(|u| u.command == "sleep"));
    bench.machine.remove(&cache).await.unwrap();
    until("the state", async || {
        cache.state().await.unwrap() == CacheState::Detached
    })
    .await;
    assert_eq!(bench.machine.mounted(mapped.as_str()).await, points);
    bench.leave(&mapped, sleeper).await;
    // When no program uses the file system, a second removal leaves the plain disk.
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}

#[tokio::test]
async fn a_job_that_is_cancelled_leaves_all_as_before() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    if !bench.real {
        bench
            .machine
            .simulation()
            .await
            .set_step_time(150)
            .await
            .unwrap();
    }
    let plan = bench.machine.plan(&bench.spec).await.unwrap();
    let job = bench
        .machine
        .manager()
        .await
        .create(&plan.plan_id, &plan.digest)
        .await
        .unwrap();
    bench.machine.job(job.clone()).await.cancel().await.unwrap();
    let ended = bench.machine.end(job).await.unwrap_err();
    assert_eq!(ended.kind, Kind::Cancelled);
    assert_ne!(ended.data, DataState::Incomplete);
    bench.as_before(&points).await;
}

#[tokio::test]
async fn a_jobs_object_goes_after_a_while() {
    let bench = Bench::new().await;
    let plan = bench.machine.plan(&bench.spec).await.unwrap();
    let path = bench
        .machine
        .manager()
        .await
        .create(&plan.plan_id, &plan.digest)
        .await
        .unwrap();
    bench.machine.end(path.clone()).await.unwrap();
    let job = bench.machine.job(path).await;
    let steps = job.steps().await.unwrap();
    assert_eq!(steps, plan.steps);
    assert_eq!(
        usize::try_from(job.step_index().await.unwrap()).unwrap(),
        steps.len()
    );
    assert!((job.progress().await.unwrap() - 1.0).abs() < f64::EPSILON);
    let gone = tokio::time::timeout(LIMIT, async {
        while job.kind().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    gone.await.expect("the object goes");
    bench
        .machine
        .remove(&bench.the_cache().await)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_ssd_that_somebody_holds_is_refused_before_anything_is_done() {
    use std::os::unix::fs::OpenOptionsExt;
    let bench = Bench::new().await;
    let held = if bench.real {
        let name = bench.spec.ssd.as_str().rsplit('/').next().unwrap();
        let options = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::EXCL.bits().cast_signed())
            .open(format!("/dev/{name}"));
        Some(options.unwrap())
    } else {
        let simulation = bench.machine.simulation().await;
        simulation.claim(&bench.spec.ssd, true).await.unwrap();
        None
    };
    // The caller of a plan is not authorised yet, so the service does not open the SSD exclusively.
    bench.machine.plan(&bench.spec).await.unwrap();
    let refused = bench.machine.create(&bench.spec).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::SsdInUse, "exclusive")
    );
    assert!(bench.machine.caches().await.is_empty());
    if held.is_none() {
        let simulation = bench.machine.simulation().await;
        simulation.claim(&bench.spec.ssd, false).await.unwrap();
    }
    drop(held);
    bench.machine.plan(&bench.spec).await.unwrap();
}
