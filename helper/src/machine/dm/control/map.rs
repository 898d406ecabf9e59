// SPDX-License-Identifier: GPL-3.0-or-later
//! Puts the table of a cache in force.

use super::repeat::twice;
use super::{Control, DmResult, failed, other};
use crate::machine::dm::mapping::Mapping;
use crate::machine::dm::table::{Linear, Tandem};
use crate::model::action::Pair;
use devicemapper::{DevId, DmFlags, DmOptions};
use rustix::io::Errno;
use tandem_api::Target;

impl Control {
    /// Switches a mapping that is in use to the SSD of this table: the SSD is back under another number, or the cache
    /// gets another SSD. The caller uses this only for a mapping whose disk lacks nothing: if the kernel refuses the SSD, the mapping goes on with
    /// the disk alone. The file system above is not frozen first: it may have failed and be unable to freeze.
    ///
    /// `check`: as for [`Self::map`].
    ///
    /// # Errors
    /// The kernel's refusals: see [`explain`].
    pub fn rejoin(
        &self,
        pair: &Pair,
        table: &Tandem,
        sectors: u64,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> DmResult<()> {
        self.with(&pair.uuid, |id| {
            let info = self
                .dm
                .device_info(id)
                .map_err(failed("find the mapping"))?;
            // The disk is in use, and may have been written without its cache until now.
            let table = &Tandem {
                start_cold: table.start_cold || pair.target == Target::DmCache,
                ..table.clone()
            };
            let load = || self.load_cache(pair, table, sectors);
            load_checked(
                load,
                || check(&format!("dm-{}", info.device().minor)),
                || {
                    // The table in force stays.
                    let _ = self.dm.table_clear(id);
                },
            )?;
            let options = DmOptions::default().set_flags(DmFlags::DM_SKIP_LOCKFS);
            let Err(error) = self.device_suspend(id, options) else {
                return Ok(());
            };
            let _ = self.dm.table_clear(id);
            // A mapping whose state cannot be read may be suspended, and a request may wait for it.
            if self.suspended(id).unwrap_or(true) {
                // The new table is in force, and the kernel has forgotten the old one.
                let disk = Linear {
                    device: table.origin.clone(),
                    sectors,
                };
                let goes_on = twice("go on with the disk alone", || {
                    // If the table of the disk alone cannot be loaded, resume tries the new table again. That is
                    // better than requests that wait for ever.
                    if let Err(e) = self.load_disks(&pair.uuid, std::slice::from_ref(&disk)) {
                        tracing::error!(uuid = pair.uuid, "no table for the disk alone: {e}");
                    }
                    self.resume(id)
                });
                if let Err(e) = goes_on {
                    tracing::error!(uuid = pair.uuid, "the mapping stays suspended: {e}");
                }
            }
            Err(failed("resume")(error))
        })
    }

    pub(super) fn suspended(&self, id: &DevId<'_>) -> DmResult<bool> {
        let info = self.dm.device_info(id).map_err(failed("look at a mapping"));
        Ok(info?.flags().contains(DmFlags::DM_SUSPEND))
    }

    /// Makes a mapping with this table, `sectors` long. If that fails, nothing of the mapping is left but the hold
    /// that was there before: see [`Self::hold`]. A held disk stays held until the table is in force. If a mapping
    /// has such a table and does not run, it is resumed; if the resume fails, its disk is held.
    ///
    /// `check` gets the kernel name of our mapping and says whether the loaded table may come into force: another disk
    /// may have got a number of the table before the table was loaded, and the kernel lets two mappings share a device,
    /// because it counts all of device-mapper as one owner. It is called while our mapping holds the devices and before
    /// anything is written.
    ///
    /// # Errors
    /// The kernel's refusals: see [`explain`].
    pub fn map(
        &self,
        pair: &Pair,
        table: &Tandem,
        sectors: u64,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> DmResult<()> {
        let disk = Linear {
            device: table.origin.clone(),
            sectors,
        };
        match self.mapping(pair)? {
            Mapping::Works { .. } => return Ok(()),
            // The programs above it still have the disk that is gone.
            Mapping::LeadsNowhere(_) => {
                return Err(other("map", "the disk of the mapping is gone"));
            }
            Mapping::Halted { .. } => {
                let runs = self.run_again(pair, table, sectors);
                if runs.is_err() {
                    // A format that is not complete holds no data that the disk could lack.
                    self.leave(pair, &disk, !table.new);
                }
                return runs;
            }
            _ => {}
        }
        let held = self.held(pair)?;
        let kernel_name = match &held {
            Some(name) => name.clone(),
            None => {
                // A crash may leave a mapping without a table in force. No program can have opened such a mapping.
                self.unmap(&pair.uuid)?;
                self.create(pair)?
            }
        };
        let load = |table: &Tandem| self.load_cache(pair, table, sectors);
        let load = || match load(table) {
            // A module that does not know the argument (`cold` or `lost`) always starts cold.
            Err(e)
                if (table.start_cold || table.lost_generation > 0)
                    && pair.target == Target::Tandem
                    && e.errno == Some(Errno::INVAL) =>
            {
                load(&Tandem {
                    start_cold: false,
                    lost_generation: 0,
                    ..table.clone()
                })
            }
            other => other,
        };
        // The table that holds the disk takes the place of this table if that fails.
        let made = load_checked(load, || check(&kernel_name), || ())
            // A program that udev runs may have changed this mapping meanwhile, so that it holds a disk.
            .and_then(|()| self.check_inactive_table(pair))
            .and_then(|()| self.with(&pair.uuid, |id| self.resume(id)))
            .and_then(|()| self.works(pair));
        if made.is_err() {
            self.leave(pair, &disk, held.is_some());
        }
        made
    }

    /// As [`Self::map`] with the length that the SSD knows. Then makes the mapping as long as its disk: the disk may have
    /// grown with its file system, which is mounted next. If the kernel refuses the new length, the mapping keeps the
    /// old one, as in [`Self::grow`].
    ///
    /// # Errors
    /// As [`Self::map`].
    pub fn map_and_grow(
        &self,
        pair: &Pair,
        table: &Tandem,
        [known, disk]: [u64; 2],
        check: impl Fn(&str) -> Result<(), String>,
    ) -> DmResult<()> {
        self.map(pair, table, known, check)?;
        if let Err(e) = self.grow(&pair.uuid, disk) {
            tracing::error!(uuid = pair.uuid, "the cache covers the old length: {e}");
        }
        Ok(())
    }

    /// Resumes a mapping that has a table in force and does not run. The table is loaded anew if it says that
    /// something is to be forgotten: the table in force may not say so.
    fn run_again(&self, pair: &Pair, table: &Tandem, sectors: u64) -> DmResult<()> {
        let forgets = table.start_cold || table.lost_generation > 0;
        // dm-cache has forgotten when its parts were made, and they hold the disk since then.
        if forgets && pair.target == Target::Tandem {
            self.load_cache(pair, table, sectors)?;
        }
        self.with(&pair.uuid, |id| self.resume(id))?;
        self.works(pair)
    }

    /// Checks that the table that comes into force next is that of the cache.
    fn check_inactive_table(&self, pair: &Pair) -> DmResult<()> {
        match self.waiting(pair)? {
            Some((_, table)) if table.cached => Ok(()),
            _ => Err(other("resume", "another table has taken its place")),
        }
    }

    /// Checks that the resumed mapping works as the cache.
    fn works(&self, pair: &Pair) -> DmResult<()> {
        match self.mapping(pair)? {
            Mapping::Works { .. } => Ok(()),
            _ => Err(other("resume", "the mapping does not use its SSD")),
        }
    }

    /// Cleans up after a mapping could not be made. A mapping that is in use stays as it is: the kernel refuses to
    /// remove it.
    fn leave(&self, pair: &Pair, disk: &Linear, holds: bool) {
        let left = match holds {
            true => self.hold_again(pair, disk),
            false => self.unmap(&pair.uuid),
        };
        if let Err(e) = left {
            tracing::error!("after a mapping could not be made: {e}");
        }
    }
}

/// Loads a table and then checks its devices: from the load on, the kernel gives their numbers to no other disk.
/// `clear` removes the table that must not come into force.
pub(super) fn load_checked(
    load: impl FnOnce() -> DmResult<()>,
    check: impl FnOnce() -> Result<(), String>,
    clear: impl FnOnce(),
) -> DmResult<()> {
    load()?;
    check().map_err(|e| {
        clear();
        other("check the devices", e)
    })
}
