// SPDX-License-Identifier: GPL-3.0-or-later
//! The counters of a cache of another system at one moment, and what came between two moments. Counters that cannot be compared
//! give no number.

use tandem_api::{OtherCache, OtherKind};

/// A cache of another system, with its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherSeen {
    /// The cache.
    pub cache: OtherCache,
    /// Its counters; nothing if the kernel does not tell those of the device or of the disk.
    pub reading: Option<OtherReading>,
}

/// What a block device has done since it is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockTraffic {
    /// Tells the device from another one with the same name.
    pub device: String,
    /// Requests that it has answered.
    pub requests: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherReading {
    /// Microseconds of `CLOCK_BOOTTIME`.
    pub time_us: u64,
    /// The device that programs use.
    pub device: BlockTraffic,
    /// The disk.
    pub disks: Vec<BlockTraffic>,
    /// The devices of the cache, none while the SSD is missing. Nothing: they are not counted, or also serve other caches.
    pub ssds: Option<Vec<BlockTraffic>>,
    /// What the system itself counts.
    pub counts: Counts,
}

/// What a system counts of its cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// How it counts.
    pub counting: Counting,
    /// What the SSD has served.
    pub hits: u64,
    /// What the disk has served.
    pub misses: u64,
    /// Further counters that begin anew together with these.
    pub beside: Vec<u64>,
}

/// How a system counts, as it was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counting {
    /// It tells no hits.
    #[default]
    Not,
    /// The counters only grow, until they begin anew.
    Grows,
    /// The counters have 32 bits. They jump back to an earlier state when a table is loaded.
    Has32Bits,
    /// The counters grow once in 13.6 s, and each time by what came modulo 65,536.
    FoldsAt16Bits,
}

impl Counting {
    /// How this system counts.
    pub fn of(kind: OtherKind) -> Self {
        match kind {
            OtherKind::Bcache => Self::FoldsAt16Bits,
            OtherKind::LvmCache | OtherKind::DmCache => Self::Has32Bits,
            OtherKind::LvmWritecache | OtherKind::DmWritecache => Self::Grows,
            // What RapidDisk counts is not read, and dm-writeboost's line is not understood.
            OtherKind::DmWriteboost | OtherKind::RapidDisk => Self::Not,
        }
    }
}

/// What came between two moments. Amounts are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherCame {
    /// Microseconds from the one to the other.
    pub time_us: u64,
    /// Requests to the device that programs use.
    pub requests: u64,
    /// Read from that device.
    pub read: u64,
    /// Written to it.
    pub written: u64,
    /// Read from the disk.
    pub read_disk: u64,
    /// Read from the SSD, if it is known.
    pub read_ssd: Option<u64>,
    /// Hits and misses, if they can be believed.
    pub hits: Option<(u64, u64)>,
}

/// bcache loses counts from so many requests on.
const FOLD: u64 = 1 << 16;

/// Where a counter of dm-cache begins at 0 again.
const WRAP: u64 = 1 << 32;

/// The most requests that a cache answers between two looks. A counter that would have grown by more has jumped back.
const MOST_REQUESTS: u64 = 1 << 24;

impl OtherReading {
    /// Whether this is of the same device, over the same disk, as `earlier`.
    pub fn same_cache(&self, earlier: &Self) -> bool {
        let devices =
            |all: &[BlockTraffic]| all.iter().map(|t| t.device.clone()).collect::<Vec<_>>();
        self.device.device == earlier.device.device
            && devices(&self.disks) == devices(&earlier.disks)
    }

    /// What came since `earlier`. `requests_before`: the requests of the time before that one, which bcache may count only now.
    /// Nothing: a device was exchanged, or its counters began anew.
    pub fn since(&self, earlier: &Self, requests_before: u64) -> Option<OtherCame> {
        let time_us = self.time_us.checked_sub(earlier.time_us)?;
        let device = self.device.since(&earlier.device)?;
        let ssds = self.ssds.as_ref().zip(earlier.ssds.as_ref());
        let requests = device.requests.saturating_add(requests_before);
        Some(OtherCame {
            time_us: (time_us > 0).then_some(time_us)?,
            requests: device.requests,
            read: device.read,
            written: device.written,
            read_disk: read_since(&self.disks, &earlier.disks)?,
            read_ssd: ssds.and_then(|(now, before)| read_since(now, before)),
            hits: self.counts.since(&earlier.counts, requests),
        })
    }
}

/// The bytes that were read from these devices.
fn read_since(now: &[BlockTraffic], earlier: &[BlockTraffic]) -> Option<u64> {
    let mut read = 0_u64;
    if now.len() != earlier.len() {
        return None;
    }
    for (now, earlier) in now.iter().zip(earlier) {
        read = read.saturating_add(now.since(earlier)?.read);
    }
    Some(read)
}

impl BlockTraffic {
    fn since(&self, earlier: &Self) -> Option<Self> {
        let same = self.device == earlier.device;
        Some(Self {
            device: same.then(|| self.device.clone())?,
            requests: self.requests.checked_sub(earlier.requests)?,
            read: self.read.checked_sub(earlier.read)?,
            written: self.written.checked_sub(earlier.written)?,
        })
    }
}

impl Counts {
    /// Hits and misses since `earlier`, when so many requests may have been counted meanwhile.
    fn since(&self, earlier: &Self, requests: u64) -> Option<(u64, u64)> {
        let counting = self.counting;
        let believed = match counting {
            Counting::Not => false,
            Counting::Grows | Counting::Has32Bits => true,
            Counting::FoldsAt16Bits => requests < FOLD,
        };
        let same = counting == earlier.counting && self.beside.len() == earlier.beside.len();
        if !believed || !same {
            return None;
        }
        let grown = |now: u64, earlier: u64| match (now.checked_sub(earlier), counting) {
            (None, Counting::Has32Bits) => wrapped(now, earlier),
            (grown, _) => grown,
        };
        // A counter that fell shows that all of them began anew, also those that have grown beyond their old values since.
        let mut beside = self.beside.iter().zip(&earlier.beside);
        if beside.any(|(now, earlier)| grown(*now, *earlier).is_none()) {
            return None;
        }
        Some((
            grown(self.hits, earlier.hits)?,
            grown(self.misses, earlier.misses)?,
        ))
    }
}

/// The growth of a counter with 32 bits that is now smaller. Nothing: it has rather jumped back.
fn wrapped(now: u64, earlier: u64) -> Option<u64> {
    let left = WRAP.checked_sub(earlier)?;
    Some(now.saturating_add(left)).filter(|grown| *grown <= MOST_REQUESTS)
}

#[cfg(test)]
mod tests;
