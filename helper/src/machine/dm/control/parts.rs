// SPDX-License-Identifier: GPL-3.0-or-later
//! The SSD of a cache that dm-cache serves: two linear mappings, for the metadata and for the copies. They exist while the
//! mapping of the cache uses the SSD.
//!
//! dm-cache does not notice that its disk was written without it, and after a crash it takes all its copies for newer than
//! the disk. So when the parts are made, the old metadata is cleared first, and dm-cache begins empty, unless a stop in
//! order and the disk itself show that the copies are still right.

use super::prepare::quiet;
use super::{Control, DmResult, failed, is_there, other};
use crate::machine::dm::dm_cache::Layout;
use crate::machine::dm::kept::{self, METADATA_HEAD};
use crate::machine::dm::table::{DM_CACHE, LINEAR, Tandem};
use crate::machine::mounts::nodes::device_number;
use crate::machine::superblock;
use crate::machine::wipe;
use crate::model::action::Pair;
use devicemapper::{DevId, DmName};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use tandem_api::{SECTOR_BYTES, Target};

/// What the UUIDs and the names of the parts begin with; those of caches begin otherwise.
pub const PARTS_PREFIX: &str = "TDPART-";

/// Names of the metadata and of the copies of a cache.
fn names(uuid: &str) -> [String; 2] {
    ["meta", "data"].map(|part| format!("{PARTS_PREFIX}{part}-{uuid}"))
}

/// Whether a mapping with this UUID is a part of the SSD of a cache. Parts are left where another program has removed the
/// mapping of the cache.
pub fn is_part(dm_uuid: &str, cache: &str) -> bool {
    names(cache).iter().any(|name| name == dm_uuid)
}

/// Whether a block device (its kernel name) is a part of the SSD of the cache whose mapping has the kernel name `ours`.
pub fn is_part_of(name: &str, ours: &str) -> bool {
    let folder = Path::new("/sys/block").join(name);
    let uuid = crate::read_lossy(folder.join("dm/uuid")).unwrap_or_default();
    let mut holders = std::fs::read_dir(folder.join("holders"))
        .into_iter()
        .flatten()
        .flatten();
    uuid.starts_with(PARTS_PREFIX) && holders.all(|holder| holder.file_name() == ours)
}

/// The number of the only device below a mapping, from its number.
pub(super) fn below(number: &str) -> Option<String> {
    let slaves = Path::new("/sys/dev/block").join(number).join("slaves");
    let mut slaves = std::fs::read_dir(slaves).ok()?.flatten();
    let slave = slaves.next().filter(|_| slaves.next().is_none())?;
    let number = crate::read_lossy(slave.path().join("dev")).ok()?;
    Some(number.trim().to_owned())
}

impl Control {
    /// The line of dm-cache's table for a cache, over its parts, and whether the metadata of before was kept. Parts that a
    /// mapping uses stay as they are. Else they are made anew, and an SSD that is to get a new format gets its superblock.
    ///
    /// # Errors
    /// `ENOSPC` if the SSD is too small, `EEXIST` if it is not empty and should be; else the errors of the kernel.
    pub(super) fn cache_line(
        &self,
        pair: &Pair,
        table: &Tandem,
        sectors: u64,
    ) -> DmResult<(String, bool)> {
        let ssd = self.length_of(&table.ssd)?;
        let too_small = || failed_with("divide the SSD", Errno::NOSPC);
        let layout = Layout::of(ssd).ok_or_else(too_small)?;
        let known = names(&pair.uuid).map(|name| self.number_of(&name));
        let used = self
            .entries()?
            .iter()
            .any(|e| e.uuid == pair.uuid && e.active && e.table.cached);
        if let ([Some(metadata), Some(data)], true) = (&known, used) {
            return Ok((layout.line([metadata, data, &table.origin]), false));
        }
        self.remove_parts(&pair.uuid)?;
        let keeps = write_head(table, &layout, [sectors, ssd])?;
        let part = |name: &str, (start, length): (u64, u64)| {
            let line = format!("{} {start}", table.ssd);
            let number = self.anonymous(name, length, LINEAR, &line)?;
            self.start(name).map(|()| number)
        };
        let [metadata, data] = names(&pair.uuid);
        let metadata = part(&metadata, layout.metadata)?;
        let data = part(&data, layout.data)?;
        Ok((layout.line([&metadata, &data, &table.origin]), keeps))
    }

    /// Removes the parts, if there are any. udev opens a device for a moment.
    ///
    /// # Errors
    /// `EBUSY` while a mapping uses them.
    pub fn remove_parts(&self, uuid: &str) -> DmResult<()> {
        self.clear_loaded(uuid)?;
        for name in names(uuid) {
            let mut attempt = 0;
            while self.number_of(&name).is_some() {
                let id = DmName::new(&name).map_err(|e| other("name a mapping", e))?;
                let removed = self.device_remove(&DevId::Name(id), quiet());
                match removed.map_err(failed("remove a part of the SSD")) {
                    Err(e) if e.errno == Some(Errno::BUSY) && attempt < wipe::TRIES => {
                        attempt += 1;
                        std::thread::sleep(wipe::PAUSE);
                    }
                    removed => removed?,
                }
            }
        }
        Ok(())
    }

    /// Clears a table of dm-cache that a killed process has loaded and not put in force: it holds the parts, also where the
    /// mapping passes everything to the disk meanwhile.
    fn clear_loaded(&self, uuid: &str) -> DmResult<()> {
        let entries = self.entries()?;
        let Some(ours) = entries.iter().find(|e| e.uuid == uuid) else {
            return Ok(());
        };
        if ours.active && ours.table.cached || self.loaded(uuid)?.1.target != DM_CACHE {
            return Ok(());
        }
        self.with(uuid, |id| {
            self.dm
                .table_clear(id)
                .map(drop)
                .map_err(failed("clear a table"))
        })
    }

    /// Removes the parts of a cache that does not use them any more. A part that stays is removed before the next start of
    /// the cache.
    pub(super) fn drop_parts(&self, uuid: &str) {
        if let Err(e) = self.remove_parts(uuid) {
            tracing::error!(uuid, "{e}");
        }
    }

    /// Number of the mapping with this name, if there is one.
    fn number_of(&self, name: &str) -> Option<String> {
        let name = DmName::new(name).ok()?;
        let info = self.dm.device_info(&DevId::Name(name)).ok()?;
        Some(info.device().to_string())
    }

    /// Length of a block device in sectors.
    fn length_of(&self, number: &str) -> DmResult<u64> {
        let gone = || other("look at the SSD", "the device is gone");
        if !is_there(number) {
            return Err(gone());
        }
        let size = crate::read_lossy(format!("/sys/dev/block/{number}/size"));
        let size = size.ok().and_then(|size| size.trim().parse().ok());
        size.ok_or_else(gone)
    }
}

fn failed_with(what: &'static str, errno: Errno) -> super::DmFailure {
    super::DmFailure {
        what,
        errno: Some(errno),
        error: errno.to_string(),
    }
}

/// Forgets the note of the last stop, and clears the old metadata if the copies may be wrong. Writes both copies of the
/// superblock where a new format is asked for, or where the lengths have changed. `sectors`: lengths of the disk and of the
/// SSD. True: the metadata is as it was.
///
/// # Errors
/// `EBUSY` if a program uses the SSD, `EEXIST` if a new format is asked for and the SSD has something else, `ESTALE` if the
/// cache on the SSD is that of another disk. Nothing is written then.
fn write_head(table: &Tandem, layout: &Layout, sectors: [u64; 2]) -> DmResult<bool> {
    let may_keep = !table.new && !table.start_cold && table.lost_generation == 0;
    let disk = may_keep
        .then(|| direct(&table.origin, OFlags::empty()))
        .transpose();
    let disk = disk.unwrap_or_else(|e| {
        tracing::warn!("the disk is not compared: {e}");
        None
    });
    let written =
        exclusive(&table.ssd).and_then(|ssd| put_head(&ssd, disk.as_ref(), table, layout, sectors));
    written.map_err(|e| match Errno::from_io_error(&e) {
        Some(errno) => failed_with("write to the SSD", errno),
        None => other("write to the SSD", e),
    })
}

/// As [`write_head`], on an SSD that is open. Without `disk` the metadata is cleared.
fn put_head(
    ssd: &File,
    disk: Option<&File>,
    table: &Tandem,
    layout: &Layout,
    sectors: [u64; 2],
) -> io::Result<bool> {
    let known = check_head(ssd, table)? == Some(sectors);
    let at = layout.metadata.0 * SECTOR_BYTES;
    let judge = |disk: &File| -> io::Result<()> {
        // The page cache may hold what was there before dm-cache wrote.
        rustix::fs::fadvise(ssd, 0, None, rustix::fs::Advice::DontNeed)?;
        let mut head = [0; METADATA_HEAD];
        ssd.read_exact_at(&mut head, at)?;
        let cache = kept::Of {
            uuid: &table.uuid,
            sectors: sectors[0],
        };
        let shown = [
            (known, "another length"),
            (kept::was_closed(&head, layout), "dm-cache was not closed"),
            (
                kept::is_as_noted(disk, ssd, cache)?,
                "no stop is noted of the disk as it is",
            ),
        ];
        match shown.into_iter().find(|(holds, _)| !holds) {
            Some((_, missing)) => Err(io::Error::other(missing)),
            None => Ok(()),
        }
    };
    let judged = disk.map_or_else(|| Err(io::Error::other("it is to be empty")), judge);
    if let Err(e) = &judged {
        tracing::info!(uuid = table.uuid, "the cache begins empty: {e}");
    }
    let keeps = judged.is_ok();
    kept::forget(ssd)?;
    if keeps {
        return Ok(true);
    }
    ssd.write_all_at(&[0; METADATA_HEAD], at)?;
    ssd.sync_all()?;
    if !known {
        for (copy, at) in superblock::OFFSETS.into_iter().enumerate() {
            let (uuid, disk) = (&table.uuid, &table.origin_id);
            let bytes = superblock::of_dm_cache(uuid, disk, sectors, copy);
            ssd.write_all_at(&bytes, at)?;
            ssd.sync_all()?;
        }
    }
    Ok(false)
}

/// The lengths of disk and SSD that the superblock has; none if the SSD gets a new format. An attempt that was ended may have
/// written the superblock already.
fn check_head(ssd: &impl FileExt, table: &Tandem) -> io::Result<Option<[u64; 2]>> {
    let carried = superblock::read(ssd)?;
    let ours = carried.filter(|carried| carried.uuid == table.uuid);
    match ours {
        Some(carried) if carried.target != Target::DmCache => Err(Errno::EXIST.into()),
        Some(carried) if carried.disk_id != table.origin_id => Err(Errno::STALE.into()),
        Some(carried) => Ok(Some([carried.origin_sectors, carried.ssd_sectors])),
        None if !table.new => Err(io::Error::other(
            "the SSD does not have this cache any more",
        )),
        None => {
            let mut head = vec![0; superblock::AREA_BYTES as usize];
            ssd.read_exact_at(&mut head, 0)?;
            match head.iter().all(|byte| *byte == 0) {
                true => Ok(None),
                false => Err(Errno::EXIST.into()),
            }
        }
    }
}

/// Opens the disk below a cache by its number, for reads past the page cache. The kernel's answers through the mapping do not
/// change what the page cache of the disk holds.
///
/// `further`: flags for the opening.
pub(super) fn direct(number: &str, further: OFlags) -> io::Result<File> {
    let flags = (OFlags::DIRECT | further).bits().cast_signed();
    by_number(number, |node| {
        OpenOptions::new().read(true).custom_flags(flags).open(node)
    })
}

/// Opens a block device by its number for exclusive use.
pub(super) fn exclusive(number: &str) -> io::Result<File> {
    by_number(number, |node| wipe::open_alone(node))
}

/// Opens a block device by its number.
fn by_number(number: &str, open: impl Fn(&Path) -> io::Result<File>) -> io::Result<File> {
    let name = std::fs::canonicalize(Path::new("/sys/dev/block").join(number))?;
    let name = name.file_name().ok_or(io::ErrorKind::NotFound)?;
    // In sysfs, a `/` of a device's name is a `!`.
    let node = Path::new("/dev").join(name.to_string_lossy().replace('!', "/"));
    let file = open(&node)?;
    match device_number(file.metadata()?.rdev()) == number {
        true => Ok(file),
        false => Err(io::Error::other("another device has taken the name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::dm::kept::tests::{SECTORS, ext4, head as closed};
    use tandem_api::{DirtyLimit, Mode};

    fn table(new: bool) -> Tandem {
        Tandem {
            origin: "8:1".into(),
            ssd: "8:16".into(),
            mode: Mode::Writethrough,
            uuid: "0a".repeat(16),
            origin_id: "00ff".into(),
            new,
            start_cold: true,
            lost_generation: 0,
            dirty_limit: DirtyLimit::default(),
        }
    }

    // promise 22: programs/tandem_helper::machine::dm::control::parts::tests::nothing_is_written_to_an_ssd_that_has_something_else
    #[test]
    fn nothing_is_written_to_an_ssd_that_has_something_else() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        let says = |table: &Tandem| {
            let checked = check_head(&file, table);
            checked.map_err(|e| Errno::from_io_error(&e))
        };
        assert_eq!(says(&table(true)), Ok(None));
        assert_eq!(says(&table(false)), Err(None), "nothing is there");
        for (copy, at) in superblock::OFFSETS.into_iter().enumerate() {
            let bytes = superblock::of_dm_cache(&table(true).uuid, "00ff", [8, 16], copy);
            file.write_all_at(&bytes, at).unwrap();
        }
        let known = Ok(Some([8, 16]));
        assert_eq!(says(&table(true)), known, "an attempt was ended");
        assert_eq!(says(&table(false)), known);
        let mut other = table(false);
        other.origin_id = "00fe".into();
        assert_eq!(says(&other), Err(Some(Errno::STALE)), "another disk");
        let mut other = table(true);
        other.uuid = "0b".repeat(16);
        assert_eq!(says(&other), Err(Some(Errno::EXIST)), "another cache");
        other.new = false;
        assert_eq!(says(&other), Err(None));
        let own = crate::machine::superblock::tests::sound(0);
        file.write_all_at(&[0; 4096], superblock::OFFSETS[1])
            .unwrap();
        file.write_all_at(&own, 0).unwrap();
        let mut of_module = table(false);
        of_module.uuid = "ab".repeat(16);
        assert_eq!(says(&of_module), Err(Some(Errno::EXIST)), "dm-tandem's");
        file.write_all_at(b"x", superblock::AREA_BYTES - 1).unwrap();
        file.write_all_at(&[0; 4096], 0).unwrap();
        assert_eq!(says(&table(true)), Err(Some(Errno::EXIST)), "one byte");
    }

    /// An SSD with what a target of before has left, and its neighbor.
    fn left(file: &File, layout: &Layout) {
        let head = closed(layout);
        let at = layout.metadata.0 * SECTOR_BYTES;
        file.write_all_at(&head, at).unwrap();
        file.write_all_at(&[0x5a], at + METADATA_HEAD as u64)
            .unwrap();
    }

    /// Whether the metadata is cleared, and nothing else.
    fn is_cleared(file: &File, layout: &Layout) -> bool {
        let mut found = [1; METADATA_HEAD + 1];
        file.read_exact_at(&mut found, layout.metadata.0 * SECTOR_BYTES)
            .unwrap();
        assert_eq!(found[METADATA_HEAD], 0x5a);
        found[..METADATA_HEAD] == [0; METADATA_HEAD]
    }

    // promise 19: programs/tandem_helper::machine::dm::control::parts::tests::old_metadata_is_cleared_without_a_stop_in_order
    #[test]
    fn old_metadata_is_cleared_without_a_stop_in_order() {
        let file = tempfile::tempfile().unwrap();
        let sectors = [SECTORS, 1 << 19];
        file.set_len(sectors[1] * SECTOR_BYTES).unwrap();
        let layout = Layout::of(sectors[1]).unwrap();
        let disk = ext4();
        for table in [table(true), table(false)] {
            left(&file, &layout);
            assert!(!put_head(&file, Some(&disk), &table, &layout, sectors).unwrap());
            assert!(is_cleared(&file, &layout));
            let carried = superblock::read(&file).unwrap().unwrap();
            assert_eq!(
                (carried.uuid, carried.target),
                (table.uuid, Target::DmCache)
            );
        }
        let mut other = table(false);
        other.origin_id = "00fe".into();
        left(&file, &layout);
        put_head(&file, Some(&disk), &other, &layout, sectors).unwrap_err();
        assert!(!is_cleared(&file, &layout), "nothing was written");
    }

    // promise 19: programs/tandem_helper::machine::dm::control::parts::tests::a_stop_in_order_keeps_the_copies_once
    #[test]
    fn a_stop_in_order_keeps_the_copies_once() {
        let file = tempfile::tempfile().unwrap();
        let sectors = [SECTORS, 1 << 19];
        file.set_len(sectors[1] * SECTOR_BYTES).unwrap();
        let layout = Layout::of(sectors[1]).unwrap();
        let (disk, table) = (ext4(), table(false));
        put_head(
            &file,
            None,
            &Tandem {
                new: true,
                ..table.clone()
            },
            &layout,
            sectors,
        )
        .unwrap();
        let stopped = || {
            left(&file, &layout);
            let cache = kept::Of {
                uuid: &table.uuid,
                sectors: sectors[0],
            };
            assert!(kept::note(&disk, &file, cache).unwrap());
        };
        let starts = |disk: Option<&File>, sectors| {
            let keeps = put_head(&file, disk, &table, &layout, sectors).unwrap();
            assert_eq!(is_cleared(&file, &layout), !keeps);
            keeps
        };
        stopped();
        assert!(starts(Some(&disk), sectors));
        // A crash follows: the note counted once.
        assert!(!starts(Some(&disk), sectors));
        stopped();
        assert!(!starts(None, sectors), "the table says that it is cold");
        stopped();
        file.write_all_at(&[3], layout.metadata.0 * SECTOR_BYTES + 4)
            .unwrap();
        assert!(!starts(Some(&disk), sectors), "the metadata is not closed");
        stopped();
        disk.write_all_at(&[1], 1024 + 52).unwrap();
        assert!(!starts(Some(&disk), sectors), "another mount");
        stopped();
        let grown = [SECTORS + 8, 1 << 19];
        assert!(!starts(Some(&disk), grown), "another length");
        stopped();
        assert!(
            starts(Some(&disk), grown),
            "the superblock has the new length"
        );
    }
}
