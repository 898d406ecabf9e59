// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches of doubling sizes, each with a ghost.
//!
//! The ghost of each rung keeps the same number of groups, so a rung of twice the size samples half as much of the disk. All
//! samples are chosen by the same hash: the sample of a rung is part of that of the rung below. So the rungs differ in a *gain*
//! that is measured on the very same requests: the hits that the larger cache has and the smaller one has not. The hit rate of
//! a rung is that of the lowest one, which samples everything, plus the gains up to it.
//!
//! There is a rung only for a size that has something to lose. As long as the highest rung has given up nothing, all larger
//! caches would hit in the same. When it has no room for a frame, a rung of twice its size is put on top, with the same content.
//! So a large cache that is half empty costs no precision.
//!
//! A detector of streams belongs to each rung, as in each cache, and sees what misses in it. For reads out of the rung's
//! sample, that is what misses in the largest cache below which has them in its sample. Streams of writes are the same for
//! all rungs: one detector sees all writes.

use crate::Piece;
use crate::ghost::{FRAME, Ghost, GhostShape, Missed};

/// The sizes, and how much of each is sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Groups of the smallest cache, which is watched whole, and in the sample of each other.
    pub groups: u32,
    /// The most rungs.
    pub rungs: u32,
    /// log2 of the frames in a run.
    pub run_shift: u32,
    /// log2 of the ways of a set.
    pub way_shift: u32,
}

impl Shape {
    /// 512 MiB to 2 TiB, of the shape that core plans for caches of these sizes.
    pub const REAL: Self = Self {
        groups: 32,
        rungs: 13,
        run_shift: 6,
        way_shift: 4,
    };

    /// The ghost of a rung.
    pub(crate) fn ghost(&self, disk_sectors: u64, rung: usize) -> Option<GhostShape> {
        let groups = self.groups.checked_shl(rung as u32)?;
        let fits = groups >> rung == self.groups
            && groups.leading_zeros() >= self.way_shift
            && (rung as u32) < self.rungs;
        let possible = self.groups > 0
            && self.run_shift <= 6
            && self.way_shift <= 4
            && disk_sectors > 0
            && disk_sectors / FRAME < 1 << 36;
        (fits && possible).then_some(GhostShape {
            disk_sectors,
            groups,
            kept: self.groups,
            run_shift: self.run_shift,
            way_shift: self.way_shift,
        })
    }
}

/// Of reads.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Amount {
    /// Sectors.
    pub sectors: i64,
    /// Reads, each of them as far as the first run goes that it touches.
    pub reads: i64,
}

/// What happened in a group.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Hits that the rung below did not have; of reads, those that hit as a whole.
    pub gain: Amount,
    /// What could be gained: all that the lowest rung missed.
    pub missed: Amount,
}

/// A size.
pub struct Rung {
    pub ghost: Ghost,
    /// Of each kept group.
    pub tallies: Vec<Tally>,
    /// All that the lowest rung missed since this one is there, in the sample or not.
    pub missed: Amount,
}

impl Rung {
    pub fn new(ghost: Ghost) -> Self {
        let tallies = vec![Tally::default(); ghost.shape().kept as usize];
        Self {
            ghost,
            tallies,
            missed: Amount::default(),
        }
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.sectors += other.sectors;
        self.reads += other.reads;
    }
}

impl std::ops::Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            sectors: self.sectors - other.sectors,
            reads: self.reads - other.reads,
        }
    }
}

/// All sizes of one disk.
pub struct Ladder {
    pub shape: Shape,
    disk_sectors: u64,
    /// At least one.
    pub rungs: Vec<Rung>,
    /// The list of ghosts that sees all reads, and keeps nothing.
    pub detector: Ghost,
}

/// The pieces of a range, one for each run.
pub struct Pieces {
    sector: u64,
    end: u64,
    run_sectors: u64,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let sector = self.sector;
        let left = self.end - sector;
        let count = left.min(self.run_sectors - sector % self.run_sectors);
        self.sector += count;
        let count = u32::try_from(count).ok()?;
        (count > 0).then_some(Piece { sector, count })
    }
}

impl Ladder {
    /// Of empty caches; `None` without memory, or for a shape that cannot be.
    pub fn new(disk_sectors: u64, shape: Shape) -> Option<Self> {
        let lowest = Ghost::new(shape.ghost(disk_sectors, 0)?)?;
        Some(Self {
            shape,
            disk_sectors,
            rungs: vec![Rung::new(lowest)],
            detector: Self::new_detector(disk_sectors, shape)?,
        })
    }

    fn new_detector(disk_sectors: u64, shape: Shape) -> Option<Ghost> {
        Ghost::new(GhostShape {
            kept: 0,
            ..shape.ghost(disk_sectors, 0)?
        })
    }

    pub fn disk_sectors(&self) -> u64 {
        self.disk_sectors
    }

    pub fn pieces(&self, sector: u64, end: u64) -> Pieces {
        Pieces {
            sector,
            end,
            run_sectors: FRAME << self.shape.run_shift,
        }
    }

    /// Puts rungs on top until the highest has room for a piece, or is the last.
    fn make_room(&mut self, piece: Piece) {
        while let Some(top) = self.rungs.last() {
            if top.ghost.group(piece.sector).is_none() || top.ghost.has_room(piece) {
                return;
            }
            let next = self.shape.ghost(self.disk_sectors, self.rungs.len());
            let Some(ghost) = next.and_then(|_| top.ghost.double()) else {
                return;
            };
            self.rungs.push(Rung::new(ghost));
        }
    }

    /// Reads a piece; `first`: the request begins with it. True: the piece is part of a stream.
    pub fn read(&mut self, piece: Piece, first: bool) -> bool {
        self.make_room(piece);
        let mut missed = Missed::all(piece.sector, piece.count);
        let stream = self.detector.pass(&missed);
        let whole = Amount {
            sectors: i64::from(piece.count),
            reads: i64::from(first),
        };
        let mut below = Amount::default();
        let mut lowest_missed = whole;
        for (at, rung) in self.rungs.iter_mut().enumerate() {
            rung.missed += lowest_missed;
            let Some(group) = rung.ghost.group(piece.sector) else {
                rung.ghost.pass(&missed);
                continue;
            };
            let hit = rung.ghost.read(piece, &mut missed);
            let hit = Amount {
                sectors: i64::from(hit),
                reads: i64::from(first && hit == piece.count),
            };
            rung.tallies[group].gain += hit - below;
            rung.tallies[group].missed += lowest_missed;
            if at == 0 {
                lowest_missed = whole - hit;
            }
            below = hit;
        }
        stream
    }

    /// Writes a piece.
    pub fn write(&mut self, piece: Piece) {
        let stream = self.detector.streams(piece);
        if !stream {
            self.make_room(piece);
        }
        for rung in &mut self.rungs {
            if rung.ghost.group(piece.sector).is_none() {
                return;
            }
            rung.ghost.write(piece, stream);
        }
    }

    /// Forgets a range.
    pub fn discard(&mut self, sector: u64, end: u64) {
        for rung in &mut self.rungs {
            rung.ghost.discard(sector, end);
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> u64 {
        let rungs = self
            .rungs
            .iter()
            .map(|rung| rung.ghost.memory() + (rung.tallies.len() * size_of::<Tally>()) as u64);
        rungs.sum::<u64>() + self.detector.memory()
    }
}
