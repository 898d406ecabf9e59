// SPDX-License-Identifier: GPL-3.0-or-later
//! The model of a disk, with which the cached device is compared. The model shares no code with core.
//!
//! Each sector is a register. Since every write has values of its own, its history is linearizable exactly if the zones of
//! its values do not conflict (Gibbons and Korach, "Testing shared memories", 1997). A zone lies between the first end and
//! the last start of the requests that saw one value. Two values whose zones both run forward (an end before a start) must
//! not overlap, and a zone that runs backward must not lie wholly within one that runs forward.
//!
//! Time is a counter that the caller raises with every event, so that no two events share an instant.
//!
//! A cut may bring back any value that is still in the history. A completed flush removes the values that were
//! certainly overwritten before the flush began. A value `v` came before `w` if `v` ended before the write of `w`, or a
//! read of `w`, began. The flush covers `w` if `w` had been acknowledged when the flush began. After a cut each sector
//! has one value, and only that one.

use std::hash::{Hash, Hasher};

use crate::stamp::{OpId, Stamp};

/// An instant; larger is later.
pub type Time = u64;

const NEVER: Time = Time::MAX;

/// A sector showed what it must not show.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    /// A value that no request wrote to this sector, or a value that was overwritten too long ago.
    #[error("sector {sector}: {stamp} was never written here or is older than a flush")]
    Foreign {
        /// Where, in 512 bytes.
        sector: u64,
        /// What was seen.
        stamp: Stamp,
    },
    /// One write showed two of the values that its buffer held in turn.
    #[error("sector {sector}: write #{op} was seen as version {first} and as version {second}")]
    Unsteady {
        /// Where, in 512 bytes.
        sector: u64,
        /// The write.
        op: OpId,
        /// The version seen first.
        first: u8,
        /// The version seen later.
        second: u8,
    },
    /// After a cut the sector holds what it must not hold.
    #[error("sector {sector}: after the cut it holds {stamp}, allowed are {allowed}")]
    Lost {
        /// Where, in 512 bytes.
        sector: u64,
        /// What the sector holds.
        stamp: Stamp,
        /// What the sector may hold.
        allowed: String,
    },
    /// No order of the requests explains the values that they saw.
    #[error("sector {sector}: no order explains both {a} and {b}")]
    Order {
        /// Where, in 512 bytes.
        sector: u64,
        /// One value with its zone.
        a: String,
        /// The other value with its zone.
        b: String,
    },
}

/// All requests that saw one write's value.
#[derive(Clone, Debug)]
struct Cluster {
    op: OpId,
    seen: Option<u8>,
    first_end: Time,
    last_start: Time,
    /// When the write was acknowledged.
    acked: Time,
    /// The write may never have happened, and from now on no read may return its value.
    ghost: bool,
    /// When a flush made sure that no cut brings the value back. A read that began before may still see the value.
    gone: Time,
}

impl Cluster {
    fn conflicts(&self, other: &Cluster) -> bool {
        if self.ghost || other.ghost {
            return false;
        }
        let low = self
            .first_end
            .min(self.last_start)
            .max(other.first_end.min(other.last_start));
        let high = self
            .first_end
            .max(self.last_start)
            .min(other.first_end.max(other.last_start));
        match (self.forward(), other.forward()) {
            (true, true) => low < high,
            (true, false) => self.first_end < other.last_start && other.first_end < self.last_start,
            (false, true) => other.first_end < self.last_start && self.first_end < other.last_start,
            (false, false) => false,
        }
    }

    fn forward(&self) -> bool {
        self.first_end < self.last_start
    }

    fn describe(&self) -> String {
        let end = if self.first_end == NEVER {
            "never".to_owned()
        } else {
            self.first_end.to_string()
        };
        format!(
            "write #{} (first end {end}, last start {})",
            self.op, self.last_start
        )
    }
}

/// The histories of all sectors.
pub struct Oracle {
    sectors: Vec<Vec<Cluster>>,
    touched: Vec<u32>,
    written: Vec<bool>,
}

impl Oracle {
    /// A disk of `sectors` sectors of 512 bytes, each holding the stamp of request 0.
    pub fn new(sectors: u64) -> Oracle {
        let base = Cluster {
            op: 0,
            seen: Some(0),
            first_end: 0,
            last_start: 0,
            acked: 0,
            ghost: false,
            gone: NEVER,
        };
        Oracle {
            sectors: vec![vec![base]; sectors as usize],
            touched: Vec::new(),
            written: vec![false; sectors as usize],
        }
    }

    /// All times that matter.
    pub fn times(&self) -> impl Iterator<Item = Time> {
        let all = self.touched.iter();
        let all = all.flat_map(|&sector| &self.sectors[sector as usize]);
        all.flat_map(|c| [c.first_end, c.last_start, c.acked, c.gone])
    }

    /// Adds the histories to `hash`; `rank`: of a time.
    pub fn digest(&self, rank: impl Fn(Time) -> usize, hash: &mut impl Hasher) {
        let mut touched = self.touched.clone();
        touched.sort_unstable();
        for sector in touched {
            let mut history: Vec<_> = self.sectors[sector as usize].iter().collect();
            history.sort_unstable_by_key(|cluster| cluster.op);
            for c in history {
                (sector, c.op, c.seen, c.ghost).hash(hash);
                (rank(c.first_end), rank(c.last_start), rank(c.acked)).hash(hash);
                rank(c.gone).hash(hash);
            }
        }
    }

    /// Sectors that were ever written, each at least once.
    pub fn touched(&self) -> &[u32] {
        &self.touched
    }

    /// A write, discard or zero-out of `count` sectors from `first` begins.
    pub fn write_starts(&mut self, op: OpId, first: u64, count: u64, now: Time) {
        for sector in first..first + count {
            let history = &mut self.sectors[sector as usize];
            if !std::mem::replace(&mut self.written[sector as usize], true) {
                self.touched.push(sector as u32);
            }
            history.push(Cluster {
                op,
                seen: None,
                first_end: NEVER,
                last_start: now,
                acked: NEVER,
                ghost: false,
                gone: NEVER,
            });
        }
    }

    /// The write `op` was acknowledged. The caller does not report a write that failed: such a write may take effect at
    /// any time, or never.
    ///
    /// # Errors
    /// A sector whose history has no order any more.
    pub fn write_ends(
        &mut self,
        op: OpId,
        first: u64,
        count: u64,
        now: Time,
    ) -> Result<(), Violation> {
        for sector in first..first + count {
            self.extend(sector, op, |cluster| {
                cluster.first_end = cluster.first_end.min(now);
                cluster.acked = now;
            })?;
        }
        Ok(())
    }

    /// A read that ran from `start` until `end` returned `stamp` for `sector`.
    ///
    /// # Errors
    /// The value was not allowed.
    pub fn saw(
        &mut self,
        sector: u64,
        stamp: Stamp,
        start: Time,
        end: Time,
    ) -> Result<(), Violation> {
        if stamp == Stamp::JUNK || stamp.sector() != sector {
            return Err(Violation::Foreign { sector, stamp });
        }
        let mut unsteady = None;
        self.extend(sector, stamp.op(), |cluster| {
            cluster.first_end = cluster.first_end.min(end);
            cluster.last_start = cluster.last_start.max(start);
            match cluster.seen {
                None => cluster.seen = Some(stamp.version()),
                Some(first) if first != stamp.version() => unsteady = Some(first),
                Some(_) => {}
            }
        })?;
        match unsteady {
            Some(first) => Err(Violation::Unsteady {
                sector,
                op: stamp.op(),
                first,
                second: stamp.version(),
            }),
            None => Ok(()),
        }
    }

    /// A flush that began at `start` was acknowledged at `now`. The oldest request under way began at `oldest`.
    pub fn flushed(&mut self, start: Time, now: Time, oldest: Time) {
        for &sector in &self.touched {
            let history = &mut self.sectors[sector as usize];
            if history.len() > 1 {
                let floor = history
                    .iter()
                    .filter(|cluster| cluster.acked <= start)
                    .map(|cluster| cluster.last_start)
                    .max();
                forget(history, floor.unwrap_or(0), now, oldest);
            }
        }
    }

    /// The write `op` was acknowledged, and is durable.
    pub fn forced(&mut self, op: OpId, first: u64, count: u64, now: Time, oldest: Time) {
        for history in &mut self.sectors[first as usize..(first + count) as usize] {
            if let Some(own) = history.iter().find(|cluster| cluster.op == op) {
                let floor = own.last_start;
                forget(history, floor, now, oldest);
            }
        }
    }

    /// At `now` nothing is under way, and the sector holds `stamp`. A write that was neither acknowledged nor seen has
    /// happened by now, or never will; yet a cut may still bring its value back.
    ///
    /// # Errors
    /// The sector must not hold that value.
    pub fn quiet(&mut self, sector: u64, stamp: Stamp, now: Time) -> Result<(), Violation> {
        for cluster in &mut self.sectors[sector as usize] {
            if cluster.first_end == NEVER && cluster.op != stamp.op() {
                cluster.ghost = true;
                cluster.first_end = now;
            }
        }
        self.saw(sector, stamp, now + 1, now + 2)
    }

    /// After a cut the sector holds `stamp`. If the power went (`power`), the value is final. If only the machine died,
    /// another power cut may still bring back a value that a newer one in a disk's volatile cache hides.
    ///
    /// # Errors
    /// The sector must not hold that value.
    pub fn restarted(
        &mut self,
        sector: u64,
        stamp: Stamp,
        now: Time,
        power: bool,
    ) -> Result<(), Violation> {
        let history = &mut self.sectors[sector as usize];
        let at = history.iter().position(|cluster| {
            stamp.sector() == sector
                && cluster.op == stamp.op()
                && cluster.gone == NEVER
                && (power || !cluster.ghost)
        });
        let Some(at) = at else {
            let allowed = history.iter().filter(|cluster| cluster.gone == NEVER);
            let mut allowed: Vec<_> = allowed.map(|c| format!("#{}", c.op)).collect();
            allowed.sort();
            let allowed = allowed.join(", ");
            return Err(Violation::Lost {
                sector,
                stamp,
                allowed,
            });
        };
        let mut own = history.swap_remove(at);
        if let Some(first) = own.seen
            && first != stamp.version()
        {
            return Err(Violation::Unsteady {
                sector,
                op: own.op,
                first,
                second: stamp.version(),
            });
        }
        own.seen = Some(stamp.version());
        (own.first_end, own.last_start, own.acked, own.ghost) = (now, now, now, false);
        history.retain(|other| !power && other.gone == NEVER);
        for other in history.iter_mut() {
            (other.first_end, other.last_start, other.ghost) = (now - 1, 0, true);
            other.acked = NEVER;
        }
        history.push(own);
        Ok(())
    }

    fn extend(
        &mut self,
        sector: u64,
        op: OpId,
        change: impl FnOnce(&mut Cluster),
    ) -> Result<(), Violation> {
        let history = &mut self.sectors[sector as usize];
        let Some(at) = history
            .iter()
            .position(|cluster| cluster.op == op && !cluster.ghost)
        else {
            return Err(Violation::Foreign {
                sector,
                stamp: Stamp::new(op, sector, 0),
            });
        };
        change(&mut history[at]);
        let changed = &history[at];
        for (index, other) in history.iter().enumerate() {
            if index != at && changed.conflicts(other) {
                return Err(Violation::Order {
                    sector,
                    a: changed.describe(),
                    b: other.describe(),
                });
            }
        }
        Ok(())
    }
}

/// Takes out of a history what was overwritten before `floor`.
fn forget(history: &mut Vec<Cluster>, floor: Time, now: Time, oldest: Time) {
    history.retain_mut(|cluster| {
        if cluster.gone == NEVER && cluster.first_end < floor && cluster.last_start < floor {
            cluster.gone = now;
        }
        cluster.gone == NEVER || cluster.gone > oldest && !cluster.ghost
    });
}

#[cfg(test)]
mod tests;
