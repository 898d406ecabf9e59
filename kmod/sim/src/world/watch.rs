// SPDX-License-Identifier: GPL-3.0-or-later
//! Watched places: the sums of what is written there, learning them, and what a start finds (promise 21).

use super::check::Word;
use super::{Fault, World, ensure};
use crate::engine::start::Samples;
use crate::stamp::Stamp;

/// First sectors of the two copies of samples on the SSD.
const COPIES: [u64; 2] = [8, 1032];

/// The world's part in learning what the watched places hold.
#[derive(Default)]
pub(super) struct Watching {
    /// Quarters of the disk that each use of its file system changes.
    places: Vec<u64>,
    step: Step,
}

/// What has been begun. It ends at the next tick, so that writes come between.
#[derive(Default)]
enum Step {
    #[default]
    Nothing,
    Looking,
    Learning(u64, [u32; 8]),
}

/// Sectors of the SSD that the copies need.
pub(super) const NOTES: u64 = 16;

/// A checksum of a simulated sector.
fn sum_of(stamp: Stamp) -> u32 {
    (stamp.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn sums_of(stamps: &[Stamp]) -> [u32; 8] {
    std::array::from_fn(|at| sum_of(stamps[at]))
}

impl World {
    /// A request writes a watched place: core gets the sums.
    pub(super) fn sum(&mut self, id: u64) -> Result<(), Fault> {
        let request = self.request(id)?;
        let quarter = self.engine.summing(request);
        let (first, count) = self.engine.disk_span(request);
        let Some((memory, base)) = self.sub(id)?.private else {
            return Err(Fault::Other(format!(
                "sums of request {id}, which has no private memory"
            )));
        };
        let data = self.memory.get(memory);
        let sums = std::array::from_fn(|at| {
            let sector = quarter * 8 + at as u64;
            (first..first + count)
                .contains(&sector)
                .then(|| sum_of(data[(sector - base) as usize]))
        });
        ensure!(
            sums.iter().any(Option::is_some),
            "request {id} does not write quarter {quarter}"
        );
        let dirty = self.engine.facts().dirty;
        let Some(super::Sub {
            request: Some(request),
            ..
        }) = self.subs.get(&id)
        else {
            return Err(Fault::Other(format!("request {id} is unknown")));
        };
        let (actions, woken) = self.engine.summed(request, &sums);
        self.note_begun(id, dirty);
        self.last = "sums";
        self.note_actions(id, "has sums", actions);
        self.follow_up(id, actions, woken);
        Ok(())
    }

    /// Watches this quarter of the disk from now on, until the next start; call it at rest.
    pub fn watch_place(&mut self, quarter: u64) {
        self.watching.places = vec![quarter];
        self.look_at_start();
        self.pump();
    }

    /// At rest, the disk leaves the cache in use, is written elsewhere at this quarter, and comes back.
    ///
    /// # Errors
    /// The model takes no such write, or a clean copy is left.
    pub(crate) fn exchange_in_use(&mut self, quarter: u64) -> Result<(), Fault> {
        self.write_at_once(quarter * 8, 8)?;
        let samples = self.samples();
        self.engine.watch_resume(&samples, false);
        self.drop_clean()?;
        self.look_at_start();
        self.pump();
        Ok(())
    }

    /// Before the first request of a life: look at the disk.
    pub(super) fn look_at_start(&mut self) {
        if self.engine.look_begin() {
            self.engine.look_end(&self.watching.places);
        }
        while let Some(quarter) = self.engine.learn_begin() {
            let stamps = &self.disk.content()[quarter as usize * 8..][..8];
            self.engine.learn_end(quarter, Some(&sums_of(stamps)));
        }
    }

    /// Once a second: look at the disk, as the kernel's clock does.
    pub(super) fn watch(&mut self) {
        match std::mem::take(&mut self.watching.step) {
            Step::Looking => {
                self.engine.look_end(&self.watching.places);
            }
            Step::Learning(quarter, sums) => self.engine.learn_end(quarter, Some(&sums)),
            Step::Nothing => {}
        }
        if !self.engine.watch_asks() {
            return;
        }
        if self.engine.look_begin() {
            self.watching.step = Step::Looking;
        } else if let Some(quarter) = self.engine.learn_begin() {
            let stamps = &self.disk.content()[quarter as usize * 8..][..8];
            self.watching.step = Step::Learning(quarter, sums_of(stamps));
        }
    }

    /// Where the simulated SSD has the sector `first` of a note.
    ///
    /// # Errors
    /// No note is there.
    pub(super) fn place_of_note(&self, first: u64) -> Result<u64, Fault> {
        let copy = COPIES.iter().position(|&copy| copy == first);
        let Some(copy) = copy else {
            return Err(Fault::Other(format!(
                "a note is written to SSD sector {first}"
            )));
        };
        Ok(self.engine.geometry().ssd_sectors + copy as u64 * 8)
    }

    fn samples(&self) -> Samples {
        let end = self.engine.geometry().ssd_sectors;
        let copy = |first: u64| {
            let mut bytes = [0; 8192];
            for (at, sector) in bytes[4096..].chunks_mut(512).zip(first..) {
                let stamp = self.ssd.content()[sector as usize];
                if stamp != Stamp::JUNK {
                    at.copy_from_slice(&self.bytes.get(stamp));
                }
            }
            bytes
        };
        let copies = [end, end + 8].map(copy);
        let core = self.engine.core();
        core.choose_samples(&copies, self.engine.geometry())
    }

    /// At a start: the disk has to be as the newest note says, unless it was written without the cache (`elsewhere`). Then
    /// places for the new life are chosen.
    ///
    /// # Errors
    /// The note says something else.
    pub(super) fn begin_watch(&mut self, elsewhere: bool) -> Result<(), Fault> {
        let samples = self.samples();
        for trace in samples.traces().iter().filter(|_| !elsewhere) {
            for at in 0..8 {
                let sector = trace.quarter * 8 + at as u64;
                let sum = sum_of(self.disk.content()[sector as usize]);
                ensure!(
                    sum == trace.was[at] || sum == trace.will[at],
                    "sector {sector} is not as the note of its place says, though nobody else wrote it"
                );
            }
        }
        let running = samples.running();
        for (copy, first) in (0..).zip([0, 8]) {
            let first = self.engine.geometry().ssd_sectors + first;
            let bytes = self
                .engine
                .core()
                .write_samples(&running, self.engine.geometry(), copy);
            for (sector, bytes) in (first..).zip(bytes.as_chunks::<512>().0) {
                let stamp = self.bytes.keep(bytes);
                self.ssd.write(sector, stamp, 0);
            }
        }
        self.ssd.flush_all();
        self.engine.watch_resume(&running, false);
        self.watching.places = self.choose_places();
        Ok(())
    }

    /// Quarters of frames that are in the cache are likely to be written again. The random numbers are drawn once more
    /// later, so that lives without watched places stay as they were.
    fn choose_places(&self) -> Vec<u64> {
        let mut rng = self.rng.clone();
        let quarters = self.engine.layout().origin_sectors / 8;
        let mut words = self.engine.words();
        words.retain(|&word| word != 0);
        if quarters == 0 || !rng.bool() {
            return Vec::new();
        }
        let mut place = || match words.len() {
            0 => rng.u64(..quarters),
            used => Word::of(words[rng.usize(..used)]).tag * 4 + rng.u64(..4),
        };
        let mut places = [place(), place()].to_vec();
        places.retain(|&place| place < quarters);
        places.dedup();
        places
    }
}
