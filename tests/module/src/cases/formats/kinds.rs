// SPDX-License-Identifier: GPL-3.0-or-later
//! File systems by their own tools: how they are made, mounted and repaired.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::dm::{Dm, Line};
use crate::io::{self, SECTOR};
use crate::skipped::Skipped;

/// Where the file system is mounted.
pub const AT: &str = "/mnt/formats";

/// What a start can know of a disk that nobody used elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Each use of the file system changes known places.
    Traces,
    /// The content is unknown to the module: a stop in order samples it, a crash does not.
    Samples,
    /// Nothing: a use may change nothing but data.
    Nothing,
}

/// What lies between the file system and the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// Nothing.
    Disk,
    /// LUKS.
    Encryption,
    /// A logical volume of LVM.
    Volume,
}

/// A file system.
pub struct Kind {
    /// Name of the file system, for people.
    pub name: &'static str,
    /// Names of its drivers. The first that the kernel has is taken.
    drivers: &'static [&'static str],
    /// Size of the disk.
    pub mib: u64,
    /// The program that makes it.
    make: &'static [&'static str],
    /// The program that repairs it.
    repair: &'static [&'static str],
    /// What a start can know.
    pub proof: Proof,
    /// What lies between.
    below: Below,
}

/// The driver in user space.
const NTFS_3G: &str = "/bin/ntfs-3g";
/// Sectors in front of the encrypted volume.
const LUKS_HEADER: u64 = 32768;
/// Sectors in front of the logical volume.
const LVM_HEADER: u64 = 2048;

const fn ext4(name: &'static str, below: Below, proof: Proof) -> Kind {
    Kind {
        name,
        drivers: &["ext4"],
        mib: 40,
        make: &["/sbin/mke2fs", "-q", "-F", "-t", "ext4"],
        repair: &["/sbin/e2fsck", "-f", "-y"],
        proof,
        below,
    }
}

const fn xfs(name: &'static str, mib: u64, make: &'static [&'static str]) -> Kind {
    Kind {
        name,
        drivers: &["xfs"],
        mib,
        make,
        repair: &["/sbin/xfs_repair"],
        proof: Proof::Traces,
        below: Below::Disk,
    }
}

pub const EXT4: Kind = ext4("ext4", Below::Disk, Proof::Traces);
pub const EXT4_IN_LUKS: Kind = ext4("ext4 in LUKS", Below::Encryption, Proof::Samples);
pub const EXT4_IN_LV: Kind = ext4("ext4 in an LV", Below::Volume, Proof::Samples);
/// The log has 5 MiB.
pub const XFS: Kind = xfs("XFS", 32, &["/sbin/mkfs.xfs", "-q", "-f"]);
/// The log is watched in larger strides.
pub const XFS_LARGE_LOG: Kind = xfs(
    "XFS with a large log",
    48,
    &[
        "/sbin/mkfs.xfs",
        "-q",
        "-f",
        "-d",
        "agcount=2",
        "-l",
        "size=12m",
    ],
);
pub const BTRFS: Kind = Kind {
    name: "Btrfs",
    drivers: &["btrfs"],
    mib: 112,
    make: &["/sbin/mkfs.btrfs", "-q", "-f"],
    repair: &["/bin/btrfs", "check", "--repair", "--force"],
    proof: Proof::Traces,
    below: Below::Disk,
};
pub const F2FS: Kind = Kind {
    name: "F2FS",
    drivers: &["f2fs"],
    mib: 64,
    make: &["/sbin/mkfs.f2fs", "-q", "-f"],
    repair: &["/sbin/fsck.f2fs", "-f"],
    proof: Proof::Traces,
    below: Below::Disk,
};
pub const NTFS: Kind = Kind {
    name: "NTFS",
    drivers: &["ntfs3", "ntfs", "fuseblk"],
    mib: 40,
    make: &["/sbin/mkfs.ntfs", "-q", "-F", "-f"],
    repair: &["/bin/ntfsfix", "-d"],
    proof: Proof::Nothing,
    below: Below::Disk,
};
pub const EXFAT: Kind = Kind {
    name: "exFAT",
    drivers: &["exfat"],
    mib: 40,
    make: &["/sbin/mkfs.exfat"],
    repair: &["/sbin/fsck.exfat", "-y"],
    proof: Proof::Nothing,
    below: Below::Disk,
};
pub const FAT32: Kind = Kind {
    name: "FAT32",
    drivers: &["vfat"],
    mib: 40,
    make: &["/sbin/mkfs.vfat", "-F", "32"],
    repair: &["/sbin/fsck.vfat", "-a"],
    proof: Proof::Nothing,
    below: Below::Disk,
};

/// Runs a program, which has to end with one of these codes.
fn run(words: &[&str], path: &Path, good: &[i32]) -> Result<()> {
    run_with(words, &[path], good)
}

fn run_with(words: &[&str], paths: &[&Path], good: &[i32]) -> Result<()> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(paths)
        // mkfs.xfs takes small disks only for tests.
        .envs([("TEST_DIR", AT), ("TEST_DEV", "x"), ("QA_CHECK_FS", "x")])
        .output()
        .with_context(|| format!("cannot run {}", words[0]))?;
    ensure!(
        output
            .status
            .code()
            .is_some_and(|code| good.contains(&code)),
        "{}: {}: {}{}",
        words.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// A device under the name by which ntfs-3g opens it: for a mapping /dev/dm-N that is /dev/mapper/NAME, which udev makes
/// elsewhere.
fn named(device: &Path) -> Result<PathBuf> {
    let node = device.file_name().context("a device has a name")?;
    let name = Path::new("/sys/class/block").join(node).join("dm/name");
    let Ok(name) = fs::read_to_string(name) else {
        return Ok(device.to_owned());
    };
    let named = Path::new("/dev/mapper").join(name.trim());
    let _ = fs::remove_file(&named);
    symlink(device, &named)?;
    Ok(named)
}

/// The key of the encrypted volume.
fn key() -> Vec<u8> {
    io::random(64, 9)
}

/// Makes a LUKS volume. The key is known, so that no program needs to unlock it.
fn make_encryption(disk: &Path) -> Result<()> {
    let file = "/mnt/key";
    fs::write(file, key())?;
    let words = "/sbin/cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
                 --sector-size 512 --volume-key-file /mnt/key --key-size 512 --key-file /mnt/key";
    run(&words.split_whitespace().collect::<Vec<_>>(), disk, &[0])
}

/// Makes a logical volume behind the first MiB.
fn make_volume(disk: &Path) -> Result<()> {
    let path = disk.display().to_string();
    let lvm = |words: &str, last: &Path| {
        let words = format!("/sbin/lvm {words} --devices {path}");
        run(&words.split_whitespace().collect::<Vec<_>>(), last, &[0])
    };
    lvm("pvcreate -q -y -ff", disk)?;
    lvm("vgcreate -q -y group", disk)?;
    lvm(
        "lvcreate -q -y -an -Zn -Wn -n volume -l 100%FREE",
        Path::new("group"),
    )
}

impl Kind {
    /// The driver that this kernel has.
    fn driver(&self) -> Result<&'static str> {
        let known = fs::read_to_string("/proc/filesystems")?;
        let has = |driver: &str| known.split_whitespace().any(|word| word == driver);
        let driver = self.drivers.iter().find(|driver| has(driver));
        let tool = match self.below {
            Below::Disk => self.make[0],
            Below::Encryption => "/sbin/cryptsetup",
            Below::Volume => "/sbin/lvm",
        };
        match driver {
            Some(driver) if Path::new(tool).exists() => Ok(driver),
            _ => Err(Skipped::because(format!(
                "this guest has no {} or no {tool}",
                self.name
            ))),
        }
    }

    /// The device that holds the file system of a disk.
    fn opened(&self, disk: &Path) -> Result<Opened> {
        if self.drivers[0] == "btrfs" {
            // Of two disks with one content the driver takes the newer one, even if that is gone.
            run(
                &["/bin/btrfs", "device", "scan", "--forget"],
                Path::new("-q"),
                &[0, 1],
            )?;
        }
        let sectors = (io::size(disk)? / SECTOR) as u64;
        let path = disk.display();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("formats-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let volume = match self.below {
            Below::Disk => None,
            Below::Encryption => {
                let key: String = key().iter().map(|byte| format!("{byte:02x}")).collect();
                let args = format!("aes-xts-plain64 {key} 0 {path} {LUKS_HEADER}");
                let line = Line::new(sectors - LUKS_HEADER, "crypt", args);
                Some(Dm::with(&name, line)?)
            }
            Below::Volume => {
                // As vgchange does; in front of an end of LVM's own.
                let length = (sectors - LVM_HEADER) & !8191;
                let line = Line::new(length, "linear", format!("{path} {LVM_HEADER}"));
                Some(Dm::with(&name, line)?)
            }
        };
        Ok(Opened {
            path: volume.as_ref().map_or(disk, Dm::path).to_owned(),
            _volume: volume,
        })
    }

    /// Makes the file system, and what lies between.
    pub fn make(&self, disk: &Path) -> Result<()> {
        self.driver()?;
        match self.below {
            Below::Disk => {}
            Below::Encryption => make_encryption(disk)?,
            Below::Volume => make_volume(disk)?,
        }
        run(self.make, &self.opened(disk)?.path, &[0])
    }

    /// Repairs it.
    pub fn repair(&self, disk: &Path) -> Result<()> {
        let opened = self.opened(disk)?;
        // 1: errors are corrected. xfs_repair has 2 for a log that a mount has to replay.
        let repaired = run(self.repair, &opened.path, &[0, 1]);
        if repaired.is_err() && self.repair[0].ends_with("xfs_repair") {
            return run(&[self.repair[0], "-L"], &opened.path, &[0]);
        }
        repaired
    }

    /// Mounts it.
    pub fn mount(&self, disk: &Path) -> Result<Mounted> {
        let driver = self.driver()?;
        let opened = self.opened(disk)?;
        fs::create_dir_all(AT)?;
        if driver == "fuseblk" {
            let named = named(&opened.path)?;
            run_with(&[NTFS_3G], &[&named, Path::new(AT)], &[0])?;
        } else {
            mount(&opened.path, AT, driver, MountFlags::empty(), None)
                .with_context(|| format!("cannot mount {} as {driver}", disk.display()))?;
        }
        Ok(Mounted {
            ended: false,
            _opened: opened,
        })
    }
}

/// A device that is gone when this goes out of scope.
struct Opened {
    path: PathBuf,
    _volume: Option<Dm>,
}

/// A mounted file system.
pub struct Mounted {
    ended: bool,
    _opened: Opened,
}

impl Mounted {
    /// Unmounts it.
    pub fn end(mut self) -> Result<()> {
        self.ended = true;
        unmount(AT, UnmountFlags::empty()).context("cannot unmount")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = unmount(AT, UnmountFlags::empty())
        {
            println!("     cannot unmount: {error}");
            let _ = unmount(AT, UnmountFlags::DETACH);
        }
    }
}
