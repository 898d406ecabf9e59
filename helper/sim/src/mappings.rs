// SPDX-License-Identifier: GPL-3.0-or-later
//! Simulated mappings: made, changed by messages and by what their devices do, removed, and gone after a restart of the
//! machine.

use super::counters::{Flow, Load};
use super::dirt::Dirt;
use super::module::load_module;
use super::world::{Block, Map, Scene, number};
use super::{Simulated, failed};
use async_trait::async_trait;
use std::time::Duration;
use tandem_api::{CacheState, Failure, Kind, Mode, ModuleState, SECTOR_BYTES, SigningKey, Target};
use tandem_helper::host::traits::Mappings;
use tandem_helper::machine::dm::dm_cache::takes;
use tandem_helper::machine::dm::message::{Flush, Message};
use tandem_helper::model::action::{Action, MountDevice, Pair};
use tandem_helper::model::facts::Mounter;
use tandem_helper::model::live::{LiveMapping, Status};

/// Sectors that a file system writes while it is unmounted: superblock, journal, and data in memory.
const UNMOUNT_SECTORS: u64 = 64;

#[async_trait]
impl Mappings for Simulated {
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
            let mut sample = map.load.sample();
            if map.pair.target == Target::DmCache {
                // dm-cache has no journal, skips nothing, and measures no latencies.
                let counted = ["evictions", "fills"];
                sample.events.retain(|e| counted.contains(&e.name.as_str()));
                (sample.journal_used, sample.journal_total) = (0, 0);
                (sample.ssd_latency, sample.disk_latency) = Default::default();
                for way in [&mut sample.read, &mut sample.write] {
                    way.missed += way.bypassed_sectors();
                    way.bypassed.clear();
                }
            }
            Ok(Status {
                state: map.state.as_str().to_owned(),
                reason: map.reason.clone(),
                mode: map.load.dirt.mode,
                sample,
            })
        })
    }

    fn stall_limit(&self) -> Duration {
        self.world.read(|scene| scene.stall_limit)
    }
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
            let name = match device {
                MountDevice::Origin(ident) => scene.locate(ident)?,
                MountDevice::Mapping(pair) => scene
                    .mapped(&pair.uuid)
                    .ok_or_else(|| failed("no such device"))?,
            };
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
            scene.locate(&pair.origin)?;
            scene.keep_dirt(&pair.uuid);
            if let Some(map) = scene.maps.get_mut(&pair.uuid) {
                map.attached = false;
            }
            Ok(())
        }
        Action::FreeSsd(pair) if pair.ssd.is_memory() => scene.give_back_memory(pair),
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
        Action::ResizePartition(pair) => scene.resize_partition(pair),
        Action::ResizeCache(pair) => scene.resize_cache(pair),
        Action::Hold(pair) => scene.hold(pair),
        Action::Unmap(pair) => scene.unmap(pair),
        Action::Disassemble(pair) => scene.disassemble(pair),
    }
}

impl Scene {
    pub fn wipe(&mut self, name: &str) {
        self.blocks.retain(|_, b| b.whole.as_deref() != Some(name));
        if let Some(block) = self.blocks.get_mut(name) {
            self.lost += std::mem::take(&mut block.dirty);
            block.warm = 0;
            block.table = false;
            block.blank = true;
            for text in [
                &mut block.usage,
                &mut block.kind,
                &mut block.label,
                &mut block.uuid,
            ] {
                text.clear();
            }
        }
    }

    /// Maps the disk of a pair through its SSD. `new`: the SSD is empty and gets the format of the cache; otherwise the
    /// SSD has the format.
    pub fn map(&mut self, pair: &Pair, new: bool) -> Result<(), Failure> {
        if pair.ssd.is_memory() && self.maps.get(&pair.uuid).is_none_or(|map| !map.attached) {
            self.make_memory(pair);
        }
        let new = new || pair.ssd.is_memory();
        match self.maps.get(&pair.uuid) {
            Some(map) if map.attached => return self.rejoin(pair),
            Some(_) if new || pair.target == Target::DmCache => return self.attach(pair),
            Some(_) => return Err(failed("the mapping passes through")),
            None => {}
        }
        if pair.target == Target::Tandem && self.module != ModuleState::Loaded {
            return Err(failed("no such target"));
        }
        let (origin, ssd) = (self.locate(&pair.origin)?, self.locate(&pair.ssd)?);
        if self.busy(&origin, &pair.uuid) || self.busy(&ssd, &pair.uuid) {
            return Err(failed("device or resource busy"));
        }
        if !self
            .blocks
            .get(&ssd)
            .is_some_and(|b| if new { b.blank } else { b.uuid == pair.uuid })
        {
            return Err(failed(if new {
                "SSD is not empty"
            } else {
                "SSD has no superblock"
            }));
        }
        let below = self.blocks.get(&origin).cloned().unwrap_or_default();
        let minor = (0..)
            .find(|n| !self.blocks.contains_key(&format!("dm-{n}")))
            .unwrap_or(0);
        self.next_diskseq += 1;
        let below_now = below.clone();
        let cold = pair.starts_cold(&self.ident(&origin, &below));
        let mapped = Block {
            drive: String::new(),
            whole: None,
            start: 0,
            number: 0,
            part_type: String::new(),
            part_name: String::new(),
            mounts: Vec::new(),
            diskseq: self.next_diskseq,
            backing: Some((origin, "tandem".to_owned())),
            ..below
        };
        let dm = format!("dm-{minor}");
        self.blocks.insert(dm.clone(), mapped);
        if let Some(block) = self.blocks.get_mut(&ssd) {
            block.blank = false;
            block.usage = "other".into();
            block.kind = "tandem".into();
            block.uuid = pair.uuid.clone();
            block.disk_id = pair.origin_id.clone();
            block.target = pair.target;
            if new {
                block.formatted = block.size;
            } else if block.size < block.formatted {
                return Err(failed("SSD is smaller than its superblock says"));
            }
        }
        let kept = self.blocks.get_mut(&ssd);
        let (dirty, warm) = kept.map_or((0, 0), |block| {
            (
                std::mem::take(&mut block.dirty),
                std::mem::take(&mut block.warm),
            )
        });
        let mode = match pair.mode {
            Mode::Writeback if new => Mode::Writethrough,
            mode => mode,
        };
        let mut dirt = Dirt::new(mode, dirty, self.drain_rate);
        dirt.send_message(Message::DirtyLimit(pair.dirty_limit));
        let warm = if cold { 0 } else { warm };
        let formatted = self.blocks.get(&ssd).map_or(0, |block| block.formatted);
        let load = Load::new(formatted, dirt).warm(warm);
        let map = Map {
            pair: pair.clone(),
            dm,
            origin: number(&below_now),
            ssd: self.blocks.get(&ssd).map(number).unwrap_or_default(),
            attached: true,
            state: CacheState::Active,
            reason: String::new(),
            load,
        };
        self.maps.insert(pair.uuid.clone(), map);
        self.held.remove(&pair.uuid);
        Ok(())
    }

    /// Writes the format of a cache to its SSD. The disk stays in use.
    pub fn prepare(&mut self, pair: &Pair) -> Result<(), Failure> {
        if pair.target == Target::Tandem && self.module != ModuleState::Loaded {
            return Err(failed("no such target"));
        }
        let ssd = self.locate(&pair.ssd)?;
        let ours = |block: &&mut Block| block.blank || block.uuid == pair.uuid;
        let block = self.blocks.get_mut(&ssd).filter(ours);
        let block = block.ok_or_else(|| failed("SSD is not empty"))?;
        block.blank = false;
        block.usage = "other".into();
        block.kind = "tandem".into();
        block.uuid = pair.uuid.clone();
        block.disk_id = pair.origin_id.clone();
        block.target = pair.target;
        block.formatted = block.size;
        Ok(())
    }

    /// Writes the format of a cache to an empty SSD, and makes a mapping use it that passes everything to the disk.
    fn attach(&mut self, pair: &Pair) -> Result<(), Failure> {
        let (origin, ssd) = (self.locate(&pair.origin)?, self.locate(&pair.ssd)?);
        if self.busy(&ssd, &pair.uuid) {
            return Err(failed("device or resource busy"));
        }
        self.prepare(pair)?;
        let number_of = |name: &String| self.blocks.get(name).map(number).unwrap_or_default();
        let (origin, ssd) = (number_of(&origin), number_of(&ssd));
        let mut dirt = Dirt::new(Mode::Writethrough, 0, self.drain_rate);
        dirt.send_message(Message::DirtyLimit(pair.dirty_limit));
        if let Some(map) = self.maps.get_mut(&pair.uuid) {
            (map.pair, map.attached) = (pair.clone(), true);
            // The real host refuses another disk than before; the service does not ask for that.
            (map.origin, map.ssd) = (origin, ssd);
            map.load = Load::new(pair.ssd.text.size, dirt);
            map.set_state(CacheState::Active, "");
        }
        Ok(())
    }

    /// Gives a cache that is in use more or less of its SSD. A part of the copies stays.
    fn resize_cache(&mut self, pair: &Pair) -> Result<(), Failure> {
        let ssd = self.locate(&pair.ssd)?;
        let bytes = pair.ssd.text.size;
        let map = self.maps.get_mut(&pair.uuid).filter(|map| map.attached);
        let map = map.ok_or_else(|| failed("no such mapping"))?;
        let block = self.blocks.get_mut(&ssd);
        let block = block.ok_or_else(|| failed("no such SSD"))?;
        if map.load.sample().dirty_sectors > 0 {
            return Err(failed("the cache keeps its size"));
        }
        if block.size < bytes {
            return Err(failed("SSD is smaller than ssd_sectors"));
        }
        block.formatted = bytes;
        map.load.resize(bytes);
        Ok(())
    }

    /// Puts an SSD that is back into its mapping, which goes on as before.
    fn rejoin(&mut self, pair: &Pair) -> Result<(), Failure> {
        let ssd = self.locate(&pair.ssd)?;
        let number = self.blocks.get(&ssd).map(number).unwrap_or_default();
        if let Some(map) = self.maps.get_mut(&pair.uuid)
            && map.ssd != number
        {
            map.ssd = number;
            map.set_state(CacheState::Active, "");
            map.load.dirt.send_message(Message::Flush(Flush::Stop));
        }
        Ok(())
    }

    pub fn unmap(&mut self, pair: &Pair) -> Result<(), Failure> {
        self.held.remove(&pair.uuid);
        let Some(name) = self.mapped(&pair.uuid) else {
            return Ok(());
        };
        if self.blocks.get(&name).is_some_and(|b| !b.mounts.is_empty()) {
            return Err(Failure::new(Kind::FilesystemBusy)
                .device(&pair.origin.text)
                .users(self.users(&name)));
        }
        self.keep_dirt(&pair.uuid);
        self.blocks.remove(&name);
        self.maps.remove(&pair.uuid);
        Ok(())
    }

    /// Switches the machine off and on again.
    pub fn restart(&mut self) {
        for uuid in self.maps.keys().cloned().collect::<Vec<_>>() {
            self.keep_dirt(&uuid);
            if let Some(name) = self.mapped(&uuid) {
                self.blocks.remove(&name);
            }
        }
        self.maps.clear();
        self.held.clear();
        self.forget_memory();
        self.boot.push('+');
        // The person has agreed when the firmware asked.
        if self.key == SigningKey::Pending {
            self.key = SigningKey::Enrolled;
            self.module = ModuleState::Available;
        }
        for block in self.blocks.values_mut() {
            block
                .mounts
                .retain(|m| matches!(m.mounter, Mounter::Fstab(_)));
        }
    }
}

impl Map {
    /// The SSD is gone: the dirty data neither grows nor drains any more.
    pub fn lose_ssd(&mut self) {
        self.load.catch_up();
        self.load.dirt.send_message(Message::Flush(Flush::Start));
        self.load.dirt.send_message(Message::Flush(Flush::Pause));
        let dirty = self.load.dirt.dirty > 0;
        let reason = if dirty { "ssd-gone-dirty" } else { "ssd-error" };
        self.set_state(CacheState::Bypass, reason);
    }

    /// Changes the state. The state decides how the cache serves requests.
    pub fn set_state(&mut self, state: CacheState, reason: &str) {
        self.load.set_flow(Flow::of(state, reason));
        self.state = state;
        self.reason = reason.to_owned();
    }
}

impl Scene {
    /// Sends a message to the mapping of the cache with this uuid.
    pub fn send_message(&mut self, uuid: &str, message: Message) -> Result<(), Failure> {
        let map = self.maps.get_mut(uuid).filter(|map| map.attached);
        let map = map.ok_or_else(|| Failure::new(Kind::StepFailed).detail("no such mapping"))?;
        if map.pair.target == Target::DmCache {
            return takes(message).map_err(failed);
        }
        map.load.catch_up();
        map.load.dirt.send_message(message);
        Ok(())
    }

    /// The file system on this device is unmounted. If the device is a mapping, the last writes go through the cache.
    pub fn written_by_unmount(&mut self, name: &str) {
        if let Some(map) = self.maps.values_mut().find(|map| map.dm == name)
            && map.attached
            && map.state == CacheState::Active
        {
            map.load.catch_up();
            map.load.dirt.written(UNMOUNT_SECTORS);
        }
    }

    /// Halts the mappings whose disks were unplugged. A disk that is plugged in again is another device, so its mapping
    /// stays halted.
    pub fn halt_orphans(&mut self) {
        let there: Vec<String> = self.blocks.values().map(number).collect();
        let orphans = self.maps.values_mut();
        for map in orphans.filter(|map| !there.contains(&map.origin)) {
            map.load.set_flow(Flow::Halted);
        }
    }

    /// Keeps the dirty data and the copies on the SSD when the mapping is removed.
    pub fn keep_dirt(&mut self, uuid: &str) {
        let Some(map) = self.maps.get_mut(uuid).filter(|map| map.attached) else {
            return;
        };
        map.load.catch_up();
        let dirty = std::mem::take(&mut map.load.dirt.dirty);
        let warm = map.load.frames();
        let ssd = map.pair.ssd.clone();
        // An SSD that was plugged in again is another device with the same name.
        let name = self.locate(&ssd).unwrap_or(ssd.text.name);
        match self.blocks.get_mut(&name) {
            Some(block) => (block.dirty, block.warm) = (dirty, warm),
            None => self.lost += dirty,
        }
    }
}
