// SPDX-License-Identifier: GPL-3.0-or-later
//! What udev has done so far in this start of the machine, by the files that udev keeps.
//!
//! An initial file system may have a udev of its own. Its links in `/dev` stay. Its records do not stay where dracut
//! has made the initial file system: until udev has handled a device anew, no search finds the device.

use std::fs;
use std::path::Path;

/// The folder of udev's files.
pub(crate) const FOLDER: &str = "/run/udev";
/// The folder in which udev records a device after it has handled the device.
pub(crate) const DATA: &str = "/run/udev/data";
/// The block devices that the kernel has, each as a link.
const BLOCK: &str = "/sys/class/block";

/// Whether udev has block devices to handle. Between the request to handle all devices and the moment in which udev
/// has read its rules there is no queue yet, and on a slow machine that takes seconds.
pub(crate) fn is_busy() -> bool {
    has_work(Path::new(FOLDER), Path::new(BLOCK))
}

/// Whether udev has handled the block device with this number.
pub(crate) fn has_handled(number: &str) -> bool {
    is_recorded(Path::new(FOLDER), number)
}

/// `folder`: udev's files; `block`: the kernel's block devices.
fn has_work(folder: &Path, block: &Path) -> bool {
    // udev writes its records before it removes the file of its queue.
    if folder.join("queue").exists() {
        return true;
    }
    let devices = fs::read_dir(block).into_iter().flatten().flatten();
    // The hidden paths of a drive have no number, and udev does not handle them.
    let mut numbers = devices.filter_map(|link| crate::read_lossy(link.path().join("dev")).ok());
    numbers.any(|number| !is_recorded(folder, number.trim()))
}

fn is_recorded(folder: &Path, number: &str) -> bool {
    folder.join("data").join(format!("b{number}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udev_is_busy_until_it_has_handled_every_block_device() {
        let root = std::env::temp_dir().join(format!("tandem-udev-{}", std::process::id()));
        let (folder, block) = (root.join("udev"), root.join("block"));
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(&block.join("sda/dev"), "8:0\n");
        write(&block.join("sda1/dev"), "8:1\n");
        write(&block.join("nvme0c0n1/hidden"), "1\n");
        // The initial file system has gone, and the system's udev has not begun.
        assert!(has_work(&folder, &block));
        write(&folder.join("data/b8:0"), "I:1\n");
        assert!(has_work(&folder, &block));
        write(&folder.join("data/b8:1"), "I:1\n");
        assert!(!has_work(&folder, &block));
        write(&folder.join("queue"), "");
        assert!(has_work(&folder, &block));
        fs::remove_dir_all(&root).unwrap();
    }
}
