// SPDX-License-Identifier: GPL-3.0-or-later
//! State of the simulated machine, behind one lock that is never held across a wait.

use super::catalogue;
use super::counters::Load;
use super::dirt::Dirt;
use super::failed;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tandem_api::{
    CacheState, DeviceText, Failure, FileUser, Kind, Mode, ModuleProblem, ModuleState, SigningKey,
    StepKind,
};
use tandem_helper::action::{MountDevice, Pair};
use tandem_helper::dm::message::{Flush, Message};
use tandem_helper::facts::{Device, Facts, Holder, Ident, Mount, Mounter};
use tokio::sync::{Notify, watch};
use zbus::OwnedObjectPath;

/// A drive in its case.
#[derive(Debug, Clone)]
pub struct Drive {
    pub vendor: String,
    pub model: String,
    pub serial: String,
    pub size: u64,
    /// Rotations a minute, 0 for an SSD.
    pub rotation: i32,
    pub bus: String,
    pub removable: bool,
}

/// A block device.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Serial of the drive it is (on); empty for volumes.
    pub drive: String,
    /// Kernel name of the whole disk that it is a partition of.
    pub whole: Option<String>,
    pub number: u32,
    pub start: u64,
    pub size: u64,
    pub part_type: String,
    pub part_name: String,
    pub table: bool,
    pub usage: String,
    pub kind: String,
    pub label: String,
    pub uuid: String,
    pub blank: bool,
    pub swap: bool,
    /// Somebody keeps it for himself whom nothing shows.
    pub held: bool,
    /// Sectors on this SSD that are nowhere else, and frames that it holds, while no cache is assembled
    /// with it.
    pub dirty: u64,
    pub warm: u64,
    pub mounts: Vec<Mount>,
    pub users: Vec<FileUser>,
    pub diskseq: u64,
    /// What a volume is made of, and what it is (`luks`, `tandem`).
    pub backing: Option<(String, String)>,
}

impl Block {
    /// Whether fstab mounts it.
    fn is_in_fstab(&self) -> bool {
        let fstab = |mount: &Mount| matches!(mount.mounter, Mounter::Fstab(_));
        self.mounts.iter().any(fstab)
    }
}

/// A mapping of ours.
#[derive(Debug)]
pub struct Map {
    pub pair: Pair,
    /// Kernel name of the mapped device.
    pub dm: String,
    /// Number of the disk that it leads to.
    pub origin: String,
    /// Number of its SSD.
    pub ssd: String,
    pub attached: bool,
    pub state: CacheState,
    pub reason: String,
    pub load: Load,
}

/// Everything there is.
#[derive(Debug)]
pub struct Scene {
    pub boot: String,
    pub module: ModuleState,
    /// Why the kernel has no module that it accepts, if that is not the usual reason.
    pub problem: Option<ModuleProblem>,
    /// The key for the module.
    pub key: SigningKey,
    /// Kernels that may start next and have no module.
    pub kernels: Vec<String>,
    pub step_time: Duration,
    pub stall_limit: Duration,
    pub sample_period: Duration,
    pub fail_next: Option<StepKind>,
    pub authorized: bool,
    pub drives: BTreeMap<String, Drive>,
    pub blocks: BTreeMap<String, Block>,
    pub maps: BTreeMap<String, Map>,
    /// Pairs whose disks are kept from everybody, by their uuids.
    pub held: BTreeMap<String, Pair>,
    pub next_diskseq: u64,
    /// Bytes a second.
    pub drain_rate: u64,
    /// Sectors that were on an SSD only, and are nowhere any more.
    pub lost: u64,
    /// What was unplugged and may come back: its blocks, with the drive that they are on.
    pub away: Vec<(String, Block, Option<Drive>)>,
}

/// The simulated machine.
pub struct World {
    scene: Mutex<Scene>,
    pub(super) for_engine: Notify,
    pub(super) for_udisks: Notify,
    /// Changes made, and changes that the UDisks2 objects show.
    made: AtomicU64,
    shown: watch::Sender<Option<u64>>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            scene: Mutex::new(catalogue::scene()),
            for_engine: Notify::new(),
            for_udisks: Notify::new(),
            made: AtomicU64::new(0),
            shown: watch::Sender::new(None),
        }
    }
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read<T>(&self, f: impl FnOnce(&Scene) -> T) -> T {
        f(&self.lock())
    }

    /// A change that nobody has to be told of.
    pub(crate) fn read_mut<T>(&self, f: impl FnOnce(&mut Scene) -> T) -> T {
        f(&mut self.lock())
    }

    /// A change of devices, mounts or mappings.
    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut Scene) -> T) -> T {
        let result = f(&mut self.lock());
        self.made.fetch_add(1, Ordering::SeqCst);
        self.for_engine.notify_one();
        self.for_udisks.notify_one();
        result
    }

    pub(super) async fn changed(&self) {
        self.for_engine.notified().await;
    }

    /// Number of the last change.
    pub(super) fn version(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// The UDisks2 objects show all changes up to this one.
    pub(super) fn tell_shown(&self, version: u64) {
        self.shown.send_replace(Some(version));
    }

    /// Waits until the UDisks2 objects, if there are any, show the last change, as the real ones do
    /// before a step ends.
    pub(super) async fn synced(&self) {
        let wanted = self.version();
        let mut shown = self.shown.subscribe();
        // The sender lives as long as we do, so this cannot fail.
        let _ = shown
            .wait_for(|shown| shown.is_none_or(|version| version >= wanted))
            .await;
    }
}

/// `major:minor`: a device that is plugged in again is another one.
pub fn number(block: &Block) -> String {
    format!("{}:{}", block.diskseq, block.number)
}

/// Object path of a block device, as UDisks2 makes it.
pub fn block_path(name: &str) -> String {
    let mut path = String::from("/org/freedesktop/UDisks2/block_devices/");
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            path.push(c);
        } else {
            path.push_str(&format!("_{:02x}", u32::from(c)));
        }
    }
    path
}

/// Object path of a drive.
pub fn drive_path(drive: &Drive) -> String {
    let word = |s: &str| s.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!(
        "/org/freedesktop/UDisks2/drives/{}_{}",
        word(&drive.model),
        word(&drive.serial)
    )
}

fn path(text: &str) -> OwnedObjectPath {
    OwnedObjectPath::try_from(text.to_owned()).unwrap_or_default()
}

impl Scene {
    /// Kernel name behind an object path.
    pub fn by_object(&self, object: &str) -> Option<String> {
        self.blocks
            .keys()
            .find(|name| block_path(name) == object)
            .cloned()
    }

    pub fn text(&self, name: &str) -> DeviceText {
        let Some(block) = self.blocks.get(name) else {
            return DeviceText::none();
        };
        let drive = self.drives.get(&block.drive);
        let kind = block.backing.as_ref().map(|(_, kind)| kind.as_str());
        let model = match (drive, kind) {
            (Some(d), _) => format!("{} {}", d.vendor, d.model).trim().to_owned(),
            (None, Some("luks")) => "LUKS".to_owned(),
            (None, _) => String::new(),
        };
        DeviceText {
            object: path(&block_path(name)),
            name: name.to_owned(),
            model,
            serial: drive.map(|d| d.serial.clone()).unwrap_or_default(),
            size: block.size,
            content: if block.table {
                "partition-table".to_owned()
            } else {
                block.kind.clone()
            },
            label: block.label.clone(),
        }
    }

    fn ident(&self, name: &str, block: &Block) -> Ident {
        let hardware = match &block.backing {
            Some((_, kind)) if kind == "tandem" => {
                let map = self.maps.values().find(|map| map.dm == name);
                map.map(|map| map.pair.dm_uuid()).unwrap_or_default()
            }
            Some((below, _)) => format!("CRYPT-LUKS2-{below}"),
            None => block.drive.clone(),
        };
        let part_uuid = match &block.whole {
            Some(_) => {
                let table = crc32c::crc32c(block.drive.as_bytes());
                format!("{table:08x}-{:02}", block.number)
            }
            None => String::new(),
        };
        let text = self.text(name);
        Ident {
            text,
            diskseq: block.diskseq,
            boot: self.boot.clone(),
            hardware,
            start: block.start,
            part_uuid,
            names: Vec::new(),
            content_uuid: block.uuid.clone(),
        }
    }

    pub fn facts(&self) -> Facts {
        let device = |(name, block): (&String, &Block)| {
            let drive = self.drives.get(&block.drive);
            let holders = self
                .blocks
                .iter()
                .filter_map(|(above, b)| {
                    let (below, kind) = b.backing.as_ref()?;
                    (below == name).then(|| Holder {
                        name: above.clone(),
                        kind: kind.clone(),
                    })
                })
                .chain(self.held.values().filter_map(|pair| {
                    let ours = self.locate(&pair.origin).is_ok_and(|disk| disk == *name);
                    ours.then(|| Holder {
                        name: pair.name(),
                        kind: "tandem".into(),
                    })
                }))
                .chain(self.maps.values().filter_map(|map| {
                    let ssd = map.attached && map.pair.ssd.text.name == *name;
                    ssd.then(|| Holder {
                        name: map.pair.name(),
                        kind: "tandem".into(),
                    })
                }))
                .collect();
            Device {
                ident: self.ident(name, block),
                number: number(block),
                table: block.whole.as_deref().map(block_path),
                drive: drive.map(drive_path),
                partitioned: block.table,
                table_type: if block.table {
                    "gpt".to_owned()
                } else {
                    String::new()
                },
                part_name: block.part_name.clone(),
                part_type: block.part_type.clone(),
                usage: block.usage.clone(),
                content_uuid: block.uuid.clone(),
                blank: false,
                claimed: false,
                volume: block.backing.as_ref().map(|(_, kind)| kind.clone()),
                clear_text: matches!(&block.backing, Some((_, kind)) if kind == "luks"),
                read_only: false,
                removable: drive.is_some_and(|d| d.removable),
                block_bytes: 512,
                rotates: drive.map(|d| d.rotation != 0),
                swap: block.swap,
                holders,
                mounts: block.mounts.clone(),
                used_at_start: block.is_in_fstab(),
                // Without a file system in fstab, which would be mounted before the simulated service runs.
                found_at_start: !block.is_in_fstab(),
                submounts: Vec::new(),
            }
        };
        Facts {
            devices: self.blocks.iter().map(device).collect(),
            initramfs: true,
        }
    }

    pub fn users(&self, name: &str) -> Vec<FileUser> {
        self.blocks
            .get(name)
            .filter(|b| !b.mounts.is_empty())
            .map(|b| b.users.clone())
            .unwrap_or_default()
    }

    /// Kernel name of the device that is this ident, if it is still plugged in.
    pub fn locate(&self, ident: &Ident) -> Result<String, Failure> {
        self.blocks
            .iter()
            .find(|(name, block)| {
                let now = self.ident(name, block);
                now.diskseq == ident.diskseq && now.same_hardware(ident)
            })
            .map(|(name, _)| name.clone())
            .ok_or_else(|| Failure::new(Kind::DeviceGone).device(&ident.text))
    }

    pub fn mount_device(&self, device: &MountDevice) -> Option<String> {
        match device {
            MountDevice::Origin(ident) => self.locate(ident).ok(),
            MountDevice::Mapping(pair) => self.mapped(&pair.uuid),
        }
    }

    /// Kernel name of a cache's mapped device.
    pub fn mapped(&self, uuid: &str) -> Option<String> {
        self.maps.get(uuid).map(|map| map.dm.clone())
    }

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

    /// Joins a pair, on an SSD that is empty or has its format.
    pub fn map(&mut self, pair: &Pair, new: bool) -> Result<(), Failure> {
        if self.maps.contains_key(&pair.uuid) {
            return self.rejoin(pair);
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
        let dirt = Dirt::new(mode, dirty, self.drain_rate);
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

    /// Puts the format of a cache on its SSD. The disk stays in use.
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
        Ok(())
    }

    /// A mapping goes on where it was if its SSD is back.
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

    /// Off and on again.
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
        // The person has agreed on the blue screen.
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
