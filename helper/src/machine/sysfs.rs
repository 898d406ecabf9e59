// SPDX-License-Identifier: GPL-3.0-or-later
//! Files and folders of sysfs.

use std::fs;
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
}
