// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine that exists only in memory: its drives can be plugged in and unplugged, its file systems can be mounted
//! and busy, and its caches warm up. All code above the engine is that of the real service.

mod catalogue;
mod counters;
mod dirt;
mod facts;
mod held;
mod levers;
mod mappings;
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
use tandem_api::{
    Failure, FileUser, Kind, Mode, ModuleProblem, ModuleState, NameChange, SECTOR_BYTES,
    SigningKey, StepKind,
};
use tandem_helper::action::{Action, MountDevice};
use tandem_helper::dm::message::{Flush, Message};
use tandem_helper::engine::{Engine, LiveMapping, Status};
use tandem_helper::facts::{Device, Facts, Mounter, StartEntry};
use tandem_helper::speed::{Pass, Work};
use tandem_helper::watch::Requests;
use tokio::time::{Instant, timeout};
use world::{Map, Scene, drive_path};

/// The engine over a [`World`].
pub struct Simulated {
    world: Arc<World>,
}

impl Simulated {
    /// An engine that changes `world`.
    pub fn new(world: Arc<World>) -> Self {
        Self { world }
    }
}

#[async_trait]
impl Engine for Simulated {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn kernel(&self) -> String {
        "6.1.0-simulated".to_owned()
    }

    fn boot_id(&self) -> String {
        self.world.read(|scene| scene.boot.clone())
    }

    async fn module_state(&self) -> ModuleState {
        let _question = self.world.questions.ask().await;
        self.world.read(|scene| scene.module)
    }

    async fn used_percent(&self, device: &Device) -> Result<Option<i32>, Failure> {
        let _question = self.world.questions.ask().await;
        let path = device.drive.clone().unwrap_or_default();
        Ok(self.world.read(|scene| {
            let drive = scene.drives.values().find(|d| drive_path(d) == path)?;
            Some(drive.health.used_percent).filter(|used| *used >= 0)
        }))
    }

    async fn module_problem(&self) -> (ModuleProblem, String) {
        let _question = self.world.questions.ask().await;
        let (state, problem) = self.world.read(|scene| (scene.module, scene.problem));
        let usual = match state {
            ModuleState::Loaded | ModuleState::Available => (ModuleProblem::None, String::new()),
            ModuleState::NotBuilt => {
                let log = "linux/map.c:7:1: error: unknown type name 'simulated'";
                (ModuleProblem::BuildFailed, log.to_owned())
            }
            ModuleState::Refused => (ModuleProblem::NotSigned, String::new()),
        };
        problem.map_or(usual, |problem| (problem, String::new()))
    }

    async fn signing_key(&self) -> SigningKey {
        let _question = self.world.questions.ask().await;
        self.world.read(|scene| scene.key)
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

    async fn enroll_key(&self, _password: &str) -> Result<(), Failure> {
        let _question = self.world.questions.ask().await;
        self.world.read_mut(|scene| scene.key = SigningKey::Pending);
        Ok(())
    }

    async fn kernels_without_module(&self) -> Vec<String> {
        let _question = self.world.questions.ask().await;
        self.world.read(|scene| scene.kernels.clone())
    }

    async fn facts(&self) -> Result<Facts, Failure> {
        let _question = self.world.questions.ask().await;
        Ok(self.world.read(Scene::facts))
    }

    fn sample_period(&self) -> Duration {
        self.world.read(|scene| scene.sample_period)
    }

    fn stall_limit(&self) -> Duration {
        self.world.read(|scene| scene.stall_limit)
    }

    async fn blank(&self, device: &Device) -> Result<bool, Failure> {
        let _question = self.world.questions.ask().await;
        Ok(self.world.read(|s| {
            s.blocks
                .get(&device.ident.text.name)
                .is_some_and(|b| b.blank)
        }))
    }

    async fn claimed(&self, device: &Device) -> Result<bool, Failure> {
        let _question = self.world.questions.ask().await;
        Ok(self.world.read(|s| {
            s.blocks
                .get(&device.ident.text.name)
                .is_some_and(|b| b.claimed)
        }))
    }

    async fn users(&self, device: &Device) -> Vec<FileUser> {
        let _question = self.world.questions.ask().await;
        self.world
            .read(|scene| scene.users(&device.ident.text.name))
    }

    async fn apply(&self, action: &Action) -> Result<(), Failure> {
        drop(self.world.questions.ask().await);
        self.world.pass_step_time().await;
        let result = self.world.change(|scene| perform(scene, action));
        self.world.synced().await;
        result
    }

    async fn send_message(&self, uuid: &str, message: Message) -> Result<(), Failure> {
        let _question = self.world.questions.ask().await;
        self.world.change(|scene| scene.send_message(uuid, message))
    }

    async fn grow(&self, uuid: &str, sectors: u64) -> Result<(), Failure> {
        let _question = self.world.questions.ask().await;
        self.world.change(|scene| {
            let dm = scene.maps.get(uuid).map(|map| map.dm.clone());
            let block = dm.and_then(|dm| scene.blocks.get_mut(&dm));
            let block = block.ok_or_else(|| Failure::new(Kind::WrongState))?;
            block.size = block.size.max(sectors * SECTOR_BYTES);
            Ok(())
        })
    }

    async fn live_mappings(&self) -> Result<Vec<LiveMapping>, Failure> {
        let _question = self.world.questions.ask().await;
        let live = |scene: &Scene, map: &Map| LiveMapping {
            uuid: map.pair.uuid.clone(),
            attached: map.attached,
            origin: map.origin.clone(),
            ssd: map.ssd.clone(),
            sectors: scene.blocks.get(&map.dm).map_or(0, |b| b.size) / SECTOR_BYTES,
        };
        Ok(self
            .world
            .read(|scene| scene.maps.values().map(|map| live(scene, map)).collect()))
    }

    async fn status(&self, uuid: &str) -> Result<Status, Failure> {
        self.world.read_mut(|scene| {
            let map = scene
                .maps
                .get_mut(uuid)
                .ok_or_else(|| Failure::new(Kind::WrongState))?;
            Ok(Status {
                state: map.state.as_str().to_owned(),
                reason: map.reason.clone(),
                mode: map.load.dirt.mode,
                sample: map.load.sample(),
            })
        })
    }

    async fn timed_reads(&self, device: &Device, pass: &Pass) -> Result<Vec<Duration>, Failure> {
        let _question = self.world.questions.ask().await;
        self.world.timed_reads(device, pass).await
    }

    async fn disk_work(&self, device: &Device) -> Option<Work> {
        let _question = self.world.questions.ask().await;
        self.world.read(|scene| scene.disk_work(device))
    }

    async fn requests(&self, device: &Device) -> Result<Box<dyn Requests>, Failure> {
        let _question = self.world.questions.ask().await;
        Ok(self.world.requests(device))
    }

    async fn changed(&self) {
        self.world.changed().await;
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

fn perform(scene: &mut Scene, action: &Action) -> Result<(), Failure> {
    if scene.fail_next == Some(action.kind()) {
        scene.fail_next = None;
        return Err(failed("simulated failure"));
    }
    match action {
        Action::LoadModule => load_module(scene),
        Action::Unmount(device, mount) => {
            let Some(name) = scene.mount_device(device) else {
                return Ok(());
            };
            let users = scene.users(&name);
            let text = scene.text(&name);
            let Some(block) = scene.blocks.get_mut(&name) else {
                return Ok(());
            };
            if !block.mounts.iter().any(|m| m.point == mount.point) {
                return Ok(());
            }
            if !users.is_empty() {
                return Err(Failure::new(Kind::FilesystemBusy)
                    .device(&text)
                    .mount_points(vec![mount.point.clone()])
                    .users(users));
            }
            block.mounts.retain(|m| m.point != mount.point);
            scene.written_by_unmount(&name);
            Ok(())
        }
        Action::Mount(device, mount) => {
            let name = scene
                .mount_device(device)
                .ok_or_else(|| failed("no such device"))?;
            if matches!(device, MountDevice::Origin(_)) && scene.has_holder(&name) {
                return Err(failed("device is busy"));
            }
            let block = scene
                .blocks
                .get_mut(&name)
                .ok_or_else(|| failed("no such device"))?;
            if !block.mounts.iter().any(|m| m.point == mount.point) {
                block.mounts.push(mount.clone());
            }
            Ok(())
        }
        Action::Erase(ident) => {
            let name = scene.locate(ident)?;
            scene.wipe(&name);
            Ok(())
        }
        Action::Map(pair) => scene.map(pair, true),
        Action::Prepare(pair) => scene.prepare(pair),
        // The simulated machine has no initial file systems.
        Action::UpdateInitramfs(_) => Ok(()),
        Action::Assemble(pair) => scene.map(pair, false),
        Action::EnableWriteback(pair) => {
            scene.send_message(&pair.uuid, Message::Mode(Mode::Writeback))
        }
        Action::Drain(pair) => scene.send_message(&pair.uuid, Message::Flush(Flush::Start)),
        Action::Detach(pair) => {
            scene.keep_dirt(&pair.uuid);
            if let Some(map) = scene.maps.get_mut(&pair.uuid) {
                map.attached = false;
            }
            Ok(())
        }
        Action::FreeSsd(pair) => {
            if let Ok(name) = scene.locate(&pair.ssd)
                && scene.blocks.get(&name).is_some_and(|b| b.uuid == pair.uuid)
            {
                scene.wipe(&name);
            }
            Ok(())
        }
        Action::CreatePartition(pair) => scene.create_partition(pair),
        Action::DeletePartition(pair) => scene.delete_partition(pair),
        Action::Hold(pair) => scene.hold(pair),
        Action::Unmap(pair) => scene.unmap(pair),
        Action::Disassemble(pair) => scene.disassemble(pair),
    }
}

fn load_module(scene: &mut Scene) -> Result<(), Failure> {
    let kernel = "6.1.0-simulated";
    match scene.module {
        ModuleState::NotBuilt => Err(Failure::new(Kind::ModuleNotBuilt).name(kernel)),
        ModuleState::Refused => Err(Failure::new(Kind::ModuleRefused).name(kernel)),
        ModuleState::Available | ModuleState::Loaded => {
            scene.module = ModuleState::Loaded;
            Ok(())
        }
    }
}
