// SPDX-License-Identifier: GPL-3.0-or-later
//! The SSDs of this computer in the curve of a watched disk.

use super::device_words;
use crate::model::inventory::{Device, Medium};

/// An SSD of this computer in the curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdMark {
    /// Maker and model.
    pub name: String,
    /// Size of the SSD in bytes.
    pub bytes: u64,
}

/// The SSDs that could become the cache of this disk, smallest first. `least`: bytes that an SSD must have.
#[must_use]
pub fn ssd_marks(devices: &[Device], disk: &str, least: u64) -> Vec<SsdMark> {
    let usable = |device: &&Device| {
        let holds_disk = device.volumes.iter().any(|volume| volume.path == disk);
        device.medium == Medium::Ssd && !holds_disk
    };
    let mut marks = Vec::new();
    for device in devices.iter().filter(usable) {
        let name = device_words(device).title;
        let mark = |bytes| SsdMark {
            name: name.clone(),
            bytes,
        };
        let parts = device.volumes.iter();
        if device.whole_as_ssd.is_ok() {
            marks.push(mark(device.size));
        } else {
            let parts = parts.filter(|volume| volume.as_ssd.is_ok());
            marks.extend(parts.map(|volume| mark(volume.size)));
        }
    }
    marks.retain(|mark| mark.bytes >= least.max(1));
    marks.sort_by_key(|mark| mark.bytes);
    marks
}
