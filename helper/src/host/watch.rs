// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads the requests to a disk from the kernel's own tracepoint, for the advisor.
//!
//! Nothing is loaded: a tracefs *instance* of our own has its own small buffer and filter, so that no other user of tracing
//! notices. The event is `block_bio_queue`, what file systems ask of a disk before requests are merged. A cache would get just
//! that; and it is there also for disks that have no request queue (md, LUKS, LVM). A disk's number stands in it for requests
//! to its partitions too, with sectors of the disk.
//!
//! Everything is bounded: the kernel keeps [`BUFFER_KIB`] for each processor and says how many events it lost, and one call of
//! [`Requests::read`] gives what one read of [`READ_BYTES`] has.

mod line;
pub mod session;
pub mod view;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::{Mode, OFlags};
pub use tandem_advisor::{Kind, Request};
use tandem_api::SECTOR_BYTES;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::machine::blocks::{number, whole_disk};
use crate::model::facts::Device;
use line::{Event, Lines};

/// Where the kernel's tracing is mounted on every machine with systemd.
pub const TRACEFS: &str = "/sys/kernel/tracing";

/// For each processor.
const BUFFER_KIB: u32 = 128;
const READ_BYTES: usize = 32 << 10;
/// Prefix of the names of our instances.
const NAME: &str = "tandem-";
/// The directory of the event in an instance.
const EVENT: &str = "events/block/block_bio_queue";

/// The requests to a disk as they come. A value of this type has its own clock, which begins anew with the value.
#[async_trait]
pub trait Requests: Send {
    /// Waits until many requests are there. A few may be there earlier.
    async fn wait(&mut self);

    /// Appends some of the requests that are there; their sectors are those of the disk or partition that is watched.
    /// Returns whether there may be more.
    ///
    /// # Errors
    /// The kernel does not give them any more.
    fn read(&mut self, requests: &mut Vec<Request>) -> io::Result<bool>;

    /// The time, in microseconds.
    fn now_us(&self) -> u64;

    /// Number of requests that were lost so far.
    fn lost(&self) -> u64;
}

/// A disk, as its requests name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watched {
    /// Number of the disk; for a partition, of the disk that it is on.
    pub major: u32,
    /// See `major`.
    pub minor: u32,
    /// Sectors of that disk.
    pub sectors: Range<u64>,
}

impl Watched {
    /// How the requests name this device. `None`: the kernel does not know the device any more.
    pub fn of(device: &Device) -> Option<Self> {
        let ident = &device.ident;
        let disk = number(&whole_disk(&ident.text.name))?;
        let (major, minor) = disk.split_once(':')?;
        let start = ident.start / SECTOR_BYTES;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
            sectors: start..start + ident.text.size / SECTOR_BYTES,
        })
    }

    /// What the kernel's filter compares: its own form of a device number.
    fn filter(&self) -> String {
        let number = self.major << 20 | self.minor;
        format!("dev == {number} && nr_sector > 0")
    }

    fn instance(&self, tracefs: &Path) -> PathBuf {
        let Range { start, .. } = self.sectors;
        let name = format!("{NAME}{}-{}-{start}", self.major, self.minor);
        tracefs.join("instances").join(name)
    }
}

/// An instance of tracefs, which goes when this is dropped.
struct Instance(PathBuf);

impl Instance {
    /// The trace is made anew: one of a service that was killed would have old requests.
    fn new(path: PathBuf) -> io::Result<Self> {
        if let Err(e) = std::fs::remove_dir(&path)
            && e.kind() != io::ErrorKind::NotFound
        {
            return Err(e);
        }
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        std::fs::write(self.0.join(file), text)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir(&self.0) {
            tracing::warn!("{} stays: {e}", self.0.display());
        }
    }
}

/// Removes the instances that a service left when it was killed: each takes memory of the kernel, and has every request of
/// its disk written down.
pub fn sweep(tracefs: &Path) {
    let Ok(entries) = std::fs::read_dir(tracefs.join("instances")) else {
        return;
    };
    for entry in entries.flatten() {
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(NAME.as_bytes())
        {
            drop(Instance(entry.path()));
        }
    }
}

/// Requests of one disk as the kernel traces them.
pub struct Watch {
    watched: Watched,
    begin: Instant,
    /// Before the instance, which cannot go while it is open.
    pipe: AsyncFd<OwnedFd>,
    lines: Lines,
    buffer: Vec<u8>,
    /// Not in tests that have no kernel.
    _instance: Option<Instance>,
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    /// The kernel has no tracing, or does not let us use it.
    pub fn start(tracefs: &Path, watched: Watched) -> io::Result<Self> {
        let instance = Instance::new(watched.instance(tracefs))?;
        instance.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        // Lines begin with the event's name.
        instance.write("options/context-info", "0")?;
        instance.write(&format!("{EVENT}/filter"), &watched.filter())?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(instance.0.join("trace_pipe"), flags, Mode::empty())?;
        instance.write(&format!("{EVENT}/enable"), "1")?;
        Self::reading(pipe, watched, Some(instance))
    }

    /// Reads lines of a trace from `pipe`, which does not block.
    fn reading(pipe: OwnedFd, watched: Watched, instance: Option<Instance>) -> io::Result<Self> {
        Ok(Self {
            watched,
            begin: Instant::now(),
            // SAFETY: the descriptor is owned by the AsyncFd, which keeps it open as long as it lives.
            pipe: unsafe { AsyncFd::register_with_interest(pipe, Interest::READABLE)? },
            lines: Lines::default(),
            buffer: vec![0; READ_BYTES],
            _instance: instance,
        })
    }
}

#[async_trait]
impl Requests for Watch {
    async fn wait(&mut self) {
        match self.pipe.readable().await {
            // What came until now is read next, and the pipe tells of what comes later.
            Ok(mut ready) => ready.clear_ready(),
            Err(e) => {
                tracing::warn!("cannot wait for requests: {e}");
                std::future::pending().await
            }
        }
    }

    fn read(&mut self, requests: &mut Vec<Request>) -> io::Result<bool> {
        let count = match rustix::io::read(self.pipe.as_fd(), &mut *self.buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(e) if e == rustix::io::Errno::AGAIN => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        let Range { start, end } = self.watched.sectors;
        let time_us = self.now_us();
        self.lines.feed(&self.buffer[..count], |event| {
            let last = event.sector.checked_add(event.sectors);
            if event.sector >= start && last.is_some_and(|last| last <= end) {
                let Event {
                    kind,
                    sector,
                    sectors,
                } = event;
                let sector = sector - start;
                requests.push(Request {
                    time_us,
                    kind,
                    sector,
                    sectors,
                });
            }
        });
        Ok(true)
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Events that the kernel's buffer had no room for, and lines that are no requests.
    fn lost(&self) -> u64 {
        self.lines.lost()
    }
}

#[cfg(test)]
mod tests;
