// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests: aligned buffers, direct and buffered files, discards.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::io::Error;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;
use rustix::ioctl::{NoArg, Opcode, Setter, ioctl, opcode};

/// Bytes in a sector, the unit of every count of the block layer.
pub const SECTOR: usize = 512;
/// Bytes in a MiB.
pub const MIB: usize = 1 << 20;
const ALIGN: usize = 4096;

/// Bytes at an address that direct I/O takes with any logical block size.
pub struct Buffer {
    bytes: *mut u8,
    layout: Layout,
}

// SAFETY: the buffer owns its memory.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Zeroes.
    pub fn new(length: usize) -> Result<Self> {
        let layout = Layout::from_size_align(length.max(1), ALIGN)?;
        // SAFETY: the layout is not empty.
        let bytes = unsafe { alloc_zeroed(layout) };
        if bytes.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Self { bytes, layout })
    }

    /// A copy of these bytes.
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let mut buffer = Self::new(bytes.len())?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Address of the bytes, for a thread that scribbles over them on purpose.
    pub fn address(&self) -> usize {
        self.bytes as usize
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: allocated with this size and initialised with zeroes.
        unsafe { std::slice::from_raw_parts(self.bytes, self.layout.size()) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.bytes, self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.bytes, self.layout) }
    }
}

fn open(path: &Path, flags: OFlags) -> Result<File> {
    File::options()
        .read(true)
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}

/// Opens for requests that go straight to the device.
pub fn direct(path: &Path) -> Result<File> {
    open(path, OFlags::DIRECT)
}

/// The same for measurements: reading does not note the time of the access.
pub fn direct_without_times(path: &Path) -> Result<File> {
    open(path, OFlags::DIRECT | OFlags::NOATIME)
}

/// Opens for direct requests whose writes are durable when they return (FUA).
pub fn durable(path: &Path) -> Result<File> {
    open(path, OFlags::DIRECT | OFlags::DSYNC)
}

/// Opens for requests through the page cache.
pub fn buffered(path: &Path) -> Result<File> {
    open(path, OFlags::empty())
}

/// Opens so that nobody else may hold the device, as a mount does.
pub fn exclusive(path: &Path) -> Result<File> {
    open(path, OFlags::EXCL)
}

/// Reads directly.
pub fn read(file: &File, offset: u64, length: usize) -> Result<Buffer> {
    let mut buffer = Buffer::new(length)?;
    file.read_exact_at(&mut buffer, offset)
        .with_context(|| format!("read of {length} bytes at {offset}"))?;
    Ok(buffer)
}

/// Writes directly, from an aligned copy.
pub fn write(file: &File, offset: u64, bytes: &[u8]) -> Result<()> {
    let buffer = Buffer::of(bytes)?;
    file.write_all_at(&buffer, offset)
        .with_context(|| format!("write of {} bytes at {offset}", bytes.len()))
}

/// Writes a large content by MiB.
pub fn write_in_pieces(file: &File, offset: u64, bytes: &[u8]) -> Result<()> {
    for (number, piece) in bytes.chunks(MIB).enumerate() {
        write(file, offset + (number * MIB) as u64, piece)?;
    }
    Ok(())
}

/// The whole content of a device, read directly.
pub fn whole(path: &Path) -> Result<Vec<u8>> {
    let file = direct(path)?;
    let length = size(path)?;
    let mut content = Vec::with_capacity(length);
    while content.len() < length {
        let piece = MIB.min(length - content.len());
        content.extend_from_slice(&read(&file, content.len() as u64, piece)?);
    }
    Ok(content)
}

/// Size of a block device in bytes.
pub fn size(path: &Path) -> Result<usize> {
    let name = path.file_name().context("a node without a name")?;
    let text = std::fs::read_to_string(Path::new("/sys/block").join(name).join("size"))?;
    Ok(text.trim().parse::<usize>()? * SECTOR)
}

/// A number from a device's `queue` directory in sysfs.
pub fn queue(path: &Path, attribute: &str) -> Result<u64> {
    Ok(queue_text(path, attribute)?.parse()?)
}

/// A word from a device's `queue` directory in sysfs.
pub fn queue_text(path: &Path, attribute: &str) -> Result<String> {
    let name = path.file_name().context("a node without a name")?;
    let text = std::fs::read_to_string(
        Path::new("/sys/block")
            .join(name)
            .join("queue")
            .join(attribute),
    )?;
    Ok(text.trim().to_owned())
}

/// Sets an attribute in a device's `queue` directory in sysfs.
pub fn set_queue(path: &Path, attribute: &str, value: &str) -> Result<()> {
    let name = path.file_name().context("a node without a name")?;
    let file = Path::new("/sys/block")
        .join(name)
        .join("queue")
        .join(attribute);
    std::fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))
}

const BLKDISCARD: Opcode = opcode::none(0x12, 119);
const BLKZEROOUT: Opcode = opcode::none(0x12, 127);
const BLKFLSBUF: Opcode = opcode::none(0x12, 97);
const BLKBSZSET: Opcode = opcode::write::<usize>(0x12, 113);

/// Discards a range given in bytes.
pub fn discard(file: &File, offset: u64, length: u64) -> Result<()> {
    // SAFETY: the ioctl reads two 64-bit numbers.
    unsafe { ioctl(file, Setter::<BLKDISCARD, [u64; 2]>::new([offset, length])) }
        .with_context(|| format!("discard of {length} bytes at {offset}"))
}

/// Fills a range given in bytes with zeroes, in the way that the device likes best.
pub fn zero(file: &File, offset: u64, length: u64) -> Result<()> {
    // SAFETY: the ioctl reads two 64-bit numbers.
    unsafe { ioctl(file, Setter::<BLKZEROOUT, [u64; 2]>::new([offset, length])) }
        .with_context(|| format!("zeroing of {length} bytes at {offset}"))
}

/// Writes out and forgets what the page cache holds of a device.
pub fn forget(file: &File) -> Result<()> {
    // SAFETY: the ioctl takes no argument.
    unsafe { ioctl(file, NoArg::<BLKFLSBUF>::new()) }
        .context("cannot drop the page cache of a device")
}

/// Sets the size in bytes of the pieces that the page cache of a device is written out in.
pub fn set_block_size(file: &File, bytes: usize) -> Result<()> {
    let bytes = libc::c_int::try_from(bytes)?;
    // SAFETY: the ioctl reads an int, whatever its number says.
    unsafe { ioctl(file, Setter::<BLKBSZSET, libc::c_int>::new(bytes)) }
        .with_context(|| format!("cannot set a block size of {bytes}"))
}

/// Begins to write out what the page cache holds of a device, as the kernel's own write-back does.
pub fn begin_write_out(file: &File) -> Result<()> {
    // SAFETY: the call takes no memory.
    let failed =
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    ensure!(failed == 0, "sync_file_range: {}", Error::last_os_error());
    Ok(())
}

/// Reproducible random bytes.
pub fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// Where two contents of the same length differ; `None` if they are equal.
pub fn difference(left: &[u8], right: &[u8]) -> Option<String> {
    let mut differences = Differences::default();
    differences.add(0, left, right);
    differences.text()
}

/// Where a device, read directly, differs from a content of its length; `None` if it does not.
pub fn compare(path: &Path, content: &[u8]) -> Result<Option<String>> {
    let file = direct(path)?;
    let length = size(path)?;
    ensure!(
        length == content.len(),
        "{} has {length} bytes, not {}",
        path.display(),
        content.len()
    );
    let mut differences = Differences::default();
    for (number, piece) in content.chunks(MIB).enumerate() {
        let offset = number * MIB;
        differences.add(
            offset / SECTOR,
            &read(&file, offset as u64, piece.len())?,
            piece,
        );
    }
    Ok(differences.text())
}

/// Sectors that differ.
#[derive(Default)]
struct Differences {
    first: Option<usize>,
    count: usize,
}

impl Differences {
    /// Compares two contents that begin at a sector.
    fn add(&mut self, start: usize, left: &[u8], right: &[u8]) {
        if left == right {
            return;
        }
        self.count += left.len().abs_diff(right.len()).div_ceil(SECTOR);
        for (number, (left, right)) in left.chunks(SECTOR).zip(right.chunks(SECTOR)).enumerate() {
            if left != right {
                self.first.get_or_insert(start + number);
                self.count += 1;
            }
        }
    }

    fn text(&self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "{} sectors differ, the first is {}",
                self.count,
                self.first.unwrap_or_default()
            )
        })
    }
}
