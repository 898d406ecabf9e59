// SPDX-License-Identifier: GPL-3.0-or-later
//! The only module that issues device-mapper ioctls. All its methods block: resume and remove wait until udev has
//! handled the event (the cookie protocol, in the devicemapper crate). So device nodes and links are right when a
//! call returns.

mod prepare;
mod repeat;

use self::repeat::{each, twice};
use super::mapping::{Mapping, Table};
use super::message::Message;
use super::status::StatusLine;
use super::table::{LINEAR, Linear, TARGET, Tandem};
use crate::action::{DM_UUID_PREFIX, Pair, mapping_name};
use crate::engine::LiveMapping;
use devicemapper::errors::Error as CoreError;
use devicemapper::{DM, DevId, DmError, DmFlags, DmName, DmOptions, DmUuid};
use rustix::io::Errno;
use std::fmt::Display;
use std::path::Path;
use tandem_api::{Failure, Kind};

/// The folder in which the kernel shows each block device by its number.
const NUMBERS: &str = "/sys/dev/block";

/// An ioctl that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct DmFailure {
    what: &'static str,
    /// The error number of the kernel, if the kernel refused the ioctl.
    pub errno: Option<Errno>,
    error: String,
}

type DmResult<T> = Result<T, DmFailure>;

fn failed(what: &'static str) -> impl Fn(DmError) -> DmFailure {
    move |e| {
        let errno = match &e {
            DmError::Core(CoreError::Ioctl(_, _, _, errno)) => {
                Some(Errno::from_raw_os_error(**errno as i32))
            }
            _ => None,
        };
        let error = errno.map_or_else(|| e.to_string(), |errno| errno.to_string());
        DmFailure { what, errno, error }
    }
}

fn other(what: &'static str, error: impl Display) -> DmFailure {
    DmFailure {
        what,
        errno: None,
        error: error.to_string(),
    }
}

/// One of our mappings.
struct Entry {
    /// 32 hex digits.
    uuid: String,
    /// Its table: the table in force, if there is one.
    table: Table,
    active: bool,
    suspended: bool,
}

/// An open control device.
pub struct Control {
    dm: DM,
}

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// If there is no device-mapper.
    pub fn open() -> DmResult<Self> {
        Ok(Self {
            dm: DM::new().map_err(failed("open the control device"))?,
        })
    }

    /// The control device, readable after an event of any mapping since the last [`Self::arm`].
    pub fn file(&self) -> &std::fs::File {
        self.dm.file()
    }

    /// Makes the control device unreadable until the next event.
    ///
    /// # Errors
    /// Before Linux 4.13.
    pub fn arm(&self) -> DmResult<()> {
        self.dm
            .arm_poll()
            .map(drop)
            .map_err(failed("wait for events"))
    }

    fn entries(&self) -> DmResult<Vec<Entry>> {
        let mut entries = Vec::new();
        for (name, ..) in self
            .dm
            .list_devices()
            .map_err(failed("list the mappings"))?
        {
            if !name.as_bytes().starts_with(b"tandem-") {
                continue;
            }
            // A mapping that is removed during this loop counts as absent.
            let options =
                DmOptions::default().set_flags(DmFlags::DM_STATUS_TABLE | DmFlags::DM_NOFLUSH);
            let Ok((info, table)) = self.dm.table_status(&DevId::Name(&name), options) else {
                continue;
            };
            let uuid = info.uuid().map(ToString::to_string).unwrap_or_default();
            let Some(uuid) = uuid.strip_prefix(DM_UUID_PREFIX) else {
                continue;
            };
            let lines = table
                .iter()
                .map(|(_, _, target, line)| (target.as_str(), line.as_str()));
            entries.push(Entry {
                uuid: uuid.to_owned(),
                table: Table::of(lines),
                active: info.flags().contains(DmFlags::DM_ACTIVE_PRESENT),
                suspended: info.flags().contains(DmFlags::DM_SUSPEND),
            });
        }
        Ok(entries)
    }

    /// Our mappings that have a table.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn live_mappings(&self) -> DmResult<Vec<LiveMapping>> {
        let live = |entry: Entry| {
            let attached = entry.table.cached;
            let mut devices = entry.table.devices.into_iter();
            let (origin, ssd) = (devices.next(), devices.next());
            LiveMapping {
                uuid: entry.uuid,
                attached,
                origin: origin.unwrap_or_default(),
                ssd: ssd.filter(|_| attached).unwrap_or_default(),
            }
        };
        let entries = self.entries()?.into_iter();
        Ok(entries.filter(|e| e.active).map(live).collect())
    }

    /// Resumes all our mappings that are suspended, so that their requests run again.
    ///
    /// # Errors
    /// If one cannot be resumed.
    pub fn resume_forgotten(&self) -> DmResult<()> {
        let entries = self.entries()?;
        let forgotten = entries.iter().filter(|e| e.active && e.suspended);
        each(
            forgotten,
            |entry| {
                tracing::warn!(uuid = entry.uuid, "mapping was left suspended");
                self.with(&entry.uuid, |id| self.resume(id))
            },
            |entry, e| tracing::error!(uuid = entry.uuid, "it stays suspended: {e}"),
        )
    }

    /// Stops the caches whose mappings get no more writes: suspends them for good, in order. For the end of a shutdown.
    /// `unused`: whether a mapping gets no more writes, by its number (`major:minor`) and its name.
    ///
    /// # Errors
    /// If one cannot be stopped.
    pub fn stop(&self, unused: impl Fn(&str, &str) -> bool) -> DmResult<()> {
        let entries = self.entries()?;
        let caches = entries.iter().filter(|e| e.active && e.table.cached);
        each(
            caches,
            |entry| {
                self.with(&entry.uuid, |id| {
                    let info = self
                        .dm
                        .device_info(id)
                        .map_err(failed("look at a mapping"))?;
                    let (device, name) = (info.device(), mapping_name(&entry.uuid));
                    if !unused(&format!("{}:{}", device.major, device.minor), &name) {
                        return Ok(());
                    }
                    // No file system is left above the mapping, so nothing has to be frozen.
                    let flags = DmFlags::DM_SUSPEND | DmFlags::DM_SKIP_LOCKFS;
                    self.dm
                        .device_suspend(id, DmOptions::default().set_flags(flags))
                        .map(drop)
                        .map_err(failed("suspend"))
                })
            },
            |entry, e| tracing::error!(uuid = entry.uuid, "it is not stopped: {e}"),
        )
    }

    fn with<T>(&self, uuid: &str, f: impl FnOnce(&DevId<'_>) -> DmResult<T>) -> DmResult<T> {
        let text = format!("{DM_UUID_PREFIX}{uuid}");
        let uuid = DmUuid::new(&text).map_err(|e| other("name a mapping", e))?;
        f(&DevId::Uuid(uuid))
    }

    fn resume(&self, id: &DevId<'_>) -> DmResult<()> {
        self.dm
            .device_suspend(id, DmOptions::default())
            .map(drop)
            .map_err(failed("resume"))
    }

    /// Switches a mapping that is in use to the SSD of this table: the SSD is back under another number. The caller
    /// uses this only for a mapping whose disk lacks nothing: if the kernel refuses the SSD, the mapping goes on with
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
            let Err(error) = self.dm.device_suspend(id, options) else {
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

    fn suspended(&self, id: &DevId<'_>) -> DmResult<bool> {
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

    /// Resumes a mapping that has a table in force and does not run. The table is loaded anew if it says that
    /// something is to be forgotten: the table in force may not say so.
    fn run_again(&self, pair: &Pair, table: &Tandem, sectors: u64) -> DmResult<()> {
        if table.start_cold || table.lost_generation > 0 {
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

    /// Whether there is a mapping that has no table in force.
    fn idle(&self, pair: &Pair) -> DmResult<bool> {
        let idle = |e: &Entry| e.uuid == pair.uuid && !e.active;
        Ok(self.entries()?.iter().any(idle))
    }

    /// Kernel name of a mapping that only holds its disk. Its table may be any: a crash may have ended an attempt
    /// after it replaced the table that held the disk first.
    fn held(&self, pair: &Pair) -> DmResult<Option<String>> {
        Ok(self.waiting(pair)?.map(|(name, ..)| name))
    }

    /// Kernel name and table of a mapping whose table is loaded and not in force.
    fn waiting(&self, pair: &Pair) -> DmResult<Option<(String, Table)>> {
        if !self.idle(pair)? {
            return Ok(None);
        }
        self.with(&pair.uuid, |id| {
            let options = DmOptions::default().set_flags(
                DmFlags::DM_STATUS_TABLE | DmFlags::DM_NOFLUSH | DmFlags::DM_QUERY_INACTIVE_TABLE,
            );
            let (info, table) = self
                .dm
                .table_status(id, options)
                .map_err(failed("read the table"))?;
            let lines = table
                .iter()
                .map(|(_, _, target, line)| (target.as_str(), line.as_str()));
            let (name, table) = (format!("dm-{}", info.device().minor), Table::of(lines));
            Ok((!table.devices.is_empty()).then_some((name, table)))
        })
    }

    /// The mapping of this cache at this moment.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn mapping(&self, pair: &Pair) -> DmResult<Mapping> {
        if let Some((_, table)) = self.waiting(pair)? {
            let mut disks = table.devices.iter();
            let there = disks
                .next()
                .is_some_and(|disk| Path::new(NUMBERS).join(disk).exists());
            return Ok(Mapping::waiting(table, there));
        }
        let entries = self.entries()?;
        let ours = entries.iter().find(|e| e.uuid == pair.uuid && e.active);
        Ok(ours.map_or(Mapping::None, |e| Mapping::in_force(&e.table, e.suspended)))
    }

    /// Holds the disk again, whatever table the mapping has by now.
    fn hold_again(&self, pair: &Pair, disk: &Linear) -> DmResult<()> {
        let disks = std::slice::from_ref(disk);
        if self.idle(pair)? {
            return self.load_disks(&pair.uuid, disks);
        }
        // A table that came into force and could not start stays until the mapping is removed.
        self.unmap(&pair.uuid)?;
        self.hold(pair, disks, 1)
    }

    /// Makes an empty mapping, and gives its kernel name.
    fn create(&self, pair: &Pair) -> DmResult<String> {
        let (name, dm_uuid) = (pair.name(), pair.dm_uuid());
        let name = DmName::new(&name).map_err(|e| other("name a mapping", e))?;
        let dm_uuid = DmUuid::new(&dm_uuid).map_err(|e| other("name a mapping", e))?;
        let created = self
            .dm
            .device_create(name, Some(dm_uuid), DmOptions::default())
            .map_err(failed("create a mapping"))?;
        Ok(format!("dm-{}", created.device().minor))
    }

    /// Loads a table, which comes into force when the mapping is resumed. If the load fails, the table that was
    /// loaded before stays.
    fn load(&self, uuid: &str, lines: &[(u64, u64, String, String)]) -> DmResult<()> {
        self.with(uuid, |id| {
            self.dm
                .table_load(id, lines, DmOptions::default())
                .map(drop)
                .map_err(failed("load the table"))
        })
    }

    fn load_cache(&self, pair: &Pair, table: &Tandem, sectors: u64) -> DmResult<()> {
        let line = (0, sectors, TARGET.to_owned(), table.to_string());
        self.load(&pair.uuid, &[line])
    }

    /// Loads a table that passes everything to these disks, one behind the other.
    fn load_disks(&self, uuid: &str, disks: &[Linear]) -> DmResult<()> {
        let mut start: u64 = 0;
        let line = |disk: &Linear| {
            let line = (start, disk.sectors, LINEAR.to_owned(), disk.to_string());
            start = start.saturating_add(disk.sectors);
            line
        };
        let lines: Vec<_> = disks.iter().map(line).collect();
        self.load(uuid, &lines)
    }

    /// Keeps disks from every program until [`Self::map`] replaces the hold. A hold is a mapping whose table never
    /// comes into force. Because of it the kernel refuses the disks to every program that wants exclusive use, and
    /// nothing can be read or written through the mapping. A held disk stays held if another disk cannot be held.
    ///
    /// `needed`: so many disks, counted from the first, have to be held. The others are copies of the first disk; a
    /// failure to hold one of them is no error.
    ///
    /// If another process is about to put in force a table over one of the disks, that table keeps the disk as well,
    /// and stays.
    ///
    /// # Errors
    /// `EBUSY` if a program already uses a needed disk. An error also if the mapping passes everything to its disk.
    pub fn hold(&self, pair: &Pair, disks: &[Linear], needed: usize) -> DmResult<()> {
        let held = match self.mapping(pair)? {
            Mapping::Works { .. } => return Ok(()),
            Mapping::PassesThrough(_) => return Err(other("hold", "the mapping passes through")),
            Mapping::Starting(number) | Mapping::Halted { origin: number, .. } => {
                return match disks.iter().any(|disk| disk.device == number) {
                    true => Ok(()),
                    false => Err(other("hold", "it is about to use another device")),
                };
            }
            Mapping::Holds(held) => held,
            Mapping::None => Vec::new(),
        };
        if !self.idle(pair)? {
            self.create(pair)?;
        }
        let loaded = hold_each(disks, needed, &held, |disks| {
            self.load_disks(&pair.uuid, disks)
        });
        if loaded.is_err() && self.waiting(pair)?.is_none() {
            self.unmap(&pair.uuid)?;
        }
        loaded
    }

    /// Makes a mapping pass everything to `device`, if the mapping exists. In one call the kernel suspends the
    /// mapping (which freezes the file system and waits for requests), swaps the tables and resumes. So a crash
    /// leaves the mapping as before or as after.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn pass_through(&self, uuid: &str, device: &Linear) -> DmResult<()> {
        if !self
            .entries()?
            .iter()
            .any(|e| e.uuid == uuid && e.active && e.table.cached)
        {
            return Ok(());
        }
        self.with(uuid, |id| {
            let options =
                DmOptions::default().set_flags(DmFlags::DM_STATUS_TABLE | DmFlags::DM_NOFLUSH);
            let (_, table) = self
                .dm
                .table_status(id, options)
                .map_err(failed("read the table"))?;
            let ends = table.iter().map(|(start, length, ..)| start + length);
            let disk = Linear {
                sectors: ends.max().unwrap_or(0),
                ..device.clone()
            };
            self.load_disks(uuid, &[disk])?;
            let resumed = self.resume(id);
            if resumed.is_err() {
                // The kernel may have stopped before or after it swapped the tables. Either table may be able to
                // serve requests.
                let _ = self.dm.table_clear(id);
                let _ = self.resume(id);
            }
            resumed
        })
    }

    /// Removes the mapping. Afterwards the disk is held if something may be on the SSD only, or if it was held
    /// before.
    ///
    /// # Errors
    /// `EBUSY` if the mapping is in use, or if another program opened the disk first.
    pub fn disassemble(&self, pair: &Pair, disk: &Linear) -> DmResult<()> {
        if self.held(pair)?.is_some() {
            return self.hold_again(pair, disk);
        }
        let lacks = self
            .mapping(pair)?
            .lacks(self.status(&pair.uuid).ok().as_ref());
        self.unmap(&pair.uuid)?;
        if lacks {
            self.hold(pair, std::slice::from_ref(disk), 1)?;
        }
        Ok(())
    }

    /// Removes the mapping, if there is one.
    ///
    /// # Errors
    /// `EBUSY` if it is in use.
    pub fn unmap(&self, uuid: &str) -> DmResult<()> {
        if !self.entries()?.iter().any(|e| e.uuid == uuid) {
            return Ok(());
        }
        self.with(uuid, |id| {
            self.dm
                .device_remove(id, DmOptions::default())
                .map(drop)
                .map_err(failed("remove the mapping"))
        })
    }

    /// Sends a message to an attached mapping.
    ///
    /// # Errors
    /// If there is no such mapping, or the target refuses the message.
    pub fn send_message(&self, uuid: &str, message: Message) -> DmResult<()> {
        self.with(uuid, |id| {
            self.dm
                .target_msg(id, None, &message.to_string())
                .map(drop)
                .map_err(failed("tell the mapping"))
        })
    }

    /// Status line of an attached mapping.
    ///
    /// # Errors
    /// If there is no such mapping, or its line is not of the documented form.
    pub fn status(&self, uuid: &str) -> DmResult<StatusLine> {
        self.with(uuid, |id| {
            let options = DmOptions::default().set_flags(DmFlags::DM_NOFLUSH);
            let (_, lines) = self
                .dm
                .table_status(id, options)
                .map_err(failed("read the status"))?;
            let line = lines.iter().find(|(_, _, target, _)| target == TARGET);
            let (.., text) = line.ok_or_else(|| other("read the status", "not attached"))?;
            text.parse().map_err(|e| other("understand the status", e))
        })
    }
}

/// The failure that a refusal of the target means (kmod/TARGET.rst lists all refusals).
pub fn explain(failure: &DmFailure, pair: &Pair) -> Failure {
    let kind = match failure.errno {
        Some(Errno::NOMEM) => Kind::OutOfMemory,
        Some(Errno::NOSPC) => Kind::SsdTooSmall,
        Some(Errno::EXIST) => Kind::SsdHoldsData,
        Some(Errno::NXIO | Errno::STALE) => Kind::WrongDisk,
        Some(Errno::ILSEQ) => Kind::SsdDamaged,
        Some(Errno::MEDIUMTYPE) => Kind::SsdBlocks,
        _ => return Failure::new(Kind::StepFailed).detail(failure),
    };
    let failure = Failure::new(kind).device(&pair.ssd.text).detail(failure);
    match kind {
        Kind::SsdTooSmall => failure.sizes(crate::plan::MINIMUM_SSD_BYTES, pair.ssd.text.size),
        _ => failure,
    }
}

/// Loads a table and then checks its devices: from the load on, the kernel gives their numbers to no other disk.
/// `clear` removes the table that must not come into force.
fn load_checked(
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

/// Holds as many of the disks as possible, by loading a table of them. `held`: numbers of the disks that are held
/// already.
///
/// # Errors
/// Why one of the first `needed` disks is not held.
fn hold_each(
    disks: &[Linear],
    needed: usize,
    held: &[String],
    load: impl Fn(&[Linear]) -> DmResult<()>,
) -> DmResult<()> {
    let is_held = |disk: &&Linear| held.contains(&disk.device);
    if disks.iter().all(|disk| is_held(&disk)) || load(disks).is_ok() {
        return Ok(());
    }
    // The disks that are held already come first: none of them is released to hold another.
    let mut holding: Vec<Linear> = disks.iter().filter(is_held).cloned().collect();
    let mut result = Ok(());
    for (at, disk) in disks.iter().enumerate().filter(|(_, disk)| !is_held(disk)) {
        holding.push(disk.clone());
        if let Err(e) = load(&holding) {
            holding.pop();
            tracing::warn!("{} is not held: {e}", disk.device);
            if at < needed {
                result = result.and(Err(e));
            }
        }
    }
    result
}

#[cfg(test)]
mod tests;
