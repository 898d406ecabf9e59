// SPDX-License-Identifier: GPL-3.0-or-later
//! The service or the machine stops at any moment, and no data that is on the SSD only is lost.

use crate::mortal::Mortal;
use crate::{Folder, UUID, common, creation_in, removal, run_and_die, state};
use std::sync::Arc;
use std::time::Duration;
use tandem_api::*;
use tandem_helper::decide::plan::{self, Plan};
use tandem_helper::host::Host;
use tandem_helper::host::traits::Mappings;
use tandem_helper::machine::store::Store;
use tandem_helper::model::action::Action;
use tandem_helper::service::Service;
use tandem_helper::service::apply::{self, Unwatched, Watcher};
use tandem_simulated::{Simulated, World};

/// Lets programs use the cache in write-back for 20 seconds.
async fn work(world: &World, host: &dyn Host) {
    world.advance(Duration::from_secs(20));
    let status = host.status(UUID).await.unwrap();
    assert_eq!(status.mode, Mode::Writeback);
    assert!(status.sample.dirty_sectors > 0);
}

/// A cache in write-back with data on its SSD only.
pub struct Dirty {
    pub world: Arc<World>,
    pub store: Store,
    pub host: Arc<Simulated>,
    pub _folder: Folder,
}

impl Dirty {
    /// `rate`: bytes a second that a drain writes; `None`: the usual rate.
    pub async fn new(name: &str, rate: Option<u64>) -> Self {
        let world = Arc::new(World::default());
        world.set_step_time(Duration::ZERO);
        if let Some(rate) = rate {
            world.set_drain_rate(rate);
        }
        let folder = Folder::new(name);
        let store = Store::open(&folder.0).unwrap();
        let host = Arc::new(Simulated::new(world.clone()));
        let plan = creation_in(&*host, Mode::Writeback).await;
        apply::run(&*host, &store, &plan, 0, &Unwatched)
            .await
            .unwrap();
        work(&world, &*host).await;
        Self {
            world,
            store,
            host,
            _folder: folder,
        }
    }
}

// promise 32: programs/recovery::writeback::a_killed_creation_in_write_back_never_loses_what_is_on_the_ssd_only
#[tokio::test]
async fn a_killed_creation_in_write_back_never_loses_what_is_on_the_ssd_only() {
    for restarts in [false, true] {
        for at in 0..6 {
            for after in [false, true] {
                let world = Arc::new(World::default());
                world.set_step_time(Duration::ZERO);
                let folder = Folder::new(&format!("writeback-{restarts}-{at}-{after}"));
                let store = Store::open(&folder.0).unwrap();
                let host = Simulated::new(world.clone());
                let plan = creation_in(&host, Mode::Writeback).await;
                let last = plan.actions.len() - 1;
                assert!(matches!(plan.actions[last], Action::EnableWriteback(_)));
                let mortal = Mortal::new(&world, at, after);
                let job = apply::run(&mortal, &store, &plan, 0, &Unwatched);
                let died = mortal.until_death(job).await;
                assert_eq!(died, at <= last);
                // Programs go on to use the cache while the service is dead.
                world.advance(Duration::from_secs(20));
                if restarts {
                    world.restart();
                }
                for intent in store.intents() {
                    apply::recover(&host, &store, intent, &Unwatched)
                        .await
                        .unwrap();
                }
                let what = format!("at {at}, after {after}, restarts {restarts}");
                assert_eq!(world.lost_bytes(), 0, "{what}");
                assert!(store.intents().is_empty(), "{what}");
                let enabled = at > last || (at == last && after);
                let recorded = store.caches().pop();
                if enabled {
                    assert!(recorded.is_some_and(|r| r.may_be_dirty), "{what}");
                }
            }
        }
    }
}

// promise 32: programs/recovery::writeback::a_killed_removal_drains_first_and_loses_nothing
#[tokio::test]
async fn a_killed_removal_drains_first_and_loses_nothing() {
    for at in 0..8 {
        for after in [false, true] {
            let name = format!("drain-{at}-{after}");
            let Dirty {
                world,
                store,
                host,
                _folder,
            } = Dirty::new(&name, Some(u64::MAX / 4096)).await;
            let plan = removal(&*host, &store).await;
            assert_eq!(plan.actions.len(), 6);
            assert!(matches!(plan.actions[0], Action::Drain(_)));
            let died = run_and_die(&world, &store, &plan, at, after).await;
            assert_eq!(died, at < plan.actions.len());
            assert_eq!(state(&*host, &store).await, "plain");
            assert_eq!(world.lost_bytes(), 0, "at {at}, after {after}");
        }
    }
}

/// Cancels the job at once.
struct Impatient;

impl Watcher for Impatient {
    fn cancelled(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_drain_survives_a_start_of_the_machine_or_is_given_up_without_loss() {
    for abandons_cache in [false, true] {
        let Dirty {
            world,
            store,
            host,
            _folder,
        } = Dirty::new(&format!("restart-{abandons_cache}"), None).await;
        let host = &*host;
        let plan = removal(host, &store).await;
        assert!(run_dying(&world, &store, &plan).await);
        world.restart();
        // The cache is assembled beside the unfinished job.
        let intent = store.intents().pop().unwrap();
        assert!(intent.draining().is_some());
        let pair = store.caches().pop().unwrap().pair;
        let assembly = plan::assemble(&pair, &[]);
        apply::run(host, &store, &assembly, 0, &Unwatched)
            .await
            .unwrap();
        assert_eq!(store.intents(), std::slice::from_ref(&intent));
        let dirty = host.status(UUID).await.unwrap().sample.dirty_sectors;
        assert!(dirty > 0, "it came back with the SSD");
        if abandons_cache {
            let ended = apply::recover(host, &store, intent, &Impatient).await;
            assert_eq!(ended.unwrap_err().kind, Kind::Cancelled);
            // The cache is in write-back, as before the removal.
            work(&world, host).await;
            assert!(store.caches().pop().unwrap().may_be_dirty);
        } else {
            world.set_drain_rate(u64::MAX / 4096);
            apply::recover(host, &store, intent, &Unwatched)
                .await
                .unwrap();
            assert!(store.caches().is_empty() && host.live_mappings().await.unwrap().is_empty());
        }
        assert!(store.intents().is_empty());
        assert_eq!(world.lost_bytes(), 0);
    }
}

/// Runs a plan until its host dies after the first action.
pub async fn run_dying(world: &Arc<World>, store: &Store, plan: &Plan) -> bool {
    let mortal = Mortal::new(world, 0, true);
    mortal
        .until_death(apply::run(&mortal, store, plan, 0, &Unwatched))
        .await
}

#[tokio::test]
async fn nothing_is_detached_while_something_is_on_the_ssd_only() {
    let Dirty {
        world,
        store,
        host,
        _folder,
    } = Dirty::new("detach", None).await;
    let host = &*host;
    // A plan without a drain, such as a plan that was made before the cache was in write-back.
    let mut plan = removal(host, &store).await;
    plan.actions.retain(|a| !matches!(a, Action::Drain(_)));
    let refused = apply::run(host, &store, &plan, 0, &Unwatched)
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind, refused.data),
        (Kind::UnwrittenData, DataState::Unwritten)
    );
    assert_eq!(world.lost_bytes(), 0);
    assert!(store.intents().is_empty() && store.caches().len() == 1);
    // The user can give up the data explicitly.
    plan.discards = true;
    apply::run(host, &store, &plan, 0, &Unwatched)
        .await
        .unwrap();
    assert!(world.lost_bytes() > 0);
}

#[tokio::test]
async fn an_assembly_that_fails_keeps_the_cache_on_record() {
    let Dirty {
        world,
        store,
        host,
        _folder,
    } = Dirty::new("reassemble", None).await;
    let host = &*host;
    world.restart();
    let record = store.caches().pop().unwrap();
    for step in [StepKind::LoadModule, StepKind::Map] {
        world.fail_next(step);
        let plan = plan::assemble(&record.pair, &[]);
        apply::run(host, &store, &plan, 0, &Unwatched)
            .await
            .unwrap_err();
        assert_eq!(store.caches(), std::slice::from_ref(&record), "{step}");
        assert_eq!(world.lost_bytes(), 0);
    }
}

#[tokio::test]
async fn a_drain_goes_on_as_a_job_that_waits_if_it_did() {
    for restarts in [false, true] {
        let Dirty {
            world,
            store,
            host,
            _folder,
        } = Dirty::new(&format!("resume-{restarts}"), Some(1_000)).await;
        let plan = removal(&*host, &store).await;
        let mortal = Mortal::new(&world, 0, true);
        let job = apply::run(&mortal, &store, &plan, 0, &Unwatched);
        assert!(mortal.until_death(job).await);
        let mut intent = store.intents().remove(0);
        intent.paused = true;
        store.save_intent(&intent).unwrap();
        if restarts {
            world.restart();
        }

        let (machine, connection) = common::Machine::empty().await;
        let _service = Service::start(host, store.clone(), connection)
            .await
            .unwrap();
        let cache = machine.caches().await.remove(0);
        common::until("the job", async || {
            cache.job().await.unwrap().as_str() != "/"
        })
        .await;
        let mut path = cache.job().await.unwrap();
        common::until("a job that can be resumed", async || {
            path = cache.job().await.unwrap();
            let job = machine.job(path.clone()).await;
            job.paused().await.unwrap_or(false)
        })
        .await;
        let job = machine.job(path.clone()).await;
        assert_eq!(job.kind().await.unwrap(), JobKind::Remove);
        assert_eq!(job.steps().await.unwrap()[0].kind, StepKind::Drain);
        world.set_drain_rate(1 << 40);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(job.paused().await.unwrap());
        assert_eq!(cache.state().await.unwrap(), CacheState::Active);
        job.resume().await.unwrap();
        machine.end(path).await.unwrap();
        assert!(machine.caches().await.is_empty());
        assert!(store.intents().is_empty() && store.caches().is_empty());
        assert_eq!(world.lost_bytes(), 0);
    }
}
