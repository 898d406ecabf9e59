// SPDX-License-Identifier: GPL-3.0-or-later
//! LVM of the simulated machine: it writes a cache back as fast as the disks accept, and can be stopped.

use super::Simulated;
use super::world::{LvmRun, Scene};
use async_trait::async_trait;
use std::time::Instant;
use tandem_api::{Failure, Kind, OtherCache, OtherKind, OtherState, StepKind};
use tandem_helper::host::traits::Lvm;
use tandem_helper::model::lvm::{LvmEnd, LvmProgress, LvmRemoval};

/// Bytes of a block that LVM counts.
const BLOCK: u64 = 64 << 10;
/// The exit status of a command of LVM that has failed.
const FAILED: i32 = 5;

impl Scene {
    fn lvm_cache(&mut self, id: &str) -> Option<&mut OtherCache> {
        self.others.iter_mut().find(|cache| cache.id == id)
    }

    fn begin_lvm(&mut self, removal: &LvmRemoval) -> Result<(), Failure> {
        if self.lvm.contains_key(&removal.id) {
            return Ok(());
        }
        let fails = self.fail_next == Some(StepKind::Drain);
        if fails {
            self.fail_next = None;
        }
        let cache = self.lvm_cache(&removal.id);
        let cache = cache.ok_or_else(|| Failure::new(Kind::DeviceChanged))?;
        cache.state = OtherState::Cleaning;
        let run = LvmRun {
            begun: Instant::now(),
            bytes: cache.unwritten_bytes,
            fails,
            stopped: false,
        };
        self.lvm.insert(removal.id.clone(), run);
        Ok(())
    }

    fn lvm_progress(&mut self, removal: &LvmRemoval) -> LvmProgress {
        let Some(run) = self.lvm.get(&removal.id) else {
            return LvmProgress::default();
        };
        let written = run.begun.elapsed().as_secs_f64() * self.drain_rate as f64;
        let left = run.bytes.saturating_sub(written as u64);
        let (interrupted, over) = (run.stopped || run.fails, left == 0);
        if let Some(cache) = self.lvm_cache(&removal.id) {
            cache.unwritten_bytes = left;
            if interrupted && removal.kind == OtherKind::LvmCache {
                cache.state = OtherState::Working;
            }
        }
        let blocks_left = Some(left.div_ceil(BLOCK));
        let ended = (interrupted || over).then(|| {
            if !interrupted {
                self.others.retain(|cache| cache.id != removal.id);
            }
            LvmEnd {
                status: Some(if interrupted { FAILED } else { 0 }),
                cached: Some(interrupted),
                said: format!("  Flushing of {} aborted.", removal.volume),
            }
        });
        LvmProgress { blocks_left, ended }
    }
}

#[async_trait]
impl Lvm for Simulated {
    async fn begin_removal(&self, removal: &LvmRemoval) -> Result<(), Failure> {
        self.world.change(|scene| scene.begin_lvm(removal))
    }

    async fn removal_progress(&self, removal: &LvmRemoval) -> Result<LvmProgress, Failure> {
        Ok(self.world.read_mut(|scene| scene.lvm_progress(removal)))
    }

    async fn stop_removal(&self, removal: &LvmRemoval) -> Result<(), Failure> {
        self.world.read_mut(|scene| {
            if let Some(run) = scene.lvm.get_mut(&removal.id) {
                run.stopped = true;
            }
        });
        Ok(())
    }

    async fn forget_removal(&self, removal: &LvmRemoval) {
        self.world.read_mut(|scene| scene.lvm.remove(&removal.id));
    }
}
