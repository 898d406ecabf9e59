// SPDX-License-Identifier: GPL-3.0-or-later
//! Which ways to treat writes are offered for a disk and an SSD.

use crate::facts::Device;
use tandem_api::{Failure, Kind, Mode, ModeRefusal, RefusedMode};

/// File systems that other systems on the same machine are likely to write to.
pub(super) const FOREIGN: [&str; 5] = ["ntfs", "vfat", "exfat", "hfsplus", "BitLocker"];

/// Modes that are not offered. `mapped`: the disk as it shows through its cache, if there is one
/// already; the names that the system uses at its start lead there then.
pub fn refused_modes(origin: &Device, ssd: &Device, mapped: Option<&Device>) -> Vec<RefusedMode> {
    let at_start = origin.used_at_start || mapped.is_some_and(|device| device.used_at_start);
    let mut devices = [Some(origin), Some(ssd), mapped].into_iter().flatten();
    let assembled = devices.all(|device| device.found_at_start);
    let reason = if origin.removable || ssd.removable {
        ModeRefusal::Removable
    } else if FOREIGN.contains(&origin.ident.text.content.as_str()) {
        ModeRefusal::OtherSystems
    } else if at_start && !assembled {
        ModeRefusal::MountedAtStart
    } else if ssd.block_bytes > origin.block_bytes {
        ModeRefusal::BlockSize
    } else {
        return Vec::new();
    };
    let mode = Mode::Writeback;
    vec![RefusedMode { mode, reason }]
}

/// Whether a mode is offered.
///
/// # Errors
/// `ModeRefused`.
pub fn offered(mode: Mode, refused: &[RefusedMode], origin: &Device) -> Result<(), Failure> {
    match refused.iter().find(|refused| refused.mode == mode) {
        Some(refused) => Err(Failure::new(Kind::ModeRefused)
            .device(&origin.ident.text)
            .name(refused.reason.as_str())),
        None => Ok(()),
    }
}
