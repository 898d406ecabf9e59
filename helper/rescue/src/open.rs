// SPDX-License-Identifier: GPL-3.0-or-later
//! Opens a device or an image, and refuses one that something else uses.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
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
    if let Some(device) = loop_device(Path::new(SYS), path, Identity::of(&opened), Identity::at) {
        return Err(in_use(&name, User::LoopDevice(device)));
    }
    lock(&file, write, kind.is_file()).map_err(|by| in_use(&name, by))?;
    let source = if kind.is_block_device() {
        // The module went past the page cache, so what is there may be older, where a program has kept the device open.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        Source::Device(kernel_name(&file).map_err(failed)?)
    } else {
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

/// Locks the device or image until the file is closed.
fn lock(file: &File, write: bool, is_image: bool) -> Result<(), User> {
    let lock = if write {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    // The first lock sees another rescue, in this process, too. A device has been claimed instead, and udev locks devices so.
    if is_image && flock(file, lock).is_err() {
        return Err(User::Rescue);
    }
    // A virtual machine locks parts of its image or device, which the lock above does not see, and claims no device. Its locks
    // are shared, so only a rescue that writes meets them; a shared lock keeps a virtual machine from beginning to write. This
    // lock goes when the process closes any descriptor of the file: nothing here opens the file again.
    if fcntl_lock(file, lock).is_ok() {
        return Ok(());
    }
    // On a file system of a network the second lock may meet the first one.
    if is_image && flock(file, FlockOperation::NonBlockingUnlock).is_ok() {
        return fcntl_lock(file, lock).map_err(|_| User::Unknown);
    }
    Err(User::Unknown)
}

/// Bytes of a device or file.
fn length(mut file: &File) -> io::Result<u64> {
    use std::io::Seek;
    file.seek(io::SeekFrom::End(0))
}

/// Where sysfs is.
const SYS: &str = "/sys";

/// Folder in the sysfs at `sys` of a block device.
fn sysfs(sys: &Path, number: u64) -> PathBuf {
    sys.join(format!("dev/block/{}:{}", major(number), minor(number)))
}

fn kernel_name(file: &File) -> io::Result<String> {
    let real = fs::canonicalize(sysfs(Path::new(SYS), file.metadata()?.rdev()))?;
    let name = real.file_name().unwrap_or(real.as_os_str());
    Ok(name.to_string_lossy().into_owned())
}

/// Which device or file it is, by whatever name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// Number of a block device.
    Device(u64),
    /// Device of the file system, and number of the file there.
    File(u64, u64),
}

impl Identity {
    fn of(data: &Metadata) -> Self {
        if data.file_type().is_block_device() {
            Self::Device(data.rdev())
        } else {
            Self::File(data.dev(), data.ino())
        }
    }

    fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|data| Self::of(&data))
    }
}

/// The loop device that shows this file as a disk, or this device, or a part of it, or the disk that it is a part of. `sys`:
/// where sysfs is. `at`: what a path leads to.
fn loop_device(
    sys: &Path,
    path: &Path,
    opened: Identity,
    at: impl Fn(&Path) -> Option<Identity>,
) -> Option<String> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let devices = fs::read_dir(sys.join("block")).ok()?;
    devices.filter_map(Result::ok).find_map(|device| {
        // Any bytes may be a name, blanks at its end, too.
        let below = fs::read(device.path().join("loop/backing_file")).ok()?;
        let below = below.strip_suffix(b"\n").unwrap_or(&below);
        let below = Path::new(OsStr::from_bytes(below));
        // A path of another mount namespace leads nowhere here.
        let is_same = match at(below) {
            Some(below) => is_same(sys, below, opened),
            None => below == path,
        };
        is_same.then(|| device.file_name().to_string_lossy().into_owned())
    })
}

fn is_same(sys: &Path, one: Identity, other: Identity) -> bool {
    if let (Identity::Device(one), Identity::Device(other)) = (one, other) {
        let places = [one, other].map(|number| fs::canonicalize(sysfs(sys, number)));
        // The folder of a part lies in that of its disk.
        if let [Ok(one), Ok(other)] = places {
            return one.starts_with(&other) || other.starts_with(&one);
        }
    }
    one == other
}

/// The user of a device.
fn user(path: &Path) -> User {
    let Ok(folder) = fs::metadata(path).map(|data| sysfs(Path::new(SYS), data.rdev())) else {
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
    use super::{Identity, lock, loop_device, mounted_at};
    use crate::error::User;
    use rustix::fs::makedev;
    use std::ffi::OsStr;
    use std::fs::{self, File, OpenOptions};
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    /// A sysfs in which loop3 shows what is at `below`.
    fn shows(sys: &Path, below: &Path) {
        let folder = sys.join("block/loop3/loop");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(sys.join("block/sda")).unwrap();
        let line = [below.as_os_str().as_bytes(), b"\n"].concat();
        fs::write(folder.join("backing_file"), line).unwrap();
    }

    #[test]
    fn a_loop_device_is_found_by_the_file_and_not_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let [image, link, other] = ["image", "link", "other"].map(|name| folder.path().join(name));
        fs::write(&image, "x").unwrap();
        fs::write(&other, "x").unwrap();
        fs::hard_link(&image, &link).unwrap();
        let found = |below: &Path| {
            shows(folder.path(), below);
            let opened = Identity::at(&image).unwrap();
            loop_device(folder.path(), &image, opened, Identity::at)
        };
        for path in [&image, &link] {
            assert_eq!(found(path).as_deref(), Some("loop3"));
        }
        assert_eq!(found(&other), None);
        assert_eq!(found(&folder.path().join("gone")), None);
    }

    #[test]
    fn a_loop_device_is_found_by_a_file_with_any_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in [b"Gr\xf6\xdfe.img".as_slice(), b"image ", b"image\n"] {
            let image = folder.path().join(OsStr::from_bytes(name));
            fs::write(&image, "x").unwrap();
            shows(folder.path(), &image);
            let opened = Identity::at(&image).unwrap();
            type At = fn(&Path) -> Option<Identity>;
            let found = |at: At| loop_device(folder.path(), &image, opened, at);
            assert_eq!(found(Identity::at).as_deref(), Some("loop3"), "{name:?}");
            // By its name alone.
            assert_eq!(found(|_| None).as_deref(), Some("loop3"), "{name:?}");
        }
    }

    #[test]
    fn a_loop_device_is_found_by_the_device_its_part_and_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let numbers = folder.path().join("dev/block");
        fs::create_dir_all(&numbers).unwrap();
        let devices = [
            ("sda", makedev(8, 0)),
            ("sda/sda1", makedev(8, 1)),
            ("sda/sda2", makedev(8, 2)),
            // Its name begins as that of the first one.
            ("sdaa", makedev(65, 160)),
        ];
        for ((place, _), number) in devices.iter().zip(["8:0", "8:1", "8:2", "65:160"]) {
            let place = folder.path().join("devices").join(place);
            fs::create_dir_all(&place).unwrap();
            symlink(&place, numbers.join(number)).unwrap();
        }
        let found = |below: u64, opened: u64| {
            shows(folder.path(), Path::new("/dev/below"));
            let at = |_: &Path| Some(Identity::Device(below));
            let opened = Identity::Device(opened);
            loop_device(folder.path(), Path::new("/dev/opened"), opened, at).is_some()
        };
        let of_disk = |at: usize| at < 3;
        for (one, &(below, number)) in devices.iter().enumerate() {
            for (other, &(opened, wanted)) in devices.iter().enumerate() {
                let whole = one == 0 || other == 0;
                let in_use = one == other || (whole && of_disk(one) && of_disk(other));
                assert_eq!(found(number, wanted), in_use, "{opened} below {below}");
            }
        }
        // Devices that have no folder.
        let [one, other] = [3, 4].map(|minor| makedev(7, minor));
        assert!(found(one, one) && !found(one, other));
    }

    /// A program that has the image open, and locks it as virtual machines do; `None`: it is not installed, or has refused.
    fn machine(image: &Path) -> Option<Child> {
        let mut machine = Command::new("qemu-io");
        machine.args(["-f", "raw"]).arg(image);
        machine.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut machine = machine.stderr(Stdio::null()).spawn().ok()?;
        let begun = machine
            .stdout
            .as_mut()
            .is_some_and(|output| output.read_exact(&mut [0; 8]).is_ok());
        if !begun {
            machine.wait().unwrap();
        }
        begun.then_some(machine)
    }

    fn open(image: &Path) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(image).unwrap()
    }

    #[test]
    fn a_virtual_machine_and_a_rescue_keep_each_other_out() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::write(&image, [0; 512]).unwrap();
        let Some(mut running) = machine(&image) else {
            println!("SKIP: because qemu-io is not installed");
            return;
        };
        for is_image in [true, false] {
            let refused = lock(&open(&image), true, is_image);
            assert_eq!(refused, Err(User::Unknown), "is_image: {is_image}");
        }
        running.kill().unwrap();
        running.wait().unwrap();
        for write in [true, false] {
            let file = open(&image);
            assert_eq!(lock(&file, write, true), Ok(()));
            assert!(machine(&image).is_none(), "write: {write}");
        }
    }

    #[test]
    fn a_rescue_that_writes_is_the_only_one_of_its_image() {
        let image = tempfile::NamedTempFile::new().unwrap();
        let [one, other] = [0, 1].map(|_| open(image.path()));
        assert_eq!(lock(&one, false, true), Ok(()));
        assert_eq!(lock(&other, false, true), Ok(()));
        drop(other);
        let other = open(image.path());
        assert_eq!(lock(&other, true, true), Err(User::Rescue));
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
