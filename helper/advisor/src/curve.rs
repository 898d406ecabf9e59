// SPDX-License-Identifier: GPL-3.0-or-later
//! From gains of samples to hit rates.

use crate::Seen;
use crate::ladder::{Amount, Ladder, Rung};

/// A part of a whole, 0 to 1, and how far off it may be: in 19 of 20 cases not more than that.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Estimate {
    pub share: f64,
    pub error: f64,
}

/// A size of the cache.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Room for data on the SSD.
    pub bytes: u64,
    /// Of the bytes read, those from the SSD.
    pub bytes_served: Estimate,
    /// Of the reads, those from the SSD alone. Reads of a disk take about as long whatever their size is, so this is what a
    /// person notices.
    pub reads_served: Estimate,
}

/// Hit rates by size.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// In order of sizes, each twice the one before. Caches larger than the last serve what the last one serves.
    pub points: Vec<Point>,
}

/// With fewer groups a slope would follow chance.
const LEAST_GROUPS: usize = 12;

/// Sum and variance of a total that is estimated by a sample.
#[derive(Clone, Copy, Default)]
struct Total {
    value: f64,
    variance: f64,
}

impl Total {
    /// Adds the gain of a rung. The groups of the sample are independent draws.
    ///
    /// By chance the sample has more or less of the data in use than its share. How much is known from the misses of the lowest
    /// rung, in the sample and in all: as far as the gain of a group goes with its misses, the gain is set right by that
    /// (a regression estimator).
    fn add(&mut self, rung: &Rung, number: impl Fn(&Amount) -> i64) {
        let rate = rung.ghost.rate();
        let count = rung.tallies.len() as f64;
        let values = rung.tallies.iter().map(|tally| {
            let [gain, missed] = [&tally.gain, &tally.missed].map(|amount| number(amount) as f64);
            (gain, missed)
        });
        let sums = values
            .clone()
            .fold((0.0, 0.0), |sum, value| (sum.0 + value.0, sum.1 + value.1));
        let off = |(gain, missed)| (gain - sums.0 / count, missed - sums.1 / count);
        let slope = if rung.tallies.len() < LEAST_GROUPS {
            0.0
        } else {
            let products = values
                .clone()
                .map(off)
                .fold((0.0, 0.0), |sum, (gain, missed)| {
                    (sum.0 + gain * missed, sum.1 + missed * missed)
                });
            // No more can be gained than was missed.
            (products.0 / f64::max(products.1, 1.0)).clamp(0.0, 1.0)
        };
        let lacking = number(&rung.missed) as f64 - sums.1 / rate;
        self.value += sums.0 / rate + slope * lacking;
        let rest = values
            .map(off)
            .map(|(gain, missed)| (gain - slope * missed).powi(2));
        // A single group says nothing of its spread.
        let spread = if count > 1.0 {
            rest.sum::<f64>() * count / (count - 1.0)
        } else {
            sums.0.powi(2)
        };
        self.variance += spread * (1.0 - rate) / (rate * rate);
    }

    fn of(&self, whole: u64) -> Estimate {
        if whole == 0 {
            return Estimate::default();
        }
        Estimate {
            share: (self.value / whole as f64).clamp(0.0, 1.0),
            error: (2.0 * self.variance.sqrt() / whole as f64).min(1.0),
        }
    }
}

/// The curve of all rungs.
pub fn of(ladder: &Ladder, seen: &Seen) -> Curve {
    let (mut sectors, mut reads) = (Total::default(), Total::default());
    let points = ladder.rungs.iter().map(|rung| {
        sectors.add(rung, |amount| amount.sectors);
        reads.add(rung, |amount| amount.reads);
        Point {
            bytes: rung.ghost.sectors() * 512,
            bytes_served: sectors.of(seen.read_sectors),
            reads_served: reads.of(seen.reads),
        }
    });
    Curve {
        points: points.collect(),
    }
}

impl Curve {
    /// What a cache of any size would do, as a straight line between the sizes around it.
    pub fn at(&self, bytes: u64) -> Option<Point> {
        let above = self.points.iter().position(|point| point.bytes >= bytes);
        let last = *self.points.last()?;
        let Some(above) = above else {
            return Some(Point { bytes, ..last });
        };
        let high = self.points[above];
        let low = match above.checked_sub(1) {
            Some(below) => self.points[below],
            // Nothing comes of nothing.
            None => Point {
                bytes: 0,
                bytes_served: Estimate::default(),
                reads_served: Estimate::default(),
            },
        };
        let part = (bytes - low.bytes) as f64 / (high.bytes - low.bytes) as f64;
        let between = |low: Estimate, high: Estimate| Estimate {
            share: low.share + (high.share - low.share) * part,
            error: low.error.max(high.error),
        };
        Some(Point {
            bytes,
            bytes_served: between(low.bytes_served, high.bytes_served),
            reads_served: between(low.reads_served, high.reads_served),
        })
    }
}
