// SPDX-License-Identifier: GPL-3.0-or-later
//! GRUB's environment block: the file `grubenv`.
//!
//! GRUB changes this file while no cache is there, in place and on the disk alone, and leaves no other trace on the file
//! system. A warm cache still has the block of before. So the early start compares the two, and writes what the disk has
//! into the file again, which brings the cache up to date. This is right only where all that was written is on the disk.

use crate::machine::blocks::{Found, Machine, line};
use crate::machine::mounts::device;
use crate::machine::mounts::nodes::device_number;
use crate::machine::mounts::table::Mounts;
use crate::machine::store::Store;
use crate::model::action::DM_UUID_PREFIX;
use crate::model::facts::Ident;
use crate::model::record::CacheRecord;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use tandem_api::Mode;
use tandem_api::distribution::GRUB_FOLDERS;

/// The file's name in the folder of GRUB.
const FILE: &str = "grubenv";
/// Length of the file.
const BYTES: usize = 1024;
/// First line of the file.
const HEAD: &[u8] = b"# GRUB Environment Block\n";
/// Alignment of direct reads that every disk accepts, in bytes.
const ALIGNED: u64 = 4096;

/// Has the file show what GRUB has written, if it lies on one of these caches. Only the start may call this: later a
/// program may have changed the file.
pub fn refresh(store: &Store) {
    for path in GRUB_FOLDERS.map(|folder| format!("{folder}/{FILE}")) {
        match refresh_file(store, &path) {
            Ok(true) => tracing::info!("{path} is as GRUB has left it on the disk"),
            Ok(false) => {}
            Err(e) => tracing::warn!("{path} may not be as GRUB has left it: {e}"),
        }
    }
}

/// Whether GRUB may write to a file in one of its folders, and [`refresh`] cannot bring that file up to date: the file system has
/// another form than it knows.
pub fn stays_stale() -> bool {
    let is_known = |path: &str| -> io::Result<bool> {
        let mounts = Mounts::read()?;
        Ok(is_in_place(&mounts, path) && extent::place(&File::open(path)?)?.is_some())
    };
    let mut paths = GRUB_FOLDERS
        .map(|folder| format!("{folder}/{FILE}"))
        .into_iter();
    paths.any(|path| Path::new(&path).exists() && !is_known(&path).unwrap_or(false))
}

/// Whether what was written last to this file is in its place. With data=journal it is in the journal.
fn is_in_place(mounts: &Mounts, path: &str) -> bool {
    let entry = mounts.containing(path);
    entry.is_some_and(|entry| !entry.mount.options.contains("data=journal"))
}

fn refresh_file(store: &Store, path: &str) -> io::Result<bool> {
    let found = match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let number = device_number(found.dev());
    let uuid = line(format!("/sys/dev/block/{number}/dm/uuid")).unwrap_or_default();
    let records = store.caches();
    let Some(record) = records.iter().find(|record| is_complete(record, &uuid)) else {
        return Ok(false);
    };
    if !is_in_place(&Mounts::read()?, path) {
        return Ok(false);
    }
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    if file.metadata()?.dev() != found.dev() {
        return Ok(false);
    }
    file.sync_all()?;
    let Some(place) = extent::place(&file)? else {
        return Ok(false);
    };
    let disk = disk(&record.pair.origin, &number)?;
    restore(&file, &on_disk(&disk, place)?)
}

/// Whether this is the cache with this mapping, and its disk has all that was written.
fn is_complete(record: &CacheRecord, dm_uuid: &str) -> bool {
    dm_uuid.starts_with(DM_UUID_PREFIX)
        && record.pair.dm_uuid() == dm_uuid
        && record.pair.mode != Mode::Writeback
        && !record.may_be_dirty
}

/// The disk below the mapping with this number, for reads that no cache of the kernel answers.
fn disk(ident: &Ident, mapping: &str) -> io::Result<File> {
    let devices = Machine::default().block_devices()?;
    let below = device::with_those_below(Path::new("/"), mapping);
    let disk = Found::among(&devices, ident).recorded;
    let disk = disk
        .filter(|disk| below.contains(&disk.number))
        .ok_or_else(|| io::Error::other("the disk below the cache is not found"))?;
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(disk.ident.node())
}

/// Memory for a direct read.
#[repr(align(4096))]
struct Buffer([u8; 8192]);

/// The file as the disk has it. `place`: in bytes from the start of the disk.
fn on_disk(disk: &File, place: u64) -> io::Result<[u8; BYTES]> {
    let mut buffer = Buffer([0; 8192]);
    let begin = place - place % ALIGNED;
    let read = disk.read_at(&mut buffer.0, begin)?;
    let at = usize::try_from(place - begin).map_err(io::Error::other)?;
    let bytes = buffer
        .0
        .get(..read)
        .and_then(|read| read.get(at..at + BYTES));
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Writes what the disk has into the file, if the file shows something else. Returns whether it did. Nothing is written
/// unless both are environment blocks of GRUB.
fn restore(file: &File, on_disk: &[u8; BYTES]) -> io::Result<bool> {
    let length = u64::try_from(BYTES).map_err(io::Error::other)?;
    if file.metadata()?.len() != length {
        return Ok(false);
    }
    let mut shown = [0; BYTES];
    file.read_exact_at(&mut shown, 0)?;
    let both = shown.starts_with(HEAD) && on_disk.starts_with(HEAD);
    if !both || shown == *on_disk {
        return Ok(false);
    }
    file.write_all_at(on_disk, 0)?;
    file.sync_all()?;
    Ok(true)
}

/// Where a file lies on its file system's device, as the file system tells it (FIEMAP).
mod extent {
    use super::BYTES;
    use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
    use std::fs::File;
    use std::io;

    /// The request, with room for one extent.
    #[repr(C)]
    #[derive(Debug, Default)]
    struct Request {
        start: u64,
        length: u64,
        flags: u32,
        mapped_extents: u32,
        extent_count: u32,
        reserved: u32,
        extent: Extent,
    }

    /// An extent, in bytes.
    #[repr(C)]
    #[derive(Debug, Default, Clone, Copy)]
    pub(super) struct Extent {
        pub(super) logical: u64,
        pub(super) physical: u64,
        pub(super) length: u64,
        pub(super) reserved: [u64; 2],
        pub(super) flags: u32,
        pub(super) more: [u32; 3],
    }

    /// The kernel counts the size without the extents.
    const FIEMAP: Opcode = opcode::read_write::<[u64; 4]>(b'f', 11);
    /// FIEMAP_EXTENT_LAST, _MERGED and _SHARED: nothing else may be true of an extent that lies in its place as it is.
    const PLAIN: u32 = 0x1 | 0x1000 | 0x2000;

    /// Where the file lies, in bytes from the start of the device; none if it does not lie there in one piece.
    pub(super) fn place(file: &File) -> io::Result<Option<u64>> {
        let mut request = Request {
            length: u64::MAX,
            extent_count: 1,
            ..Request::default()
        };
        // SAFETY: FIEMAP reads the request, and writes it and as many extents as it names.
        unsafe { ioctl(file, Updater::<FIEMAP, Request>::new(&mut request)) }?;
        let found = (request.mapped_extents == 1).then_some(&request.extent);
        Ok(found.and_then(of))
    }

    pub(super) fn of(extent: &Extent) -> Option<u64> {
        let whole = extent.logical == 0 && usize::try_from(extent.length).ok()? >= BYTES;
        (whole && extent.flags & !PLAIN == 0 && extent.physical != 0).then_some(extent.physical)
    }
}

#[cfg(test)]
mod tests {
    use super::extent::Extent;
    use super::*;
    use crate::model::action::Pair;

    /// A block with these words.
    fn block(words: &str) -> [u8; BYTES] {
        let text = [HEAD, words.as_bytes()].concat();
        let mut block = [b'#'; BYTES];
        block[..text.len()].copy_from_slice(&text);
        block
    }

    /// The file after the disk has shown `on_disk`, and whether it was written.
    fn restored(shown: &[u8], on_disk: &[u8; BYTES]) -> (Vec<u8>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grubenv");
        fs::write(&path, shown).unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let written = restore(&file, on_disk).unwrap();
        (fs::read(&path).unwrap(), written)
    }

    #[test]
    fn the_file_is_as_grub_has_left_it_on_the_disk() {
        let (before, after) = (block("recordfail=1\n"), block("saved_entry=2\n"));
        assert_eq!(restored(&before, &after), (after.to_vec(), true));
        assert_eq!(restored(&after, &after), (after.to_vec(), false));
    }

    #[test]
    fn nothing_but_an_environment_block_is_written_or_replaced() {
        let ours = block("saved_entry=2\n");
        assert_eq!(restored(&ours, &[0; BYTES]), (ours.to_vec(), false));
        assert_eq!(restored(&[7; BYTES], &ours), (vec![7; BYTES], false));
        let longer = [&ours[..], b"#"].concat();
        assert_eq!(restored(&longer, &block("a=1\n")), (longer, false));
    }

    #[test]
    fn the_block_is_read_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let ours = block("saved_entry=2\n");
        for place in [0, 1024, 4096, 7168, 13 * 1024] {
            let disk = [vec![7; place], ours.to_vec()].concat();
            fs::write(&path, disk).unwrap();
            let disk = File::open(&path).unwrap();
            assert_eq!(on_disk(&disk, place as u64).unwrap(), ours, "{place}");
            on_disk(&disk, place as u64 + 1).unwrap_err();
        }
    }

    #[test]
    fn only_a_file_that_lies_in_its_place_as_it_is_is_read_there() {
        let plain = Extent {
            physical: 5 << 20,
            length: 4096,
            flags: 0x1,
            ..Extent::default()
        };
        assert_eq!(extent::of(&plain), Some(5 << 20));
        // UNKNOWN, DELALLOC, ENCODED, DATA_ENCRYPTED, NOT_ALIGNED, DATA_INLINE, DATA_TAIL, UNWRITTEN
        for flag in [0x2, 0x4, 0x8, 0x80, 0x100, 0x200, 0x400, 0x800] {
            let flags = plain.flags | flag;
            assert_eq!(extent::of(&Extent { flags, ..plain }), None, "{flag:#x}");
        }
        for extent in [
            Extent {
                length: 512,
                ..plain
            },
            Extent {
                logical: 4096,
                ..plain
            },
        ] {
            assert_eq!(extent::of(&extent), None);
        }
    }

    #[test]
    fn the_disk_is_asked_only_where_it_has_everything() {
        let record = |mode, may_be_dirty| CacheRecord {
            may_be_dirty,
            ..CacheRecord::new(Pair {
                uuid: "ab".repeat(16),
                ..Pair::nowhere(mode)
            })
        };
        let clean = record(Mode::Writethrough, false);
        let uuid = clean.pair.dm_uuid();
        assert!(is_complete(&clean, &uuid));
        assert!(!is_complete(&clean, "LVM-1") && !is_complete(&clean, ""));
        assert!(!is_complete(&record(Mode::Writeback, false), &uuid));
        assert!(!is_complete(&record(Mode::Writethrough, true), &uuid));
    }
}
