// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache gets more or less of its SSD in its place, and a step fails, or the service or the machine stops at any moment.
//! The cache works at each moment, with the old size or with the new one.

use crate::resize::{AFTER, Impatient, Share};
use std::time::Duration;
use tandem_api::*;
use tandem_helper::host::traits::{Computer, Mappings};
use tandem_helper::service::apply::{self, Unwatched};

use crate::UUID;

const LESS: u64 = 1 << 30;

const WAYS: [[u64; 2]; 2] = [[AFTER, LESS], [LESS, AFTER]];

async fn share(name: &str, mode: Mode, sizes: [u64; 2]) -> Share {
    let name = format!("in-place-{name}-{mode}-{}", sizes[0] >> 30);
    Share::with(&name, mode, sizes, false).await
}

async fn used(share: &Share) -> u64 {
    let status = share.host.status(UUID).await.unwrap();
    status.sample.frames_used
}

#[tokio::test(start_paused = true)]
async fn a_share_that_stays_in_its_place_keeps_copies_while_its_disk_stays_mounted() {
    for mode in super::common::modes() {
        for sizes in WAYS {
            let share = share("whole", mode, sizes).await;
            let before = used(&share).await;
            let boot = share.host.boot_id();
            let job = apply::run(&share.host, &share.store, &share.plan, 0, &Unwatched);
            job.await.unwrap();
            assert_eq!(share.state().await, "new");
            assert!(share.is_mounted().await);
            let after = used(&share).await;
            assert!(after > 0 && after <= before, "{before}, then {after}");
            let record = share.store.caches().remove(0);
            let made = record.pair.partition.unwrap();
            assert_eq!((made.size, made.new_table), (sizes[1], true));
            assert!(!record.pair.copies_stale && record.detached_in.is_none());
            assert_eq!(share.host.boot_id(), boot);
            // New writes stay on the SSD only, as before.
            share.world.set_drain_rate(50_000_000);
            share.world.advance(Duration::from_secs(20));
            let status = share.host.status(UUID).await.unwrap();
            assert_eq!(status.sample.dirty_sectors > 0, mode == Mode::Writeback);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_job_is_finished() {
    for mode in super::common::modes() {
        for sizes in WAYS {
            for (at, after) in (0..4).flat_map(|at| [(at, false), (at, true)]) {
                let what = format!("killed-{at}-{after}");
                let share = share(&what, mode, sizes).await;
                let died = share.die(at, after).await;
                assert_eq!(died, at < share.plan.actions.len(), "{what}");
                share.world.advance(Duration::from_secs(20));
                share.recover().await;
                assert_eq!(share.state().await, "new", "{what}");
                assert!(used(&share).await > 0 && share.is_mounted().await, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_power_cut_the_cache_starts_whatever_was_done() {
    for mode in super::common::modes() {
        for sizes in WAYS {
            for (at, after) in (0..4).flat_map(|at| [(at, false), (at, true)]) {
                let what = format!("cut-{at}-{after}");
                let share = share(&what, mode, sizes).await;
                share.die(at, after).await;
                share.world.advance(Duration::from_secs(20));
                assert!(share.start_again().await, "{what}: the cache is gone");
                assert!(used(&share).await > 0, "{what}: the cache is empty");
                share.recover().await;
                assert_eq!(share.state().await, "new", "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_leaves_the_old_size() {
    for mode in super::common::modes() {
        for sizes in WAYS {
            let count = share("count", mode, sizes).await;
            for (at, step) in count.plan.reply.steps.iter().enumerate() {
                let what = format!("fails-{at}");
                let share = share(&what, mode, sizes).await;
                share.world.fail_next(step.kind);
                let job = apply::run(&share.host, &share.store, &share.plan, 0, &Unwatched);
                let failure = job.await.unwrap_err();
                assert_eq!(failure.name, step.kind.as_str(), "{what}");
                assert_eq!(failure.data, DataState::Unchanged, "{what}");
                assert_eq!(share.state().await, "old", "{what}");
                assert!(used(&share).await > 0 && share.is_mounted().await, "{what}");
                share.world.set_drain_rate(50_000_000);
                share.world.advance(Duration::from_secs(20));
                let status = share.host.status(UUID).await.unwrap();
                let dirty = status.sample.dirty_sectors > 0;
                assert_eq!(dirty, mode == Mode::Writeback, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_cancelled_leaves_the_cache_as_it_was() {
    let share = share("cancelled", Mode::Writeback, WAYS[0]).await;
    share.world.set_drain_rate(1_000);
    let job = apply::run(&share.host, &share.store, &share.plan, 0, &Impatient);
    let failure = job.await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.data),
        (Kind::Cancelled, DataState::Unchanged)
    );
    assert_eq!(share.state().await, "old");
}
