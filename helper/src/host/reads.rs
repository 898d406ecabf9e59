// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads from a real device for a speed test, and the kernel's counters of its requests. These functions block.

mod places;

pub use places::Places;

use crate::machine::blocks::{line, sysfs};
use crate::machine::volumes::drives_below;
use crate::machine::wipe::diskseq;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// Reads that a host makes one after the other.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The places.
    pub places: Places,
    /// Most reads.
    pub count: u64,
    /// No read begins later.
    pub time: Duration,
    /// Memory that is kept until the last read has ended, also if no task waits for the reads any more.
    pub slot: Arc<Slot>,
}

/// The right to test: one test at a time runs.
#[derive(Debug)]
pub struct Slot(pub OwnedSemaphorePermit);

/// What a device has done since it appeared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Reads and writes.
    pub requests: u64,
    /// Sectors that were read and written.
    pub sectors: u64,
}

/// Addresses and lengths of direct reads are multiples of this; no disk has larger blocks.
const ALIGNMENT: usize = 4096;

/// Opens a device for reading past the page cache. Programs that use the device do not notice that.
fn open(node: &str) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(node)
}

/// Makes the reads of a pass, until `stop` is set. `sequence`: the sequence number of the device, 0 if there is none.
/// Returns how long each read took.
///
/// # Errors
/// If the device cannot be read, or another device has taken its name.
pub fn timed_reads(
    node: &str,
    sequence: u64,
    pass: &Pass,
    stop: &AtomicBool,
) -> io::Result<Vec<Duration>> {
    let file = open(node)?;
    if sequence != 0 && diskseq(&file)? != sequence {
        return Err(io::Error::other("another device has taken the name"));
    }
    let bytes = usize::try_from(pass.places.bytes()).map_err(io::Error::other)?;
    let mut memory = vec![0; bytes + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut memory[start..start + bytes];
    let (began, mut times) = (Instant::now(), Vec::new());
    for number in 0..pass.count {
        if stop.load(Ordering::Relaxed) || began.elapsed() >= pass.time {
            break;
        }
        let read = Instant::now();
        file.read_exact_at(buffer, pass.places.at(number))?;
        times.push(read.elapsed());
    }
    Ok(times)
}

/// What the drives below a device have done, for all programs. `None` if the kernel does not tell.
pub fn disk_work(name: &str) -> Option<Work> {
    let mut sum = Work::default();
    for drive in drives_below(name) {
        let work = parse(&line(sysfs(&drive).join("stat"))?)?;
        sum.requests += work.requests;
        sum.sectors += work.sectors;
    }
    Some(sum)
}

/// From the line `stat` of a device in sysfs: requests, merged requests, sectors and milliseconds of reads, and the same
/// of writes.
fn parse(stat: &str) -> Option<Work> {
    let fields: Vec<u64> = stat
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let [reads, _, sectors_read, _, writes, _, sectors_written, ..] = fields[..] else {
        return None;
    };
    Some(Work {
        requests: reads.saturating_add(writes),
        sectors: sectors_read.saturating_add(sectors_written),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::reads::{Places, Slot};
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    fn pass(places: Places, count: u64, time: Duration) -> Pass {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Pass {
            places,
            count,
            time,
            slot: Arc::new(Slot(permit)),
        }
    }

    /// A sparse file stands for the device.
    fn disk(size: u64) -> (tempfile::NamedTempFile, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(size).unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        (file, path)
    }

    #[test]
    fn each_read_has_its_time_and_nothing_can_be_written() {
        let (file, path) = disk(16 << 20);
        let go_on = AtomicBool::new(false);
        let long = Duration::from_secs(60);
        for (places, count) in [
            (Places::random(1, 16 << 20), 100),
            (Places::runs(1, 16 << 20), 16),
        ] {
            let times = timed_reads(&path, 0, &pass(places, count, long), &go_on).unwrap();
            assert_eq!(times.len() as u64, count);
        }
        let opened = open(&path).unwrap();
        let flags = rustix::fs::fcntl_getfl(&opened).unwrap();
        assert!(flags.contains(OFlags::DIRECT));
        assert!(!flags.intersects(OFlags::WRONLY | OFlags::RDWR));
        // A device that became shorter is an error, and not a quick read.
        file.as_file().set_len(1 << 20).unwrap();
        let whole = pass(Places::random(1, 16 << 20), 100, long);
        assert!(timed_reads(&path, 0, &whole, &go_on).is_err());
    }

    #[test]
    fn reads_end_with_their_time_and_when_they_are_stopped() {
        let (_file, path) = disk(16 << 20);
        let places = Places::random(1, 16 << 20);
        let read = |time, stop| {
            let stop = AtomicBool::new(stop);
            timed_reads(&path, 0, &pass(places, 4096, time), &stop).unwrap()
        };
        assert!(read(Duration::ZERO, false).is_empty());
        assert!(read(Duration::from_secs(60), true).is_empty());
        assert_eq!(read(Duration::from_secs(60), false).len(), 4096);
    }

    #[test]
    fn the_line_of_the_kernel_is_understood() {
        let stat = "  8612  3021  914321  4012  5120  77  40960  99  0  1  2  0 0 0 0 3 1";
        let work = Work {
            requests: 13_732,
            sectors: 955_281,
        };
        assert_eq!(parse(stat), Some(work));
        assert_eq!(parse("1 2 3"), None);
        assert_eq!(parse(""), None);
    }
}
