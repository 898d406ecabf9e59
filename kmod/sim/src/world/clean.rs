// SPDX-License-Identifier: GPL-3.0-or-later
//! The cleaner reads dirty data from the SSD and writes it to the disk.

use std::collections::HashSet;

use super::check::{LIVE, Word};
use super::io::{Role, token};
use super::{Fault, World, ensure};
use crate::engine::{Actions, Facts, NewRequest, ReqKind, Seek, State};
use crate::queue::Side;

/// Most cleanings that are under way at a time.
const CLEANERS: usize = 3;
/// Most frames that core may look at in one call: as many as a region of a small disk has.
const LOOKS: u32 = 64;

impl World {
    /// Cleans something that a write waits for. With `all` the cleaner also cleans data that no write waits for.
    ///
    /// # Errors
    /// Core did something that it must not do.
    pub fn clean(&mut self, all: bool) -> Result<(), Fault> {
        let mut further = false;
        loop {
            further = self.clean_near(all, further)?;
            if !further {
                return Ok(());
            }
        }
    }

    /// The same, but core may look at only a part of the disk; with `on` core goes on from where the last look ended.
    /// Returns true if there is more to look at.
    ///
    /// # Errors
    /// Core did something that it must not do.
    pub fn clean_near(&mut self, all: bool, on: bool) -> Result<bool, Fault> {
        if self.cleanings >= CLEANERS || self.starting.is_some() {
            return Ok(false);
        }
        let looks = self.rng.u32(1..=LOOKS);
        let before = self.engine.facts();
        let waiting = if on {
            before.urgent_left
        } else {
            before.urgent_frames
        };
        let ready = self.look_at_waiting();
        let due = self.engine.work_due();
        let seek = self.engine.clean_seek(all, on, looks);
        self.asked_for_work |= !due && self.engine.work_due();
        // Core always looks at one whole request: the frames of a request lie in one run.
        let run = 1 << self.engine.layout().run_shift;
        ensure!(
            seek != Seek::Nowhere
                || before.dirty == 0
                || self.engine.state() != State::Active
                || waiting <= u64::from(looks.max(run)),
            "cleaning looked at {waiting} frames that requests wait for at once, {looks} were allowed"
        );
        if all && before.dirty > 0 && self.engine.state() == State::Active {
            self.check_looks(&before, seek, looks)?;
        }
        match seek {
            Seek::Found { sector, count } => {
                self.check_turn(sector, &ready)?;
                self.clean_at(sector, count).map(|()| false)
            }
            Seek::Nowhere => {
                self.pump_work();
                Ok(false)
            }
            Seek::Further => {
                self.pump_work();
                Ok(true)
            }
        }
    }

    /// Returns the writes that wait for a cleaning which can begin now. For each of the other writes, notes that the
    /// cleaner looks at it in vain now.
    fn look_at_waiting(&mut self) -> Vec<u64> {
        let mut waiting = self.engine.urgent();
        self.waited_in_vain.retain(|id, _| waiting.contains(id));
        if waiting.is_empty() {
            return waiting;
        }
        // No request owns the slot, and its record is durable, so nothing prevents a cleaning.
        let cleanable =
            |word: &Word| word.state == LIVE && word.dirty != 0 && !word.held && !word.pending;
        let words = self.engine.words().into_iter().map(Word::of);
        let quarters: HashSet<u64> = words
            .filter(cleanable)
            .flat_map(|word| {
                (0..4)
                    .filter(move |at| word.dirty >> at & 1 != 0)
                    .map(move |at| word.tag * 4 + at)
            })
            .collect();
        waiting.retain(|id| {
            let ready = self
                .subs
                .get(id)
                .is_some_and(|sub| sub.quarters().any(|at| quarters.contains(&at)));
            if !ready {
                self.waited_in_vain.insert(*id, self.now);
            }
            ready
        });
        waiting
    }

    /// Promise 30: the data at `sector` is to be cleaned. Then no write whose cleaning could begin may have waited
    /// longer than every write that this cleaning serves.
    fn check_turn(&self, sector: u64, ready: &[u64]) -> Result<(), Fault> {
        let waiting = self.engine.urgent();
        let served = waiting.iter().filter_map(|id| self.subs.get(id));
        let served = served.filter(|sub| sub.quarters().contains(&(sector / 8)));
        let first = served.map(|sub| sub.begun).min();
        for (id, sub) in ready.iter().filter_map(|id| Some((id, self.subs.get(id)?))) {
            let vain = self.waited_in_vain.get(id).copied().unwrap_or(0);
            let since = sub.begun.max(vain);
            ensure!(
                first.is_some_and(|first| first <= since),
                "#{} waits for a cleaning of {}+{}, but a later write is served first, at sector {sector}",
                sub.op,
                sub.first,
                sub.count
            );
        }
        Ok(())
    }

    /// Core may look at no more than `looks` frames while it holds the lock. Regions without dirty data do not count.
    fn check_looks(&self, before: &Facts, seek: Seek, looks: u32) -> Result<(), Fault> {
        let now = self.engine.facts();
        let region = u64::from(now.region_frames);
        let all = u64::from(now.regions) * region;
        let passed = match seek {
            Seek::Found { .. } => (now.clean_frame + all - before.clean_frame) % all,
            // Core had only time for the frames that writes wait for.
            Seek::Further if now.clean_left == before.clean_left => 0,
            // A round has ended, goes on, or begins.
            _ if before.clean_left > 0 => before.clean_left - now.clean_left,
            _ => all - now.clean_left,
        };
        if passed <= u64::from(looks) {
            return Ok(());
        }
        let mut dirty = vec![false; now.regions as usize];
        for word in self.engine.words().into_iter().map(Word::of) {
            if word.dirty != 0 {
                dirty[(word.tag / region) as usize] = true;
            }
        }
        let looked = (0..passed)
            .map(|at| (before.clean_frame + at) % all / region)
            .filter(|&region| dirty[region as usize])
            .count();
        ensure!(
            looked <= looks as usize,
            "cleaning looked at {looked} frames at once, {looks} were allowed"
        );
        Ok(())
    }

    fn clean_at(&mut self, sector: u64, limit: u64) -> Result<(), Fault> {
        self.last = "clean";
        self.guard.only_flush = None;
        let frames = self.rng.u32(1..=4);
        let id = self.add_sub(0, ReqKind::Clean, sector, 0);
        let new = NewRequest {
            kind: ReqKind::Clean,
            sector,
            count: limit,
            parts: frames,
            no_memory: false,
            lent: false,
            stream: false,
            fua: false,
        };
        let request = self.engine.request(id, new);
        let (actions, woken) = self.engine.begin(&request);
        let (first, count) = self.engine.disk_span(&request);
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.request = Some(request);
        }
        self.trace.note(first, count, || {
            format!("cleaning {id} of {first}+{count}: actions {:#x}", actions.0)
        });
        self.cleanings += 1;
        if actions.has(Actions::PASS) {
            self.forget_request(id);
            self.subs.remove(&id);
            self.cleanings -= 1;
            self.wake(woken);
            self.pump();
            return Ok(());
        }
        let base = first & !31;
        ensure!(
            count > 0 && first + count <= base + u64::from(frames) * 32,
            "cleaning of {first}+{count} has memory for {frames} frames"
        );
        ensure!(
            limit == 0
                || first >= sector & !7 && first + count <= (sector + limit).next_multiple_of(8),
            "cleaning of {first}+{count}, {sector}+{limit} was asked for"
        );
        let memory = self.memory.allocate(frames as usize * 32);
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.private = Some((memory, base));
            (sub.first, sub.count) = (first, count);
        }
        self.follow_up(id, actions, woken);
        Ok(())
    }

    /// Reads the data that is to be cleaned from the SSD.
    pub(super) fn fetch(&mut self, id: u64) -> Result<(), Fault> {
        let extents = self.engine.extents(self.request(id)?);
        ensure!(!extents.is_empty(), "cleaning {id} has nothing to fetch");
        let Some((memory, base)) = self.sub(id)?.private else {
            return Err(Fault::Other(format!("cleaning {id} has no memory")));
        };
        if let Some(sub) = self.subs.get_mut(&id) {
            sub.ssd_left = extents.len();
        }
        for extent in extents {
            let range = (extent.ssd_sector, u64::from(extent.count));
            self.check_ssd(range)?;
            let inside = extent.sector >= base
                && (extent.sector - base + range.1) as usize <= self.memory.get(memory).len();
            ensure!(
                inside,
                "cleaning {id} fetches {extent:?} to memory from {base} on"
            );
            let place = (memory, extent.sector - base);
            self.read(Side::Ssd, range, place, token(id, Role::Extent));
        }
        Ok(())
    }

    /// Writes the data that was read from the SSD to the disk.
    pub(super) fn write_cleaned(&mut self, id: u64, first: u64, count: u64) -> Result<(), Fault> {
        let Some((memory, base)) = self.sub(id)?.private else {
            return Err(Fault::Other(format!("cleaning {id} has no memory")));
        };
        let inside = first >= base
            && (first - base + count) as usize <= self.memory.get(memory).len()
            && first + count <= self.engine.layout().origin_sectors;
        ensure!(
            inside,
            "cleaning {id} writes {first}+{count} from memory from {base} on"
        );
        self.check_disk_write(id, first, count)?;
        let place = (memory, first - base);
        self.write(Side::Origin, (first, count), place, token(id, Role::Span));
        Ok(())
    }
}
