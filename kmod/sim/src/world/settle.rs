// SPDX-License-Identifier: GPL-3.0-or-later
//! What must hold when nothing is under way.

use super::{FLUSH, Fault, World, ensure};
use crate::engine::{Mode, State};
use crate::workload::{LARGEST, Request, Verb};

/// Most steps without an answer while requests wait.
pub(super) const PATIENCE: u32 = 1_000_000;

impl World {
    /// Lets everything that is under way end.
    ///
    /// # Errors
    /// Core did something wrong, or left a request without an end.
    pub fn finish(&mut self) -> Result<(), Fault> {
        let mut steps = 0;
        while self.step()? {
            steps += 1;
            ensure!(steps < 20 * PATIENCE, "no end: {}", self.unended());
        }
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

    pub(super) fn unended(&self) -> String {
        let mut list: Vec<_> = self
            .subs
            .values()
            .map(|sub| format!("#{} {:?} {}+{}", sub.op, sub.kind, sub.first, sub.count))
            .collect();
        list.sort();
        list.truncate(10);
        list.join(", ")
    }

    /// Lets everything end, then compares the disk, the SSD, core's words, core's counters and the model with each
    /// other.
    ///
    /// # Errors
    /// Two of them differ.
    pub fn settle(&mut self) -> Result<(), Fault> {
        (self.disk.failing, self.ssd.failing) = (0, 0);
        self.unreadable = 0;
        self.finish()?;
        self.last = "rest";
        ensure!(
            self.seen.ssd_lost == 0 || self.engine.state() != State::Active,
            "the SSD failed, but the cache is still in use"
        );
        self.check_quiet()?;
        self.read_all()?;
        let words = self.engine.words();
        let now = self.tick();
        self.now += 2;
        if self.engine.state() == State::Active {
            for (sector, stamp) in self.effective(&words) {
                self.oracle.quiet(sector, stamp, now)?;
            }
        }
        self.read_all()?;
        self.check_quiet()
    }

    fn check_quiet(&mut self) -> Result<(), Fault> {
        let words = self.engine.words();
        self.check_counters()?;
        self.check_words(&words, true)?;
        self.check_closed()?;
        if self.engine.state() == State::Active {
            self.check_copies(&words)?;
        }
        Ok(())
    }

    /// While promotion is off no frame gets a slot. (After a write-back that failed a write may need one, B8.)
    fn check_closed(&mut self) -> Result<(), Fault> {
        let now = self.frames();
        let failures = self.failures();
        let Some((frames, before)) = &mut self.closed else {
            return Ok(());
        };
        let new = now.difference(frames).next().copied();
        ensure!(
            new.is_none() || *before != failures,
            "promotion is off, but frame {new:?} got a slot"
        );
        // A frame that has lost its slot must not get one again.
        *frames = now;
        Ok(())
    }

    /// Writes all dirty data to the disk, and flushes. Then the disk alone has what the cached device shows (promises
    /// 23, 28).
    ///
    /// # Errors
    /// The disk does not have it.
    pub fn drain(&mut self, mode: Mode) -> Result<(), Fault> {
        self.set_mode(mode);
        self.finish()?;
        let mut rounds = 0;
        while self.engine.state() == State::Active && self.engine.facts().dirty > 0 {
            self.clean(true)?;
            self.finish()?;
            rounds += 1;
            ensure!(
                rounds < 4 * u64::from(self.engine.layout().slots) + 100,
                "cleaning comes to no end, {} quarters are dirty",
                self.engine.facts().dirty
            );
        }
        if self.engine.state() != State::Active {
            return Ok(());
        }
        let shown = self.effective(&self.engine.words());
        self.submit(FLUSH);
        self.finish()?;
        ensure!(
            self.disk.is_durable(),
            "after draining and a flush the disk has something volatile"
        );
        for (sector, stamp) in shown {
            let disk = self.disk.content()[sector as usize];
            ensure!(
                disk == stamp,
                "sector {sector}: drained and flushed, the cached device shows {stamp}, the disk {disk}"
            );
        }
        Ok(())
    }

    /// Reads through the cache all that was ever written, or the whole of a small disk. The pieces have one length and
    /// come in any order.
    fn read_all(&mut self) -> Result<(), Fault> {
        let sectors = self.engine.layout().origin_sectors;
        let piece = [64, 256, LARGEST][self.rng.usize(..3)];
        let mut pieces: Vec<u64> = self
            .oracle
            .touched()
            .iter()
            .map(|&sector| u64::from(sector) / piece)
            .collect();
        pieces.sort_unstable();
        pieces.dedup();
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

    /// Promise 31: the counters are right.
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
            ("merges", self.seen.merges),
        ] {
            let counted = value(name);
            if name == "write_hit" && self.engine.state() != State::Active {
                // Data that the SSD failed to store is not counted.
                continue;
            }
            ensure!(counted == seen, "{name} is {counted}, but {seen} were seen");
        }
        Ok(())
    }
}
