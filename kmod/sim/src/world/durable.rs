// SPDX-License-Identifier: GPL-3.0-or-later
//! The SSD's metadata as it is durable, read from the bytes that core writes, which FORMAT.md describes; and the writes
//! that this metadata allows now (promises 7, 8, 9, 11, 12). The checks run whenever a request goes to a disk.

use std::collections::HashMap;

use super::check::Word;
use super::io::{Role, role};
use super::{Fault, Sub, World, ensure};
use crate::engine::{ReqKind, State, WorkKind};
use crate::oracle::Time;
use crate::queue::{Io, Side};

/// log2 of the sectors in a region of the disk that has an intent mark, for the disks that are simulated here.
pub(super) const REGION_SHIFT: u32 = 11;

const ENTRIES: usize = 336;
const PAGE_SLOTS: usize = 511;
const SECTOR_MARKS: usize = 4032;
/// Sectors of the longest group.
const GROUP_SECTORS: u64 = 64;

/// A group of the journal: its number, and its records by slot.
#[derive(Default)]
struct Group {
    number: u64,
    records: HashMap<u32, u64>,
}

/// The records and marks that a start would find after a cut, and those that are being written.
#[derive(Default)]
pub(super) struct Durable {
    /// The records of the checkpoint, or those that the start found. `None`: the record is not known until the slot is
    /// recorded again.
    base: Vec<Option<u64>>,
    groups: Vec<Group>,
    /// The records in the pages of both areas. What the start found stays in a page until a record of it changes.
    areas: [Vec<Option<u64>>; 2],
    writing: Option<Group>,
    /// The records before a checkpoint that came into force while a group was being made. That group may have older
    /// records than the checkpoint, which newer groups take back.
    earlier: Option<Vec<Option<u64>>>,
    marks: Vec<bool>,
    marks_written: Option<Vec<bool>>,
    /// For each region, when the last write that needed the region's mark was completed.
    region_written: Vec<Time>,
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

fn read_group(bytes: &[u8]) -> Group {
    let mut records = HashMap::new();
    for block in bytes.chunks(4096) {
        for entry in 0..number(&block[36..40]) as usize {
            let slot = number(&block[64 + 8 * ENTRIES + 4 * entry..][..4]);
            records.insert(slot as u32, number(&block[64 + 8 * entry..][..8]));
        }
    }
    let number = number(&bytes[16..24]);
    Group { number, records }
}

fn read_marks(bytes: &[u8], regions: usize) -> Vec<bool> {
    let bit = |region: usize| {
        let sector = &bytes[region / SECTOR_MARKS * 512..][..512];
        sector[8 + region % SECTOR_MARKS / 8] >> (region % 8) & 1 != 0
    };
    (0..regions).map(bit).collect()
}

impl Durable {
    /// The state after a start. `words` are the words that were loaded. The records of slots that core wants to record
    /// again are not known.
    pub(super) fn of(words: &[u64], marks: &[u8], regions: usize, now: Time) -> Durable {
        let known = |&word: &u64| (!Word::of(word).pending).then(|| Word::of(word).record());
        let base: Vec<_> = words.iter().map(known).collect();
        Durable {
            areas: [base.clone(), base.clone()],
            base,
            marks: read_marks(marks, regions),
            region_written: vec![now; regions],
            ..Durable::default()
        }
    }

    /// The durable record of a slot; 0: the slot holds nothing.
    fn record(&self, slot: u32) -> Option<u64> {
        let newest = self.groups.iter().rev();
        let newest = newest.filter_map(|group| group.records.get(&slot)).next();
        newest.copied().or_else(|| self.base[slot as usize])
    }

    /// Was the slot recorded since the start, or was its record of before good?
    pub(super) fn is_known(&self, slot: u32) -> bool {
        self.record(slot).is_some()
    }

    /// Both the slot's durable record and the record that is being written.
    pub(super) fn records(&self, slot: u32) -> impl Iterator<Item = Word> {
        let writing = self
            .writing
            .as_ref()
            .and_then(|group| group.records.get(&slot));
        let both = [self.record(slot), writing.copied()];
        both.into_iter().flatten().map(Word::of)
    }

    fn is_marked(&self, region: usize) -> bool {
        let stays = |marks: &Vec<bool>| marks[region];
        self.marks[region] && self.marks_written.as_ref().is_none_or(stays)
    }

    /// A write that needed the mark of its region was completed.
    pub(super) fn disk_written(&mut self, first: u64, now: Time) {
        self.region_written[(first >> REGION_SHIFT) as usize] = now;
    }

    fn written(&mut self, kind: WorkKind) {
        match kind {
            WorkKind::Group => self.groups.extend(self.writing.take()),
            WorkKind::Marks => {
                if let Some(marks) = self.marks_written.take() {
                    self.marks = marks;
                }
            }
            _ => {}
        }
    }

    /// `sweeps`: a group is being made, or written.
    fn checkpoint(&mut self, head: &[u8], sweeps: bool) {
        let first = number(&head[24..32]);
        if sweeps && self.writing.is_none() && self.earlier.is_none() {
            let slots = 0..self.base.len() as u32;
            self.earlier = Some(slots.map(|slot| self.record(slot)).collect());
        }
        self.groups.retain(|group| group.number >= first);
        self.base = self.areas[number(&head[16..24]) as usize % 2].clone();
    }
}

impl World {
    fn work_content(&self, kind: WorkKind, count: u64) -> Vec<u8> {
        let mut sectors = vec![[0; 512]; count as usize];
        self.engine.work_bytes(kind, 0, &mut sectors);
        sectors.into_flattened()
    }

    /// The ledger begins to write `count` sectors, from `first` on.
    pub(super) fn metadata_begins(
        &mut self,
        kind: WorkKind,
        first: u64,
        count: u64,
    ) -> Result<(), Fault> {
        match kind {
            WorkKind::Group => {
                let group = read_group(&self.work_content(kind, count));
                self.check_group_place(first, group.number)?;
                self.check_promise_9(&group)?;
                self.durable.earlier = None;
                self.durable.writing = Some(group);
            }
            WorkKind::Marks => {
                let regions = self.durable.marks.len();
                let marks = read_marks(&self.work_content(kind, count), regions);
                self.check_promise_12(&marks)?;
                self.durable.marks_written = Some(marks);
            }
            WorkKind::Pages => {
                let bytes = self.work_content(kind, count);
                // Each area is a head and the pages, of 8 sectors each.
                let slots = self.durable.base.len();
                let area = 1 + slots.div_ceil(PAGE_SLOTS) as u64;
                let block = (first - self.engine.geometry().checkpoint.start) / 8;
                let start = (block % area - 1) as usize * PAGE_SLOTS;
                let records = bytes
                    .chunks(4096)
                    .flat_map(|page| page[8..].chunks_exact(8));
                let known = &mut self.durable.areas[(block / area) as usize][start..];
                for (known, record) in known.iter_mut().zip(records) {
                    *known = Some(number(record));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The ledger's write is durable; core does not know that yet.
    pub(super) fn metadata_written(&mut self, kind: WorkKind) {
        if kind == WorkKind::Head {
            let head = self.work_content(kind, 8);
            // Zeroes wipe the head of the checkpoint before.
            if head.starts_with(b"TDECPT01") {
                let sweeps = self.engine.facts().sweep_on;
                self.durable.checkpoint(&head, sweeps);
            }
        }
        self.durable.written(kind);
    }

    /// No part of a torn group with the same number may be left where a group is written. Parts of both groups could
    /// form a group that had been given up.
    fn check_group_place(&self, first: u64, number: u64) -> Result<(), Fault> {
        let journal = self.engine.geometry().journal;
        let end = (first + GROUP_SECTORS).min(journal.start + journal.length);
        for sector in (first..end).step_by(8).filter(|_| number > 0) {
            let bytes = self.bytes.get(self.ssd.content()[sector as usize]);
            ensure!(
                bytes[..8] != *b"TDJRNL01" || self::number(&bytes[16..24]) < number,
                "group {number} is written where a part of its like is left, in SSD sector {sector}"
            );
        }
        Ok(())
    }

    /// Promise 9: quarters that are recorded as clean, or as dropped by a discard, must be durable on the disk.
    fn check_promise_9(&self, group: &Group) -> Result<(), Fault> {
        for (&slot, &record) in &group.records {
            let new = Word::of(record);
            let old = match &self.durable.earlier {
                Some(earlier) => earlier[slot as usize],
                None => self.durable.record(slot),
            };
            let Some(old) = old.map(Word::of) else {
                continue;
            };
            let cleaned = old.dirty & !new.dirty;
            for quarter in (0..4).filter(|quarter| cleaned >> quarter & 1 != 0) {
                let first = old.tag * 32 + quarter * 8;
                ensure!(
                    (new.valid == 0 || old.tag == new.tag) && self.disk.is_durable_at(first, 8),
                    "sector {first}: recorded clean, but on the disk it is not durable"
                );
            }
        }
        Ok(())
    }

    /// Promise 12: a mark is cleared only after a flush of the disk.
    fn check_promise_12(&self, marks: &[bool]) -> Result<(), Fault> {
        let cleared = |&region: &usize| self.durable.marks[region] && !marks[region];
        for region in (0..marks.len()).filter(cleared) {
            let first = (region as u64) << REGION_SHIFT;
            let under_way = self.queue.iter().any(|io| {
                io.side == Side::Origin
                    && io.kind.changes()
                    && io.first >> REGION_SHIFT == region as u64
                    && !self.is_cleaning(io.token >> 3)
            });
            ensure!(
                !under_way,
                "the mark of sector {first} is cleared while a write is under way there"
            );
            ensure!(
                self.guard.disk_flushed > self.durable.region_written[region],
                "the mark of sector {first} is cleared, but the disk was not flushed since"
            );
        }
        Ok(())
    }

    /// Promise 11: a write to the disk of these sectors is about to begin.
    pub(super) fn check_disk_write(&self, id: u64, first: u64, count: u64) -> Result<(), Fault> {
        if self.engine.state() != State::Active || count == 0 {
            return Ok(());
        }
        let region = (first >> REGION_SHIFT) as usize;
        if self.durable.is_marked(region) {
            return Ok(());
        }
        ensure!(
            self.is_cleaning(id),
            "sector {first} of the disk is written without a mark of its region"
        );
        for at in first / 8..(first + count).div_ceil(8) {
            let dirty = |word: Word| word.tag == at / 4 && word.dirty >> (at % 4) & 1 != 0;
            let slots = 0..self.durable.base.len() as u32;
            let recorded = slots
                .filter(|&slot| self.durable.record(slot).map(Word::of).is_some_and(dirty))
                .any(|slot| self.durable.records(slot).all(dirty));
            ensure!(
                recorded,
                "sector {} of the disk is cleaned, but it is not recorded dirty",
                at * 8
            );
        }
        Ok(())
    }

    /// Promises 7 and 8: sectors of the disk are about to be stored on the SSD, from its sector `to` on.
    pub(super) fn check_store(
        &self,
        sub: &Sub,
        to: u64,
        sector: u64,
        count: u64,
    ) -> Result<(), Fault> {
        // In bypass these writes do no harm: the SSD is not believed when it comes back.
        if self.engine.state() == State::Bypass {
            return Ok(());
        }
        self.check_no_trim(to, count)?;
        self.check_readers(sub, to, count)?;
        self.check_retired(sub, to, sector, count)?;
        for at in sector / 8..(sector + count).div_ceil(8) {
            let slot =
                (to - self.engine.layout().data_start + (at * 8).saturating_sub(sector)) / 32;
            for word in self.durable.records(slot as u32) {
                ensure!(
                    word.valid == 0 || word.tag == at / 4,
                    "sector {} is stored in slot {slot}, which is recorded with frame {}",
                    at * 8,
                    word.tag
                );
                let clean = (word.valid & !word.dirty) >> (at % 4) & 1 != 0;
                let marked = self.durable.is_marked(((at * 8) >> REGION_SHIFT) as usize);
                ensure!(
                    !clean || marked || sub.kind != ReqKind::Write,
                    "sector {} is written over a clean copy without a mark of its region",
                    at * 8
                );
            }
        }
        Ok(())
    }

    /// A write may store data in quarters that are not valid only when no earlier read of these quarters is under way.
    /// Such a read would see the new data, while a later read would see the old data on the disk.
    fn check_readers(&self, sub: &Sub, to: u64, count: u64) -> Result<(), Fault> {
        if sub.kind != ReqKind::Write {
            return Ok(());
        }
        let read = |io: &&Io| {
            io.side == Side::Ssd
                && role(io) == Role::Hit
                && io.first < to + count
                && to < io.first + io.count
        };
        for io in self.queue.iter().filter(read) {
            let words = self.engine.words();
            let start = self.engine.layout().data_start;
            let (first, end) = (io.first.max(to), (io.first + io.count).min(to + count));
            for at in (first - start) / 8..(end - start).div_ceil(8) {
                let word = Word::of(words[at as usize / 4]);
                ensure!(
                    word.valid >> (at % 4) & 1 != 0,
                    "sector {} is stored in SSD sector {} under a read that began earlier",
                    word.tag * 32 + at % 4 * 8,
                    start + at * 8
                );
            }
        }
        Ok(())
    }
}
