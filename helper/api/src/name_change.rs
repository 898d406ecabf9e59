// SPDX-License-Identifier: GPL-3.0-or-later
//! A change of a file that lets the start of the machine find a disk through its cache.

use serde::{Deserialize, Serialize};

/// Another name for a disk in one entry of a file. The rest of the file stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct NameChange {
    /// The file: `/etc/fstab`, `/etc/crypttab` or `/etc/default/grub`.
    pub file: String,
    /// The entry: mount point in fstab, name of the unlocked device in crypttab, the setting in the file of GRUB.
    pub entry: String,
    /// The name as it is, such as `/dev/sda1`, or the part of the setting that names the disk, such as
    /// `root=/dev/sda1`.
    pub before: String,
    /// The name that takes its place, such as `UUID=0a1b...`.
    pub after: String,
}
