// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine that exists only in memory: its drives can be plugged in and unplugged, its file systems can be mounted
//! and busy, and its caches warm up. All code above the host is that of the real service.

mod catalogue;
mod counters;
mod dirt;
mod facts;
mod held;
mod levers;
mod mappings;
mod memory;
mod module;
mod other_traffic;
mod others;
mod partitions;
mod questions;
mod requests;
mod speed;
mod udisks;
mod world;

pub use levers::serve;
pub use world::World;

use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{Failure, Kind, NameChange, SECTOR_BYTES, StepKind};
use tandem_helper::host::traits::Computer;
use tandem_helper::model::facts::{Mounter, StartEntry};
use tokio::time::{Instant, timeout};
use world::{Block, block_path};

/// The host over a [`World`].
pub struct Simulated {
    world: Arc<World>,
}

impl Simulated {
    /// A host that changes `world`.
    pub fn new(world: Arc<World>) -> Self {
        Self { world }
    }
}

#[async_trait]
impl Computer for Simulated {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn boot_id(&self) -> String {
        self.world.read(|scene| scene.boot.clone())
    }

    async fn changed(&self) {
        self.world.changed().await;
    }

    async fn change_names(&self, changes: &[NameChange]) -> Result<String, Failure> {
        let _question = self.world.questions.ask().await;
        self.world.change(|scene| {
            for block in scene.blocks.values_mut() {
                for mount in &mut block.mounts {
                    let fits = |c: &&NameChange| {
                        c.entry == mount.point && mount.mounter == Mounter::Fstab(c.before.clone())
                    };
                    if let Some(change) = changes.iter().find(fits) {
                        mount.mounter = Mounter::Fstab(change.after.clone());
                    }
                }
                let is_meant = |entry: &StartEntry| {
                    let fits =
                        |c: &NameChange| c.file == entry.table.file() && c.entry == entry.target;
                    changes.iter().any(fits)
                };
                // The new names need no further change.
                block.other_entries.retain(|entry| !is_meant(entry));
            }
        });
        let file = changes.first().map_or("", |change| change.file.as_str());
        Ok(format!("{file}.before-tandem"))
    }
}

impl World {
    /// How long each action takes from now on, the action that is being done included.
    pub fn set_step_time(&self, time: Duration) {
        self.step_time.send_replace(time);
    }

    async fn pass_step_time(&self) {
        let begun = Instant::now();
        let mut time = self.step_time.subscribe();
        loop {
            let left = time.borrow_and_update().saturating_sub(begun.elapsed());
            if timeout(left, time.changed()).await.is_err() {
                return;
            }
        }
    }

    /// How long a drain waits from now on for a disk that fails all writes.
    pub fn set_stall_limit(&self, time: Duration) {
        self.read_mut(|scene| scene.stall_limit = time);
    }

    /// A device that is not mounted is pulled out.
    pub fn pull_out(&self, name: &str) {
        self.change(|scene| {
            let gone = scene.blocks.remove(name);
            scene
                .away
                .extend(gone.map(|gone| (name.to_owned(), gone, None)));
            scene.halt_orphans();
        });
    }

    /// A device with this object path that was pulled out comes back, as another one for the kernel. False: there is none.
    pub fn put_back(&self, object: &str) -> bool {
        self.change(|scene| {
            let back = scene
                .away
                .iter()
                .position(|(name, ..)| block_path(name) == object);
            let Some((name, block, drive)) = back.map(|index| scene.away.remove(index)) else {
                return false;
            };
            scene.next_diskseq += 1;
            let diskseq = scene.next_diskseq;
            scene
                .drives
                .extend(drive.map(|drive| (block.drive.clone(), drive)));
            scene.blocks.insert(name, Block { diskseq, ..block });
            true
        })
    }

    /// The machine is switched off and on again. Then no cache is assembled, and only the file systems of fstab are
    /// mounted.
    pub fn restart(&self) {
        self.change(|scene| scene.restart());
    }

    /// Lets time pass for all caches and watched disks at once.
    pub fn advance(&self, time: Duration) {
        self.pass(time);
        self.read_mut(|scene| {
            for map in scene.maps.values_mut() {
                map.load.advance(time);
            }
        });
    }

    /// Bytes that were on an SSD only and are lost.
    pub fn lost_bytes(&self) -> u64 {
        self.read(|scene| scene.lost.saturating_mul(SECTOR_BYTES))
    }

    /// How fast the caches drain from now on, bytes a second.
    pub fn set_drain_rate(&self, bytes: u64) {
        self.read_mut(|scene| {
            scene.drain_rate = bytes;
            for map in scene.maps.values_mut() {
                map.load.catch_up();
                map.load.dirt.rate = bytes;
            }
        });
    }

    /// From now on the SSD of a cache does not answer.
    pub fn lose_ssd(&self, uuid: &str) {
        self.change(|scene| {
            if let Some(map) = scene.maps.get_mut(uuid) {
                map.lose_ssd();
            }
        });
    }

    /// From now on the disk of a cache fails all writes.
    pub fn refuse_writes(&self, uuid: &str) {
        self.change(|scene| {
            if let Some(map) = scene.maps.get_mut(uuid) {
                map.load.catch_up();
                map.load.dirt.refused = true;
                map.reason = "disk-error".to_owned();
            }
        });
    }

    /// The next action of this kind fails.
    pub fn fail_next(&self, step: StepKind) {
        self.read_mut(|scene| scene.fail_next = Some(step));
    }
}

fn failed(detail: &str) -> Failure {
    Failure::new(Kind::StepFailed).detail(detail)
}
