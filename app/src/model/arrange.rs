// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns what UDisks2 shows into the disks and volumes that a person can choose. Pure.

use std::collections::{BTreeMap, HashMap};

use super::inventory::{
    Block, CacheParts, Content, Device, Drive, Medium, Obstacle, Snapshot, VirtualKind, Volume,
};

/// Below this there is nothing to gain and boot partitions live here; bytes.
const SMALLEST: u64 = 64 << 20;

/// Partition types that firmware and boot loaders read without any driver of ours.
const BOOT_TYPES: [&str; 5] = [
    "c12a7328-f81f-11d2-ba4b-00a0c93ec93b",
    "21686148-6449-6e6f-744e-656564454649",
    "bc13c2ff-59e6-4262-a352-b275fd6f7172",
    "0xef",
    "0xea",
];

/// Where the system starts from: unmounting it is not possible while it runs.
const BOOT_MOUNTS: [&str; 3] = ["/boot", "/boot/efi", "/efi"];
const SYSTEM_MOUNTS: [&str; 3] = ["/", "/usr", "/var"];

/// The disks of `snapshot`, hard disks first, each with its volumes.
///
/// `caches` are the parts of the caches that exist: the disk under a cache is shown with what the cache shows of it,
/// and the mapped device itself is left out.
#[must_use]
pub fn arrange(snapshot: &Snapshot, caches: &[CacheParts]) -> Vec<Device> {
    let known = Known::new(snapshot, caches);
    let mut devices: Vec<Device> = snapshot
        .blocks
        .values()
        .filter(|block| block.partition.is_none() && known.is_shown(block))
        .map(|block| known.device(block))
        .collect();
    devices.sort_by_key(|device| (rank(device.medium), natural(&device.device)));
    devices
}

fn rank(medium: Medium) -> u8 {
    match medium {
        Medium::HardDisk => 0,
        Medium::Virtual(_) => 1,
        Medium::Ssd => 2,
        Medium::Usb => 3,
    }
}

/// Sorts sda before sdaa, and nvme2 before nvme10.
fn natural(name: &str) -> (usize, String) {
    (name.len(), name.to_owned())
}

struct Known<'a> {
    snapshot: &'a Snapshot,
    origins: HashMap<&'a str, &'a CacheParts>,
    ssds: HashMap<&'a str, &'a CacheParts>,
    mapped: HashMap<&'a str, &'a CacheParts>,
    partitions: BTreeMap<&'a str, Vec<&'a Block>>,
}

impl<'a> Known<'a> {
    fn new(snapshot: &'a Snapshot, caches: &'a [CacheParts]) -> Self {
        let by = |key: fn(&CacheParts) -> &str| {
            caches
                .iter()
                .filter(|parts| !key(parts).is_empty())
                .map(|parts| (key(parts), parts))
                .collect()
        };
        let mut partitions: BTreeMap<&str, Vec<&Block>> = BTreeMap::new();
        for block in snapshot.blocks.values() {
            if let Some(partition) = &block.partition {
                partitions.entry(&partition.table).or_default().push(block);
            }
        }
        for list in partitions.values_mut() {
            list.sort_by_key(|block| block.partition.as_ref().map(|partition| partition.number));
        }
        Self {
            snapshot,
            origins: by(|parts| &parts.origin),
            ssds: by(|parts| &parts.ssd),
            mapped: by(|parts| &parts.mapped),
            partitions,
        }
    }

    fn drive(&self, block: &Block) -> Option<&'a Drive> {
        self.snapshot.drives.get(block.drive.as_ref()?)
    }

    fn is_part(&self, block: &Block) -> bool {
        self.origins.contains_key(block.path.as_str())
            || self.ssds.contains_key(block.path.as_str())
    }

    fn is_shown(&self, block: &Block) -> bool {
        if self.mapped.contains_key(block.path.as_str()) || block.size == 0 {
            return false;
        }
        if self.is_part(block) {
            return true;
        }
        let memory = ["/dev/ram", "/dev/zram", "/dev/fd", "/dev/sr"]
            .iter()
            .any(|start| block.device.starts_with(start));
        let packed = block.is_loop && (block.read_only || block.kind == "squashfs");
        let optical = self.drive(block).is_some_and(|drive| drive.optical);
        !(block.hint_ignore || memory || packed || optical)
    }

    fn device(&self, block: &'a Block) -> Device {
        let drive = self.drive(block);
        let medium = medium(block, drive);
        let parts = self.partitions.get(block.path.as_str());
        let volumes: Vec<Volume> = match parts {
            Some(parts) => parts
                .iter()
                .filter(|part| {
                    !part
                        .partition
                        .as_ref()
                        .is_some_and(|partition| partition.container)
                })
                .filter(|part| self.is_part(part) || (part.size > 0 && !part.hint_ignore))
                .map(|part| self.volume(part, medium))
                .collect(),
            None => vec![self.volume(block, medium)],
        };
        // A part in use keeps the whole from being erased; a boot partition left over from another system does not.
        let in_the_way = volumes.iter().find_map(|volume| match volume.as_ssd {
            Err(obstacle)
                if !matches!(
                    obstacle,
                    Obstacle::Swap | Obstacle::TooSmall | Obstacle::Boot
                ) =>
            {
                Some(obstacle)
            }
            Err(Obstacle::Boot) if !volume.mount_points.is_empty() => Some(Obstacle::Boot),
            _ => None,
        });
        Device {
            whole_as_ssd: in_the_way.map_or_else(|| as_ssd(block, medium), Err),
            path: block.path.clone(),
            device: block.device.clone(),
            model: drive.map(model).unwrap_or_default(),
            serial: drive
                .map(|drive| drive.serial.trim().to_owned())
                .unwrap_or_default(),
            size: block.size,
            medium,
            volumes,
        }
    }

    fn volume(&self, block: &'a Block, medium: Medium) -> Volume {
        let cache = self.origins.get(block.path.as_str());
        // The file system of a cached disk is found, named and mounted through its mapped device.
        let face = cache
            .and_then(|parts| self.snapshot.blocks.get(&parts.mapped))
            .unwrap_or(block);
        let name = match &block.partition {
            _ if !face.label.is_empty() => face.label.clone(),
            Some(partition) if !partition.name.is_empty() => partition.name.clone(),
            _ => block.hint_name.clone(),
        };
        let trouble = self.trouble(block, face);
        Volume {
            path: block.path.clone(),
            device: block.device.clone(),
            size: block.size,
            name,
            partition: block.partition.as_ref().map(|partition| partition.number),
            content: if self.ssds.contains_key(block.path.as_str()) {
                Content::Cache
            } else {
                content(face)
            },
            mount_points: face.mount_points.clone(),
            as_origin: trouble.map_or_else(|| as_origin(face, medium), Err),
            as_ssd: trouble.map_or_else(|| as_ssd(face, medium), Err),
        }
    }

    /// What keeps a block out of both roles.
    fn trouble(&self, block: &Block, face: &Block) -> Option<Obstacle> {
        let path = block.path.as_str();
        let mounted = |places: &[&str]| {
            face.mount_points
                .iter()
                .any(|mount| places.contains(&mount.as_str()))
        };
        let type_id = block
            .partition
            .as_ref()
            .map(|partition| partition.type_id.to_lowercase());
        if self.origins.contains_key(path) {
            Some(Obstacle::Cached)
        } else if self.ssds.contains_key(path) {
            Some(Obstacle::CacheSsd)
        } else if mounted(&SYSTEM_MOUNTS) {
            Some(Obstacle::System)
        } else if mounted(&BOOT_MOUNTS)
            || type_id.is_some_and(|id| BOOT_TYPES.contains(&id.as_str()))
        {
            Some(Obstacle::Boot)
        } else if block.kind == "swap" {
            Some(Obstacle::Swap)
        } else if block.read_only {
            Some(Obstacle::ReadOnly)
        } else if block.cleartext.is_some() {
            Some(Obstacle::UnlockedElsewhere)
        } else if block.usage == "raid" {
            Some(Obstacle::Member)
        } else if block.size < SMALLEST {
            Some(Obstacle::TooSmall)
        } else {
            None
        }
    }
}

fn as_origin(block: &Block, medium: Medium) -> Result<(), Obstacle> {
    match medium {
        Medium::Ssd => Err(Obstacle::AlreadyFast),
        _ if block.has_table => Err(Obstacle::Empty),
        _ => Ok(()),
    }
}

fn as_ssd(block: &Block, medium: Medium) -> Result<(), Obstacle> {
    match medium {
        Medium::HardDisk | Medium::Usb | Medium::Virtual(_) => Err(Obstacle::NotFast),
        _ if !block.mount_points.is_empty() => Err(Obstacle::InUse),
        _ => Ok(()),
    }
}

fn medium(block: &Block, drive: Option<&Drive>) -> Medium {
    match drive {
        Some(drive) => match drive.rotation_rate {
            Some(0) => Medium::Ssd,
            // Sticks say that they turn, at a speed that is not known, just as USB disks do.
            Some(-1) | None if drive.connection == "usb" => Medium::Usb,
            _ => Medium::HardDisk,
        },
        None => Medium::Virtual(virtual_kind(block)),
    }
}

fn virtual_kind(block: &Block) -> VirtualKind {
    if block.md_array {
        VirtualKind::Array
    } else if block.crypto_backing.is_some() {
        VirtualKind::Unlocked
    } else if block
        .symlinks
        .iter()
        .any(|link| link.contains("dm-uuid-LVM-"))
    {
        VirtualKind::Logical
    } else {
        VirtualKind::Other
    }
}

fn content(block: &Block) -> Content {
    match (block.usage.as_str(), block.kind.as_str()) {
        ("filesystem", kind) => Content::FileSystem(kind.to_owned()),
        ("crypto", _) => Content::Encrypted,
        (_, "swap") => Content::Swap,
        ("raid", kind) => Content::Member(kind.to_owned()),
        _ if block.has_table => Content::EmptyTable,
        ("", "") => Content::Unknown,
        (_, kind) => Content::Member(kind.to_owned()),
    }
}

/// Maker and model without saying the maker twice.
fn model(drive: &Drive) -> String {
    let (vendor, model) = (drive.vendor.trim(), drive.model.trim());
    // SATA disks all carry the vendor "ATA", which is no maker.
    if vendor.is_empty()
        || vendor == "ATA"
        || model.to_lowercase().starts_with(&vendor.to_lowercase())
    {
        model.to_owned()
    } else {
        format!("{vendor} {model}").trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::inventory::Partition;

    fn block(name: &str, size: u64) -> Block {
        Block {
            path: format!("/b/{name}"),
            device: format!("/dev/{name}"),
            size,
            ..Block::default()
        }
    }

    fn drive(name: &str, rotation_rate: i32) -> Drive {
        Drive {
            path: format!("/d/{name}"),
            vendor: "ATA".into(),
            model: format!("Model {name}"),
            rotation_rate: Some(rotation_rate),
            ..Drive::default()
        }
    }

    fn on(mut block: Block, drive: &Drive) -> Block {
        block.drive = Some(drive.path.clone());
        block
    }

    fn part(mut block: Block, table: &Block, number: u32) -> Block {
        block.partition = Some(Partition {
            table: table.path.clone(),
            number,
            ..Partition::default()
        });
        block.drive.clone_from(&table.drive);
        block
    }

    fn fs(mut block: Block, mount: &str) -> Block {
        block.usage = "filesystem".into();
        block.kind = "ext4".into();
        block.mount_points = if mount.is_empty() {
            vec![]
        } else {
            vec![mount.into()]
        };
        block
    }

    fn snapshot(blocks: Vec<Block>, drives: Vec<Drive>) -> Snapshot {
        Snapshot {
            blocks: blocks
                .into_iter()
                .map(|block| (block.path.clone(), block))
                .collect(),
            drives: drives
                .into_iter()
                .map(|drive| (drive.path.clone(), drive))
                .collect(),
        }
    }

    const GB: u64 = 1_000_000_000;

    #[test]
    fn a_partitioned_disk_is_offered_as_its_partitions() {
        let hdd = drive("hdd", 7200);
        let mut disk = on(block("sda", 2000 * GB), &hdd);
        disk.has_table = true;
        let mut frame = part(block("sda2", 1024), &disk, 2);
        frame.partition.as_mut().unwrap().container = true;
        let data = fs(part(block("sda1", 1900 * GB), &disk, 1), "/home");
        let tenth = fs(part(block("sda10", 90 * GB), &disk, 10), "");
        let fifth = fs(part(block("sda5", 90 * GB), &disk, 5), "");
        let devices = arrange(
            &snapshot(vec![tenth, fifth, disk, data, frame], vec![hdd]),
            &[],
        );
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].model, "Model hdd");
        let names: Vec<_> = devices[0]
            .volumes
            .iter()
            .map(|volume| volume.device.as_str())
            .collect();
        assert_eq!(names, ["/dev/sda1", "/dev/sda5", "/dev/sda10"]);
        assert_eq!(devices[0].volumes[0].as_origin, Ok(()));
        assert_eq!(devices[0].volumes[0].as_ssd, Err(Obstacle::NotFast));
    }

    #[test]
    fn arrays_and_unlocked_volumes_without_a_drive_are_shown() {
        let mut array = fs(block("md0", 4000 * GB), "");
        array.md_array = true;
        let mut opened = fs(block("dm-0", 400 * GB), "");
        opened.crypto_backing = Some("/b/sdb1".into());
        let mut logical = fs(block("dm-1", 400 * GB), "");
        logical.symlinks = vec!["/dev/disk/by-id/dm-uuid-LVM-abc".into()];
        let devices = arrange(&snapshot(vec![array, opened, logical], vec![]), &[]);
        let kinds: Vec<_> = devices.iter().map(|device| device.medium).collect();
        assert_eq!(
            kinds,
            [
                VirtualKind::Array,
                VirtualKind::Unlocked,
                VirtualKind::Logical
            ]
            .map(Medium::Virtual)
        );
        assert!(
            devices
                .iter()
                .all(|device| device.volumes[0].as_origin.is_ok())
        );
    }

    #[test]
    fn a_disk_of_unknown_speed_is_a_hard_disk() {
        let hdd = drive("hdd", -1);
        let devices = arrange(&snapshot(vec![on(block("sda", GB), &hdd)], vec![hdd]), &[]);
        assert_eq!(devices[0].medium, Medium::HardDisk);
    }

    #[test]
    fn what_nobody_would_call_a_disk_is_hidden() {
        let mut snap = block("loop3", GB);
        snap.is_loop = true;
        snap.kind = "squashfs".into();
        let mut ignored = block("sdz", GB);
        ignored.hint_ignore = true;
        let mut dvd = drive("dvd", -1);
        dvd.optical = true;
        let disc = on(block("sr1x", GB), &dvd);
        let all = vec![
            snap,
            ignored,
            disc,
            block("nbd0", 0),
            block("zram0", GB),
            block("ram0", GB),
        ];
        assert_eq!(arrange(&snapshot(all, vec![dvd]), &[]), vec![]);
    }

    #[test]
    fn the_system_its_boot_partitions_and_swap_are_not_offered() {
        let hdd = drive("hdd", 5400);
        let mut disk = on(block("sda", 1000 * GB), &hdd);
        disk.has_table = true;
        let mut efi = fs(part(block("sda1", GB), &disk, 1), "");
        efi.partition.as_mut().unwrap().type_id = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B".into();
        let boot = fs(part(block("sda2", GB), &disk, 2), "/boot");
        let root = fs(part(block("sda3", 300 * GB), &disk, 3), "/");
        let mut swap = part(block("sda4", 8 * GB), &disk, 4);
        swap.kind = "swap".into();
        let tiny = part(block("sda5", 1 << 20), &disk, 5);
        let devices = arrange(
            &snapshot(vec![disk, efi, boot, root, swap, tiny], vec![hdd]),
            &[],
        );
        let verdicts: Vec<_> = devices[0]
            .volumes
            .iter()
            .map(|volume| volume.as_origin.unwrap_err())
            .collect();
        assert_eq!(
            verdicts,
            [
                Obstacle::Boot,
                Obstacle::Boot,
                Obstacle::System,
                Obstacle::Swap,
                Obstacle::TooSmall
            ]
        );
    }

    #[test]
    fn a_cached_disk_shows_what_its_cache_shows_and_the_mapping_is_not_listed_twice() {
        let (hdd, fast) = (drive("hdd", 7200), drive("ssd", 0));
        let mut origin = on(block("sda", 1000 * GB), &hdd);
        origin.hint_ignore = true;
        let ssd = on(block("sdb", 120 * GB), &fast);
        let mut mapped = fs(block("dm-3", 1000 * GB), "/srv/films");
        mapped.label = "Films".into();
        let parts = CacheParts {
            origin: origin.path.clone(),
            ssd: ssd.path.clone(),
            mapped: mapped.path.clone(),
        };
        let devices = arrange(
            &snapshot(vec![origin, ssd, mapped], vec![hdd, fast]),
            &[parts],
        );
        assert_eq!(devices.len(), 2);
        let volume = &devices[0].volumes[0];
        assert_eq!(
            (volume.name.as_str(), volume.mount_points[0].as_str()),
            ("Films", "/srv/films")
        );
        assert_eq!(volume.as_origin, Err(Obstacle::Cached));
        assert_eq!(devices[1].volumes[0].as_ssd, Err(Obstacle::CacheSsd));
    }

    #[test]
    fn an_ssd_in_use_cannot_be_erased_and_unknown_content_is_never_called_empty() {
        let fast = drive("ssd", 0);
        let used = fs(on(block("sdb", 120 * GB), &fast), "/mnt");
        let strange = on(block("sdc", 120 * GB), &fast);
        let devices = arrange(&snapshot(vec![used, strange], vec![fast]), &[]);
        assert_eq!(devices[0].volumes[0].as_ssd, Err(Obstacle::InUse));
        assert_eq!(devices[1].volumes[0].as_ssd, Ok(()));
        assert_eq!(devices[1].volumes[0].content, Content::Unknown);
    }

    #[test]
    fn a_disk_of_unknown_speed_is_a_hard_disk_unless_it_may_be_a_stick() {
        let of = |rotation_rate: Option<i32>, connection: &str| {
            let drive = Drive {
                rotation_rate,
                connection: connection.into(),
                ..Drive::default()
            };
            medium(&Block::default(), Some(&drive))
        };
        assert_eq!(of(Some(-1), ""), Medium::HardDisk);
        assert_eq!(of(Some(7200), "usb"), Medium::HardDisk);
        assert_eq!(of(Some(-1), "usb"), Medium::Usb);
        assert_eq!(of(Some(0), "usb"), Medium::Ssd);
        assert_eq!(of(None, ""), Medium::HardDisk);
    }

    #[test]
    fn the_maker_is_named_once() {
        let named = |vendor: &str, name: &str| {
            model(&Drive {
                vendor: vendor.into(),
                model: name.into(),
                ..Drive::default()
            })
        };
        assert_eq!(named("ATA", "ST2000DM008"), "ST2000DM008");
        assert_eq!(named("Samsung", "Samsung SSD 870"), "Samsung SSD 870");
        assert_eq!(named("WD", "Elements"), "WD Elements");
    }
}
