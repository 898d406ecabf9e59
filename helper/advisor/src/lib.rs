// SPDX-License-Identifier: GPL-3.0-or-later
//! Predicts from the requests to a disk without a cache what part of its reads caches of several sizes would serve.
//!
//! A [`Ladder`](ladder) of ghosts runs core's own code for caches of doubling sizes, each for a sample of the disk that is the
//! smaller the larger the cache is. So the memory is fixed, whatever the disk and its requests are. [`Advisor::curve`] tells
//! the predicted hit rates, and [`Advisor::advice`] whether a cache helps at all.
//!
//! There is no I/O, no clock and no thread here: the service feeds requests with their times and keeps the saved state.

mod advice;
mod curve;
mod ghost;
mod ladder;
mod state;

use ghost::Piece;
use ladder::Ladder;

pub use advice::{Advice, Reason};
pub use curve::{Curve, Estimate, Point};
pub use ladder::Shape;
pub use state::StateError;

/// Longest read or write that is believed, in sectors: 64 MiB. The kernel's requests are smaller.
const LONGEST: u64 = 1 << 17;

/// Longest time between two requests that counts as watched.
const LONGEST_GAP_US: u64 = 86_400_000_000;

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Read,
    Write,
    /// Discards and zero-outs.
    Discard,
}

/// A request to the disk.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Of any clock that only goes forward.
    pub time_us: u64,
    /// The kind of the request.
    pub kind: Kind,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u64,
}

/// What was seen so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Time under watch.
    pub watched_us: u64,
    /// Reads.
    pub reads: u64,
    /// Sectors of them.
    pub read_sectors: u64,
    /// Sectors of reads that were parts of long sequential reads.
    pub sequential_sectors: u64,
    /// Writes and discards.
    pub writes: u64,
    /// Sectors of the writes.
    pub written_sectors: u64,
    /// Requests that no disk of this size can get.
    pub ignored: u64,
    /// Requests that the advisor was not told of.
    pub lost: u64,
}

/// No memory for the advisor, or a size of the disk that no cache can have.
#[derive(Debug, thiserror::Error)]
#[error("no advice is possible for a disk of {0} sectors")]
pub struct Impossible(u64);

/// The advisor of one disk, which it watches.
pub struct Advisor {
    ladder: Ladder,
    seen: Seen,
    last_us: Option<u64>,
}

impl Advisor {
    /// For a disk of so many sectors.
    ///
    /// # Errors
    /// There is no memory, or the disk is empty or larger than any disk with a cache.
    pub fn new(disk_sectors: u64) -> Result<Self, Impossible> {
        Self::with_shape(disk_sectors, Shape::REAL)
    }

    /// With other caches than real ones, for measuring the prediction.
    ///
    /// # Errors
    /// As [`Advisor::new`].
    pub fn with_shape(disk_sectors: u64, shape: Shape) -> Result<Self, Impossible> {
        Ok(Self {
            ladder: Ladder::new(disk_sectors, shape).ok_or(Impossible(disk_sectors))?,
            seen: Seen::default(),
            last_us: None,
        })
    }

    /// Watching begins again at this time, of a clock that may be another one: the time before does not count.
    pub fn resume(&mut self, time_us: u64) {
        self.last_us = Some(time_us);
    }

    /// The disk is under watch at this time, though there may be no request.
    pub fn watch(&mut self, time_us: u64) {
        let gap = self.last_us.map_or(0, |last| time_us.saturating_sub(last));
        self.seen.watched_us += gap.min(LONGEST_GAP_US);
        self.last_us = self.last_us.max(Some(time_us));
    }

    /// The requests that were lost before the advisor could get them.
    pub fn lose(&mut self, requests: u64) {
        self.seen.lost = self.seen.lost.saturating_add(requests);
    }

    /// A request, in the order in which the disk gets them.
    pub fn feed(&mut self, request: &Request) {
        self.watch(request.time_us);
        let &Request {
            kind,
            sector,
            sectors,
            ..
        } = request;
        let end = sector.checked_add(sectors);
        let end = end.filter(|&end| end <= self.ladder.disk_sectors() && sector < end);
        let (Some(end), true) = (end, kind == Kind::Discard || sectors <= LONGEST) else {
            self.seen.ignored += 1;
            return;
        };
        match kind {
            Kind::Read => {
                self.seen.reads += 1;
                self.seen.read_sectors += sectors;
                for piece in self.ladder.pieces(sector, end) {
                    if self.ladder.read(piece, piece.sector == sector) {
                        self.seen.sequential_sectors += u64::from(piece.count);
                    }
                }
            }
            Kind::Write => {
                self.seen.writes += 1;
                self.seen.written_sectors += sectors;
                for piece in self.ladder.pieces(sector, end) {
                    self.ladder.write(piece);
                }
            }
            Kind::Discard => {
                self.seen.writes += 1;
                self.ladder.discard(sector, end);
            }
        }
    }

    /// What was seen so far.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The predicted hit rate by size of the cache.
    pub fn curve(&self) -> Curve {
        curve::of(&self.ladder, &self.seen)
    }

    /// Whether a cache helps.
    pub fn advice(&self) -> Advice {
        advice::of(&self.curve(), &self.seen)
    }

    /// Bytes of memory in use, without this structure.
    pub fn memory(&self) -> u64 {
        self.ladder.memory()
    }
}
