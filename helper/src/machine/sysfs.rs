// SPDX-License-Identifier: GPL-3.0-or-later
//! Files and folders of sysfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where sysfs is.
pub const SYSFS: &str = "/sys";

/// Folder of a block device in sysfs.
pub fn sysfs(name: &str) -> PathBuf {
    Path::new(SYSFS).join("class/block").join(name)
}

/// The content of a file of one line.
pub fn line(path: impl AsRef<Path>) -> Option<String> {
    Some(crate::read_lossy(path).ok()?.trim().to_owned())
}

/// The names in a folder, in their order; none if the folder cannot be read.
pub fn names_in(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Kernel name of the whole disk that a partition is on; the name itself for anything else.
pub fn whole_disk(name: &str) -> String {
    let folder = sysfs(name);
    let above = || -> Option<String> {
        let real = fs::canonicalize(&folder).ok()?;
        Some(real.parent()?.file_name()?.to_str()?.to_owned())
    };
    let partition = folder.join("partition").exists();
    let above = partition.then(above).flatten();
    above.unwrap_or_else(|| name.to_owned())
}

/// The names that the partition table gives to the partitions of a whole disk; of those that have one. `disk`: the folder
/// of the disk in sysfs.
pub fn partition_names(disk: &Path) -> Vec<String> {
    let name = |child: String| -> Option<String> {
        let text = crate::read_lossy(disk.join(child).join("uevent")).ok()?;
        let name = text
            .lines()
            .find_map(|line| line.strip_prefix("PARTNAME="))?;
        Some(name.to_owned())
    };
    names_in(disk).into_iter().filter_map(name).collect()
}

/// Whether the kernel has a partition of a whole disk. `disk`: the folder of the disk in sysfs.
///
/// # Errors
/// If the folder cannot be read.
pub fn has_partitions(disk: &Path) -> io::Result<bool> {
    for child in fs::read_dir(disk)? {
        if child?.path().join("partition").exists() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_their_order_however_they_came() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (10..40).map(|number| format!("sd{number}")).collect();
        // Folders list their files in the order in which they came, in the other order, or by a hash.
        for (place, order) in [("up", false), ("down", true)] {
            let place = folder.path().join(place);
            fs::create_dir(&place).unwrap();
            let mut made = names.clone();
            if order {
                made.reverse();
            }
            for name in made {
                fs::write(place.join(name), "").unwrap();
            }
            assert_eq!(names_in(place), names);
        }
        assert!(names_in(folder.path().join("nowhere")).is_empty());
    }

    #[test]
    fn partitions_are_named_as_in_the_partition_table() {
        let disk = tempfile::tempdir().unwrap();
        for (child, uevent) in [
            ("queue", None),
            ("sdb1", Some("DEVTYPE=partition\nPARTN=1\n")),
            ("sdb2", Some("PARTN=2\nPARTNAME=Tandem cache 0123\n")),
            ("sdb3", Some("PARTN=3\nPARTNAME=EFI System\n")),
        ] {
            fs::create_dir(disk.path().join(child)).unwrap();
            if let Some(text) = uevent {
                fs::write(disk.path().join(child).join("uevent"), text).unwrap();
            }
        }
        assert!(!has_partitions(disk.path()).unwrap());
        fs::write(disk.path().join("sdb2/partition"), "2\n").unwrap();
        assert!(has_partitions(disk.path()).unwrap());
        has_partitions(&disk.path().join("gone")).unwrap_err();
        // The disk's own.
        fs::write(disk.path().join("uevent"), "PARTNAME=none\n").unwrap();
        assert_eq!(
            partition_names(disk.path()),
            ["Tandem cache 0123", "EFI System"]
        );
    }
}
