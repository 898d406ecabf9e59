// SPDX-License-Identifier: GPL-3.0-or-later
//! Drains that meet an obstacle.

use crate::writeback::Dirty;
use crate::{UUID, removal};
use std::sync::Mutex;
use std::time::Duration;
use tandem_api::*;
use tandem_helper::host::traits::Mappings;
use tandem_helper::service::apply::{self, Drained, Watcher};

/// Calls a function at every query of the job. The result of the function says whether the job is paused.
struct Looking<F>(F);

impl<F: Fn(Option<Drained>) -> bool + Send + Sync> Watcher for Looking<F> {
    fn paused(&self) -> bool {
        self.0(None)
    }
    fn drained(&self, drained: Drained) {
        self.0(Some(drained));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_the_disk_refuses_ends_and_leaves_the_cache() {
    let Dirty {
        world,
        store,
        host,
        _folder,
    } = Dirty::new("refused", Some(1_000_000)).await;
    let plan = removal(&*host, &store).await;
    world.refuse_writes(UUID);
    let clock = Looking(|_: Option<Drained>| {
        world.advance(Duration::from_millis(250));
        false
    });
    let job = apply::run(&*host, &store, &plan, 0, &clock);
    let ended = tokio::time::timeout(Duration::from_secs(600), job).await;
    let failure = ended.expect("the drain ends").unwrap_err();
    assert_eq!(
        (failure.kind, failure.name.as_str(), failure.data),
        (Kind::UnwrittenData, "disk-error", DataState::Unwritten)
    );
    assert!(failure.needed > 0);
    assert_eq!(failure.device, plan.reply.ssd);
    // The cache goes on in its mode, and new writes stay on the SSD only.
    assert!(store.intents().is_empty());
    assert!(store.caches()[0].may_be_dirty);
    let before = host.status(UUID).await.unwrap().sample.write_back_sectors;
    world.advance(Duration::from_secs(20));
    let status = host.status(UUID).await.unwrap();
    assert_eq!(status.mode, Mode::Writeback);
    assert!(status.sample.write_back_sectors > before);
    assert_eq!(world.lost_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_ssd_is_lost_when_nothing_is_left_goes_on() {
    let Dirty {
        world,
        store,
        host,
        _folder,
    } = Dirty::new("lost-clean", Some(1 << 40)).await;
    let plan = removal(&*host, &store).await;
    let loses = Looking(|drained: Option<Drained>| {
        if drained.is_some_and(|drained| drained.left > 0) {
            world.advance(Duration::from_secs(1));
            world.lose_ssd(UUID);
        }
        false
    });
    apply::run(&*host, &store, &plan, 0, &loses).await.unwrap();
    assert!(store.caches().is_empty());
    assert_eq!(world.lost_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_cannot_be_recorded_is_one() {
    let Dirty {
        world,
        store,
        host,
        _folder,
    } = Dirty::new("unrecorded-pause", Some(1_000_000)).await;
    let plan = removal(&*host, &store).await;
    // The record of the job cannot be written, as on a full disk.
    let beside = _folder.0.join(format!("jobs/{UUID}.remove.new"));
    let lefts = Mutex::new(Vec::new());
    let pauses = Looking(|drained: Option<Drained>| {
        let mut lefts = lefts.lock().unwrap();
        if let Some(drained) = drained {
            lefts.push(drained.left);
            world.advance(Duration::from_secs(1));
        }
        match lefts.len() {
            1 if !beside.exists() => std::fs::create_dir(&beside).unwrap(),
            5 if beside.exists() => {
                std::fs::remove_dir(&beside).unwrap();
                world.set_drain_rate(1 << 40);
            }
            _ => {}
        }
        (1..5).contains(&lefts.len())
    });
    apply::run(&*host, &store, &plan, 0, &pauses).await.unwrap();
    let lefts = lefts.into_inner().unwrap();
    assert!(lefts[0] > 0);
    assert_eq!(lefts[1..5], [lefts[1]; 4], "it waits");
    assert!(store.caches().is_empty());
    assert_eq!(world.lost_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_drain_that_cannot_be_recorded_does_not_call_the_data_safe() {
    let Dirty {
        world,
        store,
        host,
        _folder,
    } = Dirty::new("unrecorded-refusal", Some(1_000_000)).await;
    let plan = removal(&*host, &store).await;
    world.refuse_writes(UUID);
    let record = _folder.0.join(format!("jobs/{UUID}.remove.json"));
    let spoils = Looking(|drained: Option<Drained>| {
        if drained.is_some() && record.is_file() {
            std::fs::remove_file(&record).unwrap();
            std::fs::create_dir(&record).unwrap();
        }
        world.advance(Duration::from_millis(250));
        false
    });
    let failure = apply::run(&*host, &store, &plan, 0, &spoils)
        .await
        .unwrap_err();
    assert!(record.is_dir());
    assert_eq!(
        (failure.kind, failure.data),
        (Kind::Internal, DataState::Unwritten)
    );
    assert_eq!(world.lost_bytes(), 0);
}
