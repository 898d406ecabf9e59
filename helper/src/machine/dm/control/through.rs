// SPDX-License-Identifier: GPL-3.0-or-later
//! A mapping goes on with its disk alone.

use super::{Control, DmResult, Entry, length, other};
use crate::machine::dm::table::{DM_CACHE, Linear};
use crate::model::action::Pair;
use devicemapper::DmFlags;
use tandem_api::CacheState;

impl Control {
    /// Makes a mapping pass everything to `device`, if the mapping exists. In one call the kernel suspends the
    /// mapping (which freezes the file system and waits for requests), swaps the tables and resumes. So a crash
    /// leaves the mapping as before or as after. Where dm-cache has lost its SSD, the file system is not frozen: its writes
    /// fail, so it cannot freeze. Nor is it frozen where the cache is in memory, which has nothing that the disk lacks: to
    /// freeze the file system of a slow disk takes long, and programs need the memory now.
    ///
    /// # Errors
    /// If the mapping is over another disk: then a file system may still be mounted over the disk of before. If the kernel
    /// refuses.
    pub fn pass_through(&self, pair: &Pair, device: &Linear) -> DmResult<()> {
        let uuid = pair.uuid.as_str();
        let entries = self.entries()?;
        let ours = |e: &&Entry| e.uuid == uuid && e.active && e.table.cached;
        let Some(table) = entries.iter().find(ours).map(|e| &e.table) else {
            self.drop_parts(uuid);
            return Ok(());
        };
        if table.devices.first() != Some(&device.device) {
            return Err(other(
                "use the disk alone",
                "the mapping is over another disk",
            ));
        }
        let is_lost = table.target == DM_CACHE
            && (table.devices.get(1).is_none_or(String::is_empty)
                || self
                    .status(uuid)
                    .is_ok_and(|line| line.state == CacheState::Bypass.as_str()));
        let flags = match is_lost || pair.ssd.is_memory() {
            true => DmFlags::DM_SKIP_LOCKFS,
            false => DmFlags::empty(),
        };
        self.with(uuid, |id| {
            let disk = Linear {
                sectors: length(&self.table(id)?),
                ..device.clone()
            };
            self.load_disks(uuid, &[disk])?;
            self.swap_with(id, flags)
        })?;
        self.drop_parts(uuid);
        Ok(())
    }
}
