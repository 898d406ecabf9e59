// SPDX-License-Identifier: GPL-3.0-or-later
//! The mounts of users that the service has moved to a cache or back.
//!
//! A person who has mounted a disk through UDisks2 may unmount that disk without a password. UDisks2 no longer knows this
//! person when the service has moved the mount. So the service records whose mount it was, and the polkit rule asks
//! [`may_unmount`]. The record is a file of root, and it names the mount by the numbers that the kernel gave: the source
//! and the options of a mount are texts that the user of a FUSE mount chooses.

use super::device;
use super::table::{Entry, MOUNTINFO, Mounts, user_folder};
use crate::machine::blocks::line;
use crate::machine::udev_files::DATA;
use crate::model::facts::{Mount, Mounter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The record. Everybody may read it; its folder is the service's own (`RuntimeDirectory=`).
const FILE: &str = "/run/tandem/moved.json";

/// A mount that the service has moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Moved {
    /// `major:minor` of the device.
    device: String,
    /// Number of the mount.
    id: u64,
    /// `major:minor` of the file system. For Btrfs this is not the number of the device.
    filesystem: String,
    /// Mount point. The kernel gives the number of a mount again when the mount is gone.
    point: String,
    /// Name of the user.
    user: String,
}

impl Moved {
    fn is(&self, entry: &Entry) -> bool {
        self.id == entry.id
            && self.filesystem == entry.device
            && self.point == entry.mount.point
            && !is_fuse(entry)
    }
}

fn is_fuse(entry: &Entry) -> bool {
    entry.mount.fstype.starts_with("fuse")
}

/// Records whose mount the service has moved, if UDisks2 had made it for a user. `number`: `major:minor` of the device that
/// it is on now. Entries of mounts that are gone are dropped.
///
/// # Errors
/// If the mount table cannot be read, or the record cannot be written: the user needs a password then.
pub fn record(number: &str, mount: &Mount) -> io::Result<()> {
    let user = match mount.mounter {
        Mounter::Udisks(uid) if uid != 0 => user_folder(&mount.point),
        _ => None,
    };
    let Some(user) = user else { return Ok(()) };
    record_in(Path::new("/"), &Mounts::read()?, number, &mount.point, user)
}

fn record_in(
    root: &Path,
    mounts: &Mounts,
    number: &str,
    point: &str,
    user: &str,
) -> io::Result<()> {
    // Two jobs may move mounts at the same time.
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = read(root);
    all.retain(|moved| mounts.0.iter().any(|entry| moved.is(entry)));
    let here = mounts.0.iter().filter(|entry| {
        entry.mount.point == point
            && !is_fuse(entry)
            && device::number(root, entry).as_deref() == Some(number)
    });
    for entry in here {
        all.retain(|moved| !moved.is(entry));
        all.push(Moved {
            device: number.to_owned(),
            id: entry.id,
            filesystem: entry.device.clone(),
            point: point.to_owned(),
            user: user.to_owned(),
        });
    }
    let file = below(root, FILE);
    let new = file.with_extension("new");
    fs::write(&new, serde_json::to_vec(&all)?)?;
    // The authority is no program of root.
    fs::set_permissions(&new, Permissions::from_mode(0o644))?;
    fs::rename(&new, &file)
}

/// Whether every mount of a device is one that the service has moved for this user: UDisks2 unmounts any of them.
/// `node`: the device node. `root` is `/`; tests have other roots.
#[must_use]
pub fn may_unmount(root: &Path, node: &str, user: &str) -> bool {
    let Some(number) = number(root, node) else {
        return false;
    };
    let mut mine = read(root);
    mine.retain(|moved| moved.device == number && moved.user == user);
    let table = crate::read_lossy(below(root, MOUNTINFO)).unwrap_or_default();
    let mut mounts = Mounts::parse(&table).0;
    mounts.retain(|entry| {
        device::number(root, entry).as_ref() == Some(&number)
            || mine.iter().any(|moved| moved.filesystem == entry.device)
    });
    !mounts.is_empty() && mounts.iter().all(|e| mine.iter().any(|moved| moved.is(e)))
}

/// `major:minor` of the device with this node or link; none if two devices claim the link. The authority may see no
/// nodes (`PrivateDevices=`), so sysfs and udev's files are read.
fn number(root: &Path, node: &str) -> Option<String> {
    let name = node.strip_prefix("/dev/")?;
    let is_plain = !name.starts_with('.') && !name.contains('/');
    let by_kernel = is_plain.then(|| line(root.join("sys/class/block").join(name).join("dev")));
    let claims = |path: &Path| {
        let text = crate::read_lossy(path).unwrap_or_default();
        text.lines().any(|l| l.strip_prefix("S:") == Some(name))
    };
    let files = fs::read_dir(below(root, DATA))
        .into_iter()
        .flatten()
        .flatten();
    let by_udev = files
        .filter(|file| claims(&file.path()))
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            Some(name.strip_prefix('b')?.to_owned())
        });
    let mut all: BTreeSet<_> = by_udev.chain(by_kernel.flatten()).collect();
    all.pop_first().filter(|_| all.is_empty())
}

fn read(root: &Path) -> Vec<Moved> {
    let text = fs::read(below(root, FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn below(root: &Path, path: &str) -> std::path::PathBuf {
    root.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod rule;
#[cfg(test)]
mod tests;
