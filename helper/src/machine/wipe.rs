// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading and wiping the SSD. Every function blocks. It opens the device anew, and exclusively if it writes.

use crate::machine::blocks::check_place;
use crate::machine::mounts::nodes::device_number;
use crate::machine::superblock;
use crate::machine::sysfs::has_partitions;
use crate::model::facts::Ident;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes that are wiped at each end. Every signature that blkid knows lies within them: the farthest is that of VMFS,
/// which begins at 2 MiB. The kernel module needs the first MiB to be zero.
const END_BYTES: u64 = 4 << 20;
const CHUNK: usize = 64 << 10;
/// Places between the ends that are read to tell an empty SSD from one with unknown content.
const PROBES: u64 = 256;
const PROBE_BYTES: usize = 4096;
/// udev holds a device open for a moment after every event.
pub(crate) const TRIES: u32 = 20;
pub(crate) const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Opens a device for reading and writing. This proves that no other program uses the device.
///
/// # Errors
/// `EBUSY` if another program uses the device for longer than udev does.
pub(crate) fn open_alone(node: impl AsRef<Path>) -> io::Result<File> {
    let flags = rustix::fs::OFlags::EXCL.bits();
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(flags.cast_signed());
    let mut attempt = 0;
    loop {
        match options.open(&node) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && attempt < TRIES => {
                attempt += 1;
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}

/// As [`open_alone`], and proves that the name still means the same device.
fn exclusive(ident: &Ident) -> io::Result<File> {
    let file = open_alone(ident.node())?;
    // The device stays where it is while it is open: the kernel deletes no partition that is in use.
    let facts = file.metadata()?;
    if facts.file_type().is_block_device() {
        let folder = Path::new("/sys/dev/block").join(device_number(facts.rdev()));
        check_place(&folder, ident).map_err(io::Error::other)?;
    }
    if ident.diskseq != 0 && diskseq(&file)? != ident.diskseq {
        return Err(io::Error::other("another device has taken the name"));
    }
    Ok(file)
}

/// Sequence number of an open device.
///
/// # Errors
/// If the kernel does not tell.
pub fn diskseq(file: &File) -> io::Result<u64> {
    use rustix::ioctl::{Getter, ioctl, opcode};
    const BLKGETDISKSEQ: rustix::ioctl::Opcode = opcode::read::<u64>(0x12, 128);
    // SAFETY: BLKGETDISKSEQ writes one 64-bit number.
    Ok(unsafe { ioctl(file, Getter::<BLKGETDISKSEQ, u64>::new()) }?)
}

/// Makes udev handle a device again: udev watches disks for the end of writing. Unlike a rescan by UDisks2, this does
/// not read the partition table anew, which fails while the SSD is in use.
///
/// # Errors
/// If the device cannot be opened for writing.
pub fn trigger_udev(node: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(node).map(drop)
}

/// Whether only zeroes are found at the ends and at many places in between.
///
/// # Errors
/// If the device cannot be read.
pub fn is_blank(node: &str, size: u64) -> io::Result<bool> {
    let file = File::open(node)?;
    let zero = |at: u64, length: usize| -> io::Result<bool> {
        let mut buffer =
            vec![0; length.min(usize::try_from(size - at.min(size)).unwrap_or(length))];
        file.read_exact_at(&mut buffer, at)?;
        Ok(buffer.iter().all(|b| *b == 0))
    };
    let end = END_BYTES.min(size);
    for start in [0, size - end] {
        for at in (start..start + end).step_by(CHUNK) {
            if !zero(at, CHUNK)? {
                return Ok(false);
            }
        }
    }
    for place in 1..PROBES {
        let at = size / PROBES * place / PROBE_BYTES as u64 * PROBE_BYTES as u64;
        if !zero(at, PROBE_BYTES)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether another program has a device open exclusively. Nothing is kept open and nothing is read.
///
/// # Errors
/// If the device cannot be opened for another reason.
pub fn is_claimed(node: &str) -> io::Result<bool> {
    for attempt in 0.. {
        match OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::EXCL.bits().cast_signed())
            .open(node)
        {
            Ok(_) => return Ok(false),
            // Some programs open a device exclusively for a moment, as udev's probes do.
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && attempt < TRIES => {
                std::thread::sleep(PAUSE)
            }
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Ok(true),
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

/// Wipes both ends, and makes the kernel forget partitions.
///
/// # Errors
/// If another program uses the device, or on a write error.
pub fn erase(ident: &Ident) -> io::Result<()> {
    let file = exclusive(ident)?;
    discard(&file, 0, ident.text.size);
    zero_ends(&file, ident.text.size)
}

/// Removes an empty partition table; nothing else of the device is touched. Returns false, and touches nothing, if there is a
/// partition.
///
/// # Errors
/// If another program uses the device, or on a write error.
pub fn remove_table(ident: &Ident) -> io::Result<bool> {
    let file = exclusive(ident)?;
    let number = device_number(file.metadata()?.rdev());
    let folder = Path::new("/sys/dev/block").join(number);
    // Of a table that cannot be read the kernel shows no partition either.
    file.read_exact_at(&mut [0; PROBE_BYTES], 0)?;
    if has_partitions(&folder)? {
        return Ok(false);
    }
    // Another program may have had the table read: until that has ended, the kernel shows no partition.
    match read_partitions(&file) {
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Ok(false),
        other => other?,
    }
    if has_partitions(&folder)? {
        return Ok(false);
    }
    zero_ends(&file, ident.text.size)?;
    Ok(true)
}

fn zero_ends(file: &File, size: u64) -> io::Result<()> {
    let end = END_BYTES.min(size);
    let zeroes = vec![0; CHUNK];
    for start in [0, size - end] {
        for at in (start..start + end).step_by(CHUNK) {
            let length = CHUNK.min(usize::try_from(size - at).unwrap_or(CHUNK));
            file.write_all_at(&zeroes[..length], at)?;
        }
    }
    file.sync_all()?;
    read_partitions(file)
}

/// Wipes the superblocks and discards the copies if they belong to the cache `uuid`; other content stays.
///
/// # Errors
/// If another program uses the device, or on an I/O error.
pub fn free(ident: &Ident, uuid: &str) -> io::Result<()> {
    let carries = |file: &File| -> io::Result<bool> {
        let carried = superblock::read(file)?;
        Ok(carried.is_some_and(|carried| carried.uuid == uuid))
    };
    if !carries(&File::open(ident.node())?)? {
        return Ok(());
    }
    let file = exclusive(ident)?;
    // The check is repeated, now that no other program can write to the device.
    if !carries(&file)? {
        return Ok(());
    }
    // No cut leaves superblocks that name discarded copies. An SSD may read anything where it was told to discard, so their
    // place is not discarded.
    for at in (0..superblock::AREA_BYTES).step_by(CHUNK) {
        file.write_all_at(&vec![0; CHUNK], at)?;
    }
    file.sync_all()?;
    discard(&file, superblock::AREA_BYTES, ident.text.size);
    Ok(())
}

/// Tells the SSD that none of its content from this byte on is needed. Then the SSD becomes fast again, and no copies of the user's
/// data stay on it. Most SSDs then read as zeroes; an SSD that cannot discard is left as it is.
fn discard(file: &File, from: u64, size: u64) {
    use rustix::ioctl::{Setter, ioctl, opcode};
    const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);
    let range = [from, size.saturating_sub(from)];
    // SAFETY: BLKDISCARD reads two 64-bit numbers, start and length in bytes.
    let result = unsafe { ioctl(file, Setter::<BLKDISCARD, [u64; 2]>::new(range)) };
    if let Err(e) = result {
        tracing::info!("the SSD does not discard: {e}");
    }
}

/// Reads the partition table anew. A device that cannot have one says `EINVAL`, a partition `ENOTTY`.
fn read_partitions(file: &File) -> io::Result<()> {
    use rustix::io::Errno;
    use rustix::ioctl::{NoArg, ioctl, opcode};
    const BLKRRPART: rustix::ioctl::Opcode = opcode::none(0x12, 95);
    for attempt in 0.. {
        // SAFETY: BLKRRPART takes no argument and touches no memory of ours.
        let result = unsafe { ioctl(file, NoArg::<BLKRRPART>::new()) };
        match result {
            Err(Errno::BUSY) if attempt < TRIES => std::thread::sleep(PAUSE),
            Ok(()) | Err(Errno::INVAL | Errno::NOTTY) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sparse file stands for the device; exclusivity is shown on real ones in the VM.
    fn disk(name: &str, size: u64) -> (String, File) {
        let path = std::env::temp_dir().join(format!("tandem-wipe-{name}-{}", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        file.set_len(size).unwrap();
        (path.to_str().unwrap().to_owned(), file)
    }

    #[test]
    fn content_anywhere_is_no_blank_disk() {
        let size = 64 << 20;
        let (path, file) = disk("blank", size);
        assert!(is_blank(&path, size).unwrap());
        for at in [0, (1 << 20) + 7, size / 256 * 100, size - 1] {
            file.write_all_at(b"x", at).unwrap();
            assert!(!is_blank(&path, size).unwrap(), "{at}");
            file.write_all_at(&[0], at).unwrap();
        }
        assert!(is_blank(&path, size).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    /// A signature that stays would come back as soon as the superblock of the cache is gone.
    #[test]
    fn every_signature_that_blkid_knows_is_erased() {
        let size = 64 << 20;
        let (path, file) = disk("erase", size);
        let mut ident = Ident::default();
        ident.text.name = format!("../{path}");
        ident.text.size = size;
        // VMFS, and its volumes; Btrfs; ISO 9660; ZFS at the end; the second GPT.
        for at in [
            2 << 20,
            1 << 20,
            65_600,
            32_769,
            size - (256 << 10),
            size - 512,
        ] {
            file.write_all_at(b"\x2f\xab\xf1\x5e", at).unwrap();
        }
        erase(&ident).unwrap();
        assert!(is_blank(&path, size).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn freeing_leaves_what_is_not_ours() {
        let size = 4 << 20;
        let (path, file) = disk("free", size);
        file.write_all_at(b"TANDEM01 but not really", 0).unwrap();
        let name = format!("../{path}");
        let text = tandem_api::DeviceText {
            name,
            size,
            ..tandem_api::DeviceText::none()
        };
        let ident = Ident {
            text,
            diskseq: 0,
            boot: String::new(),
            hardware: String::new(),
            start: 0,
            part_uuid: String::new(),
            names: Vec::new(),
            content_uuid: String::new(),
            network: false,
        };
        free(&ident, &"ab".repeat(16)).unwrap();
        assert!(!is_blank(&path, size).unwrap());
        std::fs::remove_file(path).unwrap();
    }
}
