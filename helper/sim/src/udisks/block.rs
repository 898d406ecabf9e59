// SPDX-License-Identifier: GPL-3.0-or-later
//! Objects of block devices, with the interfaces that describe their content.

use super::{bytes, path};
use crate::world::{Block, Scene, World, block_path, drive_path};
use std::collections::HashMap;
use std::sync::Arc;
use zbus::{OwnedObjectPath, OwnedVariant, interface};

pub struct BlockObject {
    pub world: Arc<World>,
    pub name: String,
}

impl BlockObject {
    fn get<T: Default>(&self, f: impl FnOnce(&Scene, &Block) -> T) -> T {
        self.world
            .read(|s| s.blocks.get(&self.name).map(|b| f(s, b)))
            .unwrap_or_default()
    }
}

#[interface(name = "org.freedesktop.UDisks2.Block")]
impl BlockObject {
    #[zbus(property)]
    fn device(&self) -> Vec<u8> {
        bytes(&format!("/dev/{}", self.name))
    }

    #[zbus(property)]
    fn preferred_device(&self) -> Vec<u8> {
        let mapper = self.get(|s, _| {
            let map = s.maps.values().find(|map| map.dm == self.name)?;
            Some(format!("/dev/mapper/{}", map.pair.name()))
        });
        bytes(&mapper.unwrap_or_else(|| format!("/dev/{}", self.name)))
    }

    #[zbus(property)]
    fn symlinks(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    #[zbus(property)]
    fn device_number(&self) -> u64 {
        self.get(|_, b| b.diskseq * 256 + u64::from(b.number))
    }

    #[zbus(property)]
    fn id(&self) -> String {
        format!("by-name-{}", self.name)
    }

    #[zbus(property)]
    fn size(&self) -> u64 {
        self.get(|_, b| b.size)
    }

    #[zbus(property)]
    fn read_only(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn drive(&self) -> OwnedObjectPath {
        let drive = self.get(|s, b| s.drives.get(&b.drive).map(drive_path));
        path(drive.as_deref().unwrap_or("/"))
    }

    #[zbus(property)]
    fn id_usage(&self) -> String {
        self.get(|_, b| b.usage.clone())
    }

    #[zbus(property)]
    fn id_type(&self) -> String {
        self.get(|_, b| b.kind.clone())
    }

    #[zbus(property)]
    fn id_version(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn id_label(&self) -> String {
        self.get(|_, b| b.label.clone())
    }

    #[zbus(property, name = "IdUUID")]
    fn id_uuid(&self) -> String {
        self.get(|_, b| b.uuid.clone())
    }

    #[zbus(property)]
    fn configuration(&self) -> Vec<(String, HashMap<String, OwnedVariant>)> {
        Vec::new()
    }

    #[zbus(property)]
    fn crypto_backing_device(&self) -> OwnedObjectPath {
        let below = self.get(|_, b| b.backing.clone().filter(|(_, kind)| kind == "luks"));
        below.map_or_else(|| path("/"), |(name, _)| path(&block_path(&name)))
    }

    #[zbus(property, name = "MDRaid")]
    fn md_raid(&self) -> OwnedObjectPath {
        path("/")
    }

    #[zbus(property, name = "MDRaidMember")]
    fn md_raid_member(&self) -> OwnedObjectPath {
        path("/")
    }

    #[zbus(property)]
    fn hint_partitionable(&self) -> bool {
        self.get(|_, b| b.backing.is_none())
    }

    #[zbus(property)]
    fn hint_system(&self) -> bool {
        self.get(|s, b| s.drives.get(&b.drive).is_some_and(|d| d.bus != "usb"))
    }

    #[zbus(property)]
    fn hint_ignore(&self) -> bool {
        let covered = |s: &Scene| {
            s.maps
                .values()
                .any(|m| m.pair.origin.text.name == self.name)
        };
        self.get(|s, b| covered(s) || b.kind == "tandem")
    }

    #[zbus(property)]
    fn hint_auto(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn hint_name(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn hint_icon_name(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn hint_symbolic_icon_name(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn userspace_mount_options(&self) -> Vec<String> {
        Vec::new()
    }
}

pub struct FilesystemObject(pub BlockObject);

#[interface(name = "org.freedesktop.UDisks2.Filesystem")]
impl FilesystemObject {
    #[zbus(property)]
    fn mount_points(&self) -> Vec<Vec<u8>> {
        self.0
            .get(|_, b| b.mounts.iter().map(|m| bytes(&m.point)).collect())
    }

    #[zbus(property)]
    fn size(&self) -> u64 {
        self.0.get(|_, b| b.size)
    }
}

pub struct PartitionObject(pub BlockObject);

#[interface(name = "org.freedesktop.UDisks2.Partition")]
impl PartitionObject {
    #[zbus(property)]
    fn number(&self) -> u32 {
        self.0.get(|_, b| b.number)
    }

    #[zbus(property, name = "Type")]
    fn type_(&self) -> String {
        self.0.get(|_, b| b.part_type.clone())
    }

    #[zbus(property)]
    fn flags(&self) -> u64 {
        0
    }

    #[zbus(property)]
    fn offset(&self) -> u64 {
        self.0.get(|_, b| b.start)
    }

    #[zbus(property)]
    fn size(&self) -> u64 {
        self.0.get(|_, b| b.size)
    }

    #[zbus(property)]
    fn name(&self) -> String {
        self.0.get(|_, b| b.part_name.clone())
    }

    #[zbus(property, name = "UUID")]
    fn uuid(&self) -> String {
        self.0
            .get(|_, b| format!("{:08x}-{:02}", b.start >> 20, b.number))
    }

    #[zbus(property)]
    fn table(&self) -> OwnedObjectPath {
        let whole = self.0.get(|_, b| b.whole.clone());
        path(&block_path(whole.as_deref().unwrap_or_default()))
    }

    #[zbus(property)]
    fn is_container(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn is_contained(&self) -> bool {
        false
    }
}

pub struct TableObject(pub BlockObject);

#[interface(name = "org.freedesktop.UDisks2.PartitionTable")]
impl TableObject {
    #[zbus(property)]
    fn partitions(&self) -> Vec<OwnedObjectPath> {
        let name = self.0.name.as_str();
        self.0.get(|s, _| {
            let parts = s
                .blocks
                .iter()
                .filter(|(_, b)| b.whole.as_deref() == Some(name));
            parts.map(|(part, _)| path(&block_path(part))).collect()
        })
    }

    #[zbus(property, name = "Type")]
    fn type_(&self) -> String {
        "gpt".to_owned()
    }
}

pub struct SwapObject(pub BlockObject);

#[interface(name = "org.freedesktop.UDisks2.Swapspace")]
impl SwapObject {
    #[zbus(property)]
    fn active(&self) -> bool {
        self.0.get(|_, b| b.swap)
    }
}

pub struct EncryptedObject(pub BlockObject);

#[interface(name = "org.freedesktop.UDisks2.Encrypted")]
impl EncryptedObject {
    #[zbus(property)]
    fn cleartext_device(&self) -> OwnedObjectPath {
        let name = self.0.name.as_str();
        let above = self.0.get(|s, _| {
            let over = |b: &Block| matches!(&b.backing, Some((below, _)) if below == name);
            s.blocks
                .iter()
                .find(|(_, b)| over(b))
                .map(|(name, _)| block_path(name))
        });
        path(above.as_deref().unwrap_or("/"))
    }

    #[zbus(property)]
    fn hint_encryption_type(&self) -> String {
        "LUKS2".to_owned()
    }
}
