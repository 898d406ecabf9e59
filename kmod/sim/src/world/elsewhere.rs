// SPDX-License-Identifier: GPL-3.0-or-later
//! Cold starts: in write-through and write-around the kernel's part drops all clean copies after a cut, since the disk may
//! have been written elsewhere meanwhile (promise 21). Here the disk is written elsewhere.

use super::check::Word;
use super::life::Cut;
use super::{Fault, World, ensure};
use crate::engine::Mode;
use crate::oracle::Time;
use crate::stamp::Stamp;

impl World {
    /// Whether the start after this cut drops the clean copies. Every second start in write-through and write-around does
    /// not, so that what core recovers is used, too.
    pub(super) fn starts_cold(&mut self) -> bool {
        self.written_elsewhere || self.mode != Mode::WriteBack && self.rng.bool()
    }

    /// The machine dies, and the next start drops the clean copies.
    ///
    /// # Errors
    /// The state after that breaks a rule.
    pub(crate) fn cut_and_start_cold(&mut self) -> Result<(), Fault> {
        self.written_elsewhere = true;
        self.cut(Cut::Machine)
    }

    /// Drops all clean copies. The flush of the start makes that durable.
    ///
    /// # Errors
    /// Something clean is left.
    pub(super) fn drop_clean(&mut self) -> Result<(), Fault> {
        self.engine.forget_all();
        for bits in self.engine.words() {
            let word = Word::of(bits);
            ensure!(
                word.valid == word.dirty,
                "a clean copy of frame {} outlives a cold start",
                word.tag
            );
        }
        Ok(())
    }

    /// Before a cold start some sectors of which `words` have a clean copy are written elsewhere, durably.
    ///
    /// # Errors
    /// The model takes no such write.
    pub(super) fn write_elsewhere(&mut self, words: &[u64]) -> Result<(), Fault> {
        let end = self.engine.layout().origin_sectors;
        let mut quarters = Vec::new();
        for word in words.iter().copied().map(Word::of) {
            let clean = (0..4).filter(|quarter| (word.valid & !word.dirty) >> quarter & 1 != 0);
            quarters.extend(clean.map(|quarter| word.tag * 32 + quarter * 8));
        }
        for first in quarters {
            if self.rng.bool() {
                self.write_at_once(first, 8.min(end - first))?;
                self.written_elsewhere = true;
            }
        }
        Ok(())
    }

    pub(super) fn write_at_once(&mut self, first: u64, count: u64) -> Result<(), Fault> {
        let op = self.next_op;
        self.next_op += 1;
        let begun: Time = self.tick();
        self.trace
            .note(first, count, || format!("#{op} is written elsewhere"));
        self.oracle.write_starts(op, first, count, begun);
        for sector in first..first + count {
            self.disk
                .write(sector, Stamp::new(op, sector, 0), u64::from(op));
        }
        let now = self.tick();
        self.disk
            .write_completed(first, count, u64::from(op), true, now);
        self.oracle.write_ends(op, first, count, now)?;
        for sector in first..first + count {
            let stamp = Stamp::new(op, sector, 0);
            self.oracle.restarted(sector, stamp, now, true)?;
        }
        Ok(())
    }
}
