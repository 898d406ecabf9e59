// SPDX-License-Identifier: GPL-3.0-or-later
//! Opens a device or an image, and refuses one that something else uses.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FlockOperation, OFlags, fadvise, fcntl_lock, flock, major, minor};

use crate::Error;
use crate::error::{User, Why};
use crate::medium::{Medium, Opened, SECTOR_BYTES};

/// What was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A block device, by its kernel name.
    Device(String),
    /// A file with the content of a disk, by its name without the folder.
    Image(String),
}

/// A disk or SSD that is open, and that nothing else uses.
pub struct Disk {
    /// What the disk or SSD is.
    pub source: Source,
    /// The content of the disk or SSD.
    pub medium: Box<dyn Medium>,
}

/// Opens a block device or an image. Nothing else can mount or map the device until the result is dropped.
///
/// # Errors
/// If there is no such device or file, it may not be opened, or something uses it.
pub fn open(path: &Path, write: bool) -> Result<Disk, Error> {
    let name = path.display().to_string();
    let failed = |error: io::Error| Error::refused(&name, Why::NotOpened(error));
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_block_device() && !kind.is_file() {
        return Err(Error::refused(&name, Why::NoDisk));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    if kind.is_block_device() {
        options.custom_flags(OFlags::EXCL.bits().cast_signed());
    }
    let file = match options.open(path) {
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Err(in_use(&name, user(path))),
        other => other.map_err(failed)?,
    };
    let opened = file.metadata().map_err(failed)?;
    // A loop device does not claim the device below it.
    if let Some(device) = loop_device(Path::new("/sys/block"), path, &opened) {
        return Err(in_use(&name, User::LoopDevice(device)));
    }
    let source = if kind.is_block_device() {
        // The module went past the page cache, so what is there may be older, where a program has kept the device open.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        Source::Device(kernel_name(&file).map_err(failed)?)
    } else {
        let lock = if write {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        if flock(&file, lock).is_err() {
            return Err(in_use(&name, User::Rescue));
        }
        // A virtual machine locks parts of its image, which the lock above does not see. On a file system of a network the second
        // lock may meet the first one.
        if fcntl_lock(&file, lock).is_err() {
            let _ = flock(&file, FlockOperation::NonBlockingUnlock);
            if fcntl_lock(&file, lock).is_err() {
                return Err(in_use(&name, User::Unknown));
            }
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        Source::Image(name.to_string_lossy().into_owned())
    };
    let sectors = length(&file).map_err(failed)? / SECTOR_BYTES;
    Ok(Disk {
        source,
        medium: Box::new(Opened {
            file,
            sectors,
            name,
        }),
    })
}

fn in_use(name: &str, by: User) -> Error {
    Error::refused(name, Why::InUse(by))
}

/// Bytes of a device or file.
fn length(mut file: &File) -> io::Result<u64> {
    use std::io::Seek;
    file.seek(io::SeekFrom::End(0))
}

/// Folder in sysfs of a block device.
fn sysfs(number: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(format!("{}:{}", major(number), minor(number)))
}

fn kernel_name(file: &File) -> io::Result<String> {
    let real = fs::canonicalize(sysfs(file.metadata()?.rdev()))?;
    let name = real.file_name().unwrap_or(real.as_os_str());
    Ok(name.to_string_lossy().into_owned())
}

/// The loop device in `blocks` that shows this file as a disk, or this device, or a part of it, or the disk that it is a part of.
fn loop_device(blocks: &Path, path: &Path, opened: &Metadata) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let devices = fs::read_dir(blocks).ok()?;
    devices.filter_map(Result::ok).find_map(|device| {
        let below = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        let below = Path::new(below.trim_end());
        // A path of another mount namespace leads nowhere here.
        let is_same = match fs::metadata(below) {
            Ok(below) => is_same(&below, opened),
            Err(_) => below == path,
        };
        is_same.then(|| device.file_name().to_string_lossy().into_owned())
    })
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    if one.file_type().is_block_device() && other.file_type().is_block_device() {
        let places = [one, other].map(|device| fs::canonicalize(sysfs(device.rdev())));
        return match places {
            // The folder of a part lies in that of its disk.
            [Ok(one), Ok(other)] => one.starts_with(&other) || other.starts_with(&one),
            _ => one.rdev() == other.rdev(),
        };
    }
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The user of a device.
fn user(path: &Path) -> User {
    let Ok(folder) = fs::metadata(path).map(|data| sysfs(data.rdev())) else {
        return User::Unknown;
    };
    let mut folders = vec![folder.clone()];
    let parts = fs::read_dir(&folder).into_iter().flatten();
    let parts = parts.filter_map(|entry| Some(entry.ok()?.path()));
    folders.extend(parts.filter(|part| part.join("partition").exists()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for folder in folders {
        let holders = fs::read_dir(folder.join("holders")).into_iter().flatten();
        if let Some(holder) = holders.filter_map(Result::ok).next() {
            let holder = holder.file_name();
            return User::Volume(holder.to_string_lossy().into_owned());
        }
        let number = fs::read_to_string(folder.join("dev")).unwrap_or_default();
        if let Some(place) = mounted_at(&mounts, number.trim()) {
            return User::Mounted(place);
        }
    }
    User::Unknown
}

/// Where the mount table says that this device number is mounted.
fn mounted_at(mounts: &str, number: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let place = *fields.get(4)?;
        (*fields.get(2)? == number).then(|| place.replace("\\040", " "))
    })
}

#[cfg(test)]
mod tests {
    use super::{loop_device, mounted_at};
    use std::fs;

    #[test]
    fn a_loop_device_is_found_by_the_file_and_not_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let [image, link, other] = ["image", "link", "other"].map(|name| folder.path().join(name));
        fs::write(&image, "x").unwrap();
        fs::write(&other, "x").unwrap();
        fs::hard_link(&image, &link).unwrap();
        let blocks = folder.path().join("block");
        fs::create_dir_all(blocks.join("sda")).unwrap();
        fs::create_dir_all(blocks.join("loop3/loop")).unwrap();
        let shows = |path: &std::path::Path| {
            let text = format!("{}\n", path.display());
            fs::write(blocks.join("loop3/loop/backing_file"), text).unwrap();
        };
        let found = || loop_device(&blocks, &image, &fs::metadata(&image).unwrap());
        for path in [&image, &link] {
            shows(path);
            assert_eq!(found().as_deref(), Some("loop3"));
        }
        shows(&other);
        assert_eq!(found(), None);
        shows(&folder.path().join("gone"));
        assert_eq!(found(), None);
    }

    #[test]
    fn the_mount_table_names_the_place() {
        let mounts = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 25 8:17 / /media/My\\040Disk rw - ext4 /dev/sdb1 rw\n";
        assert_eq!(
            mounted_at(mounts, "8:17").as_deref(),
            Some("/media/My Disk")
        );
        assert_eq!(mounted_at(mounts, "8:1").as_deref(), Some("/"));
        assert_eq!(mounted_at(mounts, "8:2"), None);
    }
}
