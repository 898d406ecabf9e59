// SPDX-License-Identifier: GPL-3.0-or-later
//! The mappings that other programs have made.

use super::repeat::twice;
use super::{Control, DmResult, failed, lines_of, other};
use crate::machine::dm::table::Linear;
use devicemapper::{DevId, DmFlags, DmName, DmOptions};

/// A mapping with one line, as the kernel shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Name of the mapping.
    pub name: String,
    /// UUID of the mapping; may be empty.
    pub uuid: String,
    /// `major:minor`.
    pub number: String,
    /// Length in sectors.
    pub sectors: u64,
    /// The target of its line.
    pub target: String,
    /// The words of the line in its table.
    pub table: String,
    /// The words of the line in its status.
    pub status: String,
    /// Whether requests wait until the mapping is resumed.
    pub suspended: bool,
    /// Whether another table is loaded, which comes into force when the mapping is resumed.
    pub loaded: bool,
}

fn id(name: &str) -> DmResult<DevId<'_>> {
    let name = DmName::new(name).map_err(|e| other("name a mapping", e))?;
    Ok(DevId::Name(name))
}

impl Control {
    /// The mappings with one of these targets. A mapping that is removed meanwhile counts as absent, and none of them is
    /// flushed or waited for.
    pub fn foreign(&self, targets: &[&str]) -> Vec<Foreign> {
        let devices = self.dm.list_devices().unwrap_or_default();
        let names = devices.into_iter().map(|(name, ..)| name.to_string());
        let known = |name: String| self.foreign_with(&name, |target| targets.contains(&target));
        names.filter_map(known).collect()
    }

    /// The mapping with this name; nothing if it has more than one line, or none.
    pub fn foreign_named(&self, name: &str) -> Option<Foreign> {
        self.foreign_with(name, |_| true)
    }

    fn foreign_with(&self, name: &str, wanted: impl Fn(&str) -> bool) -> Option<Foreign> {
        let id = id(name).ok()?;
        let read = |flags: DmFlags| {
            let options = DmOptions::default().set_flags(flags | DmFlags::DM_NOFLUSH);
            self.dm.table_status(&id, options).ok()
        };
        let (info, table) = read(DmFlags::DM_STATUS_TABLE)?;
        let [(0, sectors, target, line)] = table.as_slice() else {
            return None;
        };
        if !wanted(target) {
            return None;
        }
        let status = read(DmFlags::empty())?.1;
        let (_, _, _, status) = status.into_iter().next()?;
        let device = info.device();
        Some(Foreign {
            name: name.to_owned(),
            uuid: info.uuid().map(ToString::to_string).unwrap_or_default(),
            number: format!("{}:{}", device.major, device.minor),
            sectors: *sectors,
            target: target.clone(),
            table: line.clone(),
            status,
            suspended: info.flags().contains(DmFlags::DM_SUSPEND),
            loaded: info.flags().contains(DmFlags::DM_INACTIVE_PRESENT),
        })
    }

    /// Puts another line of the same target in force, in one call of the kernel.
    ///
    /// # Errors
    /// If the kernel refuses: then the line before is in force, if the kernel takes that.
    pub fn reload(&self, mapping: &Foreign, line: &str) -> DmResult<()> {
        let id = id(&mapping.name)?;
        let put = |line: &str| {
            let line = (0, mapping.sectors, mapping.target.clone(), line.to_owned());
            let loaded = self.dm.table_load(&id, &[line], DmOptions::default());
            loaded.map_err(failed("load the table"))?;
            self.swap(&id)
        };
        let done = put(line);
        if done.is_err() && self.suspended(&id).unwrap_or(true) {
            // The new line is in force and cannot start, and the kernel has forgotten the old one.
            put(&mapping.table)?;
        }
        done
    }

    /// Target and line of the table that is loaded and not in force, if it has one line.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn loaded_by_name(&self, name: &str) -> DmResult<Option<(String, String)>> {
        let options = DmOptions::default().set_flags(
            DmFlags::DM_STATUS_TABLE | DmFlags::DM_NOFLUSH | DmFlags::DM_QUERY_INACTIVE_TABLE,
        );
        let read = self.dm.table_status(&id(name)?, options);
        let (_, table) = read.map_err(failed("read the table"))?;
        Ok(match table.as_slice() {
            [(0, _, target, line)] => Some((target.clone(), line.clone())),
            _ => None,
        })
    }

    /// Has a mapping that is suspended go on with its table in force; the loaded table is forgotten.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn take_back(&self, name: &str) -> DmResult<()> {
        let id = id(name)?;
        let _ = self.dm.table_clear(&id);
        twice("resume", || self.resume(&id))
    }

    /// Sends a message to the target of a mapping.
    ///
    /// # Errors
    /// If the target refuses the message.
    pub fn tell(&self, name: &str, message: &str) -> DmResult<()> {
        let told = self.dm.target_msg(&id(name)?, None, message);
        told.map(drop).map_err(failed("tell the mapping"))
    }

    /// Makes a mapping pass everything to the device with this number, from its beginning. Between the last request to the target and the first to the
    /// device alone `between` is called with the words of the status, while all requests wait. If the process ends meanwhile, the mapping stays suspended, with the new table
    /// loaded: see [`Self::end_pause`].
    ///
    /// # Errors
    /// If the kernel or `between` refuses: then the mapping is as before.
    pub fn replace(
        &self,
        mapping: &Foreign,
        device: &str,
        between: impl FnOnce(&str) -> Result<(), String>,
    ) -> DmResult<()> {
        let id = id(&mapping.name)?;
        let disk = Linear {
            device: device.to_owned(),
            sectors: mapping.sectors,
        };
        self.dm
            .table_load(&id, &lines_of(&[disk], 0), DmOptions::default())
            .map_err(failed("load the table"))?;
        let suspend = DmOptions::default().set_flags(DmFlags::DM_SUSPEND);
        let suspended = self.device_suspend(&id, suspend);
        let done = suspended.map_err(failed("suspend")).and_then(|_| {
            let now = self.foreign_named(&mapping.name);
            let now = now.ok_or_else(|| other("read the status", "no mapping"))?;
            between(&now.status).map_err(|e| other("replace the cache", e))
        });
        match done {
            Ok(()) => self.swap(&id),
            Err(e) => self.take_back(&mapping.name).and(Err(e)),
        }
    }

    /// Ends what a process began by [`Self::replace`] and did not end.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn end_pause(&self, name: &str) -> DmResult<()> {
        self.swap(&id(name)?)
    }

    /// Removes a mapping.
    ///
    /// # Errors
    /// `EBUSY` if the mapping is in use.
    pub fn remove(&self, name: &str) -> DmResult<()> {
        let removed = self.device_remove(&id(name)?, DmOptions::default());
        removed.map_err(failed("remove the mapping"))
    }
}
