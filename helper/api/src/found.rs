// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches and disks that are there and that the service is not sure of.

use crate::DeviceText;
use crate::words::words;
use serde::{Deserialize, Serialize};

/// A cache on an SSD of which this system has no record: the system was installed anew, or the SSD comes from another
/// computer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct FoundCache {
    /// UUID of the cache, 32 hex digits.
    pub uuid: String,
    /// The SSD.
    pub ssd: DeviceText,
    /// The disk that the SSD names; none if it is not there.
    pub disk: DeviceText,
    /// Data may be on the SSD only.
    pub may_be_unwritten: bool,
}

words! {
    /// A property by which a disk is recognised.
    DiskMark {
        /// The WWN of the drive.
        Wwn = "wwn",
        /// The serial number of the drive, or the name of the volume.
        Serial = "serial",
        /// The place on the drive, and the size.
        Place = "place",
        /// The UUID of the partition.
        Partition = "partition",
        /// The UUID of the file system, or of another format.
        Content = "content",
        /// The device was used without the cache since. Only against a device.
        Used = "used",
    }
}

words! {
    /// Whether something beside the cache changes what is on its disk.
    Sharing {
        /// Nothing does.
        Alone = "alone",
        /// The file system has further devices, by which it can be mounted without the cache.
        Filesystem = "file-system",
        /// The disk is a logical volume with snapshots: a merge changes it below the cache, and a snapshot does not have what
        /// is on the SSD only.
        Snapshots = "snapshots",
        /// The disk is on the network: another computer can change it whenever the cache is not over it.
        Network = "network",
    }
}

/// A device that may be the disk of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct DiskCandidate {
    /// The device.
    pub device: DeviceText,
    /// The marks that speak for the device: they are as recorded.
    pub agreeing: Vec<DiskMark>,
    /// The marks that speak against the device: they are not as recorded.
    pub differing: Vec<DiskMark>,
}
