// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes the dirty data of an SSD to its disk, as a start of the module and its cleaner do.
//!
//! The engine decides the order: dirty data is written to the disk, the disk is flushed, then a record on the SSD says that the
//! data is clean. So a cut at any moment leaves either the record or data that is still dirty, and the next rescue, or the next
//! start of the module, goes on from there. Before the first write to the disk the SSD says that the cache runs, and what some
//! places of the disk hold now and will hold: so a use of the disk after an interrupted rescue is told. The last write says how
//! the disk is now, where the cache was stopped and the disk is as it was left.

use std::collections::HashMap;

use serde::Serialize;
use tandem_core::start::{COPIES, Samples, Verdict};
use tandem_core::{Actions, NewRequest, ReqKind, Request, State, Waking, Work, WorkKind};

use crate::error::{Doubt, Duty, Why};
use crate::evidence::quarter;
use crate::order::{FRAME_SECTORS, QUARTER_SECTORS, Range};
use crate::{BLOCK_BYTES, Cache, Error, Medium, SECTOR_BYTES, View};

/// Data that is written to the disk between two flushes of it, at most.
const BATCH_BYTES: u64 = 64 << 20;
/// Flushes of the disk at least, so that the user sees progress.
const BATCHES: u64 = 8;
/// The same, in pieces: each is a request in the engine.
const BATCH_PIECES: usize = 1024;
/// Pieces in memory at once: 24 MiB.
const PIECES: usize = 1 << 20;
/// Pieces of the disk that are named in an outcome.
const NAMED: usize = 16;
/// Quarters that the disk may refuse before the rescue ends: a disk with more of them is failing as a whole.
const REFUSED: usize = 64;
/// Passes over the dirty data. One is enough unless the engine has to put something off.
const PASSES: u32 = 3;

/// How far a rescue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Bytes that are on the disk and recorded so.
    pub written: u64,
    /// Bytes that were dirty at the beginning.
    pub total: u64,
}

/// What a rescue did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Bytes written to the disk, and clean on the SSD.
    pub written_bytes: u64,
    /// Still only on the SSD, since the SSD cannot read it.
    pub left_bytes: u64,
    /// Where that belongs on the disk, in bytes; the first places only.
    pub left_at: Vec<u64>,
    /// Still only on the SSD, since the disk does not take it.
    pub refused_bytes: u64,
    /// Where on the disk, in bytes; the first places only.
    pub refused_at: Vec<u64>,
}

/// A cleaning that the engine has begun.
struct Cleaning {
    request: Request,
    sector: u64,
    bytes: Vec<u8>,
}

struct Driver<'a> {
    cache: &'a mut Cache,
    ssd: &'a dyn Medium,
    disk: &'a dyn Medium,
    cleanings: HashMap<u64, Cleaning>,
    /// The flush that is under way, if any, and whether it ended well.
    flush: Option<(u64, Option<bool>)>,
    next: u64,
    ended_bytes: u64,
    /// The disk has failed in a write or a flush since this was looked at.
    disk_error: Option<Error>,
    /// First sectors of quarters that the disk does not take.
    refused: Vec<u64>,
}

fn stopped(medium: &dyn Medium, duty: Duty, error: std::io::Error) -> Error {
    Error::stopped(medium.name(), Why::Failed(duty, error))
}

/// Writes all dirty data to the disk, and records it as clean. `doubts`: those in spite of which the user has named the disk.
/// `told` hears how far it is.
///
/// The cache counts as stopped afterwards only if it was stopped, the disk is as it was left, and there is no doubt. Else the
/// next start drops the copies on the SSD: some may be older than what the disk has got elsewhere.
///
/// # Errors
/// If a device fails in a way that makes it unsafe to go on. Doing it again goes on from there.
pub fn write_back(
    cache: &mut Cache,
    ssd: &dyn Medium,
    disk: &dyn Medium,
    doubts: &[Doubt],
    told: &mut dyn FnMut(Step),
) -> Result<Outcome, Error> {
    let total = cache.dirty_bytes();
    if total == 0 {
        return Ok(Outcome::default());
    }
    let samples = &cache.samples;
    let compared = cache.core.compare(samples, &|sector| quarter(disk, sector));
    let is_as_left = samples.is_stopped() && compared == Verdict::Same && doubts.is_empty();
    let mut driver = Driver {
        cache,
        ssd,
        disk,
        cleanings: HashMap::new(),
        flush: None,
        next: 1,
        ended_bytes: 0,
        disk_error: None,
        refused: Vec::new(),
    };
    driver.settle()?;
    driver.say_running()?;
    let mut left = Vec::new();
    let bytes_of = |quarters: &[u64]| quarters.len() as u64 * BLOCK_BYTES as u64;
    for _ in 0..PASSES {
        driver.refused.clear();
        left = driver.pass(total, told)?;
        if driver.cache.dirty_bytes() <= bytes_of(&left) + bytes_of(&driver.refused) {
            break;
        }
    }
    driver.settle()?;
    if is_as_left {
        driver.say_stopped()?;
    }
    let places = |of: &[u64]| of.iter().take(NAMED).map(|at| at * SECTOR_BYTES).collect();
    let refused_bytes = bytes_of(&driver.refused);
    Ok(Outcome {
        written_bytes: driver.ended_bytes,
        left_bytes: driver.cache.dirty_bytes().saturating_sub(refused_bytes),
        left_at: places(&left),
        refused_bytes,
        refused_at: places(&driver.refused),
    })
}

impl Driver<'_> {
    /// Writes what is dirty, in the order of the disk. Returns the first sectors of quarters that the SSD cannot read.
    fn pass(&mut self, total: u64, told: &mut dyn FnMut(Step)) -> Result<Vec<u64>, Error> {
        let mut left = Vec::new();
        let mut from = 0;
        loop {
            let pieces = self.pieces(from);
            let Some(last) = pieces.last() else { break };
            from = last.sector + last.count;
            for batch in batches(&pieces, BATCH_BYTES.min(total / BATCHES)) {
                left.extend(self.write_batch(batch)?);
                told(Step {
                    written: self.ended_bytes,
                    total,
                });
            }
        }
        Ok(left)
    }

    /// What is dirty from this sector of the disk on, as far as there is room for it; frames of one run are one piece.
    fn pieces(&self, from: u64) -> Vec<Range> {
        let run = self.run_sectors();
        let mut pieces: Vec<Range> = Vec::new();
        self.cache.dirty(from, |range| {
            let full = pieces.len() == PIECES;
            match pieces.last_mut() {
                Some(last) if joins(last, &range, run) => last.count += range.count,
                _ if full => return false,
                _ => pieces.push(range),
            }
            true
        });
        pieces
    }

    /// Writes these pieces, and records them as clean. Returns the first sectors of quarters that the SSD cannot read.
    fn write_batch(&mut self, pieces: &[Range]) -> Result<Vec<u64>, Error> {
        let failed = self.clean(pieces)?;
        self.carry_on()?;
        let mut left = Vec::new();
        for piece in failed {
            for quarter in quarters(&piece) {
                left.extend(self.clean(&[quarter])?);
            }
        }
        self.carry_on()?;
        if self.disk_error.take().is_some() {
            self.write_singly(pieces)?;
        }
        Ok(left.iter().map(|quarter| quarter.sector).collect())
    }

    /// The disk has refused something of these pieces, or the flush behind them: each piece gets a flush of its own, and each
    /// quarter of a piece that the disk does not take.
    fn write_singly(&mut self, pieces: &[Range]) -> Result<(), Error> {
        for piece in pieces {
            let unreadable = self.clean(&[*piece])?;
            self.carry_on()?;
            if self.disk_error.take().is_none() && unreadable.is_empty() {
                continue;
            }
            for quarter in quarters(piece) {
                self.clean(&[quarter])?;
                self.carry_on()?;
                let Some(error) = self.disk_error.take() else {
                    continue;
                };
                if self.refused.len() == REFUSED {
                    return Err(error);
                }
                self.refused.push(quarter.sector);
            }
        }
        Ok(())
    }

    fn run_sectors(&self) -> u64 {
        FRAME_SECTORS << self.cache.engine.layout().run_shift
    }

    /// Has the engine clean these pieces, but for the record. Returns those that the SSD cannot read.
    fn clean(&mut self, pieces: &[Range]) -> Result<Vec<Range>, Error> {
        let mut failed = Vec::new();
        for piece in pieces {
            let id = self.next;
            self.next += 1;
            let frames = (piece.sector % FRAME_SECTORS + piece.count).div_ceil(FRAME_SECTORS);
            let request = self.cache.engine.request(
                id,
                NewRequest {
                    kind: ReqKind::Clean,
                    sector: piece.sector,
                    count: piece.count,
                    parts: frames as u32,
                    no_memory: false,
                    stream: false,
                    lent: false,
                    fua: false,
                },
            );
            let (actions, waking) = self.cache.engine.begin(&request);
            if actions.has(Actions::PASS) {
                self.cache.engine.end(request);
                self.wake(waking)?;
                continue;
            }
            let (sector, count) = self.cache.engine.disk_span(&request);
            let cleaning = Cleaning {
                request,
                sector,
                bytes: vec![0; (count * SECTOR_BYTES) as usize],
            };
            self.cleanings.insert(id, cleaning);
            self.wake(waking)?;
            if !self.fetch(id, actions)? {
                failed.push(Range {
                    sector,
                    ssd_sector: 0,
                    count,
                });
            }
        }
        Ok(failed)
    }

    /// Reads the data of a cleaning from the SSD. False: the SSD cannot read it, and the cleaning has ended.
    fn fetch(&mut self, id: u64, actions: Actions) -> Result<bool, Error> {
        if !actions.has(Actions::FETCH) {
            return Ok(true);
        }
        let Some(cleaning) = self.cleanings.get_mut(&id) else {
            return Ok(true);
        };
        let mut read = true;
        for extent in self.cache.engine.extents(&cleaning.request) {
            let from = ((extent.sector - cleaning.sector) * SECTOR_BYTES) as usize;
            let to = from + (u64::from(extent.count) * SECTOR_BYTES) as usize;
            let part = cleaning.bytes.get_mut(from..to).unwrap_or_default();
            read &= self.ssd.read(extent.ssd_sector, part).is_ok();
        }
        let (actions, waking) = self.cache.engine.ssd_done(&cleaning.request, read);
        self.act(id, actions)?;
        self.wake(waking)?;
        Ok(read)
    }

    /// What the engine wants done for a request.
    fn act(&mut self, id: u64, actions: Actions) -> Result<(), Error> {
        if let Some((flush, answer)) = &mut self.flush
            && *flush == id
        {
            if actions.has(Actions::ANSWER) {
                *answer = Some(true);
            }
            return Ok(());
        }
        if actions.has(Actions::DISK)
            && let Some(cleaning) = self.cleanings.get_mut(&id)
        {
            let written = self.disk.write(cleaning.sector, &cleaning.bytes);
            cleaning.bytes = Vec::new();
            let is_good = written.is_ok();
            if let Err(e) = written {
                self.disk_error = Some(stopped(self.disk, Duty::TakeData, e));
            }
            let (actions, waking) = self.cache.engine.disk_done(&cleaning.request, is_good);
            self.act(id, actions)?;
            self.wake(waking)?;
        }
        if actions.has(Actions::END)
            && let Some(cleaning) = self.cleanings.remove(&id)
        {
            self.cache.engine.end(cleaning.request);
        }
        Ok(())
    }

    fn wake(&mut self, waking: Waking) -> Result<(), Error> {
        waking
            .into_iter()
            .try_for_each(|(id, actions)| self.act(id, actions))
    }

    /// Carries out the ledger's own I/O until there is none.
    fn carry_on(&mut self) -> Result<(), Error> {
        let before = self.cache.dirty_bytes();
        while self.cache.engine.work_due() {
            loop {
                let (work, waking) = self.cache.engine.next_io();
                self.wake(waking)?;
                let Some(work) = work else { break };
                let is_good = if work.kind == WorkKind::FlushDisk {
                    self.flush_disk()
                } else {
                    self.carry_out(&work)?;
                    true
                };
                let waking = self.cache.engine.io_done(work.kind, is_good);
                self.wake(waking)?;
            }
        }
        if self.cache.engine.state() != State::Active {
            return Err(Error::stopped(self.ssd.name(), Why::SsdGivenUp));
        }
        self.ended_bytes += before - self.cache.dirty_bytes().min(before);
        Ok(())
    }

    fn flush_disk(&mut self) -> bool {
        let flushed = self.disk.flush();
        let is_good = flushed.is_ok();
        if let Err(e) = flushed {
            self.disk_error = Some(stopped(self.disk, Duty::StoreData, e));
        }
        is_good
    }

    fn carry_out(&self, work: &Work) -> Result<(), Error> {
        let of_ssd = |e: std::io::Error| stopped(self.ssd, Duty::TakeRecord, e);
        let flush_ssd = || self.ssd.flush().map_err(of_ssd);
        let mut sectors = vec![[0; 512]; work.count as usize];
        self.cache.engine.work_bytes(work.kind, 0, &mut sectors);
        let write = || {
            let written = self.ssd.write(work.first, sectors.as_flattened());
            written.map_err(of_ssd)
        };
        match work.kind {
            WorkKind::FlushSsd => flush_ssd(),
            WorkKind::Pages => write(),
            WorkKind::Trim | WorkKind::Step | WorkKind::FlushDisk => Ok(()),
            WorkKind::Marks | WorkKind::Note => write().and_then(|()| flush_ssd()),
            // What a record describes is durable before the record.
            WorkKind::Group | WorkKind::Head => {
                flush_ssd()?;
                write()?;
                flush_ssd()
            }
        }
    }

    /// All that the engine knows is durable after this. A record that a cut tore is made harmless first.
    fn settle(&mut self) -> Result<(), Error> {
        let id = self.next;
        self.next += 1;
        let new = NewRequest {
            kind: ReqKind::Flush,
            sector: 0,
            count: 0,
            parts: 0,
            no_memory: false,
            stream: false,
            lent: false,
            fua: false,
        };
        let request = self.cache.engine.request(id, new);
        self.flush = Some((id, None));
        let (actions, waking) = self.cache.engine.begin(&request);
        self.act(id, actions)?;
        self.wake(waking)?;
        self.carry_on()?;
        let answered = self.flush.take().and_then(|(_, answer)| answer) == Some(true);
        let failed = !answered || self.cache.engine.failed(&request);
        self.cache.engine.end(request);
        if failed {
            let of_ssd = || Error::stopped(self.ssd.name(), Why::NotDurable);
            return Err(self.disk_error.take().unwrap_or_else(of_ssd));
        }
        Ok(())
    }

    /// What is dirty becomes the content of the disk.
    fn say_running(&mut self) -> Result<(), Error> {
        let (disk, view) = (self.disk, View::new(self.cache, self.ssd, self.disk));
        let will = |sector: u64| {
            let mut bytes = [0; BLOCK_BYTES];
            view.read(sector, &mut bytes).ok().map(|()| bytes)
        };
        let Cache {
            core,
            engine,
            samples,
            ..
        } = &*self.cache;
        let note = core.note_of_run(samples, engine, &|sector| quarter(disk, sector), &will);
        self.write_samples(note)
    }

    /// Both devices are flushed.
    fn say_stopped(&mut self) -> Result<(), Error> {
        let disk = self.disk;
        let read = |sector: u64| quarter(disk, sector);
        let Cache {
            core,
            engine,
            superblock,
            samples,
            ..
        } = &*self.cache;
        let samples = core.sample(samples, &superblock.geometry, Some(engine), &read);
        self.write_samples(samples)
    }

    /// Writes both copies, one durable before the other. The copy that has the present note comes last, so that a cut leaves
    /// this note or the new one.
    fn write_samples(&mut self, samples: Samples) -> Result<(), Error> {
        self.cache.samples = samples;
        let mut copies = [(0, COPIES[0]), (1, COPIES[1])];
        if samples.sequence() % 2 == 1 {
            copies.reverse();
        }
        for (number, place) in copies {
            let geometry = &self.cache.superblock.geometry;
            let bytes = self.cache.core.write_samples(&samples, geometry, number);
            let sector = place + BLOCK_BYTES as u64 / SECTOR_BYTES;
            self.ssd
                .flush()
                .and_then(|()| self.ssd.write(sector, &bytes))
                .and_then(|()| self.ssd.flush())
                .map_err(|e| stopped(self.ssd, Duty::TakeNote, e))?;
        }
        Ok(())
    }
}

/// The quarters of a piece.
fn quarters(piece: &Range) -> impl Iterator<Item = Range> {
    let Range { sector, count, .. } = *piece;
    (0..count)
        .step_by(QUARTER_SECTORS as usize)
        .map(move |offset| Range {
            sector: sector + offset,
            ssd_sector: 0,
            count: QUARTER_SECTORS.min(count - offset),
        })
}

/// The pieces, in parts of at most [`BATCH_PIECES`] and so many bytes, or of one piece.
fn batches(pieces: &[Range], most: u64) -> impl Iterator<Item = &[Range]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |piece: &&Range| {
            bytes += piece.count * SECTOR_BYTES;
            bytes <= most
        };
        let count = rest.iter().take(BATCH_PIECES).take_while(fits).count();
        let (batch, behind) = rest.split_at(count.max(1).min(rest.len()));
        rest = behind;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Whether `next` follows on the disk in the same run, so that the engine cleans both as one piece.
fn joins(last: &Range, next: &Range, run_sectors: u64) -> bool {
    last.sector + last.count == next.sector
        && last.sector / run_sectors == next.sector / run_sectors
}
