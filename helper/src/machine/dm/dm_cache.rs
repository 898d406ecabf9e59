// SPDX-License-Identifier: GPL-3.0-or-later
//! dm-cache of the kernel: where its two areas are on the SSD of a cache of ours, and what its lines say (the kernel's
//! admin-guide/device-mapper/cache.rst). All functions are pure.

use super::message::Message;
use super::status::StatusLine;
use std::collections::BTreeMap;
use tandem_api::{CacheState, Mode};

/// Sectors of a MiB.
const MIB: u64 = 2048;
/// What is before the areas: the superblock's copies.
const HEAD: u64 = crate::machine::superblock::AREA_BYTES / tandem_api::SECTOR_BYTES;
/// The smallest block: 64 KiB.
const LEAST_BLOCK: u64 = 128;
/// Most blocks. The kernel takes about 50 bytes of memory for each.
const MOST_BLOCKS: u64 = 1 << 21;
/// Bytes of metadata for each block: 12 for its place, 4 for a hint of the policy, and as much again, because a change
/// is written beside what it changes.
const METADATA_BYTES: u64 = 32;
/// The least metadata.
const LEAST_METADATA: u64 = 8 * MIB;

/// The areas of dm-cache on an SSD, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Start and length of the metadata.
    pub metadata: (u64, u64),
    /// Start and length of the copies.
    pub data: (u64, u64),
    /// Length of a block, a power of two.
    pub block: u64,
}

impl Layout {
    /// The areas on an SSD of so many sectors. `None`: the SSD is too small.
    pub fn of(ssd: u64) -> Option<Self> {
        let mut block = LEAST_BLOCK;
        while ssd / block > MOST_BLOCKS {
            block *= 2;
        }
        let needed = (ssd / block * METADATA_BYTES).div_ceil(tandem_api::SECTOR_BYTES);
        let metadata = (LEAST_METADATA + needed).next_multiple_of(MIB);
        let start = (HEAD + metadata).next_multiple_of(block.max(MIB));
        let length = ssd.checked_sub(start)? / block * block;
        (length > 0).then_some(Self {
            metadata: (HEAD, metadata),
            data: (start, length),
            block,
        })
    }

    /// The words of the table's line. `devices`: numbers of the metadata, the copies and the disk.
    ///
    /// Format 1 of the metadata: the repair tools of Debian 12 show no dirty block of format 2.
    pub fn line(&self, [metadata, data, disk]: [&str; 3]) -> String {
        // The kernel moves nothing while a block is larger than an eighth of this; its own value is for 64 KiB.
        let threshold = (8 * self.block).max(2048);
        let block = self.block;
        format!(
            "{metadata} {data} {disk} {block} 1 writethrough smq 2 migration_threshold {threshold}"
        )
    }
}

/// What a status line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLine {
    /// Sectors of a block.
    pub block: u64,
    /// Blocks that hold a copy.
    pub used: u64,
    /// All blocks.
    pub total: u64,
    /// Hits and misses of reads, in requests. The kernel keeps 32 bits.
    pub reads: (u64, u64),
    /// Hits and misses of writes.
    pub writes: (u64, u64),
    /// Blocks that left the cache, and blocks that came into it, since the table was loaded.
    pub moves: (u64, u64),
    /// Blocks that are newer than the disk.
    pub dirty: u64,
    /// The words of the features, with the mode.
    pub features: Vec<String>,
    /// Name of the policy.
    pub policy: String,
    /// The metadata can be written.
    pub works: bool,
}

/// More words than any kernel prints in one list.
const MOST_WORDS: usize = 256;

/// `used/total`
fn fraction(word: &str) -> Option<(u64, u64)> {
    let (used, total) = word.split_once('/')?;
    Some((used.parse().ok()?, total.parse().ok()?))
}

/// The words after a count of words, which are taken off.
fn counted<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Vec<&'a str>> {
    let count: usize = words.next()?.parse().ok()?;
    let taken: Vec<_> = words.take(count.min(MOST_WORDS)).collect();
    (taken.len() == count).then_some(taken)
}

/// Whether a status line says that the target serves nothing any more.
pub fn has_failed(status: &str) -> bool {
    matches!(status.trim(), "Fail" | "Error")
}

impl CacheLine {
    /// Understands a line that does not say [`has_failed`].
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let mut next = || words.next();
        let (_metadata_block, _metadata) = (next()?, fraction(next()?)?);
        let block: u64 = next()?.parse().ok()?;
        let (used, total) = fraction(next()?)?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let reads = (number()?, number()?);
        let writes = (number()?, number()?);
        let moves = (number()?, number()?);
        let dirty = number()?;
        let features = counted(&mut words)?;
        let _core = counted(&mut words)?;
        let policy = words.next()?.to_owned();
        let _policy = counted(&mut words)?;
        let works = words.next()? == "rw" && words.next() != Some("needs_check");
        Some(Self {
            block,
            used,
            total,
            reads,
            writes,
            moves,
            dirty,
            features: features.into_iter().map(str::to_owned).collect(),
            policy,
            works,
        })
    }
}

/// The status of a cache of ours in the form of dm-tandem's. Without a sector count of its own, a request counts as one
/// sector: see [`Traffic`].
pub fn status_line(line: &str) -> Option<StatusLine> {
    if has_failed(line) {
        return Some(StatusLine {
            state: CacheState::Bypass.to_string(),
            reason: "ssd-error".to_owned(),
            mode: Mode::Writethrough,
            frame_sectors: 0,
            used: 0,
            total: 0,
            dirty: 0,
            counters: BTreeMap::new(),
        });
    }
    let line = CacheLine::parse(line)?;
    let (state, reason) = match line.works {
        true => (CacheState::Active, "-"),
        false => (CacheState::Bypass, "ssd-error"),
    };
    let counters = [
        ("read_requested", line.reads.0 + line.reads.1),
        ("read_hit", line.reads.0),
        ("read_missed", line.reads.1),
        ("write_requested", line.writes.0 + line.writes.1),
        ("write_hit", line.writes.0),
        ("write_missed", line.writes.1),
        // In blocks, as dm-tandem counts frames.
        ("evictions", line.moves.0),
        ("fills", line.moves.1),
    ];
    Some(StatusLine {
        state: state.to_string(),
        reason: reason.to_owned(),
        mode: Mode::Writethrough,
        frame_sectors: line.block,
        used: line.used,
        total: line.total,
        // In write-through what the kernel calls dirty is on the disk as well.
        dirty: 0,
        counters: counters
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    })
}

/// What a message means to a cache of dm-cache: in write-through nothing is ever to be flushed.
///
/// # Errors
/// If dm-cache has no such setting.
pub fn takes(message: Message) -> Result<(), &'static str> {
    match message {
        Message::Flush(_) | Message::LossRecorded | Message::Mode(Mode::Writethrough) => Ok(()),
        Message::Mode(_) | Message::DirtyLimit(_) | Message::Promotion(_) => {
            Err("dm-cache has no such setting")
        }
    }
}

/// What went through a mapping of dm-cache. The target counts requests, and the block device counts sectors: the sectors
/// between two looks are divided as the requests between them.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    read: Direction,
    write: Direction,
}

/// One direction of [`Traffic`].
#[derive(Debug, Clone, Default)]
struct Direction {
    seen: Option<[u64; 3]>,
    hit: u64,
    missed: u64,
}

impl Direction {
    /// Hits and misses in sectors, from the counters at this moment: hits and misses in requests, and sectors.
    fn count(&mut self, now: [u64; 3]) -> (u64, u64) {
        let before = self.seen.replace(now).unwrap_or(now);
        let differences = now
            .iter()
            .zip(before)
            .map(|(now, before)| now.checked_sub(before));
        let differences: Option<Vec<_>> = differences.collect();
        // Another table counts its requests anew, and the sectors go on: what went past it is not the cache's.
        let Some(&[hits, misses, sectors]) = differences.as_deref() else {
            return (self.hit, self.missed);
        };
        let share = u128::from(sectors) * u128::from(hits);
        let hit = share.checked_div(u128::from(hits + misses));
        // Without an answered request, the sectors are of requests under way.
        let hit = u64::try_from(hit.unwrap_or(0)).unwrap_or(sectors);
        self.hit += hit;
        self.missed += sectors - hit;
        (self.hit, self.missed)
    }
}

impl Traffic {
    /// Replaces the requests in a line by sectors. `sectors`: what was read and written through the mapping since it was
    /// made.
    pub fn in_sectors(&mut self, line: &mut StatusLine, sectors: [u64; 2]) {
        let directions = [("read", &mut self.read), ("write", &mut self.write)];
        for ((name, direction), sectors) in directions.into_iter().zip(sectors) {
            let key = |what: &str| format!("{name}_{what}");
            let of = |what: &str| line.counters.get(&key(what)).copied().unwrap_or(0);
            let (hit, missed) = direction.count([of("hit"), of("missed"), sectors]);
            let counts = [
                ("requested", hit + missed),
                ("hit", hit),
                ("missed", missed),
            ];
            line.counters
                .extend(counts.map(|(what, value)| (key(what), value)));
        }
    }
}

#[cfg(test)]
mod tests;
