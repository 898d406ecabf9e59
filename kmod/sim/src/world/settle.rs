// SPDX-License-Identifier: GPL-3.0-or-later
//! What must hold when nothing is under way.

use super::{Fault, World, ensure};
use crate::engine::Layout;
use crate::workload::{LARGEST, Request, Verb};

/// The fields of core's word, as core/word.h documents them.
struct Word {
    tag: u64,
    valid: u64,
    dirty: u64,
    pins: u64,
    live: bool,
    busy_or_held: bool,
}

impl Word {
    fn of(bits: u64) -> Word {
        Word {
            tag: bits & 0xf_ffff_ffff,
            valid: bits >> 36 & 0xf,
            dirty: bits >> 40 & 0xf,
            pins: bits >> 44 & 0xfff,
            live: bits >> 58 & 3 == 1,
            busy_or_held: bits >> 58 & 3 > 1 || bits >> 60 & 7 != 0,
        }
    }
}

impl World {
    /// Lets everything end that is under way.
    ///
    /// # Errors
    /// Core did something wrong, or left a request without an end.
    pub fn finish(&mut self) -> Result<(), Fault> {
        while self.step()? {}
        ensure!(
            self.ops.is_empty(),
            "requests never end: {}",
            self.unended()
        );
        ensure!(
            self.subs.is_empty(),
            "core never ends a request that was answered: {}",
            self.unended()
        );
        ensure!(
            self.memory.used() == 0,
            "{} pieces of memory were not given back",
            self.memory.used()
        );
        Ok(())
    }

    fn unended(&self) -> String {
        let mut list: Vec<_> = self
            .subs
            .values()
            .map(|sub| format!("#{} {}+{}", sub.op, sub.first, sub.count))
            .collect();
        list.sort();
        list.truncate(10);
        list.join(", ")
    }

    /// Lets everything end, then holds disk, SSD, core's words, counters and the model against each other. A new round
    /// begins after it.
    ///
    /// # Errors
    /// Two of them differ.
    pub fn settle(&mut self) -> Result<(), Fault> {
        self.finish()?;
        ensure!(
            self.seen.ssd_errors == 0 || !self.engine.active(),
            "the SSD failed, but the cache is still in use"
        );
        self.check_counters()?;
        self.check_words()?;
        let disk_failing = std::mem::take(&mut self.disk.failing);
        self.read_all()?;
        let content = self.disk.content().to_vec();
        let now = self.tick();
        for (sector, &stamp) in (0..).zip(&content) {
            self.oracle.saw(sector, stamp, now, now + 1)?;
        }
        self.read_all()?;
        self.disk.failing = disk_failing;
        self.check_counters()?;
        self.check_words()?;
        self.tick();
        let now = self.tick();
        self.oracle.quiet(&content, now);
        Ok(())
    }

    /// Reads the whole device through the cache, in pieces of one length in any order.
    fn read_all(&mut self) -> Result<(), Fault> {
        let sectors = self.engine.layout().origin_sectors;
        let piece = [64, 256, LARGEST][self.rng.usize(..3)];
        let mut pieces: Vec<u64> = (0..sectors.div_ceil(piece)).collect();
        self.rng.shuffle(&mut pieces);
        for at in pieces {
            let first = at * piece;
            let count = piece.min(sectors - first);
            self.submit(Request {
                verb: Verb::Read,
                first,
                count,
                restless: false,
            });
            self.finish()?;
        }
        Ok(())
    }

    /// Promise 31.
    fn check_counters(&self) -> Result<(), Fault> {
        let names = &self.counter_names;
        let values = self.engine.counters();
        let value = |name: &str| {
            names
                .iter()
                .position(|other| other == name)
                .map_or(0, |at| values[at])
        };
        for (direction, asked) in [("read", self.seen.read), ("write", self.seen.written)] {
            let requested = value(&format!("{direction}_requested"));
            ensure!(
                requested == asked,
                "{direction}_requested is {requested}, applications asked for {asked} sectors"
            );
            let bypassed = format!("{direction}_bypassed_");
            let past: u64 = names
                .iter()
                .zip(&values)
                .filter(|(name, _)| name.starts_with(&bypassed))
                .map(|(_, v)| v)
                .sum();
            let (hit, missed) = (
                value(&format!("{direction}_hit")),
                value(&format!("{direction}_missed")),
            );
            let sum = hit.wrapping_add(missed).wrapping_add(past);
            ensure!(
                sum == requested,
                "{direction}: hit {hit} + missed {missed} + bypassed {past} are not {requested}"
            );
        }
        for (name, seen) in [
            ("read_hit", self.seen.served_by_ssd),
            ("write_hit", self.seen.stored_for_writes),
            ("ssd_errors", self.seen.ssd_errors),
            ("disk_errors", self.seen.disk_errors),
        ] {
            let counted = value(name);
            ensure!(counted == seen, "{name} is {counted}, but {seen} were seen");
        }
        Ok(())
    }

    /// Promise 28, for as long as the cache lives: what can be read from the SSD equals the disk.
    fn check_words(&self) -> Result<(), Fault> {
        let layout = *self.engine.layout();
        let mut used = 0;
        let mut tags = std::collections::HashMap::new();
        for slot in 0..layout.slots {
            let bits = self.engine.word(slot);
            let word = Word::of(bits);
            if bits == 0 {
                continue;
            }
            used += 1;
            ensure!(
                word.live && !word.busy_or_held && word.pins == 0,
                "slot {slot} is not at rest: {bits:#x}"
            );
            ensure!(word.dirty == 0, "slot {slot} is dirty: {bits:#x}");
            if let Some(other) = tags.insert(word.tag, slot) {
                return Err(Fault::Other(format!(
                    "frame {} is in slots {other} and {slot}",
                    word.tag
                )));
            }
            self.check_place(&layout, slot, word.tag)?;
            if self.engine.active() {
                self.check_copy(&layout, slot, &word)?;
            }
        }
        let counted = self.engine.used();
        ensure!(
            used == counted,
            "{used} slots are in use, core counts {counted}"
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

    fn check_copy(&self, layout: &Layout, slot: u32, word: &Word) -> Result<(), Fault> {
        for quarter in (0..4).filter(|quarter| word.valid >> quarter & 1 != 0) {
            let first = word.tag * 32 + quarter * 8;
            ensure!(
                first < layout.origin_sectors,
                "slot {slot} holds sector {first}, beyond the disk"
            );
            let count = (layout.origin_sectors - first).min(8);
            let on_ssd = layout.data_start + u64::from(slot) * 32 + quarter * 8;
            let copy = &self.ssd.content()[on_ssd as usize..][..count as usize];
            let disk = &self.disk.content()[first as usize..][..count as usize];
            for (sector, (copy, disk)) in (first..).zip(copy.iter().zip(disk)) {
                ensure!(
                    copy == disk,
                    "sector {sector}: the disk holds {disk}, its copy in slot {slot} {copy}"
                );
            }
        }
        Ok(())
    }
}
