// SPDX-License-Identifier: GPL-3.0-or-later
//! Notes what the disks of the caches have that dm-cache served, so that the next start is warm.
//!
//! When a shutdown begins, `tandem-drain.service` writes down which of them are in force. At its very end systemd has unmounted all
//! file systems and removed the mappings, or another program has (`blkdeactivate` of LVM), which stops dm-cache in order. The root
//! file system is read-only by then, and its mapping in use; this has that mapping pass everything to the disk, which stops dm-cache,
//! too. Then this notes the disks: since the list was written, nothing but the shutdown has used them. A cache that is not in force
//! when the shutdown begins is left alone, for its disk may have been in use without it.

use super::stop::uses;
use crate::machine::clock::boottime_us;
use crate::machine::dm::control::{Control, last_mount, note_stop};
use crate::machine::dm::kept::LastMount;
use crate::machine::grub::environment;
use crate::machine::mounts::nodes::device_number;
use crate::machine::mounts::table::Mounts;
use crate::model::action::mapping_name;
use rustix::mm::{MlockAllFlags, mlockall};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// The caches in force when the shutdown began.
const IN_FORCE: &str = "/run/tandem/in-force.json";
/// An older list is of a shutdown that did not end, in microseconds: the disks may have been used since.
const OLDEST: u64 = 5 * 60 * 1_000_000;

/// The list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InForce {
    /// When the list was made: microseconds since the machine was started.
    time: u64,
    caches: Vec<Cache>,
}

/// A cache in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cache {
    /// The cache: 32 hex digits.
    uuid: String,
    /// Number (`major:minor`) of the disk.
    disk: String,
    /// Number of the SSD.
    ssd: String,
    /// Length of the disk.
    sectors: u64,
    /// The last mount of its file system, through the cache.
    mounted: Option<LastMount>,
}

/// Whether systemd ends all units. `tandem-drain.service` also ends when a person stops that unit.
fn is_shutdown() -> bool {
    let asked = Command::new("/bin/systemctl")
        .arg("is-system-running")
        .output();
    asked.is_ok_and(|told| told.stdout.trim_ascii() == b"stopping")
}

/// GRUB's environment block, which GRUB writes to without the cache; also that of another system.
const GRUB_BLOCKS: [&str; 4] = [
    "grub/grubenv",
    "grub2/grubenv",
    "boot/grub/grubenv",
    "boot/grub2/grubenv",
];

/// Whether a boot loader may write to the file system that is mounted here, and no start brings the cache up to date:
/// [`environment`] does that for the running system where it can.
fn is_for_boot(point: &Path) -> bool {
    let has_block = || GRUB_BLOCKS.iter().any(|block| point.join(block).exists());
    point.starts_with("/boot")
        || match point == Path::new("/") {
            true => environment::stays_stale(),
            false => has_block(),
        }
}

/// Writes down which caches are in force, if a shutdown begins.
pub fn begin() {
    let path = Path::new(IN_FORCE);
    let written = remove(path).and_then(|()| match is_shutdown() {
        true => write(path, &in_force()?),
        false => Ok(()),
    });
    if let Err(e) = written {
        tracing::warn!("the caches of dm-cache start empty next time: {e}");
    }
}

/// The machine goes on after a shutdown that did not end: the disks may be used without their caches.
pub fn forget() {
    if let Err(e) = remove(Path::new(IN_FORCE)) {
        tracing::warn!("a list of an earlier shutdown stays: {e}");
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn in_force() -> io::Result<InForce> {
    let control = Control::open().map_err(io::Error::other)?;
    let live = control.dm_caches().map_err(io::Error::other)?;
    let mounts = Mounts::read()?;
    // The file system may be unmounted by now; the mapping keeps its disk from all other use.
    let boots = |uuid: &str| -> io::Result<bool> {
        let node = format!("/dev/mapper/{}", mapping_name(uuid));
        let number = device_number(std::fs::metadata(&node)?.rdev());
        let nodes = [Some(node)];
        let mut points = mounts.of(&number, &nodes);
        Ok(points.any(|mount| is_for_boot(Path::new(&mount.point))))
    };
    let mut caches = Vec::new();
    for live in live {
        if boots(&live.uuid)? {
            continue;
        }
        caches.push(Cache {
            mounted: last_mount(&live.origin)?,
            uuid: live.uuid,
            disk: live.origin,
            ssd: live.ssd,
            sectors: live.sectors,
        });
    }
    Ok(InForce {
        time: boottime_us(),
        caches,
    })
}

fn write(path: &Path, in_force: &InForce) -> io::Result<()> {
    match in_force.caches.is_empty() {
        true => Ok(()),
        false => std::fs::write(path, serde_json::to_vec(in_force)?),
    }
}

/// The caches that were written down at this shutdown. `now`: microseconds since the machine was started. They are read once.
fn take(path: &Path, now: u64) -> io::Result<Vec<Cache>> {
    let text = match std::fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    remove(path)?;
    let in_force: InForce = serde_json::from_slice(&text)?;
    match now.checked_sub(in_force.time) {
        Some(age) if age <= OLDEST => Ok(in_force.caches),
        _ => Err(io::Error::other("the list is of an earlier shutdown")),
    }
}

/// At the very end of a shutdown: notes the disks of the caches that were in force when the shutdown began.
pub fn end() {
    // A page of this program that is not in memory would come from the file system below which a mapping is suspended.
    if let Err(e) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        tracing::warn!("this program's memory cannot be held: {e}");
    }
    let caches = take(Path::new(IN_FORCE), boottime_us()).unwrap_or_else(|e| {
        tracing::warn!("the caches of dm-cache start empty next time: {e}");
        Vec::new()
    });
    for cache in caches {
        let uuid = cache.uuid.as_str();
        match stop_and_note(&cache) {
            Ok(true) => tracing::info!(uuid, "the cache starts warm next time"),
            Ok(false) => tracing::info!(uuid, "the cache starts empty next time"),
            Err(e) => tracing::warn!(uuid, "the cache starts empty next time: {e}"),
        }
    }
}

fn stop_and_note(cache: &Cache) -> io::Result<bool> {
    let devices = [cache.disk.as_str(), &cache.ssd];
    let control = Control::open_without_udev().map_err(io::Error::other)?;
    let mounts = Mounts::read()?;
    let left = control.stop_dm_cache(&cache.uuid, devices, |number| uses(&mounts, number));
    let left = left.map_err(io::Error::other)?;
    note_stop(
        &cache.uuid,
        devices,
        left,
        cache.sectors,
        cache.mounted.as_ref(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // promise 19: programs/tandem_helper::start::kernel_caches::tests::a_list_counts_once_and_in_its_own_shutdown
    #[test]
    fn a_list_counts_once_and_in_its_own_shutdown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in-force.json");
        let cache = Cache {
            uuid: "ab".repeat(16),
            disk: "8:1".into(),
            ssd: "8:16".into(),
            sectors: 8,
            mounted: None,
        };
        let list = |caches: &[Cache]| InForce {
            time: 7,
            caches: caches.to_vec(),
        };
        write(&path, &list(&[])).unwrap();
        assert!(!path.exists());
        write(&path, &list(std::slice::from_ref(&cache))).unwrap();
        assert_eq!(take(&path, 8).unwrap(), std::slice::from_ref(&cache));
        assert_eq!(take(&path, 8).unwrap(), [], "it is read once");
        for now in [0, 8 + OLDEST] {
            write(&path, &list(std::slice::from_ref(&cache))).unwrap();
            take(&path, now).unwrap_err();
            assert!(!path.exists());
        }
        remove(&path).unwrap();
    }

    #[test]
    fn what_a_boot_loader_writes_to_is_not_noted() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_for_boot(folder.path()));
        std::fs::create_dir_all(folder.path().join("boot/grub")).unwrap();
        assert!(!is_for_boot(folder.path()));
        std::fs::write(folder.path().join("boot/grub/grubenv"), "").unwrap();
        assert!(is_for_boot(folder.path()), "another system's");
        for point in ["/boot", "/boot/efi"] {
            assert!(is_for_boot(Path::new(point)), "{point}");
        }
        assert!(!is_for_boot(Path::new("/bootleg")));
    }
}
