// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads the requests to a disk from the kernel's own tracepoint, for the advisor.
//!
//! Nothing is loaded: a tracefs *instance* of our own has its own small buffer and filter, so that no other user of tracing
//! notices. The event is `block_bio_queue`, what file systems ask of a disk before requests are merged. A cache would get just
//! that; and it is there also for disks that have no request queue (md, LUKS, LVM). A disk's number stands in it for requests
//! to its partitions too, with sectors of the disk.
//!
//! Everything is bounded: the kernel keeps [`BUFFER_KIB`] for each processor and says how many events it lost, and one call of
//! [`Watch::next`] gives what one read of [`READ_BYTES`] has.

mod line;
pub mod session;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub use line::Event;
use line::Lines;

/// Where the kernel's tracing is mounted on every machine with systemd.
pub const TRACEFS: &str = "/sys/kernel/tracing";

/// For each processor.
const BUFFER_KIB: u32 = 128;
const READ_BYTES: usize = 32 << 10;
/// Prefix of the names of our instances.
const NAME: &str = "tandem-";
/// The directory of the event in an instance.
const EVENT: &str = "events/block/block_bio_queue";

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
    /// Made anew: one of a service that was killed would have old requests.
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

/// Requests of one disk as they come.
pub struct Watch {
    watched: Watched,
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
            // SAFETY: the descriptor is owned by the AsyncFd, which keeps it open as long as it lives.
            pipe: unsafe { AsyncFd::register_with_interest(pipe, Interest::READABLE)? },
            lines: Lines::default(),
            buffer: vec![0; READ_BYTES],
            _instance: instance,
        })
    }

    /// Waits for requests and appends them; sectors are those of the watched range.
    ///
    /// # Errors
    /// The kernel does not give them any more.
    pub async fn next(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let count = loop {
            let mut ready = self.pipe.readable().await?;
            let buffer = &mut self.buffer;
            match ready.try_io(|pipe| Ok(rustix::io::read(pipe.as_fd(), &mut *buffer)?)) {
                Ok(count) => break count?,
                Err(_would_block) => {}
            }
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Range { start, end } = self.watched.sectors;
        self.lines.feed(&self.buffer[..count], |event| {
            let last = event.sector.checked_add(event.sectors);
            if event.sector >= start && last.is_some_and(|last| last <= end) {
                let sector = event.sector - start;
                events.push(Event { sector, ..event });
            }
        });
        Ok(())
    }

    /// Events that the kernel's buffer had no room for, and lines that are no requests.
    pub fn lost(&self) -> u64 {
        self.lines.lost()
    }
}

#[cfg(test)]
mod tests;
