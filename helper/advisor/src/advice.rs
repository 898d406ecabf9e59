// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a cache helps, and how large it should be.

use crate::Seen;
use crate::curve::{Curve, Point};

/// Before so much time under watch nothing is said: a day has its habits.
const LEAST_WATCHED_US: u64 = 86_400_000_000;

/// With fewer reads in a day nobody waits for the disk.
const LEAST_READS_A_DAY: u64 = 1000;

/// A cache that serves less of the reads and of the bytes is not worth an SSD.
const LEAST_SERVED: f64 = 0.2;

/// Beyond the size that is this close to the best one, little is gained.
const LITTLE: f64 = 0.03;

/// Of all requests; with fewer reads the disk is busy with writing, which a cache in write-through does not make faster.
const MOSTLY: f64 = 0.8;

/// Of all requests; when more are lost, what was seen says nothing against a cache.
const MOST_LOST: f64 = 0.1;

/// The answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Advice {
    /// More time is needed to say.
    Wait {
        /// The time that is still needed.
        left_us: u64,
    },
    /// A cache of this size; more gains little.
    Cache(Point),
    /// A cache will not help.
    NoHelp(Reason),
    /// Too many requests were lost to say that a cache will not help.
    Incomplete,
}

/// Why a cache will not help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The disk is hardly read.
    FewReads,
    /// Most requests are writes.
    MostlyWrites,
    /// Most is read in long runs, which a disk does well, and not again.
    MostlySequential,
    /// What is read is not read again.
    NothingReadAgain,
}

/// The smallest size beyond which little is gained.
fn enough(curve: &Curve) -> Option<Point> {
    let best = curve.points.last()?;
    let close = |point: &&Point| {
        best.bytes_served.share - point.bytes_served.share <= LITTLE
            && best.reads_served.share - point.reads_served.share <= LITTLE
    };
    curve.points.iter().find(close).copied()
}

pub fn of(curve: &Curve, seen: &Seen) -> Advice {
    let left_us = LEAST_WATCHED_US.saturating_sub(seen.watched_us);
    if left_us > 0 {
        return Advice::Wait { left_us };
    }
    let counted = seen.reads.saturating_add(seen.writes);
    let all = counted.saturating_add(seen.lost);
    let incomplete = seen.lost as f64 > MOST_LOST * all as f64;
    let days = seen.watched_us as f64 / LEAST_WATCHED_US as f64;
    if (seen.reads as f64) < LEAST_READS_A_DAY as f64 * days && !incomplete {
        return Advice::NoHelp(Reason::FewReads);
    }
    if let Some(point) = enough(curve)
        && point.reads_served.share.max(point.bytes_served.share) >= LEAST_SERVED
    {
        return Advice::Cache(point);
    }
    if incomplete {
        return Advice::Incomplete;
    }
    let reason = if seen.writes as f64 >= MOSTLY * counted as f64 {
        Reason::MostlyWrites
    } else if seen.sequential_sectors as f64 >= MOSTLY * seen.read_sectors as f64 {
        Reason::MostlySequential
    } else {
        Reason::NothingReadAgain
    };
    Advice::NoHelp(reason)
}
