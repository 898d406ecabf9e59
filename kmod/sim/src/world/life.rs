// SPDX-License-Identifier: GPL-3.0-or-later
//! The life of a cache from start to end: formatting, stop, power cut, death of the machine, recovery.

use super::durable::{Durable, REGION_SHIFT};
use super::{FLUSH, Fault, Seen, World, ensure};
use crate::disk::Luck;
use crate::engine::{Engine, Geometry, Loaded, Mode, State};
use crate::flaw::Site;
use crate::queue::{Kind, Memory, Pending, Side};

/// How a life ends without a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The power goes. The two values say how much of the volatile caches of the disk and the SSD is left.
    Power(Luck, Luck),
    /// The kernel dies, but the disks keep their power.
    Machine,
}

/// If more sectors of metadata than these are kept, a restart drops those that are no longer used.
const BYTES_ROOM: usize = 4096;

impl World {
    /// Writes an empty index to the SSD.
    pub(super) fn format(&mut self, geometry: Geometry) {
        let core = self.engine.core().clone();
        for (first, bytes) in core.format(&geometry) {
            for (sector, bytes) in (first..).zip(bytes.as_chunks::<512>().0) {
                let stamp = self.bytes.keep(bytes);
                self.ssd.write(sector, stamp, 0);
            }
        }
        self.ssd.flush_all();
    }

    /// Ends this life: everything in memory is gone. Then the next life starts.
    ///
    /// # Errors
    /// The state after the cut breaks a rule.
    pub fn cut(&mut self, cut: Cut) -> Result<(), Fault> {
        let what = self.last;
        self.trace.all(|| format!("CUT after \"{what}\": {cut:?}"));
        for pending in self.queue.take() {
            self.cut_io(pending)?;
        }
        let before = self.engine.words();
        self.check_words(&before, false)?;
        self.lost |= self.engine.state() == State::Bypass;
        let lost = self.lost;
        self.drop_memory();
        let mut power = matches!(cut, Cut::Power(..));
        match cut {
            Cut::Power(disk, ssd) => {
                self.disk.power_cut(disk, &mut self.rng);
                self.ssd.power_cut(ssd, &mut self.rng);
            }
            Cut::Machine => {
                let now = self.tick();
                self.disk.machine_died(now);
                self.ssd.machine_died(now);
            }
        }
        power |= self.start(lost)?;
        let cold = self.starts_cold();
        self.check_start(&before, power, lost, cold)
    }

    /// An I/O under way at a cut may have moved more sectors than core or the trace has been told.
    fn cut_io(&mut self, pending: Pending) -> Result<(), Fault> {
        let io = pending.io;
        if io.kind == Kind::Flush || !io.kind.changes() || self.rng.bool() {
            return Ok(());
        }
        if !pending.flushed {
            if self.rng.bool() {
                return Ok(());
            }
            match io.side {
                Side::Origin => self.disk.flush_completed(pending.start),
                Side::Ssd => self.ssd.flush_completed(pending.start),
            }
        }
        let block = match io.side {
            Side::Origin => self.disk.block(),
            Side::Ssd => self.ssd.block(),
        };
        let whole = self.rng.bool();
        let mut from = pending.moved;
        while from < io.count {
            let count = block.min(io.count - from);
            if whole || self.rng.bool() {
                self.note_io(&io, &format!("moves {from}+{count} at the cut"));
                self.moved(&pending, from, count)?;
            }
            from += count;
        }
        Ok(())
    }

    fn drop_memory(&mut self) {
        let subs = std::mem::take(&mut self.subs);
        for request in subs.into_values().filter_map(|sub| sub.request) {
            self.engine.end(request);
        }
        self.ops.clear();
        self.tasks.clear();
        self.memory = Memory::default();
        (self.work_due, self.clean_due, self.cleanings) = (false, false, 0);
        self.waited_in_vain.clear();
        self.refused = None;
        (self.asked_for_work, self.asked_in_vain) = (false, 0);
        self.starting = None;
        self.watching = super::watch::Watching::default();
        self.seen = Seen::default();
    }

    /// Loads the index from the SSD. Returns true if the power went meanwhile.
    fn start(&mut self, lost: bool) -> Result<bool, Fault> {
        let mut power = false;
        loop {
            let again = self.rng.u8(..16) == 0;
            if again && self.rng.bool() {
                // The power goes before what the SSD still had to write is durable.
                self.power_goes();
                power = true;
            }
            self.ssd.flush_all();
            let geometry = *self.engine.geometry();
            // The host's record says that data was written to the disk alone while the SSD was lost. Data that the
            // index calls dirty may come from a write that failed on the SSD and then went to the disk. So nothing of
            // the index may be believed.
            let believed = self.flaw.is_some_and(|flaw| flaw.site == Site::Anew);
            if lost && !believed {
                self.format(geometry);
            }
            self.sort_bytes();
            let core = self.engine.core().clone();
            self.engine = Engine::new(&core, geometry, self.mode);
            self.engine.set_limit(self.limit);
            self.engine.set_stream(self.stream);
            self.closed = None;
            self.engine.set_retired(&self.retired.recorded);
            self.retired.begin();
            let interrupted = again.then(|| self.rng.u8(..6));
            let bad = (!again && self.rng.u8(..32) == 0).then(|| self.any_metadata_block());
            if let Some(bad) = bad {
                self.trace.all(|| format!("SSD {bad}+8 cannot be read"));
            }
            let Some(loaded) = self.load(interrupted, bad)? else {
                self.power_goes();
                power = true;
                continue;
            };
            self.marks_unreadable = bad.is_some_and(|bad| bad >= geometry.intent.start);
            // Core refused the index because of this block. At the next try the block can be read.
            if bad.is_some() && loaded == Loaded::Damaged {
                self.last = "unreadable";
                continue;
            }
            ensure!(loaded == Loaded::Good, "the index was found {loaded:?}");
            if lost {
                self.engine.forget_all();
            }
            return Ok(power);
        }
    }

    fn any_metadata_block(&mut self) -> u64 {
        let geometry = self.engine.geometry();
        let regions = [geometry.journal, geometry.checkpoint, geometry.intent];
        let region = regions[self.rng.usize(..3)];
        region.start + self.rng.u64(..region.length / 8) * 8
    }

    /// Reads the index; the block at `bad` cannot be read. Returns `None` if the power went at the step `interrupted`.
    fn load(&mut self, interrupted: Option<u8>, bad: Option<u64>) -> Result<Option<Loaded>, Fault> {
        let mut load = self.engine.load();
        let mut step = 0;
        while let Some((first, count)) = load.wants() {
            if interrupted == Some(step) {
                return Ok(None);
            }
            step += 1;
            let sectors = self
                .ssd
                .content()
                .get(first as usize..(first + count) as usize);
            let Some(sectors) = sectors else {
                return Err(Fault::Other(format!(
                    "the load reads beyond the SSD: {first}+{count}"
                )));
            };
            if bad.is_some_and(|bad| (first..first + count).contains(&bad)) {
                load.feed(None);
                continue;
            }
            let bytes: Vec<u8> = sectors.iter().flat_map(|&s| self.bytes.get(s)).collect();
            load.feed(Some(&bytes));
        }
        let loaded = load.end();
        let passed = interrupted.is_none_or(|at| at > step);
        Ok(passed.then_some(loaded))
    }

    fn power_goes(&mut self) {
        self.disk.power_cut(Luck::Blocks(128), &mut self.rng);
        self.ssd.power_cut(Luck::Blocks(128), &mut self.rng);
    }

    /// Forgets the bytes that no sector refers to any more. Nothing on the SSD may be volatile.
    fn sort_bytes(&mut self) {
        if self.bytes.len() > BYTES_ROOM {
            let old = std::mem::take(&mut self.bytes);
            let bytes = &mut self.bytes;
            self.ssd.rename(|stamp| bytes.inherit(&old, stamp));
        }
    }

    /// Reads the durable metadata at a start.
    pub(super) fn read_durable(&mut self) {
        let intent = self.engine.geometry().intent;
        let sectors = &self.ssd.content()[intent.start as usize..][..intent.length as usize];
        let marks: Vec<u8> = sectors.iter().flat_map(|&s| self.bytes.get(s)).collect();
        let regions = (self.engine.layout().origin_sectors >> REGION_SHIFT) as usize + 1;
        let now = self.tick();
        self.durable = Durable::of(&self.engine.words(), &marks, regions, now);
    }

    fn check_start(
        &mut self,
        before: &[u64],
        power: bool,
        lost: bool,
        cold: bool,
    ) -> Result<(), Fault> {
        // The start before was cut before the drop of the old copies was durable.
        let old = self.written_elsewhere;
        if old {
            self.read_durable();
            self.drop_clean()?;
        }
        let words = self.engine.words();
        self.trace.all(|| {
            let used = (0..).zip(&words).filter(|(_, word)| **word != 0);
            let used: Vec<_> = used
                .map(|(slot, word)| format!("{slot}: {word:#x}"))
                .collect();
            format!("started with {}", used.join(", "))
        });
        self.check_words(&words, true)?;
        self.check_values(&words, power)?;
        self.check_copies(&words)?;
        self.check_retired_at_start(&words)?;
        // If marks cannot be read, their regions count as marked, so clean copies are dropped.
        if !lost && !old && !self.marks_unreadable {
            self.check_kept(before)?;
        }
        self.forget_warm();
        if !old {
            self.read_durable();
        }
        if cold && !old {
            self.drop_clean()?;
            if power {
                self.write_elsewhere(&words)?;
            }
        }
        self.begin_watch(lost || self.written_elsewhere)?;
        self.start_up();
        self.last = "recovery";
        Ok(())
    }

    /// Each sector has a value that it may have. From now on that value is the only one allowed.
    fn check_values(&mut self, words: &[u64], power: bool) -> Result<(), Fault> {
        let now = self.tick();
        for (sector, stamp) in self.effective(words) {
            self.oracle.restarted(sector, stamp, now, power)?;
        }
        Ok(())
    }

    /// Lets everything end, flushes, and removes the table; then starts the next life in `mode`.
    ///
    /// # Errors
    /// The cache is less warm than before the stop.
    pub fn stop(&mut self, mode: Mode) -> Result<(), Fault> {
        (self.disk.failing, self.ssd.failing) = (0, 0);
        self.unreadable = 0;
        self.finish()?;
        if self.engine.state() != State::Active {
            return self.cut(Cut::Machine);
        }
        self.stopping = Some(self.next_op);
        self.submit(FLUSH);
        self.finish()?;
        if self.engine.state() != State::Active {
            return self.cut(Cut::Machine);
        }
        self.last = "stop";
        self.trace.all(|| "STOP".to_owned());
        let before = self.engine.words();
        self.check_words(&before, true)?;
        self.drop_memory();
        let lights_out = self.rng.bool();
        if lights_out {
            self.disk.power_cut(Luck::Lose, &mut self.rng);
            self.ssd.power_cut(Luck::Lose, &mut self.rng);
        }
        self.mode = mode;
        self.retired.recorded = self.engine.retired();
        let power = lights_out | self.start(false)?;
        if !self.marks_unreadable {
            self.check_warm(&before)?;
        }
        self.check_start(&before, power, false, false)
    }
}
