// SPDX-License-Identifier: GPL-3.0-or-later
//! Slots that cannot be read. One unreadable block costs one slot, and the disk serves the request (promise 17).

use std::collections::HashMap;

use super::check::Word;
use super::{Fault, Hit, Sub, Task, World, ensure};
use crate::engine::{RETIRED_LIFE, RETIRED_ROOM, ReqKind, State};
use crate::oracle::Time;

/// The retired slots.
#[derive(Default)]
pub(super) struct Retired {
    /// The slots that the superblocks name.
    pub recorded: Vec<u32>,
    /// When each slot was retired in this life; 0 for a slot that the superblocks named at the start.
    since: HashMap<u32, Time>,
    /// How many slots were retired in this life.
    count: usize,
}

impl Retired {
    /// A life begins.
    pub(super) fn begin(&mut self) {
        self.since = self.recorded.iter().map(|&slot| (slot, 0)).collect();
        self.count = 0;
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.since.contains_key(&(slot as u32))
    }
}

impl World {
    /// The sectors of `hit` could not be read from the SSD. Returns true if the disk is to be read instead.
    pub(super) fn hit_failed(
        &mut self,
        (first, count): (u64, u64),
        hit: Hit,
    ) -> Result<bool, Fault> {
        let now = self.tick();
        let was = self.engine.state();
        let dirty = self.is_dirty(first, count);
        let (elsewhere, woken) = self.engine.hit_failed(first, count, hit.slot, hit.dirty);
        self.wake(woken);
        self.check_state(was)?;
        let state = self.engine.state();
        if was != State::Active {
            return Ok(elsewhere);
        }
        ensure!(
            state != State::Stranded,
            "sector {first}: a failed read forbids all writes"
        );
        if hit.slots == 1 && !dirty {
            self.slot_retired(hit.slot, now)?;
        }
        ensure!(
            state == State::Active || self.retired.count > RETIRED_LIFE,
            "sector {first}: after {} unreadable slots the SSD is not used any more",
            self.retired.count
        );
        self.seen.ssd_lost += u64::from(state != State::Active);
        if self.engine.retired() != self.retired.recorded {
            self.later(Task::RecordRetired);
        }
        Ok(elsewhere)
    }

    /// Checks that nothing clean is left in `slot`, and that the list of retired slots has it.
    fn slot_retired(&mut self, slot: u32, now: Time) -> Result<(), Fault> {
        let word = Word::of(self.engine.words()[slot as usize]);
        ensure!(
            word.valid == word.dirty,
            "a clean copy that cannot be read stays in slot {slot}"
        );
        let listed = self.engine.retired();
        if listed.len() == RETIRED_ROOM && !listed.contains(&slot) {
            // The list has no room: core only forgets the clean copy.
            self.retired.count += 1;
            return Ok(());
        }
        ensure!(
            listed.contains(&slot),
            "slot {slot} cannot be read and is not retired"
        );
        if self.retired.since.insert(slot, now).is_none() {
            self.retired.count += 1;
        }
        Ok(())
    }

    /// A start believes nothing clean in a slot that the superblocks name.
    pub(super) fn check_retired_at_start(&self, words: &[u64]) -> Result<(), Fault> {
        for &slot in &self.retired.recorded {
            let word = Word::of(words[slot as usize]);
            ensure!(
                word.valid == word.dirty,
                "after the start something clean is in slot {slot}, which is retired"
            );
        }
        Ok(())
    }

    /// A request that began after a slot was retired stores nothing there. Exceptions: a write over dirty data, and a
    /// write that may heal the slot.
    pub(super) fn check_retired(
        &self,
        sub: &Sub,
        to: u64,
        sector: u64,
        count: u64,
    ) -> Result<(), Fault> {
        if self.retired.since.is_empty() {
            return Ok(());
        }
        let healing = self.ops.get(&sub.op).is_some_and(|op| op.excused);
        let words = self.engine.words();
        for at in sector / 8..(sector + count).div_ceil(8) {
            let slot =
                (to - self.engine.layout().data_start + (at * 8).saturating_sub(sector)) / 32;
            let later = |since: &Time| *since < sub.begun;
            if !self.retired.since.get(&(slot as u32)).is_some_and(later) {
                continue;
            }
            let dirty = Word::of(words[slot as usize]).dirty >> (at % 4) & 1 != 0;
            ensure!(
                sub.kind == ReqKind::Write && (dirty || healing),
                "sector {} is stored in slot {slot}, which is retired",
                at * 8
            );
        }
        Ok(())
    }
}
