// SPDX-License-Identifier: GPL-3.0-or-later
//! Other systems of the simulated machine: they write a cache back as fast as the disks accept, and can be stopped.

use super::Simulated;
use super::other_traffic::reading;
use super::world::{OtherRun, Scene};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Instant;
use tandem_api::{Failure, Kind, OtherCache, OtherKind, OtherMode, OtherState, StepKind};
use tandem_helper::host::traits::Others;
use tandem_helper::model::facts::Facts;
use tandem_helper::model::other_reading::OtherSeen;
use tandem_helper::model::removal::{OtherProgress, OtherRemoval, OtherTask};

impl Scene {
    fn other_cache(&mut self, id: &str) -> Option<&mut OtherCache> {
        self.others.iter_mut().find(|cache| cache.id == id)
    }

    fn begin_other(&mut self, removal: &OtherRemoval) -> Result<(), Failure> {
        if self.removals.contains_key(&removal.id) {
            return Ok(());
        }
        let fails = self.fail_next == Some(StepKind::Drain);
        if fails {
            self.fail_next = None;
        }
        let cache = self.other_cache(&removal.id);
        let cache = cache.ok_or_else(|| Failure::new(Kind::DeviceChanged))?;
        let mode = cache.mode;
        cache.state = OtherState::Cleaning;
        // A write cache has one mode only.
        if !matches!(
            cache.kind,
            OtherKind::LvmWritecache | OtherKind::DmWritecache
        ) {
            cache.mode = OtherMode::Writethrough;
        }
        let run = OtherRun {
            begun: Instant::now(),
            bytes: cache.unwritten_bytes,
            mode,
            fails,
            stopped: false,
        };
        self.removals.insert(removal.id.clone(), run);
        Ok(())
    }

    fn other_progress(&mut self, removal: &OtherRemoval) -> OtherProgress {
        let Some(run) = self.removals.get(&removal.id) else {
            return OtherProgress::Drains(None);
        };
        let written = run.begun.elapsed().as_secs_f64() * self.drain_rate as f64;
        let left = run.bytes.saturating_sub(written as u64);
        let (stopped, fails, mode) = (run.stopped, run.fails, run.mode);
        // LVM leaves a write cache that it was stopped at writing.
        let goes_on = removal.kind == OtherKind::LvmWritecache;
        if let Some(cache) = self.other_cache(&removal.id) {
            cache.unwritten_bytes = left;
            if (stopped || fails) && !goes_on {
                (cache.state, cache.mode) = (OtherState::Working, mode);
            }
        }
        if stopped {
            let cancelled = removal.cancelled();
            let cancelled = cancelled.name(if goes_on { "cleaner" } else { "" });
            return OtherProgress::Ended(Err(Box::new(cancelled)));
        }
        if fails {
            let why = format!("  Flushing of {} aborted.", removal.name);
            return OtherProgress::Ended(Err(Box::new(removal.not_drained(why))));
        }
        if left > 0 {
            return OtherProgress::Drains(Some(left));
        }
        match removal.task {
            OtherTask::Remove | OtherTask::MakePlain => {
                self.others.retain(|cache| cache.id != removal.id)
            }
            OtherTask::WriteBack => {
                if let Some(cache) = self.other_cache(&removal.id) {
                    (cache.state, cache.mode) = (OtherState::Working, mode);
                }
            }
        }
        OtherProgress::Ended(Ok(()))
    }
}

#[async_trait]
impl Others for Simulated {
    async fn other_caches(&self, _facts: Arc<Facts>) -> Vec<OtherSeen> {
        let passed = *self.world.passed.borrow();
        let all = self.world.read(|scene| scene.others.clone());
        let seen = |cache: OtherCache| OtherSeen {
            reading: Some(reading(&cache, passed)),
            cache,
        };
        all.into_iter().map(seen).collect()
    }

    async fn begin_removal(&self, removal: &OtherRemoval) -> Result<(), Failure> {
        self.world.change(|scene| scene.begin_other(removal))
    }

    async fn removal_progress(&self, removal: &OtherRemoval) -> Result<OtherProgress, Failure> {
        Ok(self.world.read_mut(|scene| scene.other_progress(removal)))
    }

    async fn stop_removal(&self, removal: &OtherRemoval) -> Result<(), Failure> {
        self.world.read_mut(|scene| {
            if let Some(run) = scene.removals.get_mut(&removal.id) {
                run.stopped = true;
            }
        });
        Ok(())
    }

    async fn forget_removal(&self, removal: &OtherRemoval) {
        self.world
            .read_mut(|scene| scene.removals.remove(&removal.id));
    }
}
