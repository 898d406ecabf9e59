// SPDX-License-Identifier: GPL-3.0-or-later
//! Simulated mappings: made, removed, and gone after a restart of the machine.

use super::counters::Load;
use super::dirt::Dirt;
use super::failed;
use super::world::{Block, Map, Scene, number};
use tandem_api::{CacheState, Failure, Kind, Mode, ModuleState, SigningKey};
use tandem_helper::action::Pair;
use tandem_helper::dm::message::{Flush, Message};
use tandem_helper::facts::Mounter;

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
        match self.maps.get(&pair.uuid) {
            Some(map) if map.attached => return self.rejoin(pair),
            Some(_) if new => return self.attach(pair),
            Some(_) => return Err(failed("the mapping passes through")),
            None => {}
        }
        if self.module != ModuleState::Loaded {
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
        let warm = if pair.copies_stale { 0 } else { warm };
        let load = Load::new(pair.ssd.text.size, dirt).warm(warm);
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
        if self.module != ModuleState::Loaded {
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
        Ok(())
    }

    /// Writes the format of a cache to an empty SSD, and makes a mapping use it that passes everything to the disk.
    fn attach(&mut self, pair: &Pair) -> Result<(), Failure> {
        let ssd = self.locate(&pair.ssd)?;
        if self.busy(&ssd, &pair.uuid) {
            return Err(failed("device or resource busy"));
        }
        self.prepare(pair)?;
        let number = self.blocks.get(&ssd).map(number).unwrap_or_default();
        let mut dirt = Dirt::new(Mode::Writethrough, 0, self.drain_rate);
        dirt.send_message(Message::DirtyLimit(pair.dirty_limit));
        if let Some(map) = self.maps.get_mut(&pair.uuid) {
            (map.pair, map.ssd, map.attached) = (pair.clone(), number, true);
            map.load = Load::new(pair.ssd.text.size, dirt);
            map.set_state(CacheState::Active, "");
        }
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
