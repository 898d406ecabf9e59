// SPDX-License-Identifier: GPL-3.0-or-later
//! Whose SSD this is, in words.

use serde::Serialize;

use crate::open::{Disk, Source};
use crate::{Cache, SECTOR_BYTES};

/// A disk in words that tell it apart from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// Path of the device, or the image file.
    pub path: String,
    /// Model; empty if unknown.
    pub model: String,
    /// Serial number; for an image, which has none, the name of the file.
    pub serial: String,
    /// Length.
    pub bytes: u64,
    /// A file with the content of a disk.
    pub is_image: bool,
    /// Whether the SSD names this disk.
    pub named: bool,
}

/// What the service recorded of the cache on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Model of the disk.
    pub disk_model: String,
    /// Name that the disk had.
    pub disk_name: String,
    /// Length of the disk.
    pub disk_bytes: u64,
    /// The disk was used without the SSD after data was stored on the SSD only.
    pub outdated: bool,
}

impl Owner {
    /// What is known of a disk that is open.
    pub fn of(disk: &Disk, cache: &Cache) -> Self {
        let unknown = |serial: &str| Self {
            path: disk.medium.name().to_owned(),
            model: String::new(),
            serial: serial.to_owned(),
            bytes: disk.medium.sectors() * SECTOR_BYTES,
            is_image: matches!(disk.source, Source::Image(_)),
            named: false,
        };
        match &disk.source {
            Source::Image(name) => unknown(name),
            // The name that the kernel gave says nothing of the disk.
            Source::Device(name) => named(name, cache).unwrap_or_else(|| unknown("")),
        }
    }
}

/// What this machine knows of the device with a kernel name.
fn named(name: &str, cache: &Cache) -> Option<Owner> {
    #[cfg(feature = "machine")]
    return crate::machine::named(name, cache);
    #[cfg(not(feature = "machine"))]
    {
        let _ = (name, cache);
        None
    }
}
