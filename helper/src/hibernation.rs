// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether the machine may hibernate.
//!
//! The kernel reads the image of a hibernated machine before anything is mounted and before caches are assembled. An
//! image behind a cache could be found only by assembling the cache, and that changes what the sleeping machine knows
//! of it. So systemd's units for hibernation ask [`image_on_cache`] first (data/systemd/hibernation.conf).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::action::DM_UUID_PREFIX;
use crate::mounts::table::{device_number, unescape};
use crate::read_lossy;

/// More devices than that below each other are a loop in a damaged sysfs.
const DEPTH: usize = 16;

/// A line of /proc/swaps.
#[derive(Debug, PartialEq, Eq)]
struct Swap {
    path: PathBuf,
    is_file: bool,
    priority: i32,
}

/// The swap file or swap device that would take the image of the machine, if it lies on a cache. `root` is `/`; tests
/// have other roots.
///
/// systemd writes the image to the swap with the highest priority, or to the device that the kernel was told at its
/// start (`resume=`). Compressed memory (zram) takes no image.
#[must_use]
pub fn image_on_cache(root: &Path) -> Option<PathBuf> {
    let told = read_lossy(root.join("sys/power/resume")).unwrap_or_default();
    if lies_on_cache(root, told.trim()) {
        return Some(PathBuf::from("resume="));
    }
    let swaps = swaps(&read_lossy(root.join("proc/swaps")).unwrap_or_default());
    let highest = swaps.iter().map(|swap| swap.priority).max()?;
    swaps
        .into_iter()
        .filter(|swap| swap.priority == highest)
        .find(|swap| device_of(root, swap).is_some_and(|number| lies_on_cache(root, &number)))
        .map(|swap| swap.path)
}

fn swaps(text: &str) -> Vec<Swap> {
    let swap = |line: &str| {
        let mut fields = line.split_whitespace();
        let (path, kind) = (fields.next()?, fields.next()?);
        let swap = Swap {
            path: PathBuf::from(unescape(path)),
            is_file: kind == "file",
            priority: fields.nth(2)?.parse().ok()?,
        };
        let is_memory = path.starts_with("/dev/zram");
        (!is_memory).then_some(swap)
    };
    text.lines().skip(1).filter_map(swap).collect()
}

/// The device that a swap is on.
fn device_of(root: &Path, swap: &Swap) -> Option<String> {
    let path = root.join(swap.path.strip_prefix("/").unwrap_or(&swap.path));
    let data = fs::metadata(path).ok()?;
    if !swap.is_file {
        return Some(device_number(data.rdev()));
    }
    let files = device_number(data.dev());
    if rustix::fs::major(data.dev()) != 0 {
        return Some(files);
    }
    // Btrfs has numbers of its own; its mount names the device.
    let mounts = read_lossy(root.join("proc/self/mountinfo")).unwrap_or_default();
    let source = mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let is_it = mount.split(' ').nth(2)? == files;
        is_it.then(|| filesystem.split(' ').nth(1).map(unescape))?
    })?;
    let source = root.join(source.trim_start_matches('/'));
    Some(device_number(fs::metadata(source).ok()?.rdev()))
}

/// Whether the device is the mapping of a cache, or lies above one. False for a number that no device has.
fn lies_on_cache(root: &Path, number: &str) -> bool {
    folder_lies_on_cache(&root.join("sys/dev/block").join(number), DEPTH)
}

fn folder_lies_on_cache(folder: &Path, depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    if read_lossy(folder.join("dm/uuid")).is_ok_and(|uuid| uuid.starts_with(DM_UUID_PREFIX)) {
        return true;
    }
    // The device of a partition is one folder up.
    let whole = folder.join("partition").exists().then(|| folder.join(".."));
    let below = fs::read_dir(folder.join("slaves")).into_iter().flatten();
    whole
        .into_iter()
        .chain(below.filter_map(|entry| Some(entry.ok()?.path())))
        .any(|folder| folder_lies_on_cache(&folder, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const HEAD: &str = "Filename\tType\tSize\tUsed\tPriority\n";

    /// A machine whose block devices are described below a folder.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(swaps: &str) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.put("proc/swaps", &format!("{HEAD}{swaps}"));
            machine
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// The device `number` is `name`, which lies over `below`.
        fn device(&self, number: &str, name: &str, dm_uuid: &str, below: &[&str]) {
            let folder = format!("sys/devices/{name}");
            self.put(&format!("{folder}/size"), "8");
            if !dm_uuid.is_empty() {
                self.put(&format!("{folder}/dm/uuid"), dm_uuid);
            }
            let slaves = self.root().join(&folder).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            for below in below {
                symlink(format!("../../{below}"), slaves.join(below)).unwrap();
            }
            let links = self.root().join("sys/dev/block");
            fs::create_dir_all(&links).unwrap();
            let link = links.join(number);
            symlink(format!("../../devices/{name}"), link).unwrap();
        }

        /// The device that the files of this machine are on, as mountinfo of the real machine has it.
        fn files(&self) -> String {
            device_number(fs::metadata(self.root()).unwrap().dev())
        }
    }

    #[test]
    fn a_swap_file_on_a_cache_takes_no_image() {
        let machine = Machine::new("/my\\040swap file 1 0 -2\n/dev/zram0 partition 1 0 100\n");
        machine.put("my swap", "");
        assert_eq!(image_on_cache(machine.root()), None);
        let files = machine.files();
        if files.starts_with("0:") {
            let line = format!("1 1 {files} / / rw - btrfs /disk rw\n");
            machine.put("proc/self/mountinfo", &line);
            return;
        }
        machine.device(&files, "dm-1", "CRYPT-LUKS2-1", &["dm-0"]);
        assert_eq!(image_on_cache(machine.root()), None);
        machine.device("253:0", "dm-0", "TANDEM-1", &["sda1"]);
        assert_eq!(
            image_on_cache(machine.root()),
            Some(PathBuf::from("/my swap"))
        );
    }

    #[test]
    fn only_the_swap_of_the_highest_priority_counts() {
        let machine = Machine::new("/low file 1 0 -3\n/high file 1 0 -2\n");
        machine.put("low", "");
        machine.device(&machine.files(), "dm-0", "TANDEM-1", &[]);
        // There is no /high here: the swap that would take the image is on an unknown device.
        assert_eq!(image_on_cache(machine.root()), None);
        machine.put("high", "");
        assert!(image_on_cache(machine.root()).is_some() || machine.files().starts_with("0:"));
    }

    #[test]
    fn the_device_that_the_kernel_was_told_counts_as_well() {
        let machine = Machine::new("");
        machine.put("sys/power/resume", "0:0\n");
        assert_eq!(image_on_cache(machine.root()), None);
        machine.put("sys/power/resume", "253:0\n");
        machine.device("253:0", "dm-0", "TANDEM-1", &[]);
        assert_eq!(
            image_on_cache(machine.root()),
            Some(PathBuf::from("resume="))
        );
    }

    #[test]
    fn a_loop_of_devices_ends() {
        let machine = Machine::new("");
        machine.put("sys/power/resume", "253:0\n");
        machine.device("253:0", "dm-0", "LVM-1", &["dm-0"]);
        assert_eq!(image_on_cache(machine.root()), None);
    }
}
