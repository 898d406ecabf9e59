// SPDX-License-Identifier: GPL-3.0-or-later
//! How a device is recognised.

use crate::model::action::DM_UUID_PREFIX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tandem_api::{DeviceText, DiskMark};

/// The properties of a block device by which the service notices that another device has taken the place of the device.
///
/// After a replug the kernel may give the same name to another device. The kernel gives each sequence number only once
/// in a boot. The other fields stay valid after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ident {
    /// The device in words, with the UDisks2 object path and the kernel name.
    pub text: DeviceText,
    /// Sequence number of the whole disk (`diskseq`), 0 if the kernel gives none.
    pub diskseq: u64,
    /// The boot in which the name and the sequence number are valid.
    pub boot: String,
    /// `WWN/serial` of a drive; either of the two may be empty. For a volume: its unique name (`dm/uuid`, `md/uuid`).
    /// Empty if the device has neither.
    pub hardware: String,
    /// All WWNs and serial numbers of the drive in udev's database, with blanks as `_`; empty for a volume. Each
    /// version of UDisks2 makes its own choice from them for `hardware`.
    #[serde(default)]
    pub names: Vec<String>,
    /// First byte on the drive; 0 for a whole drive.
    pub start: u64,
    /// UUID of the partition, empty for a whole device.
    pub part_uuid: String,
    /// UUID of the file system or volume format on the device; empty if there is none.
    #[serde(default)]
    pub content_uuid: String,
    /// The device, or a drive below it, is on the network: another computer can write to it at any moment.
    #[serde(default)]
    pub network: bool,
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
            network: false,
        }
    }
}

/// A WWN or serial number in udev's form: blanks at the ends are removed, and each run of blanks inside becomes one
/// `_`.
pub fn drive_name(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c == '_')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("_")
}

/// The parts of the computer's memory that caches have in place of an SSD: their names begin so.
const MEMORY_PREFIX: &str = "MEMORY-";

/// [`Ident::hardware`] of the memory of this cache.
pub fn memory_name(uuid: &str) -> String {
    format!("{MEMORY_PREFIX}{uuid}")
}

/// Whether [`Ident::hardware`] is the name of a part of the computer's memory.
pub fn is_memory_name(hardware: &str) -> bool {
    hardware.starts_with(MEMORY_PREFIX)
}

impl Ident {
    /// So many bytes of the computer's memory for this cache. The device is made later, and made anew at each start, so no boot
    /// is its boot: the name alone tells it from others.
    pub fn memory(uuid: &str, bytes: u64) -> Self {
        Self {
            text: DeviceText::memory(bytes),
            hardware: memory_name(uuid),
            ..Self::default()
        }
    }

    /// Whether the device is a part of the computer's memory.
    pub fn is_memory(&self) -> bool {
        is_memory_name(&self.hardware)
    }

    /// Path of the device node.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.text.name)
    }

    /// Whether this device is the recorded device, perhaps under another name and after a restart: all properties in
    /// the record agree. Only such a device becomes part of a cache.
    ///
    /// The UUID of the file system is not compared: the newest superblock of a dirty disk may be on the SSD only.
    pub fn same_hardware(&self, recorded: &Self) -> bool {
        self.same_kind(recorded)
            && self.same_drive(recorded)
            && self.same_place(recorded)
            && self.part_uuid == recorded.part_uuid
            && (!recorded.hardware.is_empty() || !recorded.part_uuid.is_empty())
    }

    /// Whether this device is the recorded disk of a cache under another name. A newer kernel gives some NVMe drives
    /// another WWN, and Windows writes a new signature to a partition table, which is a part of the UUIDs of the
    /// partitions. So the place and the serial number have to agree, and the WWN or the UUID of the partition or of the
    /// content: enclosures give different drives one serial number.
    pub fn is_renamed(&self, recorded: &Self) -> bool {
        let same = |now: &str, then: &str| !then.is_empty() && now == then;
        let Some((wwn, serial)) = recorded.hardware.split_once('/') else {
            return false;
        };
        self.same_kind(recorded)
            && (self.start, self.text.size) == (recorded.start, recorded.text.size)
            && self.is_called(serial)
            && (self.is_called(wwn)
                || same(&self.part_uuid, &recorded.part_uuid)
                || same(&self.content_uuid, &recorded.content_uuid))
    }

    /// Whether what tells the recorded device from others is missing here: all names of the drive or volume, or the UUID of
    /// the partition.
    pub fn lacks_names_of(&self, recorded: &Self) -> bool {
        let lacks = |now: &str, then: &str| now.is_empty() && !then.is_empty();
        lacks(&self.hardware, &recorded.hardware) || lacks(&self.part_uuid, &recorded.part_uuid)
    }

    /// Whether the drive has this WWN or serial number, which is not empty.
    fn is_called(&self, name: &str) -> bool {
        let own = self.hardware.split('/').any(|own| own == name);
        !name.is_empty() && (own || self.names.contains(&drive_name(name)))
    }

    /// Whether this device may be the recorded device or a copy of the recorded device: one strong property that agrees
    /// is enough. Such a device is held while the only copy of the disk's newest data may be on an SSD.
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

    /// False if this is a loop device, a volume of device-mapper, or an image on the network, and the recorded device was
    /// none: an image of a disk has all UUIDs of the disk and is not the disk.
    pub(super) fn same_kind(&self, recorded: &Self) -> bool {
        let is_virtual = |ident: &Self| {
            ["loop", "dm-", "nbd", "rbd"]
                .into_iter()
                .find(|kind| ident.text.name.starts_with(kind))
        };
        is_virtual(self).is_none() || is_virtual(self) == is_virtual(recorded)
    }

    fn same_place(&self, recorded: &Self) -> bool {
        let size = self.text.size == recorded.text.size || self.has_grown(recorded);
        self.start == recorded.start && size
    }

    /// Whether the device is larger than the recorded device and can have grown. A partition and a volume can grow. A
    /// larger drive is another drive, even if an enclosure gives both the same serial number.
    fn has_grown(&self, recorded: &Self) -> bool {
        let can_grow = recorded.is_volume() || !recorded.part_uuid.is_empty();
        self.text.size > recorded.text.size && can_grow
    }

    /// Whether the device is a volume of device-mapper or an array, or a partition of one.
    pub fn is_volume(&self) -> bool {
        !self.hardware.is_empty() && !self.hardware.contains('/')
    }

    /// Whether the device is the clear text of an encrypted disk.
    pub fn is_clear_text(&self) -> bool {
        self.hardware.starts_with("CRYPT-")
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

    /// Whether `other` is the same device under the same name, and was not plugged in again since.
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

    /// The recorded marks of the disk, each with whether this device has the same.
    pub fn marks(&self, recorded: &Self) -> Vec<(DiskMark, bool)> {
        let (wwn, serial) = match recorded.hardware.split_once('/') {
            Some((wwn, serial)) => (wwn, serial),
            None => ("", recorded.hardware.as_str()),
        };
        let place = |ident: &Self| (ident.start, ident.text.size);
        let marks = [
            (DiskMark::Wwn, !wwn.is_empty(), self.is_called(wwn)),
            (DiskMark::Serial, !serial.is_empty(), self.is_called(serial)),
            (DiskMark::Place, true, place(self) == place(recorded)),
            (
                DiskMark::Partition,
                !recorded.part_uuid.is_empty(),
                self.part_uuid == recorded.part_uuid,
            ),
            (
                DiskMark::Content,
                !recorded.content_uuid.is_empty(),
                self.content_uuid == recorded.content_uuid,
            ),
        ];
        let known = marks.into_iter().filter(|(_, known, _)| *known);
        known.map(|(mark, _, same)| (mark, same)).collect()
    }

    /// The values of [`Self::origin_id`] that this device may have on record: versions of UDisks2 choose different ones of
    /// its names. None if nothing tells the device from others.
    pub fn origin_ids(&self) -> BTreeSet<String> {
        if self.hardware.is_empty() && self.part_uuid.is_empty() {
            return BTreeSet::new();
        }
        let mut names: Vec<_> = self.names.clone();
        names.extend(self.names.iter().map(|name| name.replace('_', " ")));
        names.push(String::new());
        let pairs = names.iter().flat_map(|wwn| {
            let serials = names.iter();
            let known = serials.filter(move |serial| !(wwn.is_empty() && serial.is_empty()));
            known.map(move |serial| format!("{wwn}/{serial}"))
        });
        let of = |hardware| {
            let named = Self {
                hardware,
                ..self.clone()
            };
            named.origin_id()
        };
        pairs.chain([self.hardware.clone()]).map(of).collect()
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
