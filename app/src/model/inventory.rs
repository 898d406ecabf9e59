// SPDX-License-Identifier: GPL-3.0-or-later
//! What UDisks2 shows of this machine, arranged as a person thinks of it: disks, and on them the volumes.
//!
//! Plain Rust, no bus and no widgets: [`crate::client`] fills a [`Snapshot`], [`arrange`] turns it into
//! [`Device`]s. Built from Block objects, because md arrays, LVM and LUKS volumes have no Drive; a Drive adds
//! model, serial and speed.

use std::collections::BTreeMap;

use tandem_api::Verdict;

/// One `org.freedesktop.UDisks2.Block` with the other interfaces of the same object that matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// D-Bus object path, the only name by which the helper knows the device.
    pub path: String,
    /// Name that the user knows, for example `/dev/sda1`.
    pub device: String,
    /// Size in bytes.
    pub size: u64,
    /// Path of its Drive, if it has one.
    pub drive: Option<String>,
    /// `filesystem`, `crypto`, `raid`, `other` or empty.
    pub usage: String,
    /// `ext4`, `crypto_LUKS`, `swap` or empty.
    pub kind: String,
    /// File system label.
    pub label: String,
    /// Name from the configuration, for example of a LUKS mapping.
    pub hint_name: String,
    /// UDisks2 asks programs not to show this block.
    pub hint_ignore: bool,
    /// The block cannot be written to.
    pub read_only: bool,
    /// Path of the encrypted block that was opened as this block.
    pub crypto_backing: Option<String>,
    /// The block is an md array of its own.
    pub md_array: bool,
    /// The block is a loop device.
    pub is_loop: bool,
    /// `Some` if it is a partition.
    pub partition: Option<Partition>,
    /// The block holds a partition table.
    pub has_table: bool,
    /// Where its file system is mounted.
    pub mount_points: Vec<String>,
    /// Further names; `/dev/mapper/...` and the links of LVM are among them.
    pub symlinks: Vec<String>,
}

/// The Partition interface of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partition {
    /// Block path of the disk with the table.
    pub table: String,
    /// Number in the table, from 1.
    pub number: u32,
    /// Name in the table, may be empty.
    pub name: String,
    /// The partition is an extended one, which only contains logical partitions.
    pub container: bool,
}

/// One `org.freedesktop.UDisks2.Drive`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drive {
    /// D-Bus object path.
    pub path: String,
    /// Maker, may be empty.
    pub vendor: String,
    /// Model, may be empty.
    pub model: String,
    /// Serial number, may be empty.
    pub serial: String,
    /// Revolutions a minute; 0 for no moving parts, -1 for an unknown speed. `None` if the drive does not say whether
    /// it rotates.
    pub rotation_rate: Option<i32>,
    /// `usb`, `sdio`, `ieee1394` or empty.
    pub connection: String,
    /// The drive takes CDs or DVDs.
    pub optical: bool,
}

/// Everything that UDisks2 shows at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// By object path.
    pub blocks: BTreeMap<String, Block>,
    /// By object path.
    pub drives: BTreeMap<String, Drive>,
}

/// The block devices that a cache is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheParts {
    /// Block path of the disk under the cache.
    pub origin: String,
    /// Block path of its SSD.
    pub ssd: String,
    /// Block path of the mapped device, empty if it does not exist at this moment.
    pub mapped: String,
}

/// The kind of a device, which decides how the device is drawn and named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// A drive with rotating platters.
    #[default]
    HardDisk,
    /// A drive without moving parts.
    Ssd,
    /// A drive on USB that does not say whether it rotates.
    Usb,
    /// An md array, LVM or opened LUKS volume, without a drive of its own.
    Virtual(VirtualKind),
}

/// The kind of a device without a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualKind {
    /// md RAID.
    Array,
    /// LVM.
    Logical,
    /// Opened LUKS.
    Unlocked,
    /// Any other device of device-mapper, or a loop file.
    Other,
}

/// A drive, or a block device without a drive, with the volumes that can be chosen on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Block path of the whole device.
    pub path: String,
    /// `/dev/sda`
    pub device: String,
    /// Maker and model; empty if not known.
    pub model: String,
    /// Serial number; empty if not known.
    pub serial: String,
    /// Size in bytes.
    pub size: u64,
    /// Kind of the device.
    pub medium: Medium,
    /// The device is on a plug outside the computer: USB, FireWire or a card reader.
    pub outside: bool,
    /// The partitions in order, or the device itself if it has no partitions.
    pub volumes: Vec<Volume>,
    /// Whether the device can become a cache as a whole, with all its partitions erased.
    pub whole_as_ssd: Result<(), Obstacle>,
}

/// A partition or a whole device that may be cached, or may become a cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Block path.
    pub path: String,
    /// `/dev/sda1`
    pub device: String,
    /// Size in bytes.
    pub size: u64,
    /// Label, partition name or mapping name; empty if it has none.
    pub name: String,
    /// Number of the partition; `None` for a device as a whole.
    pub partition: Option<u32>,
    /// The content of the volume.
    pub content: Content,
    /// Where the volume is mounted.
    pub mount_points: Vec<String>,
    /// Whether the volume can be cached.
    pub as_origin: Result<(), Obstacle>,
    /// The volume is always in use, so that it can be cached only from the next start of the machine on.
    pub only_later: bool,
    /// Whether the volume can become a cache.
    pub as_ssd: Result<(), Obstacle>,
    /// The verdict of the service on this volume, if the service watches how the volume is used.
    pub watched: Option<Verdict>,
}

impl Volume {
    /// Whether the volume has a row among the disks. The disk and the SSD of a cache are in the row of the cache; a disk
    /// that is watched needs its row all the same.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        let in_cache = matches!(self.as_origin, Err(Obstacle::Cached | Obstacle::CacheSsd));
        !in_cache || self.watched.is_some()
    }
}

/// What a volume holds, as far as its signature tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Content {
    /// A file system of this type.
    FileSystem(String),
    /// LUKS or another known encryption.
    Encrypted,
    /// Part of an array or volume group, or anything else with a signature.
    Member(String),
    /// Swap space.
    Swap,
    /// The SSD of a cache.
    Cache,
    /// The volume has only zeros, as the service says.
    Empty,
    /// UDisks2 knows no signature of the volume. The volume is not called empty before the service has read it.
    #[default]
    Unknown,
    /// The volume has a partition table without partitions.
    EmptyTable,
}

/// Why a volume is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The running system starts from the volume.
    System,
    /// The firmware or boot loader reads the volume before a cache can exist.
    Boot,
    /// Swap space.
    Swap,
    /// The disk of a cache.
    Cached,
    /// The SSD of a cache.
    CacheSsd,
    /// The volume is fast without a cache.
    AlreadyFast,
    /// The volume is not on an SSD.
    NotFast,
    /// The volume cannot be written.
    ReadOnly,
    /// The volume is encrypted and opened: the opened volume is the one to choose.
    UnlockedElsewhere,
    /// The volume belongs to an array or volume group; that array or group is the one to choose.
    Member,
    /// The volume is mounted, so that it cannot be erased.
    InUse,
    /// The volume is too small to be of use.
    TooSmall,
    /// The volume has a partition table without partitions.
    Empty,
    /// The start of the computer uses the volume, or uses the volume before a cache can exist.
    UsedAtStart,
    /// The drive cannot be told apart from another drive.
    Twin,
    /// The service refuses the volume for another reason, which a plan tells.
    Refused,
    /// The service has not told what can be done with the volume.
    NotJudged,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(as_origin: Result<(), Obstacle>) -> Volume {
        Volume {
            path: String::new(),
            device: String::new(),
            size: 0,
            name: String::new(),
            partition: None,
            content: Content::Unknown,
            mount_points: vec![],
            as_origin,
            only_later: false,
            as_ssd: Err(Obstacle::NotFast),
            watched: None,
        }
    }

    #[test]
    fn a_part_of_a_cache_has_a_row_of_its_own_only_if_it_is_watched() {
        let listed = |as_origin, watched| {
            let volume = Volume {
                watched,
                ..volume(as_origin)
            };
            volume.is_listed()
        };
        assert!(listed(Ok(()), None) && listed(Err(Obstacle::Swap), None));
        for part in [Obstacle::Cached, Obstacle::CacheSsd] {
            assert!(!listed(Err(part), None));
            assert!(listed(Err(part), Some(Verdict::Helps)));
        }
    }
}
