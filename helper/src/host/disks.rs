// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine's block devices for the service: the facts of [`crate::machine::blocks`], and object paths, partition tables and
//! drives of UDisks2.

use crate::host::device_mapper::guards::{DeviceNode, mounts};
use crate::host::device_mapper::{CHANGE_TIMEOUT, DeviceMapper, blocking, step};
use crate::host::initramfs;
use crate::host::smart;
use crate::host::traits::Disks;
use crate::machine::blocks::{BlockDevice, Machine, line, names_in, sysfs, whole_disk};
use crate::machine::grub;
use crate::machine::mounts::starts::start_entries;
use crate::machine::mounts::table::Mounts;
use crate::machine::network;
use crate::machine::other_format;
use crate::machine::store;
use crate::machine::volumes::{DEPTH, slaves, volume_kind};
use crate::machine::wipe;
use crate::model::facts::{self, Device, Facts, Holder, Ident, StartEntry};
use crate::model::other_format::Format;
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tandem_api::udisks::{self, Object, Properties};
use tandem_api::{DeviceText, Failure, FileUser, Kind, SsdHealth, plain};
use zbus::fdo::ManagedObjects;
use zbus::{Connection, OwnedObjectPath};

/// Reads the facts of all devices.
///
/// # Errors
/// `ServiceUnavailable` if UDisks2 does not answer, `Internal` if the mount table cannot be read.
pub async fn facts(connection: &Connection) -> Result<Facts, Failure> {
    let unavailable = |e: zbus::Error| {
        Failure::new(Kind::ServiceUnavailable)
            .name("udisks2")
            .detail(e)
    };
    let objects = udisks::objects(connection).await.map_err(unavailable)?;
    crate::waiting(|| read(&objects))
}

#[async_trait]
impl Disks for DeviceMapper {
    async fn facts(&self) -> Result<Facts, Failure> {
        facts(&self.connection).await
    }

    async fn blank(&self, device: &Device) -> Result<bool, Failure> {
        let (node, size) = (device.ident.node(), device.ident.text.size);
        blocking(move || wipe::is_blank(&node, size))
            .await?
            .map_err(|e| step(&e.to_string()).device(&device.ident.text))
    }

    async fn carries(&self, device: &Device, format: Format) -> Result<bool, Failure> {
        let node = device.ident.node();
        blocking(move || other_format::is_on(format, &std::fs::File::open(node)?))
            .await?
            .map_err(|e| step(&e.to_string()).device(&device.ident.text))
    }

    async fn claimed(&self, device: &Device) -> Result<bool, Failure> {
        let node = device.ident.node();
        blocking(move || wipe::is_claimed(&node))
            .await?
            .map_err(|e| step(&e.to_string()).device(&device.ident.text))
    }

    async fn used_percent(&self, device: &Device) -> Result<Option<i32>, Failure> {
        let Some(drive) = &device.drive else {
            return Ok(None);
        };
        let text = &device.ident.text;
        let asked = smart::used_percent(&self.connection, drive, &text.model);
        let answer = tokio::time::timeout(CHANGE_TIMEOUT, asked).await;
        let answer = answer.map_err(|_| step("UDisks2 does not answer").device(text))?;
        answer.map_err(|e| step(&e.to_string()).device(text))
    }

    async fn users(&self, device: &Device) -> Vec<FileUser> {
        match DeviceNode::of(
            &device.ident.text.name,
            device.ident.node(),
            device.object(),
        ) {
            Some(place) => self.users_of(&place, &device.mounts).await,
            None => Vec::new(),
        }
    }
}

/// The facts, with what UDisks2 says of the devices.
fn read(objects: &ManagedObjects) -> Result<Facts, Failure> {
    let mounts = mounts()?;
    let swaps = crate::read_lossy("/proc/swaps").unwrap_or_default();
    let known = Machine::default()
        .block_devices()
        .map_err(|e| Failure::new(Kind::Internal).detail(e))?;
    let entries = start_entries().map_err(|e| Failure::new(Kind::Internal).detail(e))?;
    let mut devices: Vec<_> = objects
        .keys()
        .filter_map(|path| device(objects, path, &known, &mounts, &swaps, &entries))
        .collect();
    let name = |device: &Device| device.ident.text.name.clone();
    let unlocked = devices.iter().filter(|d| d.unlocked_at_start());
    let unlocked: BTreeSet<_> = unlocked.map(name).collect();
    let assembles = assembles();
    for device in &mut devices {
        device.behind_lock = lies_on(&device.ident.text.name, DEPTH, &slaves, &unlocked);
        // The start of the machine finds a device by its record. If the start has to unlock a disk and the disk is
        // missing, it waits in vain for the content of the disk. What is on an unlocked disk is there afterwards only, and
        // what is on the network only when the network is up.
        let found = facts::recorded(&known, |d| &d.ident, &device.ident);
        let found = found.is_some_and(|found| found.number == device.number);
        device.found_at_start = assembles && found && !device.behind_lock && !device.ident.network;
    }
    let initramfs = initramfs::can_assemble();
    Ok(Facts {
        devices,
        initramfs,
        grub_disks: grub::devices(Path::new("/"), &mounts),
        memory_for_cache: 0,
    })
}

/// The unit that assembles caches at the start of the machine.
const UNIT: &str = "/usr/lib/systemd/system/sysinit.target.wants/tandem-assemble.service";

/// Whether this machine assembles caches at its start: the unit is there, and the records are readable before any
/// file system other than the root is mounted.
fn assembles() -> bool {
    let device = |path: &str| std::fs::metadata(path).map(|m| m.dev());
    let same = matches!((device(store::FOLDER), device("/")), (Ok(a), Ok(b)) if a == b);
    same && Path::new(UNIT).exists()
}

fn device(
    objects: &ManagedObjects,
    path: &OwnedObjectPath,
    known: &[BlockDevice],
    mounts: &Mounts,
    swaps: &str,
    entries: &[(String, StartEntry)],
) -> Option<Device> {
    let object = Object(objects, path);
    let block = object.get("Block")?;
    let node = block.path("Device");
    let name = node.strip_prefix("/dev/")?.to_owned();
    let known = known.iter().find(|known| known.name() == name)?;
    let partition = object.get("Partition");
    let drive_path = drive_path(&block);
    let drive = drive_path
        .as_ref()
        .and_then(|path| Object(objects, path).get("Drive"));
    let partitioned = object.get("PartitionTable").is_some()
        || partition.as_ref().is_some_and(|p| p.flag("IsContainer"));
    let whole = whole_disk(&name);
    let target = network::of(&name);
    let part =
        |f: &dyn Fn(&Properties<'_>) -> String| partition.as_ref().map(f).unwrap_or_default();
    let ident = Ident {
        text: DeviceText {
            object: path.clone(),
            name: name.clone(),
            model: match &target {
                Some(target) => plain(&target.name),
                None if known.ident.is_memory() => DeviceText::memory(0).model,
                None => model(&name, drive.as_ref()),
            },
            serial: match (&drive, target) {
                (Some(drive), _) => drive.text("Serial"),
                (None, Some(target)) => plain(&target.serial),
                (None, None) => String::new(),
            },
            size: known.ident.text.size,
            content: if partitioned {
                "partition-table".to_owned()
            } else {
                known.ident.text.content.clone()
            },
            label: block.text("IdLabel"),
        },
        ..known.ident.clone()
    };
    let mapper = line(sysfs(&name).join("dm/name")).map(|n| format!("/dev/mapper/{n}"));
    let device_number = known.number.clone();
    let nodes = [Some(node.clone()), mapper];
    let own: Vec<_> = mounts
        .of(&device_number, nodes.as_slice())
        .cloned()
        .collect();
    Some(Device {
        number: device_number.clone(),
        table: partition
            .as_ref()
            .map(|p| p.text("Table"))
            .filter(|p| p != "/"),
        partitioned,
        table_type: object
            .get("PartitionTable")
            .map(|table| table.text("Type"))
            .unwrap_or_default(),
        part_name: part(&|p| p.text("Name")),
        part_type: part(&|p| p.text("Type").to_lowercase()),
        usage: known.properties.get("ID_FS_USAGE").to_owned(),
        content_uuid: known.ident.content_uuid.clone(),
        blank: false,
        claimed: false,
        volume: line(sysfs(&name).join("dm/uuid")).map(|_| volume_kind(&name)),
        clear_text: clear_text(&name, DEPTH),
        read_only: block.flag("ReadOnly"),
        removable: !known.ident.network
            && removable(&name, DEPTH, &slaves, &|name| {
                drive_comes_off(objects, name).unwrap_or(true)
            }),
        portable: removable(&name, DEPTH, &slaves, &|name| {
            drive_comes_off(objects, name).unwrap_or(false)
        }),
        block_bytes: line(sysfs(&whole).join("queue/logical_block_size"))
            .and_then(|n| n.parse().ok())
            .unwrap_or(0),
        optimal_bytes: line(sysfs(&whole).join("queue/optimal_io_size"))
            .and_then(|n| n.parse().ok())
            .unwrap_or(0),
        // 0: the drive does not rotate. -1: the drive rotates at an unknown speed. A server says nothing of its drives.
        rotates: drive
            .as_ref()
            .filter(|_| !known.ident.network)
            .map(|d| d.signed("RotationRate") != 0),
        snapshots: has_snapshots(&name),
        cached_by_other: cached_by_other(&name, DEPTH),
        carried: known.carried.clone(),
        swap: swaps
            .lines()
            .any(|line| line.split_ascii_whitespace().next() == Some(&node)),
        holders: holders(&name),
        entries: entries
            .iter()
            .filter(|(number, _)| *number == device_number)
            .map(|(_, entry)| entry.clone())
            .collect(),
        found_at_start: false,
        behind_lock: false,
        submounts: mounts.below(&own),
        mounts: own,
        health: drive_path
            .as_ref()
            .map_or(SsdHealth::unknown(), |drive| smart::health(objects, drive)),
        drive: drive_path.map(|p| p.to_string()),
        ident,
    })
}

/// Whether this device, or a device below it, is one of these.
fn lies_on(
    name: &str,
    depth: u32,
    slaves: &dyn Fn(&str) -> Vec<String>,
    those: &BTreeSet<String>,
) -> bool {
    let below = || slaves(name).into_iter();
    let is_on = |name: String| lies_on(&name, depth - 1, slaves, those);
    those.contains(name) || (depth > 0 && below().any(is_on))
}

/// Object path of the drive that a block device is on.
fn drive_path(block: &Properties<'_>) -> Option<OwnedObjectPath> {
    OwnedObjectPath::try_from(block.text("Drive"))
        .ok()
        .filter(|path| path.as_str() != "/")
}

/// Whether the drive of a device can be unplugged. `None`: the device has no drive.
fn drive_comes_off(objects: &ManagedObjects, name: &str) -> Option<bool> {
    let node = format!("/dev/{name}");
    let mut blocks = objects
        .keys()
        .filter_map(|path| Object(objects, path).get("Block"));
    let path = drive_path(&blocks.find(|block| block.path("Device") == node)?)?;
    let drive = Object(objects, &path).get("Drive")?;
    let bus = drive.text("ConnectionBus");
    Some(drive.flag("Removable") || matches!(bus.as_str(), "usb" | "sdio" | "ieee1394"))
}

/// Whether a device can be unplugged. A volume can be unplugged if one of the drives below it can.
fn removable(
    name: &str,
    depth: u32,
    below: &dyn Fn(&str) -> Vec<String>,
    drive: &dyn Fn(&str) -> bool,
) -> bool {
    let below_it = below(name);
    if below_it.is_empty() {
        return drive(name);
    }
    depth == 0
        || below_it
            .iter()
            .any(|name| removable(name, depth - 1, below, drive))
}

fn model(name: &str, drive: Option<&Properties<'_>>) -> String {
    if let Some(drive) = drive {
        let (vendor, model) = (drive.text("Vendor"), drive.text("Model"));
        // Many models begin with their vendor's name.
        let both = if model.starts_with(&vendor) {
            model
        } else {
            format!("{vendor} {model}")
        };
        return both.trim().to_owned();
    }
    match volume_kind(name).as_str() {
        "luks" => "LUKS".to_owned(),
        "lvm" => "LVM".to_owned(),
        "md" => "RAID".to_owned(),
        "tandem" => "Tandem".to_owned(),
        _ => String::new(),
    }
}

/// Whether this device shows the content of an encrypted device in clear.
fn clear_text(name: &str, depth: u32) -> bool {
    if volume_kind(name) == "luks" {
        return true;
    }
    depth > 0
        && slaves(name)
            .iter()
            .any(|below| clear_text(below, depth - 1))
}

/// How the names of the hidden volumes end that LVM puts below a volume with a cache: of a cache, and of a write cache.
const CACHED: [&str; 2] = ["_corig", "_wcorig"];

/// Whether a device lies over a cache of bcache or LVM, itself or by the devices below.
fn cached_by_other(name: &str, depth: u32) -> bool {
    let hidden = || {
        let volume = line(sysfs(name).join("dm/name")).unwrap_or_default();
        volume_kind(name) == "lvm" && CACHED.iter().any(|end| volume.ends_with(end))
    };
    sysfs(&whole_disk(name)).join("bcache/cache").exists()
        || hidden()
        || depth > 0
            && slaves(name)
                .iter()
                .any(|below| cached_by_other(below, depth - 1))
}

/// Whether a logical volume has snapshots: LVM then puts the volume over a hidden one.
fn has_snapshots(name: &str) -> bool {
    let hidden = |below: &String| {
        let volume = line(sysfs(below).join("dm/name"));
        volume.is_some_and(|volume| volume.ends_with("-real"))
    };
    volume_kind(name) == "lvm" && slaves(name).iter().any(hidden)
}

fn holders(name: &str) -> Vec<Holder> {
    let holder = |name: String| Holder {
        kind: volume_kind(&name),
        name,
    };
    let names = names_in(sysfs(name).join("holders"));
    names.into_iter().map(holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zbus::{OwnedVariant, Variant};

    /// Texts of drives, file systems and partition tables were chosen by their makers.
    #[test]
    fn what_a_device_says_of_itself_is_plain_text() {
        let text = |text: &str| OwnedVariant::try_from(Variant::new(text)).unwrap();
        let path = |path: &str| OwnedObjectPath::try_from(path.to_owned()).unwrap();
        let drive = path("/org/freedesktop/UDisks2/drives/x");
        let block = path("/org/freedesktop/UDisks2/block_devices/none1");
        let node = OwnedVariant::try_from(Variant::new(b"/dev/none1\0".to_vec())).unwrap();
        let objects: ManagedObjects = [
            (
                "Block",
                block.clone(),
                vec![
                    ("Device", node),
                    ("Drive", text(drive.as_str())),
                    ("IdLabel", text("\u{1b}]0;x\u{7}Photos\u{202e}")),
                ],
            ),
            (
                "Drive",
                drive.clone(),
                vec![("Model", text("Barge\u{9b}2J")), ("Serial", text("A\nB"))],
            ),
        ]
        .into_iter()
        .map(|(name, path, values)| {
            let name = format!("{}.{name}", udisks::UDISKS).try_into().unwrap();
            let values = values
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value));
            (path, [(name, values.collect())].into())
        })
        .collect();
        let mut known = BlockDevice::default();
        known.ident.text.name = "none1".to_owned();
        let mounts = Mounts::default();
        let device = device(&objects, &block, &[known], &mounts, "", &[]).unwrap();
        let shown = device.ident.text;
        assert_eq!(shown.label, "\u{fffd}]0;x\u{fffd}Photos\u{fffd}");
        assert_eq!(shown.model, "Barge\u{fffd}2J");
        assert_eq!(shown.serial, "A\u{fffd}B");
    }

    #[test]
    fn what_is_on_an_unlocked_disk_is_there_after_it() {
        let slaves = |name: &str| -> Vec<String> {
            let slaves: &[&str] = match name {
                "lvm-on-luks" => &["luks"],
                "luks" => &["sda2"],
                "array" => &["sda1", "sdb1"],
                "endless" => &["endless"],
                _ => &[],
            };
            slaves.iter().map(|&name| name.to_owned()).collect()
        };
        let unlocked = BTreeSet::from(["sda2".to_owned()]);
        for (name, expected) in [
            ("sda2", true),
            ("luks", true),
            ("lvm-on-luks", true),
            ("sda1", false),
            ("array", false),
            ("endless", false),
        ] {
            assert_eq!(lies_on(name, DEPTH, &slaves, &unlocked), expected, "{name}");
        }
    }

    #[test]
    fn a_volume_can_be_unplugged_if_a_drive_below_it_can() {
        let below = |name: &str| -> Vec<String> {
            let below: &[&str] = match name {
                "luks-on-usb" => &["usb1"],
                "lvm-on-luks-on-usb" => &["luks-on-usb"],
                "lvm-on-both" => &["sata1", "usb1"],
                "luks-on-sata" => &["sata1"],
                "luks-on-loop" => &["loop0"],
                "endless" => &["endless"],
                _ => &[],
            };
            below.iter().map(|&name| name.to_owned()).collect()
        };
        let drive = |name: &str| match name {
            "usb1" => Some(true),
            "sata1" => Some(false),
            _ => None,
        };
        for (name, expected) in [
            ("usb1", true),
            ("sata1", false),
            ("luks-on-sata", false),
            ("luks-on-usb", true),
            ("lvm-on-luks-on-usb", true),
            ("lvm-on-both", true),
            ("luks-on-loop", true),
            ("loop0", true),
            ("endless", true),
        ] {
            let with =
                |unknown| removable(name, DEPTH, &below, &|name| drive(name).unwrap_or(unknown));
            assert_eq!(with(true), expected, "{name}");
            // A drive that is not known is no reason to stop a cache.
            assert_eq!(with(false), expected && !name.contains("loop"), "{name}");
        }
    }
}
