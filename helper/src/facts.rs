// SPDX-License-Identifier: GPL-3.0-or-later
//! The facts about the machine's block devices at one moment. They are plain values, so that all decisions about them
//! are pure functions.

use crate::action::{DM_UUID_PREFIX, PARTITION_TYPE, Pair};
use serde::{Deserialize, Serialize};
use tandem_api::DeviceText;

/// Enough data about a block device to notice when another device takes its place.
///
/// After a replug the kernel may give the same name to another device. It gives a sequence number only once while the
/// system runs. The other fields stay valid after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ident {
    /// The device in words; carries the UDisks2 object path and the kernel name.
    pub text: DeviceText,
    /// Kernel's sequence number of the whole disk (`diskseq`), 0 where the kernel gives none.
    pub diskseq: u64,
    /// The boot in which the name and the sequence number are valid.
    pub boot: String,
    /// `WWN/serial` of a drive; either of the two may be empty. For a volume: its unique name (`dm/uuid`, `md/uuid`).
    /// Empty if the device has neither.
    pub hardware: String,
    /// All WWNs and serial numbers that udev knows of the drive, blanks as `_`; empty for a volume. Different
    /// versions of UDisks2 choose different ones of them for `hardware`.
    #[serde(default)]
    pub names: Vec<String>,
    /// First byte on the drive, 0 for a whole one.
    pub start: u64,
    /// UUID of the partition, empty for a whole device.
    pub part_uuid: String,
    /// UUID of the file system or volume format on the device; empty if there is none.
    #[serde(default)]
    pub content_uuid: String,
}

impl Default for Ident {
    /// A device that does not exist.
    fn default() -> Self {
        Self {
            text: DeviceText::none(),
            diskseq: 0,
            boot: String::new(),
            hardware: String::new(),
            names: Vec::new(),
            start: 0,
            part_uuid: String::new(),
            content_uuid: String::new(),
        }
    }
}

/// A WWN or serial number as udev writes it: blanks at the ends are dropped, those inside become one `_`.
pub fn drive_name(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c == '_')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("_")
}

impl Ident {
    /// Path of the device node.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.text.name)
    }

    /// Whether this device is the recorded one, perhaps under another name and after a restart: everything in the
    /// record is true of this device. Only such a device becomes part of a cache.
    ///
    /// The UUID of the file system is not compared: the newest superblock of a dirty disk may be on the SSD only.
    pub fn same_hardware(&self, recorded: &Self) -> bool {
        self.same_kind(recorded)
            && self.same_drive(recorded)
            && self.same_place(recorded)
            && self.part_uuid == recorded.part_uuid
            && (!recorded.hardware.is_empty() || !recorded.part_uuid.is_empty())
    }

    /// Whether this device may be the recorded one or a copy of it: one strong property that agrees is enough. Such a
    /// device is held while the only copy of the disk's newest data may be on an SSD.
    pub fn may_be(&self, recorded: &Self) -> bool {
        let same = |now: &str, then: &str| !then.is_empty() && now == then;
        let drive = !recorded.hardware.is_empty() && self.same_drive(recorded);
        let content = same(&self.content_uuid, &recorded.content_uuid);
        !self.hardware.starts_with(DM_UUID_PREFIX)
            && self.same_kind(recorded)
            && (same(&self.part_uuid, &recorded.part_uuid)
                || (content && self.text.size == recorded.text.size)
                || (drive && self.same_place(recorded)))
    }

    /// False for a loop device or a volume of device-mapper if the recorded device was none: an image of a disk has all
    /// its UUIDs and is not the disk.
    fn same_kind(&self, recorded: &Self) -> bool {
        let is_virtual = |ident: &Self| {
            ["loop", "dm-"]
                .into_iter()
                .find(|kind| ident.text.name.starts_with(kind))
        };
        is_virtual(self).is_none() || is_virtual(self) == is_virtual(recorded)
    }

    fn same_place(&self, recorded: &Self) -> bool {
        self.start == recorded.start && self.text.size == recorded.text.size
    }

    /// Whether the drive has the recorded WWN and serial number, or the volume has the recorded name.
    fn same_drive(&self, recorded: &Self) -> bool {
        if recorded.hardware.is_empty() || self.hardware == recorded.hardware {
            return true;
        }
        let (wwn, serial) = recorded.hardware.split_once('/').unwrap_or_default();
        let has = |name: &str| name.is_empty() || self.names.contains(&drive_name(name));
        !(wwn.is_empty() && serial.is_empty()) && has(wwn) && has(serial)
    }

    /// Whether `other` is this same device under the same name, and was not plugged in again since.
    pub fn same_device(&self, other: &Self) -> bool {
        self.same_hardware(other)
            && self.boot == other.boot
            && self.diskseq == other.diskseq
            && self.text.name == other.text.name
    }

    /// Whether the identity of this device has a WWN, which no other drive has.
    pub fn has_wwn(&self) -> bool {
        let wwn = self.hardware.split_once('/');
        wwn.is_some_and(|(wwn, _)| !wwn.is_empty())
    }

    /// Whether this device is the very device that `before` describes: it was not plugged in again since, or its drive
    /// has the same WWN. A serial number is not enough here: an enclosure may have another drive in it.
    pub fn is_again(&self, before: &Self) -> bool {
        let not_replugged = self.boot == before.boot
            && self.diskseq == before.diskseq
            && self.text.name == before.text.name;
        self.hardware == before.hardware
            && self.same_place(before)
            && self.part_uuid == before.part_uuid
            && (not_replugged || self.has_wwn())
    }

    /// Identity for the module (`origin_id`), in hex: a digest of the properties that stay the same after a restart.
    pub fn origin_id(&self) -> String {
        let text = format!(
            "{}\n{}\n{}\n{}",
            self.hardware, self.start, self.part_uuid, self.text.size
        );
        crate::hex(&<sha2::Sha256 as sha2::Digest>::digest(text.as_bytes()))
    }
}

/// Who mounted a file system, which decides how it is mounted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mounter {
    /// An fstab entry whose first field is this; systemd has a unit for it.
    Fstab(String),
    /// UDisks2 on behalf of the user with this uid.
    Udisks(u32),
    /// Any other program.
    Other,
}

/// A mount, with everything that is needed to make the same mount again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Mount point.
    pub point: String,
    /// Part of the file system that is shown there, `/` for all of it.
    pub root: String,
    /// Type of the file system as the kernel names it.
    pub fstype: String,
    /// Options, comma separated, those of the mount and those of the file system.
    pub options: String,
    /// Who mounted it.
    pub mounter: Mounter,
}

/// All that a plan needs to know of a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Which device.
    pub ident: Ident,
    /// `major:minor`.
    pub number: String,
    /// Object path of the whole disk that it is a partition of.
    pub table: Option<String>,
    /// Object path of the drive; volumes have none.
    pub drive: Option<String>,
    /// Whether it carries a partition table (or is an extended partition).
    pub partitioned: bool,
    /// Type of its partition table as UDisks2 names it (`gpt`, `dos`); empty if it has none.
    pub table_type: String,
    /// Name of the partition in the partition table; empty if it has none.
    pub part_name: String,
    /// Type of the partition: GUID or `0x..`, lower case.
    pub part_type: String,
    /// `filesystem`, `crypto`, `raid`, `other`, or empty if there is no known signature.
    pub usage: String,
    /// UUID of the file system or volume format on it; empty if there is none.
    pub content_uuid: String,
    /// The device was read at some places, and only zeroes were found. It is read only if `usage` is empty.
    pub blank: bool,
    /// Another program has the device open exclusively, although neither mounts nor holders show a user. This is
    /// checked only shortly before the device is used.
    pub claimed: bool,
    /// What kind of volume it is (`luks`, `lvm`, ...); none for a drive, a partition or an md array.
    pub volume: Option<String>,
    /// The device shows the clear text of an encrypted device below it.
    pub clear_text: bool,
    /// Cannot be written to.
    pub read_only: bool,
    /// The device can be unplugged while the system runs. Also true for a volume with a part on such a drive, and for
    /// a device whose drive is unknown.
    pub removable: bool,
    /// Size of its smallest request in bytes, 0 if unknown.
    pub block_bytes: u32,
    /// Spinning platters; `None` if unknown.
    pub rotates: Option<bool>,
    /// In use as swap.
    pub swap: bool,
    /// Volumes made of it, by kernel name (`dm-0`, `md127`), with what they are (`luks`, `lvm`, ...).
    pub holders: Vec<Holder>,
    /// Where it is mounted, in the order of mounting.
    pub mounts: Vec<Mount>,
    /// The system mounts or unlocks it at its start.
    pub used_at_start: bool,
    /// The program that assembles caches at the start of the machine recognises the device by its record, in time for
    /// those mounts.
    pub found_at_start: bool,
    /// Other file systems mounted below one of its mount points.
    pub submounts: Vec<String>,
}

/// A volume above a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Kernel name.
    pub name: String,
    /// `luks`, `lvm`, `md`, `tandem`, `bcache`, or the kernel name if it is something else.
    pub kind: String,
}

impl Device {
    /// UDisks2 object path.
    pub fn object(&self) -> &str {
        self.ident.text.object.as_str()
    }

    /// Whether neither a volume nor a file system nor swap uses it.
    pub fn unused(&self) -> bool {
        self.holders.is_empty() && self.mounts.is_empty() && !self.swap
    }

    /// Whether anything other than a mapping of ours uses it.
    pub fn used_by_others(&self) -> bool {
        let other = self.holders.iter().any(|holder| holder.kind != "tandem");
        other || !self.mounts.is_empty() || self.swap
    }

    /// Mount points only.
    pub fn mount_points(&self) -> Vec<String> {
        self.mounts.iter().map(|m| m.point.clone()).collect()
    }
}

/// All block devices.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// In no order.
    pub devices: Vec<Device>,
    /// The initial file systems of this machine's kernels can be made so that they assemble the cache of the root file
    /// system.
    pub initramfs: bool,
}

impl Facts {
    /// The device with this object path.
    pub fn device(&self, object: &str) -> Option<&Device> {
        self.devices.iter().find(|d| d.object() == object)
    }

    /// Its partitions.
    pub fn partitions<'a>(&'a self, whole: &'a Device) -> impl Iterator<Item = &'a Device> {
        self.devices
            .iter()
            .filter(move |d| d.table.as_deref() == Some(whole.object()))
    }

    /// Another device with the same identity as this one.
    pub fn same_identity(&self, device: &Device) -> Option<&Device> {
        self.devices
            .iter()
            .find(|d| d.object() != device.object() && d.ident.same_hardware(&device.ident))
    }

    /// Another device with a part of the same file system. A mapping of ours and the device below it show the same
    /// file system, and count as one device.
    pub fn same_filesystem(&self, device: &Device) -> Option<&Device> {
        let same = |d: &&Device| {
            d.object() != device.object()
                && d.ident.text.content == device.ident.text.content
                && d.content_uuid == device.content_uuid
                && !d.ident.hardware.starts_with(DM_UUID_PREFIX)
        };
        let known = !device.content_uuid.is_empty();
        known.then(|| self.devices.iter().find(same)).flatten()
    }

    /// The partition that the service made for the cache of this pair, see
    /// [`crate::action::Partition`]. None if two partitions have its name.
    pub fn made_partition(&self, pair: &Pair, boot: &str) -> Option<&Device> {
        let disk = self.locate(&pair.partition.as_ref()?.disk, boot)?;
        let name = pair.partition_name();
        let mut named = self
            .partitions(disk)
            .filter(|d| d.part_name == name && d.part_type == PARTITION_TYPE);
        named.next().filter(|_| named.next().is_none())
    }

    /// The device that is on record, see [`recorded`].
    pub fn same_hardware(&self, ident: &Ident) -> Option<&Device> {
        recorded(&self.devices, |d| &d.ident, ident)
    }

    /// Devices that may be the one on record, see [`possible`].
    pub fn possible(&self, ident: &Ident) -> Vec<&Device> {
        possible(&self.devices, |d| &d.ident, ident)
    }

    /// The devices to hold while the newest data of the recorded disk may be on an SSD only: the disk, and all
    /// devices that may be the disk. None if the disk itself is in use. Copies that are in use are left out.
    pub fn to_be_held(&self, ident: &Ident) -> impl Iterator<Item = &Device> {
        let busy = self
            .same_hardware(ident)
            .is_some_and(Device::used_by_others);
        let all = if busy {
            Vec::new()
        } else {
            self.possible(ident)
        };
        all.into_iter().filter(|device| !device.used_by_others())
    }

    /// The device that this ident means: in the boot of the ident the very same device, in another boot the device
    /// with the same hardware.
    pub fn locate(&self, ident: &Ident, boot: &str) -> Option<&Device> {
        if ident.boot == boot {
            self.devices.iter().find(|d| d.ident.same_device(ident))
        } else {
            self.same_hardware(ident)
        }
    }
}

/// The recorded device, under whatever name it has now; none if several devices agree with the record.
pub fn recorded<'a, T>(
    devices: &'a [T],
    ident_of: impl Fn(&T) -> &Ident,
    record: &Ident,
) -> Option<&'a T> {
    let mut all = devices.iter().filter(|d| ident_of(d).same_hardware(record));
    all.next().filter(|_| all.next().is_none())
}

/// All devices that may be the recorded one. Devices that agree with the whole record come first.
pub fn possible<'a, T>(
    devices: &'a [T],
    ident_of: impl Fn(&T) -> &Ident,
    record: &Ident,
) -> Vec<&'a T> {
    let agrees = |d: &&T| ident_of(d).same_hardware(record);
    let mut all: Vec<&T> = devices
        .iter()
        .filter(|d| ident_of(d).may_be(record))
        .collect();
    all.sort_by_key(|d| !agrees(d));
    all
}
