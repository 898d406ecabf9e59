// SPDX-License-Identifier: GPL-3.0-or-later
//! Marks of the disks that a start of the machine has waited for in vain, or that udev's program has to hold when they come.

use crate::machine::blocks::BlockDevice;
use crate::machine::clock::boottime_us;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io};

/// The folder of the marks, which only root may open, for the folder is a lock. Each mark is a file, empty at first.
const FOLDER: &str = "/run/tandem/late";
/// Time between two attempts to get the lock; a lock is usually held for a very short time.
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// The marks of this start of the machine.
pub(crate) struct Marks(PathBuf);

impl Default for Marks {
    fn default() -> Self {
        Self(FOLDER.into())
    }
}

impl Marks {
    #[cfg(test)]
    pub(crate) fn within(folder: &std::path::Path) -> Self {
        Self(folder.into())
    }

    /// Whether there is any.
    pub(crate) fn are_there(&self) -> bool {
        fs::read_dir(&self.0).is_ok_and(|mut marks| marks.next().is_some())
    }

    pub(crate) fn set(&self, uuid: &str) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        File::create(self.0.join(uuid)).map(drop)
    }

    pub(crate) fn has(&self, uuid: &str) -> bool {
        self.0.join(uuid).exists()
    }

    pub(crate) fn clear(&self, uuid: &str) {
        match fs::remove_file(self.0.join(uuid)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("a mark of {uuid} stays: {e}");
            }
            _ => {}
        }
    }

    /// Empties the mark: no program has noted yet that the disk cannot be held.
    pub(crate) fn reset(&self, uuid: &str) {
        if let Err(e) = self.set(uuid) {
            tracing::warn!("a mark of {uuid} says since when: {e}");
        }
    }

    /// For how long it is known that this disk cannot be held for this reason. The time begins when a program notes
    /// it first.
    pub(crate) fn blocked_for(&self, uuid: &str, disk: &BlockDevice, why: &str) -> Duration {
        let what = format!("{} {why}", disk.number);
        let now = boottime_us();
        let path = self.0.join(uuid);
        let known = fs::read_to_string(&path).unwrap_or_default();
        let since = known.split_once('\n').filter(|(known, _)| *known == what);
        if let Some(since) = since.and_then(|(_, since)| since.parse().ok()) {
            return Duration::from_micros(now.saturating_sub(since));
        }
        if let Err(e) = fs::write(&path, format!("{what}\n{now}")) {
            tracing::warn!("a mark of {uuid} does not say since when: {e}");
        }
        Duration::ZERO
    }

    /// A lock: until it is dropped, no other program looks for disks that have marks. `None` without marks, or if
    /// another program keeps the lock longer than `limit`: a device may never answer.
    pub(crate) fn lock(&self, limit: Duration) -> Option<File> {
        locked(File::open(&self.0).ok()?, limit)
    }
}

/// Locks an open file or folder against the other programs that lock it. `None` if another program keeps the lock longer
/// than `limit`.
pub(crate) fn locked(file: File, limit: Duration) -> Option<File> {
    let begun = Instant::now();
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if begun.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(LOCK_RETRY);
    }
    Some(file)
}
