// SPDX-License-Identifier: GPL-3.0-or-later
//! The one place of device-mapper ioctls. All of it blocks: resume and remove wait until udev has
//! handled the event (the cookie protocol, in the devicemapper crate), so that device nodes and
//! links are right when a call returns.

mod standing;

pub use self::standing::Keeps;
use self::standing::{Entry, Standing, each, twice};
use super::message::Message;
use super::status::StatusLine;
use super::table::{LINEAR, Linear, TARGET, Tandem};
use crate::action::{DM_UUID_PREFIX, Pair};
use crate::engine::Live;
use devicemapper::errors::Error as CoreError;
use devicemapper::{DM, DevId, DmError, DmFlags, DmName, DmOptions, DmUuid};
use rustix::io::Errno;
use std::fmt::Display;
use std::path::Path;
use tandem_api::{Failure, Kind};

/// Where the kernel shows each block device by its number.
const NUMBERS: &str = "/sys/dev/block";

/// An ioctl that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct DmFailure {
    what: &'static str,
    /// The kernel's reason, if it was the kernel.
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
            // One that goes away while we look is not there.
            let options =
                DmOptions::default().set_flags(DmFlags::DM_STATUS_TABLE | DmFlags::DM_NOFLUSH);
            let Ok((info, table)) = self.dm.table_status(&DevId::Name(&name), options) else {
                continue;
            };
            let uuid = info.uuid().map(ToString::to_string).unwrap_or_default();
            let Some(uuid) = uuid.strip_prefix(DM_UUID_PREFIX) else {
                continue;
            };
            let attached = table.iter().any(|(_, _, target, _)| target == TARGET);
            // Both our target and the one that passes through name the disk first.
            let words = table
                .first()
                .map(|(.., line)| line.split_ascii_whitespace());
            let mut words = words.into_iter().flatten().map(str::to_owned);
            let origin = words.next().unwrap_or_default();
            let ssd = words.next().filter(|_| attached).unwrap_or_default();
            entries.push(Entry {
                live: Live {
                    uuid: uuid.to_owned(),
                    attached,
                    origin,
                    ssd,
                },
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
    pub fn live(&self) -> DmResult<Vec<Live>> {
        Ok(self
            .entries()?
            .into_iter()
            .filter(|e| e.active)
            .map(|e| e.live)
            .collect())
    }

    /// Lets requests run again through all mappings that somebody left suspended.
    ///
    /// # Errors
    /// If one cannot be resumed.
    pub fn resume_forgotten(&self) -> DmResult<()> {
        let entries = self.entries()?;
        let forgotten = entries.iter().filter(|e| e.active && e.suspended);
        each(
            forgotten,
            |entry| {
                tracing::warn!(uuid = entry.live.uuid, "mapping was left suspended");
                self.with(&entry.live.uuid, |id| self.resume(id))
            },
            |entry, e| tracing::error!(uuid = entry.live.uuid, "it stays suspended: {e}"),
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

    /// Has a mapping that is in use go on with the SSD of this table, which is back under another number. Only for a
    /// mapping whose disk lacks nothing: if the SSD is refused, it goes on with the disk alone.
    /// The file system above is not asked to rest first: it may have failed, and be unable to.
    ///
    /// # Errors
    /// The kernel's refusals: see [`explain`].
    pub fn rejoin(&self, pair: &Pair, table: &Tandem, sectors: u64) -> DmResult<()> {
        self.load(pair, sectors, TARGET, &table.to_string())?;
        self.with(&pair.uuid, |id| {
            let options = DmOptions::default().set_flags(DmFlags::DM_SKIP_LOCKFS);
            let Err(error) = self.dm.device_suspend(id, options) else {
                return Ok(());
            };
            let _ = self.dm.table_clear(id);
            // One that does not tell may be suspended, and somebody waits for it.
            if self.suspended(id).unwrap_or(true) {
                // The new table is in force, and the kernel has forgotten the old one.
                let disk = Linear {
                    device: table.origin.clone(),
                };
                let goes_on = twice("go on with the disk alone", || {
                    // Without it the new table is tried again, which is better than to wait for ever.
                    if let Err(e) = self.load(pair, sectors, LINEAR, &disk.to_string()) {
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

    /// Has a mapping with this table, `sectors` long. If it cannot be made, nothing is left of it but the hold that was
    /// there before: see [`Self::hold`]. A disk that is held stays so until the table is in force. A mapping that has
    /// such a table and does not run is resumed, and held if it cannot be.
    ///
    /// All of device-mapper counts as one owner of a device, so the kernel lets two mappings share
    /// one. `alone` says, given the kernel name of ours, whether nobody else is on the devices; it is
    /// asked while we hold them and before anything is written.
    ///
    /// # Errors
    /// The kernel's refusals: see [`explain`].
    pub fn map(
        &self,
        pair: &Pair,
        table: &Tandem,
        sectors: u64,
        alone: impl Fn(&str) -> Result<(), String>,
    ) -> DmResult<()> {
        let disk = Linear {
            device: table.origin.clone(),
        };
        match Standing::of(&self.entries()?, &pair.uuid) {
            Standing::Works => return Ok(()),
            Standing::Halted => {
                let runs = self.run_again(pair, table, sectors);
                if runs.is_err() {
                    // A format that was only begun has nothing that the disk could lack.
                    self.leave(pair, &disk, sectors, !table.new);
                }
                return runs;
            }
            Standing::Other => {}
        }
        let held = self.held(pair)?;
        let kernel_name = match &held {
            Some(name) => name.clone(),
            None => {
                // What a crash left without a table in force nobody can have opened.
                self.unmap(&pair.uuid)?;
                self.create(pair)?
            }
        };
        let load = |table: &Tandem| self.load(pair, sectors, TARGET, &table.to_string());
        let made = match load(table) {
            // A module that does not know the word starts cold always.
            Err(e) if (table.cold || table.lost > 0) && e.errno == Some(Errno::INVAL) => {
                load(&Tandem {
                    cold: false,
                    lost: 0,
                    ..table.clone()
                })
            }
            other => other,
        };
        let made = made
            .and_then(|()| alone(&kernel_name).map_err(|e| other("hold the devices alone", e)))
            // A program of udev's that came between may have had it hold a disk.
            .and_then(|()| self.about_to_work(pair))
            .and_then(|()| self.with(&pair.uuid, |id| self.resume(id)))
            .and_then(|()| self.works(pair));
        if made.is_err() {
            self.leave(pair, &disk, sectors, held.is_some());
        }
        made
    }

    /// Has a mapping run that has a table in force and does not. What is to be forgotten may not have been known to it.
    fn run_again(&self, pair: &Pair, table: &Tandem, sectors: u64) -> DmResult<()> {
        if table.cold || table.lost > 0 {
            self.load(pair, sectors, TARGET, &table.to_string())?;
        }
        self.with(&pair.uuid, |id| self.resume(id))?;
        self.works(pair)
    }

    /// What comes into force next is the cache and nothing else.
    fn about_to_work(&self, pair: &Pair) -> DmResult<()> {
        match self.waiting(pair)? {
            Some((_, target, _)) if target == TARGET => Ok(()),
            _ => Err(other("resume", "another table has taken its place")),
        }
    }

    /// What was resumed is the cache and nothing else.
    fn works(&self, pair: &Pair) -> DmResult<()> {
        match Standing::of(&self.entries()?, &pair.uuid) {
            Standing::Works => Ok(()),
            _ => Err(other("resume", "the mapping does not use its SSD")),
        }
    }

    /// After a mapping could not be made. One that is in use stays as it is: the kernel does not let it go.
    fn leave(&self, pair: &Pair, disk: &Linear, sectors: u64, holds: bool) {
        let left = match holds {
            true => self.hold_again(pair, disk, sectors),
            false => self.unmap(&pair.uuid),
        };
        if let Err(e) = left {
            tracing::error!("after a mapping could not be made: {e}");
        }
    }

    /// Whether there is a mapping that has no table in force.
    fn idle(&self, pair: &Pair) -> DmResult<bool> {
        let idle = |e: &Entry| e.live.uuid == pair.uuid && !e.active;
        Ok(self.entries()?.iter().any(idle))
    }

    /// Kernel name of a mapping that only holds its disk: with whatever table, as that of an attempt that a crash cut
    /// short may have replaced the one that held it first.
    fn held(&self, pair: &Pair) -> DmResult<Option<String>> {
        Ok(self.waiting(pair)?.map(|(name, ..)| name))
    }

    /// Of a mapping that has a table and none in force: its kernel name, and target and disk of that table.
    fn waiting(&self, pair: &Pair) -> DmResult<Option<(String, String, String)>> {
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
            Ok(table.into_iter().next().map(|(_, _, target, line)| {
                let disk = line.split_ascii_whitespace().next().unwrap_or_default();
                let name = format!("dm-{}", info.device().minor);
                (name, target, disk.to_owned())
            }))
        })
    }

    /// What the mapping of this cache keeps at this moment.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn keeps(&self, pair: &Pair) -> DmResult<Keeps> {
        if let Some((_, target, disk)) = self.waiting(pair)? {
            let there = Path::new(NUMBERS).join(&disk).exists();
            return Ok(Keeps::waiting(&target, disk, there));
        }
        Ok(Keeps::of(&self.entries()?, &pair.uuid))
    }

    /// Goes back to holding the disk, whatever the mapping has by now.
    fn hold_again(&self, pair: &Pair, disk: &Linear, sectors: u64) -> DmResult<()> {
        if self.idle(pair)? {
            return self.load(pair, sectors, LINEAR, &disk.to_string());
        }
        // A table that came into force and could not start does not go away by itself.
        self.unmap(&pair.uuid)?;
        self.hold(pair, disk, sectors)
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

    /// Loads a table, which comes into force when the mapping is resumed.
    fn load(&self, pair: &Pair, sectors: u64, target: &str, line: &str) -> DmResult<()> {
        let line = (0, sectors, target.to_owned(), line.to_owned());
        self.with(&pair.uuid, |id| {
            self.dm
                .table_load(id, &[line], DmOptions::default())
                .map(drop)
                .map_err(failed("load the table"))
        })
    }

    /// Keeps a disk from everybody until [`Self::map`] takes its place: a mapping whose table never
    /// comes into force. The kernel then lets nobody else have the disk for himself, and there is
    /// nothing to be read or written. A table of somebody's who is about to put it in force keeps it as well, and stays.
    ///
    /// # Errors
    /// `EBUSY` if somebody has the disk already; if the mapping passes everything to it.
    pub fn hold(&self, pair: &Pair, disk: &Linear, sectors: u64) -> DmResult<()> {
        match self.keeps(pair)? {
            Keeps::Works => return self.works(pair),
            Keeps::Between(number) | Keeps::Disk(number) if number == disk.device => return Ok(()),
            Keeps::Between(_) => return Err(other("hold", "it is about to use another device")),
            Keeps::Disk(_) | Keeps::Nothing => {}
        }
        if self.idle(pair)? {
            // The disk may be another device to the kernel than the one that it holds.
            return self.load(pair, sectors, LINEAR, &disk.to_string());
        }
        self.create(pair)?;
        let loaded = self.load(pair, sectors, LINEAR, &disk.to_string());
        if loaded.is_err() {
            self.unmap(&pair.uuid)?;
        }
        loaded
    }

    /// Has a mapping pass everything to `device`, if it exists. The kernel suspends it, which
    /// freezes the file system and waits for requests, swaps the tables and resumes, all in one
    /// call: a crash leaves it as before or after.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn pass_through(&self, uuid: &str, device: &Linear) -> DmResult<()> {
        if !self
            .entries()?
            .iter()
            .any(|e| e.live.uuid == uuid && e.live.attached)
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
            let sectors = table
                .iter()
                .map(|(start, length, ..)| start + length)
                .max()
                .unwrap_or(0);
            let line = (0, sectors, LINEAR.to_owned(), device.to_string());
            self.dm
                .table_load(id, &[line], DmOptions::default())
                .map_err(failed("load the pass-through table"))?;
            let resumed = self.resume(id);
            if resumed.is_err() {
                // The kernel may have stopped before it swapped the tables, or after that: either may serve requests.
                let _ = self.dm.table_clear(id);
                let _ = self.resume(id);
            }
            resumed
        })
    }

    /// Has no mapping in force, but holds the disk if something may be on the SSD only, or as it was held before.
    ///
    /// # Errors
    /// `EBUSY` if the mapping is in use, or somebody else was quicker to have the disk.
    pub fn give_back(&self, pair: &Pair, disk: &Linear, sectors: u64) -> DmResult<()> {
        if self.held(pair)?.is_some() {
            return self.hold_again(pair, disk, sectors);
        }
        let standing = Standing::of(&self.entries()?, &pair.uuid);
        let lacks = standing.lacks(self.status(&pair.uuid).ok().as_ref());
        self.unmap(&pair.uuid)?;
        if lacks {
            self.hold(pair, disk, sectors)?;
        }
        Ok(())
    }

    /// Has no mapping.
    ///
    /// # Errors
    /// `EBUSY` if it is in use.
    pub fn unmap(&self, uuid: &str) -> DmResult<()> {
        if !self.entries()?.iter().any(|e| e.live.uuid == uuid) {
            return Ok(());
        }
        self.with(uuid, |id| {
            self.dm
                .device_remove(id, DmOptions::default())
                .map(drop)
                .map_err(failed("remove the mapping"))
        })
    }

    /// Tells an attached mapping something.
    ///
    /// # Errors
    /// If there is none, or it does not understand.
    pub fn tell(&self, uuid: &str, message: Message) -> DmResult<()> {
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
    /// If there is none, or its line is not of the documented form.
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

/// What a refusal of the target means to a person (kmod/TARGET.rst lists them all).
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
