// SPDX-License-Identifier: GPL-3.0-or-later
//! Devices and programs as a person knows them.

use crate::object::{self, OwnedObjectPath};
use crate::words::words;
use serde::{Deserialize, Serialize};

/// [`DeviceText::model`] of a part of the computer's memory. No vendor has such a model.
const MEMORY: &str = "tandem-memory";

/// A block device in words and numbers, enough to recognise it on the desk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct DeviceText {
    /// UDisks2 block object, or `/` if there is none (yet).
    pub object: OwnedObjectPath,
    /// Kernel name such as `sda1`, for experts. The name may be another one after a restart.
    pub name: String,
    /// Vendor and model of the drive, or the kind of volume for md, LVM and LUKS; may be empty.
    pub model: String,
    /// Serial number of the drive; may be empty.
    pub serial: String,
    /// Size in bytes.
    pub size: u64,
    /// Type of the content as blkid names it (`ext4`, `crypto_LUKS`, ...), `partition-table`, or empty
    /// if there is no known signature. Empty does **not** mean that there is no data.
    pub content: String,
    /// Label of the file system; may be empty.
    pub label: String,
}

impl DeviceText {
    /// No device, for a [`crate::Failure`] that concerns no device.
    pub fn none() -> Self {
        Self {
            object: object::root(),
            name: String::new(),
            model: String::new(),
            serial: String::new(),
            size: 0,
            content: String::new(),
            label: String::new(),
        }
    }

    /// So many bytes of the computer's memory, in the place of an SSD.
    pub fn memory(bytes: u64) -> Self {
        Self {
            model: MEMORY.to_owned(),
            size: bytes,
            ..Self::none()
        }
    }

    /// Whether this value is a part of the computer's memory.
    pub fn is_memory(&self) -> bool {
        self.model == MEMORY
    }

    /// Whether this value names no device.
    pub fn is_none(&self) -> bool {
        self.object.as_str() == "/" && self.name.is_empty() && !self.is_memory()
    }
}

/// A program, or something else, that keeps a file system busy.
///
/// Only root and the user of a program see which program it is. For other users `pid` is 0, `command` and `user` are
/// empty, and `uid` is [`u32::MAX`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct FileUser {
    /// Process id; 0 without a process.
    pub pid: u32,
    /// Command name as `/proc/<pid>/comm` gives it; without a process the name of a unit of systemd, or
    /// the path of a swap file or of a file behind a loop device.
    pub command: String,
    /// Numeric id of the user of the program.
    pub uid: u32,
    /// Login name of that user, or the number in decimal if the user has no name. Without a process: `systemd`, `swap`
    /// or `loop`.
    pub user: String,
}

words! {
    /// What a part of an SSD is used for.
    PartUse {
        /// Free space. The service can make a partition for a cache there.
        Free = "free",
        /// A cache uses the part.
        Cache = "cache",
        /// The part has other content, known or unknown.
        Other = "other",
    }
}

/// A part of an SSD, of at least 1 MiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct SsdPart {
    /// First byte on the SSD.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// The use of the part.
    pub used_for: PartUse,
    /// The partition, or the SSD itself if the SSD has no partition table. None for free space beside partitions.
    pub device: DeviceText,
    /// UUID of the cache that uses the part, or empty.
    pub cache: String,
}
