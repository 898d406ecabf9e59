// SPDX-License-Identifier: GPL-3.0-or-later
//! A change of fstab that lets the system find a file system through its cache.

use serde::{Deserialize, Serialize};
use zbus::Type;

/// Another first field for one entry of fstab. The rest of the entry stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct FstabChange {
    /// Mount point of the entry.
    pub point: String,
    /// The first field as it is, such as `/dev/sda1`.
    pub before: String,
    /// The first field as it will be, such as `UUID=0a1b...`.
    pub after: String,
}
