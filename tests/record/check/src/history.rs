// SPDX-License-Identifier: GPL-3.0-or-later
//! Which values each sector of the cached device may hold after a cut (promises 1, 3 and 4). Uses nothing of core.
//!
//! A write that was acknowledged before a flush began is durable when the flush ends; a write with FUA is durable when the
//! write ends. A cut never shows an older value than a durable one: a value is forgotten when a durable write began after
//! the value's own write had ended. Of a write under way a cut may show any of its sectors.

use std::collections::HashSet;

use tandem_sim::stamp::Stamp;

/// Number of an event, from 1 on.
pub type Time = usize;

const NEVER: Time = Time::MAX;

#[derive(Clone, Copy)]
struct Version {
    stamp: Stamp,
    /// Number of the write request.
    writer: u32,
    begin: Time,
    end: Time,
    /// A cut cannot lose this value.
    durable: bool,
}

/// The histories of all sectors.
pub struct History {
    /// What the device showed before the first write.
    base: Vec<Stamp>,
    versions: Vec<Vec<Version>>,
    touched: Vec<u32>,
    /// Sectors with a version that is not durable.
    open: Vec<u32>,
    /// All values that requests ever wrote, by sector.
    offered: HashSet<(u32, Stamp)>,
}

impl History {
    /// The history of a device that shows these values before the first write.
    pub fn new(base: Vec<Stamp>) -> Self {
        Self {
            versions: vec![Vec::new(); base.len()],
            base,
            touched: Vec::new(),
            open: Vec::new(),
            offered: HashSet::new(),
        }
    }

    /// A write to sectors from `first` on began.
    pub fn begins(&mut self, writer: u32, first: u64, stamps: &[Stamp], now: Time) {
        for (sector, &stamp) in (first as u32..).zip(stamps) {
            let versions = &mut self.versions[sector as usize];
            if versions.is_empty() {
                self.touched.push(sector);
                versions.push(Version {
                    stamp: self.base[sector as usize],
                    writer: u32::MAX,
                    begin: 0,
                    end: 0,
                    durable: true,
                });
            }
            if versions.iter().all(|version| version.durable) {
                self.open.push(sector);
            }
            versions.push(Version {
                stamp,
                writer,
                begin: now,
                end: NEVER,
                durable: false,
            });
            self.offered.insert((sector, stamp));
        }
    }

    /// The write was acknowledged.
    pub fn ends(&mut self, writer: u32, first: u64, count: u32, fua: bool, now: Time) {
        for versions in &mut self.versions[first as usize..][..count as usize] {
            for version in versions
                .iter_mut()
                .filter(|version| version.writer == writer)
            {
                version.end = now;
                version.durable = fua;
            }
            if fua {
                forget(versions);
            }
        }
        if fua {
            self.close();
        }
    }

    /// A flush that began at `begin` was acknowledged.
    pub fn flushed(&mut self, begin: Time) {
        for &sector in &self.open {
            let versions = &mut self.versions[sector as usize];
            for version in versions.iter_mut().filter(|version| version.end <= begin) {
                version.durable = true;
            }
            forget(versions);
        }
        self.close();
    }

    fn close(&mut self) {
        let versions = &self.versions;
        let is_open = |&sector: &u32| versions[sector as usize].iter().any(|v| !v.durable);
        self.open.retain(is_open);
    }

    /// Sectors that were written to.
    pub fn touched(&self) -> &[u32] {
        &self.touched
    }

    /// Whether a sector may show this after a cut now.
    pub fn allows(&self, sector: u32, stamp: Stamp) -> bool {
        let versions = &self.versions[sector as usize];
        match versions.as_slice() {
            [] => self.base[sector as usize] == stamp,
            versions => versions.iter().any(|version| version.stamp == stamp),
        }
    }

    /// What a sector may show.
    pub fn allowed(&self, sector: u32) -> Vec<Stamp> {
        let versions = &self.versions[sector as usize];
        match versions.as_slice() {
            [] => vec![self.base[sector as usize]],
            versions => versions.iter().map(|version| version.stamp).collect(),
        }
    }

    /// Whether a request ever wrote this value to the sector, or the sector held it at first.
    pub fn was_offered(&self, sector: u32, stamp: Stamp) -> bool {
        self.base[sector as usize] == stamp || self.offered.contains(&(sector, stamp))
    }
}

/// Takes out the versions whose writes ended before the newest durable write began.
fn forget(versions: &mut Vec<Version>) {
    let durable = versions.iter().filter(|version| version.durable);
    let newest = durable.map(|version| version.begin).max().unwrap_or(0);
    versions.retain(|version| version.end >= newest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(history: &History) -> Vec<u64> {
        let mut all: Vec<_> = history.allowed(0).iter().map(|stamp| stamp.0).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_flush_takes_out_what_ended_before() {
        let mut history = History::new(vec![Stamp(0)]);
        history.begins(1, 0, &[Stamp(1)], 1);
        assert_eq!(holds(&history), [0, 1]);
        history.ends(1, 0, 1, false, 2);
        assert_eq!(holds(&history), [0, 1]);
        history.begins(2, 0, &[Stamp(2)], 4);
        history.flushed(3);
        assert_eq!(holds(&history), [1, 2]);
        history.ends(2, 0, 1, false, 5);
        // This flush began before the write was acknowledged.
        history.flushed(4);
        assert_eq!(holds(&history), [1, 2]);
        history.flushed(6);
        assert_eq!(holds(&history), [2]);
    }

    #[test]
    fn either_of_two_writes_at_the_same_time_may_win() {
        let mut history = History::new(vec![Stamp(0)]);
        history.begins(1, 0, &[Stamp(1)], 1);
        history.begins(2, 0, &[Stamp(2)], 2);
        history.ends(1, 0, 1, true, 3);
        assert_eq!(holds(&history), [1, 2]);
        history.ends(2, 0, 1, false, 4);
        history.flushed(5);
        assert_eq!(holds(&history), [1, 2]);
        history.begins(3, 0, &[Stamp(3)], 6);
        history.ends(3, 0, 1, true, 7);
        assert_eq!(holds(&history), [3]);
    }
}
