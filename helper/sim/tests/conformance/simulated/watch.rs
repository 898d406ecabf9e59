// SPDX-License-Identifier: GPL-3.0-or-later
//! Watched disks: what is predicted for them, and what begins and ends a watch.

use crate::common::{block, until};
use crate::{Bench, refusal};
use tandem_api::*;

const DAY: u32 = 86_400;

async fn watches(bench: &Bench) -> Vec<DiskWatch> {
    bench.machine.manager().await.watches().await.unwrap()
}

/// The only watch, as soon as it fits.
async fn when(bench: &Bench, what: &str, fits: impl Fn(&DiskWatch) -> bool) -> DiskWatch {
    let mut found = None;
    until(what, async || {
        let mut all = watches(bench).await;
        assert_eq!(all.len(), 1, "{all:?}");
        found = all.pop().filter(&fits);
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// Waits until the watch counts requests. Time that passes before is not watched.
async fn counting(bench: &Bench) -> DiskWatch {
    when(bench, "the first request", |watch| watch.reads > 0).await
}

#[tokio::test]
async fn a_watched_disk_gets_a_curve_and_after_a_day_a_verdict() {
    let bench = Bench::simulated().await;
    let (manager, levers) = (
        bench.machine.manager().await,
        bench.machine.simulation().await,
    );
    assert_eq!(watches(&bench).await, []);
    let id = manager.watch_disk(&bench.spec.origin).await.unwrap();
    let new = when(&bench, "the watch", |_| true).await;
    assert_eq!(new.id, id);
    assert_eq!(new.disk.object, bench.spec.origin);
    assert_eq!(
        (new.state, new.verdict),
        (WatchState::Watching, Verdict::TooEarly)
    );
    assert!(new.since > 1_700_000_000);
    // A second call finds the first watch.
    let again = manager.watch_disk(&bench.spec.origin).await.unwrap();
    assert_eq!(again, id);

    counting(&bench).await;
    levers.advance(DAY / 2).await.unwrap();
    let early = when(&bench, "half a day", |w| w.watched_seconds >= 43_200).await;
    assert_eq!(early.verdict, Verdict::TooEarly);
    assert!((1..=43_200).contains(&early.wait_seconds), "{early:?}");
    assert!(early.reads > 10_000 && early.writes > 1000, "{early:?}");
    assert!(early.read_bytes > 10 << 30 && early.written_bytes > 1 << 30);

    levers.advance(2 * DAY).await.unwrap();
    let seen = when(&bench, "two days", |w| w.watched_seconds >= 216_000).await;
    assert_eq!((seen.verdict, seen.wait_seconds), (Verdict::Helps, 0));
    assert!(seen.reads > early.reads && seen.lost == 0);
    assert!(seen.points.len() > 4, "{seen:?}");
    let sizes: Vec<_> = seen.points.iter().map(|p| p.bytes).collect();
    assert!(sizes.is_sorted() && sizes.contains(&seen.enough_bytes));
    let share = |bytes| seen.at(bytes).unwrap().reads_permille;
    assert!(share(1 << 30) < share(16 << 30), "{seen:?}");
    let enough = seen.at(seen.enough_bytes).unwrap();
    assert!(enough.reads_permille >= 200, "{seen:?}");
    assert!(enough.reads_error < 200, "{seen:?}");

    manager.stop_watching(&id).await.unwrap();
    assert_eq!(watches(&bench).await, []);
    // A new watch knows nothing of the old one.
    manager.watch_disk(&bench.spec.origin).await.unwrap();
    let new = when(&bench, "the watch", |_| true).await;
    assert!(new.id != id && new.reads == 0 && new.watched_seconds < 1000);
}

#[tokio::test]
async fn a_disk_with_large_files_is_told_that_a_cache_does_not_help() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    manager.watch_disk(&block("sda2")).await.unwrap();
    counting(&bench).await;
    levers.advance(2 * DAY).await.unwrap();
    let seen = when(&bench, "two days", |w| w.verdict != Verdict::TooEarly).await;
    assert_eq!(seen.verdict, Verdict::MostlySequential);
    assert_eq!(seen.enough_bytes, 0);
    assert!(seen.sequential_bytes > seen.read_bytes / 2);
}

#[tokio::test]
async fn a_denied_user_begins_and_ends_no_watch() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    levers.set_authorized(false).await.unwrap();
    let refused = refusal(manager.watch_disk(&bench.spec.origin).await);
    assert_eq!(refused.0, Kind::NotAuthorized);
    assert_eq!(watches(&bench).await, [], "no watch has begun");
    levers.set_authorized(true).await.unwrap();
    let id = manager.watch_disk(&bench.spec.origin).await.unwrap();
    levers.set_authorized(false).await.unwrap();
    let refused = refusal(manager.stop_watching(&id).await);
    assert_eq!(refused.0, Kind::NotAuthorized);
    assert_eq!(watches(&bench).await.len(), 1, "the watch goes on");
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let bench = Bench::simulated().await;
    let manager = bench.machine.manager().await;
    for (disk, kind) in [
        (block("nowhere"), Kind::DeviceGone),
        (block("sda"), Kind::OriginPartitioned),
    ] {
        assert_eq!(refusal(manager.watch_disk(&disk).await).0, kind, "{disk}");
    }
    let nothing = refusal(manager.stop_watching("0123").await);
    assert_eq!(nothing, (Kind::WrongState, "not-watched".to_owned()));
    bench.machine.create(&bench.spec).await.unwrap();
    let cache = bench.the_cache().await;
    for disk in [&bench.spec.origin, &cache.mapped().await.unwrap()] {
        let refused = refusal(manager.watch_disk(disk).await);
        assert_eq!(refused.0, Kind::AlreadyCached);
        assert_eq!(refused.1.len(), 32, "the name is that of the cache");
    }
    assert_eq!(watches(&bench).await, []);
    bench.machine.remove(&cache).await.unwrap();
}

#[tokio::test]
async fn the_number_of_watched_disks_is_bounded() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    for number in 0..9 {
        let serial = format!("MANY{number}");
        let plugged = levers.plug("disk", "Many", &serial, 1 << 40).await.unwrap();
        let watched = manager.watch_disk(&plugged[1]).await;
        if number < 8 {
            watched.unwrap();
        } else {
            assert_eq!(refusal(watched).0, Kind::TooMany);
        }
    }
    assert_eq!(watches(&bench).await.len(), 8);
}

#[tokio::test]
async fn a_disk_that_gets_a_cache_is_watched_no_more() {
    let bench = Bench::simulated().await;
    let manager = bench.machine.manager().await;
    manager.watch_disk(&bench.spec.origin).await.unwrap();
    manager.watch_disk(&block("sda2")).await.unwrap();
    bench.machine.create(&bench.spec).await.unwrap();
    let other = when(&bench, "the end of the watch", |_| true);
    until("the end of the watch", async || {
        watches(&bench).await.len() == 1
    })
    .await;
    assert_eq!(other.await.disk.object, block("sda2"));
    bench
        .machine
        .remove(&bench.the_cache().await)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_watch_goes_on_after_the_service_was_killed() {
    let mut bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    let id = manager.watch_disk(&bench.spec.origin).await.unwrap();
    let stopped = manager.watch_disk(&block("sda2")).await.unwrap();
    manager.stop_watching(&stopped).await.unwrap();
    counting(&bench).await;
    levers.advance(2 * DAY).await.unwrap();
    let before = when(&bench, "two days", |w| w.watched_seconds >= 172_800).await;
    // The next state is saved after an hour more has been read, on a thread of its own.
    let state = bench.machine.watch_state(&id);
    let written = || state.metadata().and_then(|file| file.modified()).ok();
    let old = written();
    levers.advance(3600).await.unwrap();
    until("the saved state", async || written() > old).await;
    bench.machine.restart_service().await;
    let after = when(&bench, "the watch", |w| w.state == WatchState::Watching).await;
    assert_eq!((&after.id, after.since), (&id, before.since));
    assert!(after.reads > before.reads, "{after:?}");
    assert!(after.watched_seconds >= before.watched_seconds + 3600);
    assert_eq!(after.verdict, Verdict::Helps);
    // The watch goes on to count.
    let levers = bench.machine.simulation().await;
    when(&bench, "a request after the restart", |w| {
        w.reads > after.reads
    })
    .await;
    levers.advance(DAY).await.unwrap();
    when(&bench, "one day more", |w| w.reads > after.reads + 30_000).await;
}

#[tokio::test]
async fn a_service_that_ends_saves_what_it_has_seen() {
    let mut bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    let id = manager.watch_disk(&bench.spec.origin).await.unwrap();
    counting(&bench).await;
    // Too little time for a save while the service runs.
    levers.advance(300).await.unwrap();
    let before = when(&bench, "five minutes", |w| w.reads > 100).await;
    assert!(!bench.machine.watch_state(&id).exists());
    let pid = i32::try_from(bench.machine.pid()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    until("the end of the service", async || {
        manager.version().await.is_err()
    })
    .await;
    bench.machine.restart_service().await;
    let after = when(&bench, "the watch", |w| w.state == WatchState::Watching).await;
    assert_eq!(after.id, id);
    assert!(after.reads >= before.reads, "{after:?}");
    assert!(after.watched_seconds >= 300);
}

#[tokio::test]
async fn an_unplugged_disk_pauses_its_watch_and_another_disk_does_not_feed_it() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    manager.watch_disk(&bench.spec.origin).await.unwrap();
    counting(&bench).await;
    levers.advance(3600).await.unwrap();
    when(&bench, "an hour", |w| w.reads > 1000).await;
    levers.unplug(&bench.spec.origin).await.unwrap();
    let away = when(&bench, "the pause", |w| w.state == WatchState::Away).await;
    assert_eq!(away.disk.object.as_str(), "/");
    assert!(!away.disk.model.is_empty(), "the disk can still be named");
    // Another disk of the same model and size gets the name.
    let size = 4_000_000_000_000;
    let other = levers.plug("disk", &away.disk.model, "OTHER", size).await;
    assert_eq!(other.unwrap()[1], bench.spec.origin);
    levers.advance(DAY).await.unwrap();
    levers.plug("ssd", "New", "NEW", 1 << 37).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let still = when(&bench, "the watch", |_| true).await;
    assert_eq!(
        (still.state, still.reads, still.watched_seconds),
        (WatchState::Away, away.reads, away.watched_seconds)
    );
}

#[tokio::test]
async fn a_disk_that_is_back_is_watched_again() {
    let bench = Bench::simulated().await;
    let levers = bench.machine.simulation().await;
    let manager = bench.machine.manager().await;
    manager.watch_disk(&bench.spec.origin).await.unwrap();
    counting(&bench).await;
    levers.advance(3600).await.unwrap();
    let before = when(&bench, "an hour", |w| w.reads > 1000).await;
    levers.replug(&bench.spec.origin).await.unwrap();
    until("the disk", async || {
        watches(&bench).await[0].state == WatchState::Watching
    })
    .await;
    when(&bench, "a request to the disk", |w| w.reads > before.reads).await;
    levers.advance(3600).await.unwrap();
    let after = when(&bench, "an hour more", |w| w.reads > before.reads + 1000).await;
    assert_eq!(after.disk.object, bench.spec.origin);
}
