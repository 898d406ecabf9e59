// SPDX-License-Identifier: GPL-3.0-or-later
//! What UDisks2 shows of this machine, arranged as a person thinks of it: disks, and on them the volumes.
//!
//! Plain Rust, no bus and no widgets: [`crate::client`] fills a [`Snapshot`], [`arrange`] turns it into
//! [`Device`]s. Built from Block objects, because md arrays, LVM and LUKS volumes have no Drive; a Drive adds
//! model, serial and speed.

use std::collections::BTreeMap;

/// One `org.freedesktop.UDisks2.Block` with the interfaces that matter beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// D-Bus object path, the only name by which the helper knows the device.
    pub path: String,
    /// What the user knows it by, for example `/dev/sda1`.
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
    /// The name given by whoever configured it, for example in a LUKS mapping.
    pub hint_name: String,
    /// UDisks2 says: leave it out.
    pub hint_ignore: bool,
    /// Cannot be written to.
    pub read_only: bool,
    /// Path of the encrypted block that this one is the opened form of.
    pub crypto_backing: Option<String>,
    /// Is an md array of its own.
    pub md_array: bool,
    /// Is a loop device.
    pub is_loop: bool,
    /// `Some` if it is a partition.
    pub partition: Option<Partition>,
    /// Holds a partition table.
    pub has_table: bool,
    /// Where its file system is mounted.
    pub mount_points: Vec<String>,
    /// Path of its opened form, if it is an unlocked encrypted volume.
    pub cleartext: Option<String>,
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
    /// GUID or 0x.. of the type.
    pub type_id: String,
    /// Is only a frame around logical partitions.
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
    /// Revolutions a minute; 0 for no moving parts, -1 if it turns at a speed that is not known. `None` if it does not
    /// say whether it turns.
    pub rotation_rate: Option<i32>,
    /// `usb`, `sdio`, `ieee1394` or empty.
    pub connection: String,
    /// Is a CD or DVD drive.
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

/// What a device is, in the words that decide how it is drawn and named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// Turning platters.
    #[default]
    HardDisk,
    /// No moving parts.
    Ssd,
    /// On USB, and it does not say whether it turns.
    Usb,
    /// An md array, LVM or opened LUKS volume: no drive of its own.
    Virtual(VirtualKind),
}

/// What a device without a drive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualKind {
    /// md RAID.
    Array,
    /// LVM.
    Logical,
    /// Opened LUKS.
    Unlocked,
    /// Anything else that device-mapper or a loop file shows.
    Other,
}

/// A drive, or a block device that has none, with what can be chosen on it.
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
    /// What it is.
    pub medium: Medium,
    /// Its partitions in order, or itself if it has none.
    pub volumes: Vec<Volume>,
    /// Whether it can become a cache as a whole, with all its partitions erased.
    pub whole_as_ssd: Result<(), Obstacle>,
}

/// A place that may be cached, or become a cache.
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
    /// What is on it.
    pub content: Content,
    /// Where it is mounted.
    pub mount_points: Vec<String>,
    /// Whether it can be cached.
    pub as_origin: Result<(), Obstacle>,
    /// Whether it can become a cache.
    pub as_ssd: Result<(), Obstacle>,
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
    /// The copies of a cache.
    Cache,
    /// Nothing but zeros, as the service says.
    Empty,
    /// No signature that UDisks2 knows: not called empty until the service has looked.
    #[default]
    Unknown,
    /// Only a partition table without partitions.
    EmptyTable,
}

/// Why a volume is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The running system starts from it.
    System,
    /// Needed before a cache can exist.
    Boot,
    /// Swap space.
    Swap,
    /// Already under a cache.
    Cached,
    /// Is the SSD of a cache.
    CacheSsd,
    /// Is what a cache shows.
    Mapped,
    /// Already fast.
    AlreadyFast,
    /// Is not an SSD.
    NotFast,
    /// Cannot be written.
    ReadOnly,
    /// Its opened form is the place to choose.
    UnlockedElsewhere,
    /// Belongs to an array or volume group, which is the place to choose.
    Member,
    /// Mounted, so it cannot be erased.
    InUse,
    /// Smaller than makes sense.
    TooSmall,
    /// A partition table and nothing in it.
    Empty,
}
