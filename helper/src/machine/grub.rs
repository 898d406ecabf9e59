// SPDX-License-Identifier: GPL-3.0-or-later
//! The disks from which GRUB starts this machine, by an image that is made on this machine.
//!
//! Debian's packages of GRUB run grub-install at each of their updates. grub-install writes a start image with the module
//! for the partition table of the disk that its folder lies on. Over the mapping of a cache grub-install sees a device
//! without a partition table: the image gets no such module, finds no partition, and the machine does not start any more.
//! By EFI, grub-install takes Debian's signed image where that is installed, which has all modules in it.
//!
//! The facts are the firmware of this start and the folder that grub-install makes for it. The list of installed packages
//! says less: grub-pc can be installed without being the boot loader, and a person may run grub-install from another
//! package.

pub mod environment;

use crate::machine::mounts::device;
use crate::machine::mounts::table::Mounts;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tandem_api::distribution::{GRUB_EFI, GRUB_FOLDERS};

/// The folder that grub-install makes in one of [`GRUB_FOLDERS`] for BIOS.
const BIOS: &str = "i386-pc";

/// `major:minor` of the device with such a folder, and of all devices below it. `root` is `/`; tests have other roots.
pub fn devices(root: &Path, mounts: &Mounts) -> BTreeSet<String> {
    let made_here: Vec<_> = match root.join("sys/firmware/efi").exists() {
        false => vec![BIOS],
        true => GRUB_EFI
            .iter()
            .filter(|(_, signed)| !root.join(signed).exists())
            .map(|(folder, _)| *folder)
            .collect(),
    };
    let paths = GRUB_FOLDERS
        .iter()
        .flat_map(|folder| made_here.iter().map(move |made| format!("{folder}/{made}")));
    let numbers = paths.filter_map(|path| number(root, mounts, &path));
    numbers
        .flat_map(|number| device::with_those_below(root, &number))
        .collect()
}

/// The device that a folder lies on; none if there is no such folder.
fn number(root: &Path, mounts: &Mounts, path: &str) -> Option<String> {
    // A look would have an automount mount its file system.
    let waits = |path: &str| {
        mounts
            .containing(path)
            .is_none_or(|e| e.mount.fstype == "autofs")
    };
    if waits(path) {
        return None;
    }
    let root = fs::canonicalize(root).ok()?;
    let found = fs::canonicalize(root.join(path.trim_start_matches('/'))).ok()?;
    let found = Path::new("/").join(found.strip_prefix(&root).ok()?);
    device::number(&root, mounts.containing(found.to_str()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// The root is an encrypted volume over a cache of `sda1` by `sdb`; /home is on `sdc`.
    const MOUNTED: &str = "1 0 253:1 / / rw - ext4 /dev/mapper/safe rw\n\
                           2 1 8:32 / /home rw - ext4 /dev/sdc rw\n";

    fn machine() -> tempfile::TempDir {
        let machine = tempfile::tempdir().unwrap();
        let root = machine.path();
        for (number, name, below) in [
            ("253:1", "dm-1", &["dm-0"][..]),
            ("253:0", "dm-0", &["sda1", "sdb"]),
            ("8:1", "sda1", &[]),
            ("8:16", "sdb", &[]),
            ("8:32", "sdc", &[]),
        ] {
            let folder = root.join("sys/class/block").join(name);
            fs::create_dir_all(folder.join("slaves")).unwrap();
            fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
            for below in below {
                symlink(format!("../../{below}"), folder.join("slaves").join(below)).unwrap();
            }
            fs::create_dir_all(root.join("sys/dev/block")).unwrap();
            let link = root.join("sys/dev/block").join(number);
            symlink(format!("../../class/block/{name}"), link).unwrap();
        }
        fs::create_dir_all(root.join("boot/grub")).unwrap();
        fs::create_dir(root.join("home")).unwrap();
        machine
    }

    fn found(machine: &tempfile::TempDir, mounts: &str) -> Vec<String> {
        let all = devices(machine.path(), &Mounts::parse(mounts));
        all.into_iter().collect()
    }

    #[test]
    fn a_start_by_bios_counts_for_every_device_below_its_folder() {
        let machine = machine();
        let root = machine.path();
        // A guest that the firmware does not start by GRUB has its menu only.
        assert!(found(&machine, MOUNTED).is_empty());
        fs::create_dir(root.join("boot/grub/i386-pc")).unwrap();
        assert_eq!(found(&machine, MOUNTED), ["253:0", "253:1", "8:1", "8:16"]);
        let apart = format!("{MOUNTED}3 1 8:48 / /boot rw - ext4 /dev/sdd rw\n");
        assert_eq!(found(&machine, &apart), ["8:48"]);
        fs::create_dir_all(root.join("sys/firmware/efi")).unwrap();
        assert!(found(&machine, MOUNTED).is_empty());
    }

    #[test]
    fn a_start_by_efi_counts_where_the_image_is_not_the_signed_one() {
        let machine = machine();
        let root = machine.path();
        fs::create_dir_all(root.join("sys/firmware/efi")).unwrap();
        for (folder, signed) in GRUB_EFI {
            let folder = root.join("boot/grub").join(folder);
            fs::create_dir(&folder).unwrap();
            assert_eq!(found(&machine, MOUNTED), ["253:0", "253:1", "8:1", "8:16"]);
            fs::create_dir_all(root.join(signed).parent().unwrap()).unwrap();
            fs::write(root.join(signed), "").unwrap();
            assert!(found(&machine, MOUNTED).is_empty());
        }
    }

    #[test]
    fn a_link_to_the_folder_is_followed_and_an_automount_is_left_alone() {
        let machine = machine();
        let root = machine.path();
        fs::remove_dir_all(root.join("boot")).unwrap();
        fs::create_dir_all(root.join("home/boot/grub2/i386-pc")).unwrap();
        symlink("home/boot", root.join("boot")).unwrap();
        assert_eq!(found(&machine, MOUNTED), ["8:32"]);
        let waits = format!("{MOUNTED}3 1 0:40 / /boot rw - autofs systemd-1 rw\n");
        assert!(found(&machine, &waits).is_empty());
    }

    #[test]
    fn the_device_of_a_btrfs_is_found_by_its_name_and_that_of_a_fuse_mount_never() {
        let machine = machine();
        let root = machine.path();
        fs::create_dir(root.join("boot/grub/i386-pc")).unwrap();
        fs::create_dir_all(root.join("dev/mapper")).unwrap();
        fs::write(root.join("dev/dm-0"), "").unwrap();
        symlink("../dm-0", root.join("dev/mapper/tandem-1")).unwrap();
        let mounted = |kind: &str| format!("1 0 0:39 /@ / rw - {kind} /dev/mapper/tandem-1 rw\n");
        assert_eq!(found(&machine, &mounted("btrfs")), ["253:0", "8:1", "8:16"]);
        assert!(found(&machine, &mounted("fuse.bindfs")).is_empty());
    }
}
