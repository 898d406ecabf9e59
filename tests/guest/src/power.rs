// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that lose their volatile write cache at a power cut. QEMU reaches them by NBD, all through one [`Supply`], so
//! that one cut hits all of them. A cut leaves the machine as it is: it makes other disks, with the content that these would
//! have after the cut at that moment. So one run of a job is cut at many moments.

mod drive;
mod nbd;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
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

/// All disks of a supply at one moment.
#[derive(Clone)]
pub struct Snapshot(BTreeMap<String, Drive>);

struct Shared {
    drives: BTreeMap<String, Mutex<Drive>>,
    recorder: Mutex<Option<Recorder>>,
    over: AtomicBool,
}

impl Shared {
    /// The drive of this name.
    fn drive(&self, name: &str) -> io::Result<MutexGuard<'_, Drive>> {
        let drive = self.drives.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(lock(drive))
    }

    fn snapshot(&self) -> Snapshot {
        // With all drives locked, no request is half done.
        let all: Vec<_> = self.drives.iter().map(|(n, d)| (n, lock(d))).collect();
        let copied = all
            .iter()
            .map(|(name, drive)| ((*name).clone(), Drive::clone(drive)));
        Snapshot(copied.collect())
    }

    /// A write or a flush comes. Lock order: the recorder, then the drives.
    fn changes(&self) {
        if let Some(recorder) = &mut *lock(&self.recorder) {
            recorder.changes(|| self.snapshot());
        }
    }
}

impl Supply {
    /// Begins to serve the files, each by its name, at a socket in `dir`. The files do not change.
    pub fn new(dir: &Path, files: &[(&str, &Path)]) -> Result<Self> {
        let mut drives = BTreeMap::new();
        for (name, file) in files {
            let drive =
                Drive::open(file).with_context(|| format!("cannot open {}", file.display()))?;
            drives.insert((*name).to_owned(), drive);
        }
        Self::serve(dir, Snapshot(drives))
    }

    fn serve(dir: &Path, disks: Snapshot) -> Result<Self> {
        let socket = dir.join("power");
        let listener = UnixListener::bind(&socket)?;
        let drives = disks.0.into_iter().map(|(n, d)| (n, Mutex::new(d)));
        let shared = Arc::new(Shared {
            drives: drives.collect(),
            recorder: Mutex::new(None),
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

    /// The disks at this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// From now on keeps snapshots, each before a write or a flush. [`Self::recorded`] returns `number` of them at least,
    /// if there are so many writes and flushes until then.
    pub fn record(&self, number: usize) {
        *lock(&self.shared.recorder) = Some(Recorder::new(number));
    }

    /// The snapshots since [`Self::record`], spread evenly over the writes and flushes.
    pub fn recorded(&self) -> Vec<Snapshot> {
        let recorder = lock(&self.shared.recorder).take();
        recorder.map_or(Vec::new(), |recorder| recorder.kept)
    }
}

impl Snapshot {
    /// The disks after a power cut at this moment, at a socket in `dir`: each sector that was written since the last flush
    /// of its disk keeps its new content or gets the old one back, by `seed`.
    pub fn cut(mut self, dir: &Path, seed: u64) -> Result<(Supply, BTreeMap<String, Cut>)> {
        let mut chance = Chance(seed);
        let cuts = self.0.iter_mut();
        let cuts = cuts.map(|(name, drive)| (name.clone(), drive.cut(&mut chance)));
        let cuts = cuts.collect();
        Ok((Supply::serve(dir, self)?, cuts))
    }
}

/// The recorder keeps snapshots that are spread evenly, without knowing how much comes.
struct Recorder {
    kept: Vec<Snapshot>,
    /// Half of the most snapshots that are kept at a time.
    number: usize,
    /// One in so many events gets a snapshot.
    every: u64,
    events: u64,
}

impl Recorder {
    fn new(number: usize) -> Self {
        Self {
            kept: Vec::new(),
            number,
            every: 1,
            events: 0,
        }
    }

    fn changes(&mut self, snapshot: impl FnOnce() -> Snapshot) {
        if self.events.is_multiple_of(self.every) {
            if self.kept.len() == 2 * self.number {
                let mut place = 0;
                self.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.every *= 2;
            }
            if self.events.is_multiple_of(self.every) {
                self.kept.push(snapshot());
            }
        }
        self.events += 1;
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wake the thread that accepts connections.
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
            // QEMU tells of a connection that ends too early.
            let _ = nbd::serve(&connection, &shared);
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
