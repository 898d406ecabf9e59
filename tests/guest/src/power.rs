// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that lose their volatile write cache at a power cut. QEMU reaches them by NBD, all through one [`Supply`], so
//! that one cut hits all of them.

mod drive;
mod nbd;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use drive::Drive;

/// Name of the machine's root disk.
pub const ROOT: &str = "root";

/// How many of the sectors that no flush covered a cut has kept and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Sectors that are on the medium with their new content.
    pub kept: u64,
    /// Sectors that have the content of the last flush.
    pub lost: u64,
}

/// The power supply of some disks, and the socket at which QEMU finds them by name.
pub struct Supply {
    socket: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    drives: BTreeMap<String, Mutex<Drive>>,
    /// Number of cuts so far. A connection that was made before the last cut changes nothing any more.
    life: AtomicU64,
    over: AtomicBool,
}

impl Shared {
    /// The drive of this name, while no cut has come since `life`.
    fn drive(&self, name: &str, life: u64) -> io::Result<MutexGuard<'_, Drive>> {
        let drive = self.drives.get(name).ok_or(io::ErrorKind::NotFound)?;
        let drive = drive.lock().unwrap_or_else(PoisonError::into_inner);
        match self.life.load(Ordering::SeqCst) == life {
            true => Ok(drive),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Supply {
    /// Begins to serve the files, each by its name, at a socket in `dir`.
    pub fn new(dir: &Path, files: &[(&str, &Path)]) -> Result<Self> {
        let mut drives = BTreeMap::new();
        for (name, file) in files {
            let drive =
                Drive::open(file).with_context(|| format!("cannot open {}", file.display()))?;
            drives.insert((*name).to_owned(), Mutex::new(drive));
        }
        let socket = dir.join("power");
        let listener = UnixListener::bind(&socket)?;
        let shared = Arc::new(Shared {
            drives,
            life: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let server = shared.clone();
        std::thread::spawn(move || accept(&listener, &server));
        Ok(Self { socket, shared })
    }

    /// Where QEMU connects.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// QEMU's description of the machine's root disk, which is the disk [`ROOT`].
    pub fn root_drive(&self) -> String {
        let socket = self.socket.display();
        format!(
            "if=none,id=root,file=nbd:unix:{socket}:exportname={ROOT},format=raw,cache=writeback"
        )
    }

    /// Cuts the power: each sector that was written since the last flush of its disk keeps its new content or gets the
    /// old one back, by `seed`. The machine must be off: it would not see that its disks were off for a moment.
    pub fn cut(&self, seed: u64) -> Result<BTreeMap<String, Cut>> {
        let all: Vec<_> = self
            .shared
            .drives
            .iter()
            .map(|(name, drive)| (name, drive.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect();
        // With all drives locked, no request is half done.
        self.shared.life.fetch_add(1, Ordering::SeqCst);
        let mut chance = Chance(seed);
        let cut = |(name, mut drive): (&String, MutexGuard<'_, Drive>)| {
            Ok((name.clone(), drive.cut(&mut chance)?))
        };
        all.into_iter().map(cut).collect()
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts connections.
        let _ = UnixStream::connect(&self.socket);
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        if shared.over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = connection else { continue };
        let shared = shared.clone();
        std::thread::spawn(move || {
            let life = shared.life.load(Ordering::SeqCst);
            // QEMU tells of a connection that ends too early.
            let _ = nbd::serve(&connection, &shared, life);
        });
    }
}

/// Random numbers that depend on the seed alone.
struct Chance(u64);

impl Chance {
    /// The next number (splitmix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests;
