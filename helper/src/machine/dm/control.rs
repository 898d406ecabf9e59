// SPDX-License-Identifier: GPL-3.0-or-later
//! The only module that issues device-mapper ioctls. All its methods block: resume and remove wait until udev has
//! handled the event (the cookie protocol, in the devicemapper crate). So device nodes and links are right when a
//! call returns.

mod failure;
mod foreign;
mod hold;
mod map;
mod parts;
mod prepare;
mod reading;
mod repeat;
mod shutdown;
mod through;
mod undisturbed;

pub use self::failure::{DmFailure, explain};
pub use self::foreign::Foreign;
pub use self::parts::{is_part, is_part_of};
pub use self::shutdown::{last_mount, note_stop};

use self::failure::{failed, other};
use self::repeat::each;
use super::mapping::{Mapping, Table};
use super::status::StatusLine;
use super::table::{DM_CACHE, LINEAR, Linear, TARGET, Tandem};
use crate::model::action::{DM_UUID_PREFIX, Pair};
use crate::model::live::LiveMapping;
use devicemapper::{DM, DevId, DmFlags, DmName, DmOptions, DmUuid};
use rustix::io::Errno;
use std::path::Path;
use tandem_api::{DirtyLimit, Mode, Target};

/// The folder in which the kernel shows each block device by its number.
const NUMBERS: &str = "/sys/dev/block";

/// No cache uses more of its SSD: it has at most 2^31 slots of 32 sectors.
pub const MOST_SSD_SECTORS: u64 = 1 << 36;

type DmResult<T> = Result<T, DmFailure>;

/// The table with the SSD in the place of the part of the SSD that has the copies; an empty text if the SSD is gone.
fn with_ssd(mut table: Table) -> Table {
    if table.target == DM_CACHE
        && let Some(data) = table.devices.get_mut(1)
    {
        *data = parts::below(data).unwrap_or_default();
    }
    table
}

/// Length of a table in sectors.
fn length(table: &[(u64, u64, String, String)]) -> u64 {
    let ends = table.iter().map(|(start, length, ..)| start + length);
    ends.max().unwrap_or(0)
}

/// One of our mappings.
struct Entry {
    /// 32 hex digits.
    uuid: String,
    /// The mapping's table: the table in force, if there is one.
    table: Table,
    sectors: u64,
    active: bool,
    suspended: bool,
}

impl Entry {
    fn live(self) -> LiveMapping {
        let attached = self.table.cached;
        let mut devices = self.table.devices.into_iter();
        let (origin, ssd) = (devices.next(), devices.next());
        LiveMapping {
            uuid: self.uuid,
            attached,
            origin: origin.unwrap_or_default(),
            ssd: ssd.filter(|_| attached).unwrap_or_default(),
            sectors: self.sectors,
        }
    }
}

/// An open control device.
pub struct Control {
    dm: DM,
}

/// Whether the kernel has a block device with this number.
fn is_there(number: &str) -> bool {
    Path::new(NUMBERS).join(number).exists()
}

/// The lines of a table that passes everything to these disks, one behind the other, from this sector on.
fn lines_of(disks: &[Linear], mut start: u64) -> Vec<(u64, u64, String, String)> {
    let line = |disk: &Linear| {
        let line = (start, disk.sectors, LINEAR.to_owned(), disk.to_string());
        start = start.saturating_add(disk.sectors);
        line
    };
    disks.iter().map(line).collect()
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
                table: with_ssd(Table::of(lines)),
                sectors: length(&table),
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
        let entries = self.entries()?.into_iter();
        Ok(entries.filter(|e| e.active).map(Entry::live).collect())
    }

    /// The mappings that dm-cache serves and that run.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn dm_caches(&self) -> DmResult<Vec<LiveMapping>> {
        let runs = |e: &Entry| e.active && !e.suspended && e.table.target == DM_CACHE;
        let entries = self.entries()?.into_iter();
        Ok(entries.filter(runs).map(Entry::live).collect())
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

    fn with<T>(&self, uuid: &str, f: impl FnOnce(&DevId<'_>) -> DmResult<T>) -> DmResult<T> {
        let text = format!("{DM_UUID_PREFIX}{uuid}");
        let uuid = DmUuid::new(&text).map_err(|e| other("name a mapping", e))?;
        f(&DevId::Uuid(uuid))
    }

    fn resume(&self, id: &DevId<'_>) -> DmResult<()> {
        self.device_suspend(id, DmOptions::default())
            .map_err(failed("resume"))
    }

    /// Whether there is a mapping that has no table in force.
    fn idle(&self, pair: &Pair) -> DmResult<bool> {
        let idle = |e: &Entry| e.uuid == pair.uuid && !e.active;
        Ok(self.entries()?.iter().any(idle))
    }

    /// Kernel name and table of a mapping whose table is loaded and not in force.
    fn waiting(&self, pair: &Pair) -> DmResult<Option<(String, Table)>> {
        if !self.idle(pair)? {
            return Ok(None);
        }
        let (name, table) = self.loaded(&pair.uuid)?;
        Ok((!table.devices.is_empty()).then_some((name, table)))
    }

    /// Kernel name of a mapping, and its table that is loaded and not in force. Without one, that table is empty.
    fn loaded(&self, uuid: &str) -> DmResult<(String, Table)> {
        self.with(uuid, |id| {
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
            let table = with_ssd(Table::of(lines));
            Ok((format!("dm-{}", info.device().minor), table))
        })
    }

    /// The mapping of this cache at this moment.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn mapping(&self, pair: &Pair) -> DmResult<Mapping> {
        if let Some((_, table)) = self.waiting(pair)? {
            let mut disks = table.devices.iter();
            let there = disks.next().is_some_and(|disk| is_there(disk));
            return Ok(Mapping::waiting(table, there));
        }
        let entries = self.entries()?;
        let ours = entries.iter().find(|e| e.uuid == pair.uuid && e.active);
        match ours.map(|e| Mapping::in_force(&e.table, e.suspended)) {
            Some(Mapping::Works { origin, .. }) if !is_there(&origin) => {
                Ok(Mapping::LeadsNowhere(self.loaded(&pair.uuid)?.1.devices))
            }
            other => Ok(other.unwrap_or(Mapping::None)),
        }
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
        if pair.target == Target::DmCache {
            let (line, keeps) = self.cache_line(pair, table, sectors)?;
            let line = (0, sectors, DM_CACHE.to_owned(), line);
            let loaded = self.load(&pair.uuid, &[line]);
            if loaded.is_err() {
                self.drop_parts(&pair.uuid);
            }
            return match loaded {
                // dm-cache does not take its old metadata. The second attempt clears the metadata.
                Err(e) if keeps => {
                    tracing::warn!(uuid = pair.uuid, "the cache begins empty: {e}");
                    let table = Tandem {
                        start_cold: true,
                        ..table.clone()
                    };
                    self.load_cache(pair, &table, sectors)
                }
                loaded => loaded,
            };
        }
        load_known(table, |table| {
            let line = (0, sectors, TARGET.to_owned(), table.to_string());
            self.load(&pair.uuid, &[line])
        })
    }

    /// Loads a table that passes everything to these disks, one behind the other.
    fn load_disks(&self, uuid: &str, disks: &[Linear]) -> DmResult<()> {
        self.load(uuid, &lines_of(disks, 0))
    }

    /// The table in force: start, length, target and parameters of each line.
    fn table(&self, id: &DevId<'_>) -> DmResult<Vec<(u64, u64, String, String)>> {
        let options =
            DmOptions::default().set_flags(DmFlags::DM_STATUS_TABLE | DmFlags::DM_NOFLUSH);
        let (_, table) = self
            .dm
            .table_status(id, options)
            .map_err(failed("read the table"))?;
        Ok(table)
    }

    /// Puts the loaded table in force, in one call of the kernel.
    fn swap(&self, id: &DevId<'_>) -> DmResult<()> {
        self.swap_with(id, DmFlags::empty())
    }

    /// As [`Self::swap`], with these flags.
    fn swap_with(&self, id: &DevId<'_>, flags: DmFlags) -> DmResult<()> {
        let options = DmOptions::default().set_flags(flags);
        let resumed = self.device_suspend(id, options);
        let resumed = resumed.map_err(failed("resume"));
        if resumed.is_err() {
            // The kernel may have stopped before or after it swapped the tables. Either table may be able to
            // serve requests.
            let _ = self.dm.table_clear(id);
            let _ = self.resume(id);
        }
        resumed
    }

    /// Makes the mapping of a cache `sectors` long, if it is shorter. What is cached stays cached.
    ///
    /// # Errors
    /// If the target refuses the length: then the mapping is as before. If the SSD fails now: then the mapping goes on
    /// with the disk alone, unless the disk lacks data.
    pub fn grow(&self, uuid: &str, sectors: u64) -> DmResult<()> {
        self.replace_table(uuid, DmFlags::empty(), |length, target, parameters| {
            let ours = [TARGET, DM_CACHE].contains(&target);
            Ok((ours && length < sectors).then(|| (sectors, parameters.to_owned())))
        })
    }

    /// Gives a cache so many sectors of its SSD. What stays in its place there stays cached. Nothing may be dirty.
    ///
    /// # Errors
    /// As for [`Self::grow`]; also if the cache goes on with the size that it had.
    pub fn resize(&self, uuid: &str, ssd_sectors: u64) -> DmResult<()> {
        let wanted = ssd_sectors.min(MOST_SSD_SECTORS);
        let failed = |why| other("give the cache another size", why);
        // A cache that has lost its SSD has no size.
        let has_it = |line: &StatusLine| match line.counters.get("ssd_sectors") {
            _ if line.reason != "-" => Err(failed("the SSD has failed")),
            None => Err(failed("the module is too old")),
            Some(sectors) => Ok(*sectors == wanted),
        };
        if has_it(&self.status(uuid)?)? {
            return Ok(());
        }
        // A file system that is frozen writes first, and that could be dirty then.
        let flags = DmFlags::DM_SKIP_LOCKFS;
        self.replace_table(uuid, flags, |length, target, parameters| {
            let table: Tandem = parameters
                .parse()
                .map_err(|_| other("read the table", "another form"))?;
            Ok((target == TARGET).then(|| (length, table.with_ssd_sectors(wanted))))
        })?;
        match has_it(&self.status(uuid)?)? {
            true => Ok(()),
            false => Err(failed("the cache keeps its size")),
        }
    }

    /// Puts another line in force in place of the only one of a mapping. `change`: the new length and parameters for
    /// length, target and parameters; none if all is as it should be.
    fn replace_table(
        &self,
        uuid: &str,
        flags: DmFlags,
        change: impl Fn(u64, &str, &str) -> DmResult<Option<(u64, String)>>,
    ) -> DmResult<()> {
        self.with(uuid, |id| {
            let table = self.table(id)?;
            let [(0, length, target, parameters)] = table.as_slice() else {
                return Err(other("read the table", "another form"));
            };
            let Some((sectors, new)) = change(*length, target, parameters)? else {
                return Ok(());
            };
            // With nothing dirty the disk lacks nothing, in write-through and during a flush.
            let complete = self.status(uuid).is_ok_and(|line| {
                let through = line.mode != Mode::Writeback || line.state == "flushing";
                through && line.dirty == 0
            });
            self.load(uuid, &[(0, sectors, target.clone(), new)])?;
            let swapped = self.swap_with(id, flags);
            if swapped.is_err() && complete && self.suspended(id).unwrap_or(true) {
                // The new table is in force and cannot start, and the kernel has forgotten the old one. Requests must
                // not wait for ever.
                let words = Table::of([(target.as_str(), parameters.as_str())].into_iter());
                let disk = Linear {
                    device: words.devices.into_iter().next().unwrap_or_default(),
                    sectors,
                };
                self.load_disks(uuid, &[disk])?;
                self.resume(id)?;
            }
            swapped
        })
    }

    /// Removes the mapping, if there is one.
    ///
    /// # Errors
    /// `EBUSY` if it is in use.
    pub fn unmap(&self, uuid: &str) -> DmResult<()> {
        if !self.entries()?.iter().any(|e| e.uuid == uuid) {
            self.drop_parts(uuid);
            return Ok(());
        }
        self.with(uuid, |id| {
            self.device_remove(id, DmOptions::default())
                .map_err(failed("remove the mapping"))
        })?;
        self.drop_parts(uuid);
        Ok(())
    }
}

/// Loads the table; a module that does not know a limit of dirty data gets the table without that, and with all else:
/// what is old on the SSD must not be served.
fn load_known(table: &Tandem, load: impl Fn(&Tandem) -> DmResult<()>) -> DmResult<()> {
    match load(table) {
        Err(e) if e.errno == Some(Errno::INVAL) && !table.dirty_limit.is_default() => {
            load(&Tandem {
                dirty_limit: DirtyLimit::default(),
                ..table.clone()
            })
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
