// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches in write-back: modes, flushes and removals while data is on the SSD only.

use crate::Bench;
use crate::common::until;
use std::time::Duration;
use tandem_api::*;

impl Bench {
    /// Creates a cache in write-back and writes data that is on the SSD only.
    pub async fn dirty(&self) -> CacheProxy<'static> {
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

    /// Writes data that is then on the SSD only.
    pub async fn soil(&self, cache: &CacheProxy<'_>) {
        cache.watch().await.unwrap();
        if self.real {
            let file = format!("{}/dirt", self.points_of(cache).await[0]);
            let status = std::process::Command::new("dd")
                .args([
                    "if=/dev/urandom",
                    "bs=4k",
                    "count=4096",
                    "oflag=direct",
                    "status=none",
                ])
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

    pub async fn points_of(&self, cache: &CacheProxy<'_>) -> Vec<String> {
        cache.mount_points().await.unwrap()
    }

    pub async fn rate(&self, bytes: u64) {
        if !self.real {
            let simulation = self.machine.simulation().await;
            simulation.set_drain_rate(bytes).await.unwrap();
        }
    }

    pub async fn nothing_lost(&self) {
        if !self.real {
            let simulation = self.machine.simulation().await;
            assert_eq!(simulation.lost_bytes().await.unwrap(), 0);
        }
    }
}

/// Waits until the reason of the cache's state is `word`.
pub async fn reason(cache: &CacheProxy<'_>, word: &str) {
    until(word, async || cache.state_reason().await.unwrap() == word).await;
}

#[tokio::test]
async fn a_cache_in_write_back_is_drained_before_it_goes() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    let cache = bench.dirty().await;
    let plan = cache.plan_remove().await.unwrap();
    assert_eq!(plan.steps[0].kind, StepKind::Drain);
    assert!(plan.steps[0].bytes > 0);
    // The data can be written to the disk, so it cannot be given up.
    let refused = Failure::from(cache.plan_discard().await.unwrap_err());
    assert_eq!(refused.kind, Kind::WrongState);
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
    bench.as_before(&points).await;
}

#[tokio::test]
async fn a_file_system_in_use_stays_mounted_while_its_ssd_is_drained_and_freed() {
    let bench = Bench::new().await;
    let points = bench.points().await;
    let cache = bench.dirty().await;
    let mapped = cache.mapped().await.unwrap();
    let sleeper = bench.occupy(&mapped, &points[0]).await;
    let plan = cache.plan_remove().await.unwrap();
    let kinds: Vec<_> = plan.steps.iter().map(|step| step.kind).collect();
    assert_eq!(
        kinds,
        [StepKind::Drain, StepKind::Detach, StepKind::FreeSsd]
    );
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
    until("the state", async || {
        cache.state().await.unwrap() == CacheState::Detached
    })
    .await;
    assert_eq!(bench.machine.mounted(mapped.as_str()).await, points);
    if bench.real {
        // A write now goes to the plain disk, through the same mount.
        std::fs::write(format!("{}/after", points[0]), "x").unwrap();
    }
    bench.leave(&mapped, sleeper).await;
    bench.machine.remove(&cache).await.unwrap();
    bench.as_before(&points).await;
}

#[tokio::test]
async fn the_mode_changes_under_a_mounted_file_system() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.refused_modes().await.unwrap(), []);
    cache.set_mode(Mode::Writeback).await.unwrap();
    assert_eq!(cache.mode().await.unwrap(), Mode::Writeback);
    bench.soil(&cache).await;
    cache.set_mode(Mode::Writearound).await.unwrap();
    assert_eq!(cache.mode().await.unwrap(), Mode::Writearound);
    // The module writes the dirty data to the disk by itself, and then a removal needs no drain.
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
    let cache = bench.dirty().await;
    bench.rate(1_000_000).await;
    let path = cache.flush().await.unwrap();
    let job = bench.machine.job(path.clone()).await;
    assert_eq!(job.kind().await.unwrap(), JobKind::Flush);
    // A real drain may be over before the test can query it.
    if !bench.real {
        until("the cache's job", async || {
            cache.job().await.unwrap() == path
        })
        .await;
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
    // After the flush, new writes stay on the SSD only again.
    bench.soil(&cache).await;
    bench.machine.remove(&cache).await.unwrap();
    bench.nothing_lost().await;
}

#[tokio::test]
async fn a_shutdown_may_take_so_many_minutes_to_write_everything() {
    let bench = Bench::new().await;
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    assert_eq!(cache.shutdown_minutes().await.unwrap(), 0);
    cache.set_shutdown_minutes(5).await.unwrap();
    assert_eq!(cache.shutdown_minutes().await.unwrap(), 5);
    let refused = Failure::from(cache.set_shutdown_minutes(26).await.unwrap_err());
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::InvalidArgument, "minutes")
    );
    // The setting is of the cache, and stays with its record.
    cache.set_mode(Mode::Writearound).await.unwrap();
    assert_eq!(cache.shutdown_minutes().await.unwrap(), 5);
    cache.set_shutdown_minutes(0).await.unwrap();
    assert_eq!(cache.shutdown_minutes().await.unwrap(), 0);
    bench.machine.remove(&cache).await.unwrap();
}
