// SPDX-License-Identifier: GPL-3.0-or-later
//! Counters of a cache at one moment.

use serde::{Deserialize, Serialize};
use zbus::{Message, Type};

use crate::{Latency, SECTOR_BYTES, Sampled};

/// A named counter: a reason, or an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct Counter {
    /// Word of the kernel's status line, lower case (`sequential`, `evictions`, ...).
    pub name: String,
    /// Sectors for reasons, a number of events otherwise; counted since the cache was assembled.
    pub value: u64,
}

/// Sectors of one direction since the cache was assembled.
///
/// When quiet, `requested == hit + missed + sum(bypassed)`; while requests are in flight the right
/// side may lag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct Direction {
    /// Sectors that were asked for.
    pub requested: u64,
    /// Reads: served by the SSD. Writes: whose cached copy was updated or stored.
    pub hit: u64,
    /// Reads: served by the disk, for want of a copy. Writes: went to the disk only.
    pub missed: u64,
    /// Sectors that went past the cache, by reason (`sequential`, `busy`, `memory`, ...), sorted by name.
    pub bypassed: Vec<Counter>,
}

impl Direction {
    /// Sum of all reasons, in sectors.
    pub fn bypassed_sectors(&self) -> u64 {
        self.bypassed
            .iter()
            .map(|c| c.value)
            .fold(0, u64::saturating_add)
    }
}

/// Bytes that programs have read and written since the cache was assembled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read from the SSD.
    pub read_ssd: u64,
    /// Read from the disk.
    pub read_disk: u64,
    /// Written.
    pub written: u64,
}

/// All counters of a cache at one moment.
///
/// Counters only grow while a cache stays assembled. A `requested` below that of the sample before
/// means that it was assembled anew: start a new series there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct Sample {
    /// When it was taken, microseconds of `CLOCK_BOOTTIME`.
    pub time_us: u64,
    /// Frames that hold a copy.
    pub frames_used: u64,
    /// All frames of the cache.
    pub frames_total: u64,
    /// Sectors of a frame.
    pub frame_sectors: u64,
    /// Sectors whose only current copy is on the SSD. May be above 0 in every mode: what write-back
    /// left is written to the disk little by little.
    pub dirty_sectors: u64,
    /// Seconds that writing all of them to the disk would take, by the measured rate; 0 until it is known.
    pub drain_seconds: u64,
    /// Sectors that were written to the disk after having been only on the SSD.
    pub drained_sectors: u64,
    /// Sectors of writes that were acknowledged when only the SSD had them; a part of `write.hit`.
    pub write_back_sectors: u64,
    /// Blocks of 4096 bytes of the journal on the SSD that are in use.
    pub journal_used: u64,
    /// All blocks of the journal.
    pub journal_total: u64,
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// All other counters of the status line (`fills`, `evictions`, `ssd_errors`, `retired`, ...), sorted by name.
    pub events: Vec<Counter>,
    /// How long requests took that the SSD alone served.
    pub ssd_latency: Latency,
    /// How long requests took that the disk had to serve or to store.
    pub disk_latency: Latency,
}

impl Sample {
    /// The bytes of all requests. The kernel counts freed space as a write that went past the cache, but nothing is
    /// written for it.
    pub fn traffic(&self) -> Traffic {
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
        let (read, write) = (&self.read, &self.write);
        let freed = write.bypassed.iter().filter(|c| c.name == "discard");
        let freed: u64 = freed.map(|c| c.value).sum();
        let past = write.bypassed_sectors().saturating_sub(freed);
        Traffic {
            read_ssd: bytes(read.hit),
            read_disk: bytes(read.missed.saturating_add(read.bypassed_sectors())),
            written: bytes(write.hit.saturating_add(write.missed).saturating_add(past)),
        }
    }

    /// Path of the cache and what it told, if the message is its [`Sampled`] signal.
    #[must_use]
    pub fn told_by(message: &Message) -> Option<(String, Self)> {
        let signal = Sampled::from_message(message.clone())?;
        let sample = signal.args().ok()?.sample;
        Some((message.header().path()?.to_string(), sample))
    }

    /// Value of an event counter, 0 if the kernel does not give it.
    pub fn event(&self, name: &str) -> u64 {
        self.events
            .iter()
            .find(|c| c.name == name)
            .map_or(0, |c| c.value)
    }

    /// Share of read sectors that the SSD served between `earlier` and `self`, 0 to 1; `None` if
    /// nothing was read in between or the counters started anew.
    pub fn read_hit_rate_since(&self, earlier: &Self) -> Option<f64> {
        let requested = self.read.requested.checked_sub(earlier.read.requested)?;
        let hit = self.read.hit.checked_sub(earlier.read.hit)?;
        (requested > 0).then(|| (hit as f64 / requested as f64).min(1.0))
    }
}
