// SPDX-License-Identifier: GPL-3.0-or-later
//! Counters of a cache at one moment.

use serde::{Deserialize, Serialize};

use crate::{Latency, SECTOR_BYTES};

/// Bytes of a block of the journal.
const JOURNAL_BLOCK: u64 = 4096;

/// A counter with a name: a reason why requests go past the cache, or an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Counter {
    /// Lower-case word of the status line of the kernel (`sequential`, `evictions`, ...).
    pub name: String,
    /// Sectors for a reason, number for an event; counted since the cache was assembled.
    pub value: u64,
}

/// Sectors of one direction since the cache was assembled.
///
/// Without requests in flight, `requested == hit + missed + sum(bypassed)`. While requests are in flight, the right
/// side may be smaller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Direction {
    /// Sectors of all requests.
    pub requested: u64,
    /// Sectors of reads that the SSD served, or of writes that updated or stored a copy on the SSD.
    pub hit: u64,
    /// Sectors of reads that the disk served because the SSD had no copy, or of writes that went to the disk only.
    pub missed: u64,
    /// Sectors of requests that went past the cache, by reason (`sequential`, `busy`, `memory`, ...), sorted by name.
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
    /// Bytes that were read from the SSD.
    pub read_ssd: u64,
    /// Bytes that were read from the disk.
    pub read_disk: u64,
    /// Bytes that were written.
    pub written: u64,
}

/// All counters of a cache at one moment.
///
/// The counters grow while a cache stays assembled. If `requested` is smaller than in the sample before, the cache was
/// assembled anew, and a new series begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bus", derive(zbus::Type))]
pub struct Sample {
    /// Time of the sample, in microseconds of `CLOCK_BOOTTIME`.
    pub time_us: u64,
    /// Frames that hold a copy.
    pub frames_used: u64,
    /// All frames of the cache.
    pub frames_total: u64,
    /// Sectors of a frame.
    pub frame_sectors: u64,
    /// Dirty sectors: their only current copy is on the SSD. The number may be above 0 in every mode: after a change
    /// from write-back to another mode, the dirty data is written to the disk little by little.
    pub dirty_sectors: u64,
    /// Seconds that a drain of all dirty sectors would take at the measured rate; 0 if unknown.
    pub drain_seconds: u64,
    /// Sectors that were dirty and were written to the disk.
    pub drained_sectors: u64,
    /// Sectors of writes that were acknowledged when only the SSD had the data; a part of `write.hit`.
    pub write_back_sectors: u64,
    /// Blocks of the journal on the SSD that are in use; a block has 4096 bytes.
    pub journal_used: u64,
    /// All blocks of the journal.
    pub journal_total: u64,
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// All other counters of the status line (`fills`, `evictions`, `ssd_errors`, `retired`, ...), sorted by name.
    pub events: Vec<Counter>,
    /// Times of the requests that the SSD served alone.
    pub ssd_latency: Latency,
    /// Times of the requests for which the disk had to read or write.
    pub disk_latency: Latency,
}

impl Sample {
    /// The bytes of all requests. The kernel counts a discard of space as a write that went past the cache; here a
    /// discard does not count.
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

    /// Whether the cache is paused: it stores nothing new. `None`: the module is of a version that has no pause.
    pub fn paused(&self) -> Option<bool> {
        let promotion = self.events.iter().find(|event| event.name == "promotion");
        promotion.map(|event| event.value == 0)
    }

    /// Bytes that the cache has written to its SSD: what was stored after reads, what was written, and the journal. The
    /// index and the marks beside them are not counted, so the cache has written somewhat more.
    pub fn written_to_ssd(&self) -> u64 {
        let data = self.read.missed.saturating_add(self.write.hit);
        // A write of the journal is a block or more.
        let journal = self.event("groups").saturating_mul(JOURNAL_BLOCK);
        data.saturating_mul(SECTOR_BYTES).saturating_add(journal)
    }

    /// Value of an event counter; 0 if the kernel has no such counter.
    pub fn event(&self, name: &str) -> u64 {
        self.events
            .iter()
            .find(|c| c.name == name)
            .map_or(0, |c| c.value)
    }

    /// Share of the read sectors that the SSD served between `earlier` and `self`, 0 to 1. `None`: no sector was read
    /// in between, or the counters began anew.
    pub fn read_hit_rate_since(&self, earlier: &Self) -> Option<f64> {
        let requested = self.read.requested.checked_sub(earlier.read.requested)?;
        let hit = self.read.hit.checked_sub(earlier.read.hit)?;
        (requested > 0).then(|| (hit as f64 / requested as f64).min(1.0))
    }
}
