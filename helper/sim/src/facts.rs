// SPDX-License-Identifier: GPL-3.0-or-later
//! The facts of the simulated block devices, as the service sees them.

use super::Simulated;
use super::memory;
use super::world::{Block, Scene, block_path, drive_path, number};
use async_trait::async_trait;
use tandem_api::{DeviceText, Failure, FileUser, SsdHealth};
use tandem_helper::host::traits::Disks;
use tandem_helper::model::facts::{
    Carried, Device, Facts, Holder, Ident, is_memory_name, memory_name,
};
use zbus::OwnedObjectPath;

fn path(text: &str) -> OwnedObjectPath {
    OwnedObjectPath::try_from(text.to_owned()).unwrap_or_default()
}

impl Simulated {
    /// Whether this is a fact of the block device; false for one that does not exist.
    async fn has(&self, device: &Device, fact: fn(&Block) -> bool) -> bool {
        let _question = self.world.questions.ask().await;
        self.world
            .read(|scene| scene.blocks.get(&device.ident.text.name).is_some_and(fact))
    }
}

#[async_trait]
impl Disks for Simulated {
    async fn facts(&self) -> Result<Facts, Failure> {
        let _question = self.world.questions.ask().await;
        Ok(self.world.read(Scene::facts))
    }

    async fn blank(&self, device: &Device) -> Result<bool, Failure> {
        Ok(self.has(device, |block| block.blank).await)
    }

    async fn claimed(&self, device: &Device) -> Result<bool, Failure> {
        Ok(self.has(device, |block| block.claimed).await)
    }

    async fn used_percent(&self, device: &Device) -> Result<Option<i32>, Failure> {
        let _question = self.world.questions.ask().await;
        let path = device.drive.clone().unwrap_or_default();
        Ok(self.world.read(|scene| {
            let drive = scene.drives.values().find(|d| drive_path(d) == path)?;
            Some(drive.health.used_percent).filter(|used| *used >= 0)
        }))
    }

    async fn users(&self, device: &Device) -> Vec<FileUser> {
        let _question = self.world.questions.ask().await;
        self.world
            .read(|scene| scene.users(&device.ident.text.name))
    }
}

impl Scene {
    pub fn text(&self, name: &str) -> DeviceText {
        let Some(block) = self.blocks.get(name) else {
            return DeviceText::none();
        };
        let drive = self.drives.get(&block.drive);
        let kind = block.backing.as_ref().map(|(_, kind)| kind.as_str());
        let model = match (drive, kind) {
            (Some(d), _) => format!("{} {}", d.vendor, d.model).trim().to_owned(),
            (None, Some("luks")) => "LUKS".to_owned(),
            (None, Some(memory::KIND)) => DeviceText::memory(0).model,
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

    pub fn ident(&self, name: &str, block: &Block) -> Ident {
        let hardware = match &block.backing {
            Some((_, kind)) if kind == "tandem" => {
                let map = self.maps.values().find(|map| map.dm == name);
                map.map(|map| map.pair.dm_uuid()).unwrap_or_default()
            }
            Some((uuid, kind)) if kind == memory::KIND => memory_name(uuid),
            Some((below, _)) => format!("CRYPT-LUKS2-{below}"),
            None => format!("/{}", block.drive),
        };
        let part_uuid = match &block.whole {
            Some(_) => {
                let table = crc32c::crc32c(block.drive.as_bytes());
                format!("{table:08x}-{:02}", block.number)
            }
            None => String::new(),
        };
        let text = self.text(name);
        let boot = match is_memory_name(&hardware) {
            true => String::new(),
            false => self.boot.clone(),
        };
        Ident {
            text,
            diskseq: block.diskseq,
            boot,
            hardware,
            start: block.start,
            part_uuid,
            names: Vec::new(),
            content_uuid: block.uuid.clone(),
            network: block.network,
        }
    }

    /// The cache whose format is on a device.
    fn carried(&self, name: &str, block: &Block) -> Option<Carried> {
        if block.kind != "tandem" {
            return None;
        }
        let live = self.maps.get(&block.uuid).filter(|map| map.attached);
        let live = live.filter(|map| map.pair.ssd.text.name == name);
        let dirty = live.map_or(block.dirty, |map| map.load.dirt.dirty);
        Some(Carried {
            uuid: block.uuid.clone(),
            disk_id: block.disk_id.clone(),
            may_be_dirty: dirty > 0,
            target: block.target,
        })
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
                health: drive.map_or(SsdHealth::unknown(), |d| SsdHealth {
                    used_percent: -1,
                    ..d.health
                }),
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
                portable: drive.is_some_and(|d| d.removable),
                block_bytes: 512,
                optimal_bytes: 0,
                snapshots: block.snapshots,
                cached_by_other: self
                    .others
                    .iter()
                    .any(|o| o.mapped.as_str() == block_path(name)),
                carried: self.carried(name, block),
                rotates: drive.map(|d| d.rotation != 0),
                swap: block.swap,
                holders,
                mounts: block.mounts.clone(),
                entries: block.entries(),
                // The start mounts the file systems of fstab before the simulated service runs.
                found_at_start: !block.is_in_fstab(),
                behind_lock: false,
                submounts: Vec::new(),
            }
        };
        Facts {
            devices: self.blocks.iter().map(device).collect(),
            initramfs: true,
            grub_disks: self
                .grub_disk
                .iter()
                .filter_map(|name| Some(number(self.blocks.get(name)?)))
                .collect(),
            memory_for_cache: 0,
        }
    }

    pub fn users(&self, name: &str) -> Vec<FileUser> {
        self.blocks
            .get(name)
            .filter(|b| !b.mounts.is_empty())
            .map(|b| b.users.clone())
            .unwrap_or_default()
    }
}
