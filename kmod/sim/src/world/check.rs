// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of the index at any moment and after a restart, and of the moments when the disk may be flushed.

use std::collections::HashMap;

use super::durable::REGION_SHIFT;
use super::{Fault, World, ensure};
pub use crate::engine::Word;
use crate::engine::{Layout, State};
use crate::oracle::Time;
use crate::queue::Side;
use crate::stamp::{OpId, Stamp};

/// log2 of the most regions that are marked ahead of a row of discards.
const TRIMS: u32 = 9;
/// States of a slot.
pub(super) const LIVE: u64 = 1;

fn record(bits: u64) -> u64 {
    Word::of(bits).record()
}

/// The index at the last moment from which a start must be warm, and what was written since.
struct Warm {
    words: Vec<u64>,
    slots_written: Vec<bool>,
    regions_written: Vec<bool>,
}

/// What the checks remember of earlier events.
#[derive(Default)]
pub(super) struct Guard {
    /// A flush; since the flush began, nothing else has been under way.
    pub only_flush: Option<OpId>,
    /// Parts of writes that made clean data dirty when they began. A part stays here until its data is on the SSD or,
    /// if the SSD failed, on the disk.
    pub fresh: HashMap<u64, Fresh>,
    warm: Option<Warm>,
    /// Writes that have begun, or started again, since the last flush or tick.
    pub lone: u32,
    /// The last discard.
    trim: Trim,
    /// When the last write to the disk was completed, and when the last good flush of the disk began; 0: not known in
    /// this life.
    pub disk_written: Time,
    pub disk_flushed: Time,
}

/// A discard of a row.
#[derive(Default)]
struct Trim {
    /// Its region.
    region: u64,
    /// Its end, and that of the regions that may have been marked ahead of it, in sectors.
    end: u64,
    ahead: u64,
    /// Discards before it in its row.
    before: u32,
}

/// The quarters that a part of a write made dirty when the part began.
pub(super) struct Fresh {
    /// How many quarters.
    pub count: u64,
    /// First sectors of the part's dirty quarters. Reads may see the new data of these quarters before the part is
    /// answered.
    pub shown: Vec<u64>,
}

impl Guard {
    pub(super) fn written(&mut self, side: Side, now: Time) {
        if side == Side::Origin {
            self.disk_written = now;
        }
    }

    pub(super) fn flushed(&mut self, side: Side, start: Time, failed: bool) {
        if side == Side::Origin && !failed {
            self.disk_flushed = start;
        }
    }

    /// A write to the disk begins; the write covers these sectors.
    pub(super) fn region_written(&mut self, first: u64, count: u64) {
        if let Some(warm) = &mut self.warm
            && count > 0
        {
            let regions =
                (first >> REGION_SHIFT) as usize..=((first + count - 1) >> REGION_SHIFT) as usize;
            warm.regions_written[regions].fill(true);
        }
    }

    /// A discard begins, on a disk of so many sectors. Each next one of a row may have twice as many regions marked ahead.
    pub(super) fn discarded(&mut self, first: u64, count: u64, sectors: u64) {
        let region = 1 << REGION_SHIFT;
        let goes_on = (self.trim.end..=self.trim.ahead + region).contains(&first);
        let number = first >> REGION_SHIFT;
        let before = match goes_on {
            true => self.trim.before + u32::from(number != self.trim.region),
            false => 0,
        };
        let end = first + count;
        let ahead = end + region * ((1 << before.min(TRIMS)) - 1);
        self.trim = Trim {
            region: number,
            end,
            ahead,
            before,
        };
        self.region_written(first, ahead.min(sectors) - first);
    }

    /// A write to the SSD begins. Sectors are counted from the start of the first slot.
    pub(super) fn slots_written(&mut self, first: u64, count: u64) {
        if let Some(warm) = &mut self.warm {
            let slots = first as usize / 32..=(first + count - 1) as usize / 32;
            warm.slots_written[slots].fill(true);
        }
    }
}

impl World {
    /// The SSD is found to have failed by something outside of this world.
    ///
    /// # Errors
    /// Core did something that it must not do.
    pub fn ssd_fails(&mut self) -> Result<(), Fault> {
        self.ssd_lost()?;
        self.pump();
        Ok(())
    }

    /// The SSD is lost. Writes are forbidden from now on if and only if the SSD has data that the disk lacks.
    pub(super) fn ssd_lost(&mut self) -> Result<(), Fault> {
        self.seen.ssd_lost += 1;
        let was = self.engine.state();
        let woken = self.engine.fail();
        self.wake(woken);
        self.check_state(was)
    }

    /// Checks that these sectors may be read from the disk: no write of them may be on its way to the disk whose data a
    /// reader may have seen on the SSD before the SSD was lost.
    pub(super) fn check_undone(&self, first: u64, count: u64) -> Result<(), Fault> {
        ensure!(
            self.engine.state() != State::Bypass
                || !self
                    .guard
                    .fresh
                    .values()
                    .flat_map(|fresh| &fresh.shown)
                    .any(|at| *at < first + count && first < at + 8),
            "sector {first}: the disk is read beside a write that failed on the SSD"
        );
        Ok(())
    }

    /// Whether the disk lacks the data of any of these sectors.
    pub(super) fn is_dirty(&self, first: u64, count: u64) -> bool {
        self.engine.facts().dirty > 0 && !self.dirty_quarters(first, count).is_empty()
    }

    /// Whether the quarter with this sector is on the SSD.
    pub(super) fn is_valid(&self, sector: u64) -> bool {
        let mut words = self.engine.words().into_iter().map(Word::of);
        words.any(|word| word.tag == sector / 32 && word.valid >> (sector % 32 / 8) & 1 != 0)
    }

    /// First sectors of those quarters, among these sectors, whose data only the SSD has.
    pub(super) fn dirty_quarters(&self, first: u64, count: u64) -> Vec<u64> {
        let quarters = |word: Word| {
            (0..4)
                .filter(move |quarter| word.dirty >> quarter & 1 != 0)
                .map(move |quarter| word.tag * 32 + quarter * 8)
        };
        let words = self.engine.words().into_iter().map(Word::of);
        words
            .flat_map(quarters)
            .filter(|at| *at < first + count && first < at + 8)
            .collect()
    }

    /// Checks the new state if core has found that the SSD is lost. `was` is the state before.
    pub(super) fn check_state(&self, was: State) -> Result<(), Fault> {
        let state = self.engine.state();
        if was != State::Active || state == State::Active {
            return Ok(());
        }
        let dirty = self.engine.facts().dirty;
        let fresh: u64 = self.guard.fresh.values().map(|fresh| fresh.count).sum();
        ensure!(
            (state == State::Stranded) == (dirty > fresh),
            "{state:?}: of {dirty} dirty quarters {fresh} are of writes under way"
        );
        Ok(())
    }

    /// Promise 5: the disk may be flushed only if a write to it was completed since the last good flush began.
    pub(super) fn check_promise_5(&self) -> Result<(), Fault> {
        let Guard {
            disk_written,
            disk_flushed,
            ..
        } = self.guard;
        ensure!(
            disk_flushed == 0
                || disk_written > disk_flushed
                || self.engine.state() != State::Active,
            "the disk is flushed again, though nothing was written to it since"
        );
        Ok(())
    }

    /// The flush `op` was answered. If nothing else was under way during the flush, a start from now on must be warm.
    pub(super) fn remember_warm(&mut self, op: OpId) {
        if self.guard.only_flush.take() != Some(op) || self.engine.state() != State::Active {
            return;
        }
        let layout = self.engine.layout();
        self.guard.warm = Some(Warm {
            words: self.engine.words(),
            slots_written: vec![false; layout.slots as usize],
            regions_written: vec![false; (layout.origin_sectors >> REGION_SHIFT) as usize + 1],
        });
    }

    pub(super) fn forget_warm(&mut self) {
        self.guard = Guard::default();
    }

    /// Promise 13 after a cut. `before` holds the words of the moment before the cut.
    pub(super) fn check_kept(&self, before: &[u64]) -> Result<(), Fault> {
        let Some(warm) = &self.guard.warm else {
            return Ok(());
        };
        for (slot, &now) in self.engine.words().iter().enumerate() {
            let was = record(warm.words[slot]);
            let region = (Word::of(was).tag << 5 >> REGION_SHIFT) as usize;
            let same = was != 0
                && record(before[slot]) == was
                && !warm.slots_written[slot]
                && !warm.regions_written[region];
            // Of a retired slot only what is dirty counts.
            if self.retired.has(slot) {
                continue;
            }
            // A record that calls the slot clean may have become durable just before the cut.
            let cleaned = Word::of(was).dirty & !Word::of(now).dirty;
            ensure!(
                !same || record(now) | cleaned << 40 == was,
                "slot {slot} was durable as {was:#x}, and is {now:#x} after the cut (frame {}, sector {})",
                Word::of(was).tag,
                Word::of(was).tag * 32
            );
        }
        Ok(())
    }

    /// Promise 13 after a stop.
    pub(super) fn check_warm(&self, before: &[u64]) -> Result<(), Fault> {
        for (slot, (&was, &now)) in before.iter().zip(&self.engine.words()).enumerate() {
            if self.retired.has(slot) {
                continue;
            }
            ensure!(
                record(was) == record(now),
                "slot {slot} was {was:#x} before the stop, and is {now:#x} after it (frame {}, sector {})",
                Word::of(was).tag,
                Word::of(was).tag * 32
            );
        }
        Ok(())
    }

    /// What must hold at any moment between two calls of core.
    pub(super) fn check_words(&self, words: &[u64], quiet: bool) -> Result<(), Fault> {
        let layout = *self.engine.layout();
        let facts = self.engine.facts();
        let (mut used, mut dirty) = (0, 0);
        let mut regions = vec![0; facts.regions as usize];
        let mut tags = HashMap::new();
        for (slot, &bits) in (0..).zip(words) {
            let word = Word::of(bits);
            dirty += word.dirty_quarters();
            if word.state == 0 {
                ensure!(
                    word.valid | word.dirty | word.pins == 0,
                    "slot {slot} is free, but {bits:#x}"
                );
                continue;
            }
            used += u64::from(word.valid != 0);
            regions[(word.tag / u64::from(facts.region_frames)) as usize] += 1;
            ensure!(
                word.dirty & !word.valid == 0,
                "slot {slot} has dirty quarters that are not valid: {bits:#x}"
            );
            ensure!(
                !quiet || word.state == LIVE && !word.held && word.pins == 0,
                "slot {slot} is not at rest: {bits:#x}"
            );
            if let Some(other) = tags.insert(word.tag, slot) {
                return Err(Fault::Other(format!(
                    "frame {} is in slots {other} and {slot}",
                    word.tag
                )));
            }
            self.check_place(&layout, slot, word.tag)?;
        }
        let counted = self.engine.used();
        ensure!(
            used == counted,
            "{used} slots are in use, core counts {counted}"
        );
        let counted = facts.dirty;
        ensure!(
            dirty == counted,
            "{dirty} quarters are dirty, core counts {counted}"
        );
        let counted = self.engine.region_slots();
        ensure!(
            regions == counted,
            "the regions have {regions:?} slots, core counts {counted:?}"
        );
        Ok(())
    }

    fn check_place(&self, layout: &Layout, slot: u32, frame: u64) -> Result<(), Fault> {
        let group = slot >> (layout.way_shift + layout.run_shift);
        ensure!(
            self.engine.group_of(frame * 32) == group,
            "frame {frame} lies in slot {slot} of another group"
        );
        let position = (1 << layout.run_shift) - 1;
        ensure!(
            u64::from(slot) & position == frame & position,
            "frame {frame} lies at another position, in slot {slot}"
        );
        Ok(())
    }

    /// Each quarter that is valid and not dirty must equal the disk.
    pub(super) fn check_copies(&self, words: &[u64]) -> Result<(), Fault> {
        let layout = *self.engine.layout();
        for (slot, &bits) in (0..).zip(words) {
            let word = Word::of(bits);
            for quarter in (0..4).filter(|quarter| (word.valid & !word.dirty) >> quarter & 1 != 0) {
                let first = word.tag * 32 + quarter * 8;
                ensure!(
                    first < layout.origin_sectors,
                    "slot {slot} holds sector {first}, beyond the disk"
                );
                let count = (layout.origin_sectors - first).min(8);
                let on_ssd = layout.data_start + slot * 32 + quarter * 8;
                let copy = &self.ssd.content()[on_ssd as usize..][..count as usize];
                let disk = &self.disk.content()[first as usize..][..count as usize];
                for (sector, (copy, disk)) in (first..).zip(copy.iter().zip(disk)) {
                    ensure!(
                        copy == disk,
                        "sector {sector}: the disk holds {disk}, its clean copy in slot {slot} {copy}"
                    );
                }
            }
        }
        Ok(())
    }

    /// The value that a read of each sector that was ever written would return, by the index.
    pub(super) fn effective(&self, words: &[u64]) -> Vec<(u64, Stamp)> {
        let layout = self.engine.layout();
        let frames = layout.origin_sectors.div_ceil(32) as usize;
        let mut slot_of = vec![u32::MAX; frames];
        for (slot, &bits) in (0..).zip(words) {
            let word = Word::of(bits);
            if word.valid != 0 && (word.tag as usize) < frames {
                slot_of[word.tag as usize] = slot;
            }
        }
        let touched = self
            .oracle
            .touched()
            .iter()
            .map(|&sector| u64::from(sector));
        let value = |sector: u64| {
            let slot = slot_of[sector as usize / 32];
            if slot != u32::MAX && Word::of(words[slot as usize]).valid >> (sector / 8 % 4) & 1 != 0
            {
                let at = layout.data_start + u64::from(slot) * 32 + sector % 32;
                return self.ssd.content()[at as usize];
            }
            self.disk.content()[sector as usize]
        };
        touched.map(|sector| (sector, value(sector))).collect()
    }
}
