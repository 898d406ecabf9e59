// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache gets another share of its SSD, and a step fails, or the service or the machine stops at any moment. The end
//! is the old cache, the new cache or the plain disk, and no data that is on the SSD only is lost.

use crate::mortal::Mortal;
use crate::{Folder, UUID, creation_on, facts, path};
use std::sync::Arc;
use std::time::Duration;
use tandem_api::*;
use tandem_helper::decide::plan::{self, Plan, ResizeInput, Unwritten};
use tandem_helper::host::traits::{Computer, Mappings};
use tandem_helper::machine::store::Store;
use tandem_helper::model::action::Action;
use tandem_helper::model::facts::Device;
use tandem_helper::model::record::CacheRecord;
use tandem_helper::service::apply::{self, Unwatched, Watcher};
use tandem_simulated::{Simulated, World};

const BEFORE: u64 = 1 << 30;
pub const AFTER: u64 = 3 << 30;
const POINT: &str = "/media/anna/Archive";

/// A cache on a share of its SSD, which programs have used, and the plan for its new size.
pub struct Share {
    pub world: Arc<World>,
    pub store: Store,
    pub host: Simulated,
    pub plan: Plan,
    /// Bytes of the share before the job, and after it.
    pub sizes: [u64; 2],
    _folder: Folder,
}

impl Share {
    /// The share moves.
    async fn new(name: &str, mode: Mode) -> Self {
        Self::with(name, mode, [BEFORE, AFTER], true).await
    }

    /// `enclosed`: there is no room beside the share.
    pub async fn with(name: &str, mode: Mode, sizes: [u64; 2], enclosed: bool) -> Self {
        let world = Arc::new(World::default());
        world.set_step_time(Duration::ZERO);
        let folder = Folder::new(&format!("resize-{name}"));
        let store = Store::open(&folder.0).unwrap();
        let host = Simulated::new(world.clone());
        let creation = creation_on(&host, mode, sizes[0]).await;
        apply::run(&host, &store, &creation, 0, &Unwatched)
            .await
            .unwrap();
        world.advance(Duration::from_secs(20));
        let status = host.status(UUID).await.unwrap();
        assert!(status.sample.frames_used > 0, "the cache is warm");
        assert_eq!(status.sample.dirty_sectors > 0, mode == Mode::Writeback);
        // From now on a drain takes no time.
        world.set_drain_rate(u64::MAX / 4096);
        let record = store.caches().remove(0);
        let mut facts = facts(&host).await;
        if enclosed {
            let mut neighbour = facts.same_hardware(&record.pair.ssd).unwrap().clone();
            neighbour.ident.start += sizes[0];
            neighbour.ident.text.object = path("sdc9");
            facts.devices.push(neighbour);
        }
        let input = ResizeInput {
            pair: &record.pair,
            bytes: sizes[1],
            mount_points: Vec::new(),
            unwritten: Unwritten {
                possible: record.may_be_dirty,
                ..Unwritten::default()
            },
            in_initramfs: false,
            keeps: crate::common::target() == Target::Tandem,
        };
        let plan = plan::resize(input, &facts).unwrap();
        Self {
            world,
            store,
            host,
            plan,
            sizes,
            _folder: folder,
        }
    }

    pub fn index(&self, kind: StepKind) -> usize {
        let steps = &self.plan.reply.steps;
        steps.iter().position(|step| step.kind == kind).unwrap()
    }

    /// Runs the job until the host dies at a call. Returns whether it died.
    pub async fn die(&self, at: usize, after: bool) -> bool {
        let mortal = Mortal::new(&self.world, at, after);
        let job = apply::run(&mortal, &self.store, &self.plan, 0, &Unwatched);
        mortal.until_death(job).await
    }

    /// Does what a start of the machine does: assembles the cache, if that is possible. Returns whether the cache
    /// works. Without it, programs use the disk alone.
    pub async fn start_again(&self) -> bool {
        self.world.restart();
        let Some(record) = self.store.caches().pop() else {
            return false;
        };
        let assembly = plan::assemble(&record.pair, &[]);
        let made = apply::run(&self.host, &self.store, &assembly, 0, &Unwatched).await;
        assert!(
            made.is_ok() || !record.may_be_dirty,
            "the disk would be held"
        );
        made.is_ok()
    }

    pub async fn recover(&self) {
        for intent in self.store.intents() {
            apply::recover(&self.host, &self.store, intent, &Unwatched)
                .await
                .unwrap();
        }
    }

    /// The state of the machine: `old`, `new`, `plain`, or `passing` for a mapping that leads to the plain disk. Panics
    /// in any other state.
    pub async fn state(&self) -> &'static str {
        assert_eq!(self.world.lost_bytes(), 0);
        assert!(self.store.intents().is_empty(), "the job is still recorded");
        let facts = facts(&self.host).await;
        let ssd = facts.device(path("sdc").as_str()).unwrap();
        let shares: Vec<_> = facts.partitions(ssd).map(|p| p.ident.text.size).collect();
        let live = self.host.live_mappings().await.unwrap();
        let record = self.store.caches().pop();
        match (live.as_slice(), record, shares.as_slice()) {
            ([], None, []) if ssd.blank => "plain",
            ([map], Some(record), []) if ssd.blank && !map.attached => {
                assert_eq!(record.detached_in, Some(self.host.boot_id()));
                assert!(!record.may_be_dirty);
                "passing"
            }
            ([map], Some(record), &[bytes]) if map.attached => {
                assert_eq!(record.pair.ssd.text.size, bytes);
                assert_eq!(record.pair.mode, self.plan.reply.mode);
                assert_eq!(record.may_be_dirty, record.pair.mode == Mode::Writeback);
                assert_eq!(record.detached_in, None);
                let status = self.host.status(UUID).await.unwrap();
                assert_eq!(status.mode, record.pair.mode);
                match self.sizes.iter().position(|size| *size == bytes) {
                    Some(0) => "old",
                    Some(_) => "new",
                    None => panic!("a share of {bytes}"),
                }
            }
            (live, record, shares) => panic!("in between: {live:?}, {record:?}, {shares:?}"),
        }
    }

    pub async fn is_mounted(&self) -> bool {
        let facts = facts(&self.host).await;
        let mapped = facts.device(path("dm_2d1").as_str());
        mapped.map(Device::mount_points) == Some(vec![POINT.to_owned()])
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_starts_empty_with_its_new_share_while_its_disk_stays_mounted() {
    for mode in super::common::modes() {
        let share = Share::new(&format!("whole-{mode}"), mode).await;
        let first = share.plan.reply.steps[0].kind;
        assert_eq!(first == StepKind::Drain, mode == Mode::Writeback);
        apply::run(&share.host, &share.store, &share.plan, 0, &Unwatched)
            .await
            .unwrap();
        assert_eq!(share.state().await, "new");
        assert!(share.is_mounted().await);
        let record = share.store.caches().remove(0);
        assert!(!record.pair.copies_stale, "the next start is warm");
        assert!(record.pair.partition.unwrap().new_table);
        let status = share.host.status(UUID).await.unwrap();
        assert!(status.sample.frames_used < 1000, "it starts empty");
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_resize_is_finished_while_its_disk_stays_mounted() {
    for mode in super::common::modes() {
        for at in 0..8 {
            for after in [false, true] {
                let what = format!("killed-{mode}-{at}-{after}");
                let share = Share::new(&what, mode).await;
                let died = share.die(at, after).await;
                assert_eq!(died, at < share.plan.actions.len(), "{what}");
                // Programs go on to use the disk while the service is dead.
                share.world.advance(Duration::from_secs(20));
                share.recover().await;
                assert_eq!(share.state().await, "new", "{what}");
                assert!(share.is_mounted().await, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_is_killed_again_while_it_is_finished_is_finished_all_the_same() {
    for restarts in [false, true] {
        for (first, second) in [(1, 0), (2, 0), (2, 1), (3, 1), (4, 0), (4, 2), (5, 1)] {
            for after in [false, true] {
                let what = format!("twice-{restarts}-{first}-{second}-{after}");
                let share = Share::new(&what, Mode::Writeback).await;
                assert!(share.die(first, after).await);
                if restarts {
                    share.start_again().await;
                }
                let mortal = Mortal::new(&share.world, second, after);
                for intent in share.store.intents() {
                    let recovery = apply::recover(&mortal, &share.store, intent, &Unwatched);
                    mortal.until_death(recovery).await;
                }
                share.recover().await;
                let state = share.state().await;
                assert!(state == "new" || (restarts && state == "plain"), "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_in_a_resize_leaves_the_old_cache_the_new_cache_or_the_plain_disk() {
    let mut seen = std::collections::BTreeSet::new();
    for mode in super::common::modes() {
        for at in 0..8 {
            for after in [false, true] {
                let what = format!("cut-{mode}-{at}-{after}");
                let share = Share::new(&what, mode).await;
                share.die(at, after).await;
                let detached = at >= share.index(StepKind::Detach);
                share.world.advance(Duration::from_secs(20));
                let works = share.start_again().await;
                let is_old = |record: &CacheRecord| record.pair.ssd.text.size == BEFORE;
                if works && detached && share.store.caches().iter().all(is_old) {
                    let status = share.host.status(UUID).await.unwrap();
                    let used = status.sample.frames_used;
                    assert!(used < 1000, "{what}: {used} old copies are believed");
                    seen.insert("old");
                }
                share.recover().await;
                let state = share.state().await;
                assert_eq!(works, state != "plain", "{what}: {state}");
                seen.insert(state);
            }
        }
    }
    // The old cache is assembled first, and then gets its new share.
    let seen: Vec<_> = seen.into_iter().collect();
    assert_eq!(seen, ["new", "old", "plain"]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_leaves_the_old_cache_or_a_mapping_that_leads_to_the_disk() {
    for mode in super::common::modes() {
        let count = Share::new(&format!("count-{mode}"), mode).await;
        for (at, step) in count.plan.reply.steps.iter().enumerate() {
            let what = format!("fails-{mode}-{at}");
            let share = Share::new(&what, mode).await;
            share.world.fail_next(step.kind);
            let job = apply::run(&share.host, &share.store, &share.plan, 0, &Unwatched);
            let failure = job.await.unwrap_err();
            assert_eq!(failure.name, step.kind.as_str(), "{what}");
            if step.kind == StepKind::EnableWriteback {
                // The new cache works; the service tries again later.
                assert_eq!(failure.data, DataState::Incomplete);
                share.recover().await;
                assert_eq!(share.state().await, "new");
                continue;
            }
            let (state, data) = match at <= share.index(StepKind::Detach) {
                true => ("old", DataState::Unchanged),
                false => ("passing", DataState::Removed),
            };
            assert_eq!(share.state().await, state, "{what}");
            assert_eq!(failure.data, data, "{what}");
            assert!(share.is_mounted().await, "{what}");
            if state == "old" {
                // The cache goes on in its mode, warm, and new writes stay on the SSD only as before.
                let record = share.store.caches().remove(0);
                assert!(!record.pair.copies_stale, "{what}");
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
async fn a_mapping_that_a_failed_resize_leaves_is_gone_after_a_start_of_the_machine() {
    let share = Share::new("passing", Mode::Writeback).await;
    share.world.fail_next(StepKind::CreatePartition);
    let job = apply::run(&share.host, &share.store, &share.plan, 0, &Unwatched);
    assert_eq!(job.await.unwrap_err().data, DataState::Removed);
    share.world.restart();
    let record = share.store.caches().remove(0);
    let nothing = tandem_helper::decide::lifecycle::Situation::nothing(
        tandem_helper::decide::lifecycle::Phase::Running,
    );
    let next = tandem_helper::decide::lifecycle::next(&record, &nothing);
    assert_eq!(next, tandem_helper::decide::lifecycle::Step::Forget);
}

#[tokio::test(start_paused = true)]
async fn a_cut_before_the_ssd_is_withdrawn_keeps_the_record_of_its_data() {
    let share = Share::new("withdrawn", Mode::Writeback).await;
    assert!(share.die(0, true).await);
    // The cut comes after the job is on record for the detachment, and before the record of the cache is changed.
    let mut intent = share.store.intents().remove(0);
    intent.done = share.index(StepKind::Detach);
    share.store.save_intent(&intent).unwrap();
    // The SSD is not there yet when the service starts.
    share.world.restart();
    share.recover().await;
    let record = share.store.caches().pop();
    let record = record.expect("the record of the only copy is gone");
    assert!(record.may_be_dirty && share.store.intents().is_empty());
    assert!(share.start_again().await);
    assert_eq!(share.state().await, "old");
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_was_given_up_is_not_gone_on_with() {
    let share = Share::new("given-up", Mode::Writethrough).await;
    let at = share.index(StepKind::CreatePartition);
    // The job as it was recorded when the step began.
    let other = Share::new("given-up-too", Mode::Writethrough).await;
    assert!(other.die(at, false).await);
    let intent = other.store.intents().remove(0);
    assert_eq!(intent.done, at);

    share.world.fail_next(StepKind::CreatePartition);
    let job = apply::run(&share.host, &share.store, &share.plan, 0, &Unwatched);
    assert_eq!(job.await.unwrap_err().data, DataState::Removed);
    // The service is killed after the cache is removed from the record, and before the job is.
    share.store.save_intent(&intent).unwrap();
    share.recover().await;
    assert_eq!(share.state().await, "passing");
}

#[tokio::test(start_paused = true)]
async fn a_cut_before_the_ssd_is_detached_keeps_a_cache_whose_devices_come_late() {
    let share = Share::new("late", Mode::Writethrough).await;
    assert!(share.die(share.index(StepKind::Detach), false).await);
    // The devices are not there yet when the service starts.
    share.world.restart();
    share.recover().await;
    assert!(share.start_again().await, "the cache is gone");
    assert_eq!(share.state().await, "old");
}

/// Cancels the job at once.
pub struct Impatient;

impl Watcher for Impatient {
    fn cancelled(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_is_cancelled_leaves_the_cache_as_it_was() {
    let share = Share::new("cancelled", Mode::Writeback).await;
    share.world.set_drain_rate(1_000);
    let job = apply::run(&share.host, &share.store, &share.plan, 0, &Impatient);
    let failure = job.await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.data),
        (Kind::Cancelled, DataState::Unchanged)
    );
    assert_eq!(share.state().await, "old");
}

#[tokio::test(start_paused = true)]
async fn an_old_plan_without_a_drain_leaves_the_ssd_of_a_dirty_cache_alone() {
    let mut share = Share::new("undrained", Mode::Writeback).await;
    share.world.set_drain_rate(1_000);
    let drains = |action: &Action| matches!(action, Action::Drain(_));
    share.plan.actions.retain(|action| !drains(action));
    let job = apply::run(&share.host, &share.store, &share.plan, 0, &Unwatched);
    let failure = job.await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.data),
        (Kind::UnwrittenData, DataState::Unwritten)
    );
    assert_eq!(share.state().await, "old");
}
