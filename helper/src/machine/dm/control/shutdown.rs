// SPDX-License-Identifier: GPL-3.0-or-later
//! The end of a shutdown: the caches are stopped in order, and the disks of dm-cache noted.

use super::parts::{direct, exclusive};
use super::repeat::each;
use super::{Control, DmResult, Entry, Linear, failed, other};
use crate::machine::dm::kept;
use crate::machine::dm::table::{DM_CACHE, TARGET};
use crate::machine::mounts::table::Uses;
use crate::machine::superblock;
use crate::model::action::mapping_name;
use devicemapper::{DevId, DeviceInfo, DmFlags, DmOptions};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tandem_api::Target;

/// udev's socket.
const UDEV: &str = "/run/udev/control";

/// What uses the disk of a cache that was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftBy {
    /// Nothing.
    All,
    /// A file system that is read-only, through a mapping that passes everything to the disk.
    Writers,
}

impl Control {
    /// As [`Self::open`], where udev may have ended. The devicemapper crate takes udev's socket for udev, and would wait for
    /// ever after it has removed or resumed a mapping.
    ///
    /// # Errors
    /// If there is no device-mapper, or the socket cannot be removed.
    pub fn open_without_udev() -> DmResult<Self> {
        forget_udev(Path::new(UDEV)).map_err(|e| other("forget udev", e))?;
        Self::open()
    }

    /// Stops the caches of dm-tandem whose mappings get no more writes: suspends them for good, in order. Nothing is gained by
    /// that for a cache of dm-cache, whose disk is not noted. `uses`: how a mapping is used, by its number (`major:minor`).
    ///
    /// # Errors
    /// If one cannot be stopped.
    pub fn stop(&self, uses: impl Fn(&str) -> Uses) -> DmResult<()> {
        let entries = self.entries()?;
        let caches = entries.iter().filter(|e| is_suspended_for_good(e));
        each(
            caches,
            |entry| {
                self.with(&entry.uuid, |id| {
                    let info = self.info(id)?;
                    if uses(&info.device().to_string()) == Uses::Written {
                        return Ok(());
                    }
                    // No file system is left above the mapping, so nothing has to be frozen.
                    let flags = DmFlags::DM_SUSPEND | DmFlags::DM_SKIP_LOCKFS;
                    let options = DmOptions::default().set_flags(flags);
                    self.device_suspend(id, options).map_err(failed("suspend"))
                })
            },
            |entry, e| tracing::error!(uuid = entry.uuid, "it is not stopped: {e}"),
        )
    }

    /// Stops dm-cache in order where its mapping is still there: has the mapping pass everything to the disk, in one call of the
    /// kernel, so no moment is left in which a process could die and leave it suspended. Numbers of the disk and the SSD.
    /// `uses`: as for [`Self::stop`].
    ///
    /// # Errors
    /// If the mapping is in use otherwise: then it is as before. If the kernel refuses.
    pub fn stop_dm_cache(
        &self,
        uuid: &str,
        devices: [&str; 2],
        uses: impl Fn(&str) -> Uses,
    ) -> DmResult<LeftBy> {
        let entries = self.entries()?;
        let Some(ours) = entries.iter().find(|e| e.uuid == uuid) else {
            return Ok(LeftBy::All);
        };
        self.with(uuid, |id| {
            let info = self.info(id)?;
            let (uses, opened) = (uses(&info.device().to_string()), info.open_count());
            may_pass_through(ours, devices, uses, opened)
                .map_err(|why| other("stop the cache", why))?;
            // Programs may have written to the mapping itself, such as changed settings of the file system.
            let written = File::open(format!("/dev/mapper/{}", mapping_name(uuid)));
            let written = written.and_then(|mapping| mapping.sync_all());
            written.map_err(|e| other("write what is left", e))?;
            let disk = Linear {
                device: devices[0].to_owned(),
                sectors: ours.sectors,
            };
            self.load_disks(uuid, &[disk])?;
            // A file system that is read-only has nothing to be frozen for.
            self.swap_with(id, DmFlags::DM_SKIP_LOCKFS)
        })?;
        self.remove_parts(uuid)?;
        Ok(LeftBy::Writers)
    }

    fn info(&self, id: &DevId<'_>) -> DmResult<DeviceInfo> {
        let info = self.dm.device_info(id);
        info.map_err(failed("look at a mapping"))
    }
}

/// Whether the end of a shutdown suspends this mapping.
fn is_suspended_for_good(entry: &Entry) -> bool {
    entry.active && entry.table.target == TARGET
}

/// Whether the end of a shutdown has this mapping pass everything to its disk. `opened`: how often the mapping is open, which a file
/// system counts as once, however often it is mounted.
///
/// # Errors
/// Why not.
fn may_pass_through(
    entry: &Entry,
    devices: [&str; 2],
    uses: Uses,
    opened: i32,
) -> Result<(), &'static str> {
    let serves = entry.active && !entry.suspended && entry.table.target == DM_CACHE;
    match () {
        () if !serves || entry.table.devices != devices => Err("the mapping has another table"),
        () if uses == Uses::Written => Err("a file system on it can be written"),
        // Another process has it mounted elsewhere, or uses it in another way.
        () if opened > i32::from(uses == Uses::Read) => Err("something else uses it"),
        () => Ok(()),
    }
}

/// Removes udev's socket if nothing listens.
fn forget_udev(socket: &Path) -> io::Result<()> {
    match UnixStream::connect(socket) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(socket),
        // The socket is of another type than this connection.
        _ => Ok(()),
    }
}

/// The last mount of the file system on a disk (its number), which may be mounted: see [`kept::last_mount`].
///
/// # Errors
/// If the disk cannot be read.
pub fn last_mount(disk: &str) -> io::Result<Option<kept::LastMount>> {
    kept::last_mount(&direct(disk, OFlags::empty())?)
}

/// Notes what is on the disk of a cache that dm-cache served: see [`kept::note`]. Numbers of the disk and the SSD, which no program
/// uses; `left`: what uses the disk. Length of the disk; the last mount of its file system through the cache.
///
/// # Errors
/// If something else uses the disk or the SSD, the disk was mounted without the cache, the disk cannot be read, or the SSD has another
/// cache or cannot be written.
pub fn note_stop(
    uuid: &str,
    [disk, ssd]: [&str; 2],
    left: LeftBy,
    sectors: u64,
    mounted: Option<&kept::LastMount>,
) -> io::Result<bool> {
    let ssd = exclusive(ssd)?;
    let alone = match left {
        LeftBy::All => OFlags::EXCL,
        LeftBy::Writers => OFlags::empty(),
    };
    let disk = direct(disk, alone)?;
    let carried = superblock::read(&ssd)?;
    let is_ours = |c: &superblock::Carried| c.uuid == uuid && c.target == Target::DmCache;
    if !carried.as_ref().is_some_and(is_ours) {
        return Err(io::Error::other(
            "the SSD does not have this cache any more",
        ));
    }
    if kept::last_mount(&disk)?.as_ref() != mounted {
        return Err(io::Error::other("the disk was used without the cache"));
    }
    // What the mapping has answered may be in the volatile cache of the disk.
    disk.sync_all()?;
    kept::note(&disk, &ssd, kept::Of { uuid, sectors })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::dm::mapping::Table;
    use std::os::unix::net::UnixListener;

    fn entry(target: &str, active: bool, suspended: bool) -> Entry {
        let line = match target {
            DM_CACHE => "253:1 8:16 8:1 128 1 writethrough smq 0",
            _ => "8:1 8:16 writethrough 0",
        };
        Entry {
            uuid: "ab".repeat(16),
            table: Table::of([(target, line)].into_iter()),
            sectors: 8,
            active,
            suspended,
        }
    }

    // promise 19: programs/tandem_helper::machine::dm::control::shutdown::tests::only_a_cache_that_nothing_writes_to_is_stopped_below_a_file_system
    #[test]
    fn only_a_cache_that_nothing_writes_to_is_stopped_below_a_file_system() {
        let devices = ["8:1", "8:16"];
        let runs = entry(DM_CACHE, true, false);
        assert_eq!(may_pass_through(&runs, devices, Uses::Read, 1), Ok(()));
        assert_eq!(may_pass_through(&runs, devices, Uses::Unseen, 0), Ok(()));
        assert!(may_pass_through(&runs, devices, Uses::Written, 1).is_err());
        // Mounted where process 1 does not see it; read in two ways.
        assert!(may_pass_through(&runs, devices, Uses::Unseen, 1).is_err());
        assert!(may_pass_through(&runs, devices, Uses::Read, 2).is_err());
        // The SSD or the disk has another number since the shutdown began.
        assert!(may_pass_through(&runs, ["8:1", "8:32"], Uses::Read, 1).is_err());
        assert!(may_pass_through(&runs, ["8:33", "8:16"], Uses::Read, 1).is_err());
        for other in [
            entry(DM_CACHE, false, false),
            entry(DM_CACHE, true, true),
            entry(TARGET, true, false),
            entry("linear", true, false),
        ] {
            assert!(may_pass_through(&other, devices, Uses::Read, 1).is_err());
        }
    }

    #[test]
    fn a_mapping_of_dm_cache_is_never_left_suspended() {
        assert!(is_suspended_for_good(&entry(TARGET, true, false)));
        assert!(!is_suspended_for_good(&entry(TARGET, false, false)));
        for target in [DM_CACHE, "linear"] {
            assert!(!is_suspended_for_good(&entry(target, true, false)));
        }
    }

    #[test]
    fn the_socket_of_udev_goes_when_udev_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        forget_udev(&socket).unwrap();
        let udev = UnixListener::bind(&socket).unwrap();
        forget_udev(&socket).unwrap();
        assert!(socket.exists(), "udev runs");
        drop(udev);
        forget_udev(&socket).unwrap();
        assert!(!socket.exists());
    }
}
