// SPDX-License-Identifier: GPL-3.0-or-later
//! Stops the caches that dm-cache serves, and notes what their disks have, so that the next start is warm.
//!
//! When a shutdown begins, `tandem-drain.service` writes down which of them are in force. After the last file system is
//! unmounted, `tandem-end.service` stops them. Another program may have removed a mapping by then (`blkdeactivate` of LVM
//! does). Its disk counts as well: nothing but the shutdown has used the disk since it was written down. A cache that is not
//! in force when the shutdown begins is left alone, for its disk may have been in use.

use crate::machine::dm::control::{Control, note_stop};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::process::Command;

/// The caches in force when the shutdown began.
pub const IN_FORCE: &str = "/run/tandem/in-force.json";

/// A cache in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InForce {
    /// The cache: 32 hex digits.
    uuid: String,
    /// Number (`major:minor`) of the disk.
    disk: String,
    /// Number of the SSD.
    ssd: String,
    /// Length of the disk.
    sectors: u64,
}

/// Whether systemd ends all units. `tandem-drain.service` also ends when a person stops that unit.
fn is_shutdown() -> bool {
    let asked = Command::new("/bin/systemctl")
        .arg("is-system-running")
        .output();
    asked.is_ok_and(|told| told.stdout.trim_ascii() == b"stopping")
}

/// Writes down which caches are in force, if a shutdown begins.
pub fn begin() {
    if !is_shutdown() {
        return;
    }
    let written = Control::open().and_then(|control| control.dm_caches());
    let written = written.map_err(io::Error::other).and_then(|live| {
        let in_force = live.into_iter().map(|live| InForce {
            uuid: live.uuid,
            disk: live.origin,
            ssd: live.ssd,
            sectors: live.sectors,
        });
        write(Path::new(IN_FORCE), &in_force.collect::<Vec<_>>())
    });
    if let Err(e) = written {
        tracing::warn!("the caches of dm-cache start empty next time: {e}");
    }
}

fn write(path: &Path, in_force: &[InForce]) -> io::Result<()> {
    match in_force.is_empty() {
        true => Ok(()),
        false => std::fs::write(path, serde_json::to_vec(in_force)?),
    }
}

/// The caches that were written down. They are read once.
fn take(path: &Path) -> io::Result<Vec<InForce>> {
    let text = std::fs::read(path)?;
    std::fs::remove_file(path)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Stops the caches that were in force when the shutdown began and are not in use any more.
pub fn end() {
    let in_force = match take(Path::new(IN_FORCE)) {
        Ok(in_force) => in_force,
        Err(e) => return tracing::warn!("no cache of dm-cache is stopped: {e}"),
    };
    for cache in in_force {
        let uuid = cache.uuid.as_str();
        match stop(&cache) {
            Ok(true) => tracing::info!(uuid, "the cache is stopped, and starts warm next time"),
            Ok(false) => tracing::info!(uuid, "the cache starts empty next time"),
            Err(e) => tracing::warn!(uuid, "the cache starts empty next time: {e}"),
        }
    }
}

fn stop(cache: &InForce) -> io::Result<bool> {
    let control = Control::open().map_err(io::Error::other)?;
    let stopped = control
        .stop_dm_cache(&cache.uuid)
        .map_err(io::Error::other)?;
    Ok(stopped && note_stop(&cache.uuid, [&cache.disk, &cache.ssd], cache.sectors)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    // promise 19: programs/tandem_helper::start::kernel_caches::tests::what_was_in_force_is_read_once
    #[test]
    fn what_was_in_force_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in-force.json");
        let cache = InForce {
            uuid: "ab".repeat(16),
            disk: "8:1".into(),
            ssd: "8:16".into(),
            sectors: 8,
        };
        write(&path, &[]).unwrap();
        assert!(!path.exists());
        write(&path, std::slice::from_ref(&cache)).unwrap();
        assert_eq!(take(&path).unwrap(), [cache]);
        assert_eq!(
            take(&path).unwrap_err().kind(),
            io::ErrorKind::NotFound,
            "an earlier shutdown counts no more"
        );
    }
}
