// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes the format of a cache to an SSD while the disk of the cache is in use.
//!
//! The kernel gives a disk in use to no mapping, so a device of the same length that holds only zeroes stands for the
//! disk. The module formats the SSD at the first resume of the cache, and at its removal it notes samples of the
//! zeroes. So the next start of the machine finds a cache that was stopped in order, whose disk was written since: it
//! starts cold. For dm-cache no samples are noted, with the same effect.

use super::{Control, DmResult, failed, other};
use crate::machine::dm::table::{DM_CACHE, TARGET, Tandem};
use crate::model::action::Pair;
use devicemapper::{DevId, DmFlags, DmName, DmOptions, DmUdevFlags, DmUuid};
use tandem_api::{Mode, Target};

/// The kernel's target of zeroes.
const ZERO: &str = "zero";
/// What the UUIDs of the two mappings begin with; those of caches begin otherwise.
const PREFIX: &str = "TDPREPARE-";

/// Names of the mapping that stands for the disk, and of the cache over it.
fn names(uuid: &str) -> [String; 2] {
    ["disk", "cache"].map(|part| format!("{PREFIX}{part}-{uuid}"))
}

impl Control {
    /// Formats an SSD (`major:minor`) for a disk of `sectors`. `alone`: see [`Control::map`].
    ///
    /// # Errors
    /// The kernel's refusals: see [`super::explain`].
    pub fn prepare(
        &self,
        pair: &Pair,
        ssd: &str,
        sectors: u64,
        alone: impl Fn(&str) -> Result<(), String>,
    ) -> DmResult<()> {
        self.end_preparation(&pair.uuid)?;
        let made = self.format(pair, ssd, sectors, alone);
        let ended = self.end_preparation(&pair.uuid);
        made.and(ended).and(self.remove_parts(&pair.uuid))
    }

    fn format(
        &self,
        pair: &Pair,
        ssd: &str,
        sectors: u64,
        alone: impl Fn(&str) -> Result<(), String>,
    ) -> DmResult<()> {
        let [disk, cache] = names(&pair.uuid);
        let minor = self.anonymous(&disk, sectors, ZERO, "")?;
        self.start(&disk)?;
        let table = Tandem {
            origin: minor,
            ssd: ssd.to_owned(),
            mode: Mode::Writethrough,
            uuid: pair.uuid.clone(),
            origin_id: pair.origin_id.clone(),
            new: true,
            start_cold: false,
            lost_generation: 0,
            dirty_limit: pair.dirty_limit,
        };
        let (target, line) = match pair.target {
            Target::Tandem => (TARGET, table.to_string()),
            Target::DmCache => (DM_CACHE, self.cache_line(pair, &table, sectors)?.0),
        };
        let number = self.anonymous(&cache, sectors, target, &line)?;
        let (_, minor) = number.split_once(':').unwrap_or_default();
        alone(&format!("dm-{minor}")).map_err(|e| other("hold the SSD alone", e))?;
        self.start(&cache)
    }

    /// Removes the mappings that an earlier attempt has left, the cache first.
    ///
    /// # Errors
    /// If a program uses one of them.
    pub fn end_preparation(&self, uuid: &str) -> DmResult<()> {
        let listed = self
            .dm
            .list_devices()
            .map_err(failed("list the mappings"))?;
        for name in names(uuid).into_iter().rev() {
            if listed.iter().any(|(known, ..)| known.to_string() == name) {
                let id = DmName::new(&name).map_err(|e| other("name a mapping", e))?;
                self.device_remove(&DevId::Name(id), quiet())
                    .map_err(failed("end the preparation"))?;
            }
        }
        Ok(())
    }

    /// Makes a mapping with this table, not in force yet, and gives its number.
    pub(super) fn anonymous(
        &self,
        name: &str,
        sectors: u64,
        target: &str,
        line: &str,
    ) -> DmResult<String> {
        let id = DmName::new(name).map_err(|e| other("name a mapping", e))?;
        let uuid = DmUuid::new(name).map_err(|e| other("name a mapping", e))?;
        let made = self
            .dm
            .device_create(id, Some(uuid), DmOptions::default())
            .map_err(failed("create a mapping"))?;
        let lines = [(0, sectors, target.to_owned(), line.to_owned())];
        self.dm
            .table_load(&DevId::Name(id), &lines, DmOptions::default())
            .map_err(failed("load the table"))?;
        let device = made.device();
        Ok(format!("{}:{}", device.major, device.minor))
    }

    /// Puts the loaded table of such a mapping in force.
    pub(super) fn start(&self, name: &str) -> DmResult<()> {
        let id = DmName::new(name).map_err(|e| other("name a mapping", e))?;
        self.device_suspend(&DevId::Name(id), quiet())
            .map_err(failed("resume"))
    }
}

/// Options that keep udev's rules for disks, and desktops, off a mapping that exists for a moment.
pub(super) fn quiet() -> DmOptions {
    DmOptions::default()
        .set_flags(DmFlags::empty())
        .set_udev_flags(
            DmUdevFlags::DM_UDEV_DISABLE_SUBSYSTEM_RULES_FLAG
                | DmUdevFlags::DM_UDEV_DISABLE_DISK_RULES_FLAG
                | DmUdevFlags::DM_UDEV_DISABLE_OTHER_RULES_FLAG,
        )
}
