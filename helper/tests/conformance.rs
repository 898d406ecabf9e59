// SPDX-License-Identifier: GPL-3.0-or-later
//! What every engine must do, shown on the simulated one, or on the machine's own if
//! `TANDEM_TEST_DISK` and `TANDEM_TEST_SSD` name a disk with a mounted file system and an empty SSD
//! that may be lost (kernel names, such as `sda1` and `sdb`; run as root, in the VM).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::{LIMIT, Machine, spec, until};
use futures_util::StreamExt;
use std::time::Duration;
use tandem_api::*;

/// One machine and the pair of devices to work on. Real devices are there once: one test at a time.
struct Bench {
    machine: Machine,
    spec: PlanSpec,
    real: bool,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Bench {
    async fn new() -> Self {
        let alone = ALONE.lock().await;
        let names = (
            std::env::var("TANDEM_TEST_DISK"),
            std::env::var("TANDEM_TEST_SSD"),
        );
        let (machine, spec, real) = match names {
            (Ok(disk), Ok(ssd)) => (Machine::real().await, spec(&disk, &ssd), true),
            _ => (Machine::simulated().await, spec("sda1", "sdc"), false),
        };
        let this = Self {
            machine,
            spec,
            real,
            _alone: alone,
        };
        for cache in this.machine.caches().await {
            this.machine.remove(&cache).await.unwrap();
        }
        this
    }

    async fn points(&self) -> Vec<String> {
        self.machine.mounted(self.spec.origin.as_str()).await
    }

    async fn the_cache(&self) -> CacheProxy<'static> {
        let mut caches = self.machine.caches().await;
        assert_eq!(caches.len(), 1);
        caches.remove(0)
    }

    /// Nothing is left of any cache, and the disk is mounted where it was.
    async fn as_before(&self, points: &[String]) {
        assert!(self.machine.caches().await.is_empty());
        until("the disk at its place", async || {
            self.points().await == points
        })
        .await;
        // The SSD can be used again without agreeing to lose anything.
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
    assert_eq!(
        kinds,
        [
            StepKind::LoadModule,
            StepKind::Unmount,
            StepKind::Map,
            StepKind::Mount
        ]
    );
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
    // The one that was already on its way may still come.
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
    // A plan for one thing is none for another.
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
    // According to how far the first one is.
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
    let mut sleeper = None;
    if bench.real {
        let child = std::process::Command::new("/bin/sleep")
            .arg("600")
            .current_dir(&points[0])
            .spawn();
        sleeper = Some(child.unwrap());
    } else {
        let user = FileUser {
            pid: 4242,
            command: "sleep".into(),
            uid: 1000,
            user: "anna".into(),
        };
        bench
            .machine
            .simulation()
            .await
            .set_users(&bench.spec.origin, &[user])
            .await
            .unwrap();
    }
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
    if let Some(mut child) = sleeper {
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        bench
            .machine
            .simulation()
            .await
            .set_users(&bench.spec.origin, &[])
            .await
            .unwrap();
    }
    bench.as_before(&points).await;
}

#[tokio::test]
async fn removing_under_a_busy_file_system_frees_the_ssd() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    let mapped = cache.mapped().await.unwrap();
    let mut sleeper = None;
    if bench.real {
        let child = std::process::Command::new("/bin/sleep")
            .arg("600")
            .current_dir(&points[0])
            .spawn();
        sleeper = Some(child.unwrap());
    } else {
        let user = FileUser {
            pid: 4242,
            command: "sleep".into(),
            uid: 1000,
            user: "anna".into(),
        };
        bench
            .machine
            .simulation()
            .await
            .set_users(&mapped, &[user])
            .await
            .unwrap();
    }
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
    if let Some(mut child) = sleeper {
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        bench
            .machine
            .simulation()
            .await
            .set_users(&mapped, &[])
            .await
            .unwrap();
    }
    // Once nobody uses it, asking again ends on the plain disk.
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

/// Whether the machine's module knows write-back; the simulated one does.
fn knows_writeback(bench: &Bench) -> bool {
    !bench.real || std::env::var_os("TANDEM_TEST_WRITEBACK").is_some()
}

impl Bench {
    /// Has a cache in write-back with something on its SSD only.
    async fn dirty(&self) -> CacheProxy<'static> {
        let spec = PlanSpec {
            mode: Mode::Writeback,
            ..self.spec.clone()
        };
        self.machine.create(&spec).await.unwrap();
        let cache = self.the_cache().await;
        assert_eq!(cache.mode().await.unwrap(), Mode::Writeback);
        self.soil(&cache).await;
        cache
    }

    /// Has something on the SSD only.
    async fn soil(&self, cache: &CacheProxy<'_>) {
        cache.watch().await.unwrap();
        if self.real {
            let file = format!("{}/dirt", self.points_of(cache).await[0]);
            let status = std::process::Command::new("dd")
                .args(["if=/dev/urandom", "bs=4k", "count=4096", "oflag=direct"])
                .arg(format!("of={file}"))
                .status();
            assert!(status.unwrap().success());
        } else {
            self.machine.simulation().await.advance(20).await.unwrap();
        }
        until("something dirty", async || {
            cache.dirty_bytes().await.unwrap() > 0
        })
        .await;
    }

    async fn points_of(&self, cache: &CacheProxy<'_>) -> Vec<String> {
        cache.mount_points().await.unwrap()
    }

    async fn rate(&self, bytes: u64) {
        if !self.real {
            let simulation = self.machine.simulation().await;
            simulation.set_drain_rate(bytes).await.unwrap();
        }
    }

    async fn nothing_lost(&self) {
        if !self.real {
            let simulation = self.machine.simulation().await;
            assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
        }
    }
}

#[tokio::test]
async fn a_cache_in_write_back_is_drained_before_it_goes() {
    let bench = Bench::new().await;
    if !knows_writeback(&bench) {
        return;
    }
    let points = bench.points().await;
    let cache = bench.dirty().await;
    let plan = cache.plan_remove().await.unwrap();
    assert_eq!(plan.steps[0].kind, StepKind::Drain);
    assert!(plan.steps[0].bytes > 0);
    // Nothing has to be given up, so nothing can be.
    let refused = Failure::from(cache.plan_discard().await.unwrap_err());
    assert_eq!(refused.kind, Kind::WrongState);
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
    bench.as_before(&points).await;
}

#[tokio::test]
async fn the_mode_changes_under_a_mounted_file_system() {
    let bench = Bench::new().await;
    if !knows_writeback(&bench) {
        return;
    }
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.refused_modes().await.unwrap(), []);
    cache.set_mode(Mode::Writeback).await.unwrap();
    assert_eq!(cache.mode().await.unwrap(), Mode::Writeback);
    bench.soil(&cache).await;
    cache.set_mode(Mode::Writearound).await.unwrap();
    assert_eq!(cache.mode().await.unwrap(), Mode::Writearound);
    // What is dirty goes to the disk by itself, and then nothing has to be drained.
    bench.rate(1 << 40).await;
    until("all on the disk", async || {
        cache.dirty_bytes().await.unwrap() == 0
            && cache.plan_remove().await.unwrap().steps[0].kind != StepKind::Drain
    })
    .await;
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
}

#[tokio::test]
async fn a_flush_tells_how_far_it_is_waits_and_leaves_the_mode() {
    let bench = Bench::new().await;
    if !knows_writeback(&bench) {
        return;
    }
    let cache = bench.dirty().await;
    bench.rate(1_000_000).await;
    let path = cache.flush().await.unwrap();
    let job = bench.machine.job(path.clone()).await;
    assert_eq!(job.kind().await.unwrap(), JobKind::Flush);
    assert_eq!(cache.job().await.unwrap(), path);
    if !bench.real {
        until("a job that can wait", async || {
            job.pausable().await.unwrap()
        })
        .await;
        job.pause().await.unwrap();
        assert!(job.paused().await.unwrap());
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let (before, at) = (
            cache.dirty_bytes().await.unwrap(),
            job.progress().await.unwrap(),
        );
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(cache.dirty_bytes().await.unwrap(), before);
        assert!((job.progress().await.unwrap() - at).abs() < f64::EPSILON);
        job.resume().await.unwrap();
        until("progress", async || job.progress().await.unwrap() > at).await;
        until("a rate", async || job.rate_bytes().await.unwrap() > 0).await;
        let (rate, seconds) = (
            job.rate_bytes().await.unwrap(),
            job.estimated_seconds().await.unwrap(),
        );
        assert!((500_000..2_000_000).contains(&rate), "{rate}");
        let left = cache.dirty_bytes().await.unwrap() / 1_000_000;
        assert!(seconds.abs_diff(left) <= left / 4 + 2, "{seconds} {left}");
    }
    bench.rate(1 << 40).await;
    bench.machine.end(path).await.unwrap();
    assert_eq!(cache.mode().await.unwrap(), Mode::Writeback);
    // It is as if nothing had been asked: writes stay on the SSD again.
    bench.soil(&cache).await;
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
}

#[tokio::test]
async fn a_drain_that_is_cancelled_leaves_the_cache_as_it_was() {
    let bench = Bench::new().await;
    if !knows_writeback(&bench) || bench.real {
        return;
    }
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
        // Nothing else is done with the cache meanwhile.
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
async fn what_a_lost_ssd_had_is_given_up_by_name_only() {
    let bench = Bench::new().await;
    if !knows_writeback(&bench) || bench.real {
        return;
    }
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    simulation.unplug(&bench.spec.ssd).await.unwrap();
    until("the state", async || {
        cache.state_reason().await.unwrap() == "ssd-gone-dirty"
    })
    .await;
    let refused = Failure::from(cache.plan_remove().await.unwrap_err());
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::UnwrittenData, "ssd-gone-dirty")
    );
    assert!(refused.needed > 0);
    let plan = cache.plan_discard().await.unwrap();
    let kinds: Vec<_> = plan.warnings.iter().map(|w| w.kind).collect();
    assert!(kinds.contains(&WarningKind::LosesUnwritten));
    bench.nothing_lost().await;
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap();
    assert!(simulation.lost_bytes().await.unwrap() > 0);
    assert!(bench.machine.caches().await.is_empty());
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
        simulation.hold(&bench.spec.ssd, true).await.unwrap();
        None
    };
    let refused = bench.machine.plan(&bench.spec).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::SsdInUse, "exclusive")
    );
    if held.is_none() {
        let simulation = bench.machine.simulation().await;
        simulation.hold(&bench.spec.ssd, false).await.unwrap();
    }
    drop(held);
    bench.machine.plan(&bench.spec).await.unwrap();
}

#[tokio::test]
async fn write_back_is_not_offered_for_disks_that_others_read() {
    let bench = Bench::new().await;
    if bench.real {
        return;
    }
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
}

#[tokio::test]
async fn a_cache_comes_back_by_itself_with_what_is_on_its_ssd_only() {
    let bench = Bench::new().await;
    if bench.real {
        return;
    }
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    // Slow enough to be in the middle of a drain that waits.
    bench.rate(1_000).await;
    let path = cache.flush().await.unwrap();
    let job = bench.machine.job(path.clone()).await;
    until("the drain", async || job.pausable().await.unwrap()).await;
    job.pause().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let dirty = cache.dirty_bytes().await.unwrap();
    simulation.restart().await.unwrap();
    // The job of before fails, for its mapping is gone; the cache comes back, and what was dirty is there.
    until("the cache", async || {
        cache.state().await.unwrap() == CacheState::Active
            && cache.dirty_bytes().await.unwrap() >= dirty / 2
    })
    .await;
    bench.rate(1 << 40).await;
    bench.nothing_lost().await;
}

#[tokio::test]
async fn a_disk_that_was_used_without_its_ssd_is_not_overwritten() {
    let bench = Bench::new().await;
    if bench.real {
        return;
    }
    let cache = bench.dirty().await;
    let simulation = bench.machine.simulation().await;
    let disk = bench.spec.origin.clone();
    // The SSD is late, and somebody does not wait for it.
    simulation.set_module(ModuleState::Refused).await.unwrap();
    simulation.restart().await.unwrap();
    until("a stop", async || {
        cache.state().await.unwrap() == CacheState::Stopped
    })
    .await;
    simulation.mount(&disk, "/mnt").await.unwrap();
    until("the reason", async || {
        cache.state_reason().await.unwrap() == "disk-changed"
            || cache.state_reason().await.unwrap() == "module-refused"
    })
    .await;
    simulation.set_module(ModuleState::Loaded).await.unwrap();
    until("the reason", async || {
        cache.state_reason().await.unwrap() == "disk-changed"
    })
    .await;
    let refused = Failure::from(cache.plan_remove().await.unwrap_err());
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::UnwrittenData, "disk-changed")
    );
    bench.nothing_lost().await;
    let plan = cache.plan_discard().await.unwrap();
    let job = cache.remove(&plan.plan_id, &plan.digest).await.unwrap();
    bench.machine.end(job).await.unwrap();
    assert!(bench.machine.caches().await.is_empty());
}
