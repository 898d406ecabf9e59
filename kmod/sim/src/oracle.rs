// SPDX-License-Identifier: GPL-3.0-or-later
//! The model of a disk that the cached device is held against; it shares no code with core.
//!
//! Each sector is a register. Since every write has values of its own, its history is linearizable exactly if the zones of
//! its values do not conflict (Gibbons and Korach, "Testing shared memories", 1997). A zone lies between the first end and
//! the last start of the requests that saw one value. Two values whose zones both run forward (an end before a start) must
//! not overlap, and a zone that runs backward must not lie wholly within one that runs forward.
//!
//! Time is a counter that the caller raises with every event, so that no two events share an instant.

use crate::stamp::{OpId, Stamp};

/// An instant; larger is later.
pub type Time = u64;

const NEVER: Time = Time::MAX;

/// A sector showed what it must not show.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    /// A value that nobody wrote to this sector, or that lies too far back.
    #[error(
        "sector {sector}: {stamp} was never written here or is older than the last quiet moment"
    )]
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
    /// No order of the requests explains what they saw.
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
}

impl Cluster {
    fn conflicts(&self, other: &Cluster) -> bool {
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

/// The histories of all sectors since the last quiet moment.
pub struct Oracle {
    sectors: Vec<Vec<Cluster>>,
    touched: Vec<u32>,
}

impl Oracle {
    /// A disk of `sectors` sectors of 512 bytes, each holding the stamp of request 0.
    pub fn new(sectors: u64) -> Oracle {
        let base = Cluster {
            op: 0,
            seen: Some(0),
            first_end: 0,
            last_start: 0,
        };
        Oracle {
            sectors: vec![vec![base]; sectors as usize],
            touched: Vec::new(),
        }
    }

    /// A write, discard or zero-out of `count` sectors from `first` begins.
    pub fn write_starts(&mut self, op: OpId, first: u64, count: u64, now: Time) {
        for sector in first..first + count {
            let history = &mut self.sectors[sector as usize];
            if history.len() == 1 {
                self.touched.push(sector as u32);
            }
            history.push(Cluster {
                op,
                seen: None,
                first_end: NEVER,
                last_start: now,
            });
        }
    }

    /// The write `op` was acknowledged. One that failed is not told: it may take effect at any time, or never.
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
                cluster.first_end = cluster.first_end.min(now)
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

    /// Nothing is under way and the disk holds what `content` says for each sector: forgets all that went before.
    /// `content` must have been [seen](Oracle::saw) first.
    pub fn quiet(&mut self, content: &[Stamp], now: Time) {
        for sector in self.touched.drain(..) {
            let stamp = content[sector as usize];
            let history = &mut self.sectors[sector as usize];
            history.clear();
            history.push(Cluster {
                op: stamp.op(),
                seen: Some(stamp.version()),
                first_end: now,
                last_start: now,
            });
        }
    }

    fn extend(
        &mut self,
        sector: u64,
        op: OpId,
        change: impl FnOnce(&mut Cluster),
    ) -> Result<(), Violation> {
        let history = &mut self.sectors[sector as usize];
        let Some(at) = history.iter().position(|cluster| cluster.op == op) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn value(op: OpId) -> Stamp {
        Stamp::new(op, 0, 0)
    }

    fn written(writes: &[(OpId, Time, Time)]) -> Oracle {
        let mut oracle = Oracle::new(1);
        for &(op, start, _) in writes {
            oracle.write_starts(op, 0, 1, start);
        }
        for &(op, _, end) in writes {
            oracle.write_ends(op, 0, 1, end).unwrap();
        }
        oracle
    }

    #[test]
    fn a_read_beside_a_write_may_return_either_value() {
        for op in [0, 1] {
            let mut oracle = Oracle::new(1);
            oracle.write_starts(1, 0, 1, 10);
            oracle.saw(0, value(op), 11, 12).unwrap();
            oracle.write_ends(1, 0, 1, 13).unwrap();
        }
    }

    #[test]
    fn the_old_value_after_the_acknowledgement_is_found() {
        let mut oracle = written(&[(1, 10, 12)]);
        assert!(oracle.saw(0, value(0), 13, 14).is_err());
    }

    #[test]
    fn the_old_value_after_somebody_saw_the_new_one_is_found() {
        let mut oracle = Oracle::new(1);
        oracle.write_starts(1, 0, 1, 10);
        oracle.saw(0, value(1), 11, 12).unwrap();
        assert!(oracle.saw(0, value(0), 13, 14).is_err());
    }

    #[test]
    fn two_writes_at_once_may_settle_either_way_but_only_once() {
        for (first, second) in [(1, 2), (2, 1)] {
            let mut oracle = written(&[(1, 10, 20), (2, 11, 21)]);
            oracle.saw(0, value(first), 30, 31).unwrap();
            assert!(oracle.saw(0, value(second), 32, 33).is_err());
        }
    }

    #[test]
    fn a_failed_write_may_show_up_late_but_not_go_away_again() {
        let mut oracle = Oracle::new(1);
        oracle.write_starts(1, 0, 1, 10);
        oracle.saw(0, value(0), 20, 21).unwrap();
        oracle.saw(0, value(1), 30, 31).unwrap();
        assert!(oracle.saw(0, value(0), 40, 41).is_err());
    }

    #[test]
    fn another_sectors_data_and_two_versions_are_found() {
        let mut oracle = Oracle::new(2);
        assert!(oracle.saw(0, Stamp::new(0, 1, 0), 1, 2).is_err());
        assert!(oracle.saw(0, Stamp::JUNK, 1, 2).is_err());
        oracle.write_starts(1, 0, 1, 10);
        oracle.saw(0, Stamp::new(1, 0, 1), 11, 12).unwrap();
        assert!(oracle.saw(0, Stamp::new(1, 0, 0), 13, 14).is_err());
    }

    #[test]
    fn what_was_overwritten_before_a_quiet_moment_is_foreign() {
        let mut oracle = written(&[(1, 10, 12)]);
        oracle.saw(0, value(1), 13, 14).unwrap();
        oracle.quiet(&[value(1)], 15);
        assert!(oracle.saw(0, value(0), 16, 17).is_err());
        oracle.saw(0, value(1), 18, 19).unwrap();
    }
}
