// SPDX-License-Identifier: GPL-3.0-or-later
//! Tells udev the part that a block device has in a cache, as `KEY=value` lines for `IMPORT{program}`.
//!
//! * `tandem-probe /dev/X`: `TANDEM_UUID` if the device is the SSD of a cache, with `TANDEM_DISK` (the identity of its
//!   disk), `TANDEM_CLEAN` (1: no data is on the SSD only) and `TANDEM_TARGET` (what serves the cache); `TANDEM_UNDER` (its mapping) if it lies below one.
//! * `tandem-probe --mapped /dev/dm-N`: `TANDEM_PART_UUID` of the disk below our mapping, so that links
//!   by partition follow the data.
//!
//! In these two forms the program runs for every event of every disk: it opens the device once and reads two blocks.
//!
//! * `tandem-probe --hibernation` is called by systemd before the machine hibernates. It fails, with the reason, if the
//!   image would be written to a cache, or if the system is on one.
//! * `tandem-probe --may-unmount /dev/X USER` is called by the rule of polkit. It succeeds if all mounts of the device are
//!   mounts of this user that the service has moved.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tandem_helper::machine::hibernation;
use tandem_helper::machine::mounts::moved;
use tandem_helper::machine::superblock;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--hibernation"] {
        return may_hibernate();
    }
    let lines = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--mapped", node] => mapped(Path::new(node)),
        ["--may-unmount", node, user] => {
            return if moved::may_unmount(Path::new("/"), node, user) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
        [node] if !node.starts_with('-') => plain(Path::new(node)),
        _ => {
            eprintln!(
                "usage: tandem-probe [--mapped] NODE | --hibernation | --may-unmount NODE USER"
            );
            return ExitCode::from(2);
        }
    };
    for line in &lines {
        println!("{line}");
    }
    ExitCode::SUCCESS
}

fn may_hibernate() -> ExitCode {
    match hibernation::obstacle(Path::new("/")) {
        None => ExitCode::SUCCESS,
        Some(obstacle) => {
            eprintln!("{obstacle}");
            ExitCode::FAILURE
        }
    }
}

/// Folder of a device node in sysfs.
fn sysfs(node: &Path) -> Option<PathBuf> {
    Some(Path::new("/sys/class/block").join(node.file_name()?))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let list = fs::read_dir(folder).into_iter().flatten();
    list.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn plain(node: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    // A device that cannot be opened, or has no medium, is not an SSD of ours.
    if let Ok(file) = File::open(node)
        && let Ok(Some(carried)) = superblock::read(&file)
    {
        lines.push(format!("TANDEM_UUID={}", carried.uuid));
        lines.push(format!("TANDEM_DISK={}", carried.disk_id));
        lines.push(format!("TANDEM_CLEAN={}", u8::from(carried.clean)));
        lines.push(format!("TANDEM_TARGET={}", carried.target));
    }
    let above = sysfs(node)
        .map(|folder| entries(&folder.join("holders")))
        .unwrap_or_default();
    let ours = above
        .iter()
        .find(|holder| text(&holder.join("dm/uuid")).starts_with("TANDEM-"));
    if let Some(name) = ours.and_then(|holder| holder.file_name()?.to_str()) {
        lines.push(format!("TANDEM_UNDER={name}"));
    }
    lines
}

fn mapped(node: &Path) -> Vec<String> {
    let Some(folder) = sysfs(node) else {
        return Vec::new();
    };
    let size = text(&folder.join("size"));
    // Of the two devices below, the disk has the size of the mapping.
    let disk = entries(&folder.join("slaves"))
        .into_iter()
        .find(|below| text(&below.join("size")) == size);
    let Some(disk) = disk else { return Vec::new() };
    let name = disk
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let known = udev::Device::from_subsystem_sysname("block".to_owned(), name.to_owned());
    let uuid = known
        .ok()
        .and_then(|d| Some(d.property_value("ID_PART_ENTRY_UUID")?.to_str()?.to_owned()));
    let uuid = uuid.unwrap_or_default();
    // The value becomes a part of a link's name: nothing but the digits of a UUID gets there.
    let plain = !uuid.is_empty() && uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if plain {
        vec![format!("TANDEM_PART_UUID={uuid}")]
    } else {
        Vec::new()
    }
}
