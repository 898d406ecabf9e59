// SPDX-License-Identifier: GPL-3.0-or-later
//! The mappings that other programs have made, for reading only.

use super::Control;
use devicemapper::{DevId, DmFlags, DmOptions};

/// A mapping with one line, as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Its name.
    pub name: String,
    /// Its UUID; may be empty.
    pub uuid: String,
    /// `major:minor`.
    pub number: String,
    /// The target of its line.
    pub target: String,
    /// The words of the line in its table.
    pub table: String,
    /// The words of the line in its status.
    pub status: String,
}

impl Control {
    /// The mappings with one of these targets. A mapping that is removed meanwhile counts as absent, and none of them is
    /// flushed or waited for.
    pub fn foreign(&self, targets: &[&str]) -> Vec<Foreign> {
        let devices = self.dm.list_devices().unwrap_or_default();
        let read = |name: &DevId<'_>, flags: DmFlags| {
            let options = DmOptions::default().set_flags(flags | DmFlags::DM_NOFLUSH);
            self.dm.table_status(name, options).ok()
        };
        let known = |(name, ..): &(devicemapper::DmNameBuf, _, _)| {
            let id = DevId::Name(name);
            let (info, table) = read(&id, DmFlags::DM_STATUS_TABLE)?;
            let (_, _, target, line) = table.first()?;
            if !targets.contains(&target.as_str()) {
                return None;
            }
            let status = read(&id, DmFlags::empty())?.1;
            let (_, _, _, status) = status.into_iter().next()?;
            let device = info.device();
            Some(Foreign {
                name: name.to_string(),
                uuid: info.uuid().map(ToString::to_string).unwrap_or_default(),
                number: format!("{}:{}", device.major, device.minor),
                target: target.clone(),
                table: line.clone(),
                status,
            })
        };
        devices.iter().filter_map(known).collect()
    }
}
