// SPDX-License-Identifier: GPL-3.0-or-later
//! A simulated disk: sectors of 512 bytes in memory behind a volatile write cache, and errors on demand. Requests to it live
//! in [`crate::queue`].
//!
//! The cache may write any of what it holds to the medium at any time, in any order, one logical block after the other. So
//! at a cut each block holds the durable value or any of those written since: if two writes to one block were completed and
//! neither was flushed, the medium may have the first one, since the cache may have written it out between the two. A flush
//! makes durable what was completed before it began; it may make more durable, which the cut's choice covers.

use std::hash::{Hash, Hasher};

use crate::oracle::Time;
use crate::stamp::Stamp;

/// A value that is not durable yet.
#[derive(Clone, Copy)]
struct Entry {
    stamp: Stamp,
    writer: u64,
    /// When its write was completed; [`UNDER_WAY`] if it was not.
    completed: Time,
}

const UNDER_WAY: Time = Time::MAX;

/// What a power cut leaves of the volatile cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Luck {
    /// All of it: the capacitors held.
    Keep,
    /// Nothing.
    Lose,
    /// Of 256 writes so many survive; others do not, or not wholly.
    Writes(u8),
    /// Of 256 blocks so many get some newer value.
    Blocks(u8),
}

/// One disk.
pub struct Disk {
    content: Vec<Stamp>,
    durable: Vec<Stamp>,
    /// What was written since, oldest first.
    log: Vec<Vec<Entry>>,
    /// All sectors whose log is not empty.
    volatile: Vec<u32>,
    /// Sectors that are written as one, whatever happens.
    block: u64,
    /// Of 65536 requests this many fail.
    pub failing: u32,
    /// Every request fails.
    pub dead: bool,
}

impl Disk {
    /// A disk of blocks of `block` sectors, whose sector `n` holds `content(n)`.
    pub fn new(sectors: u64, block: u64, content: impl Fn(u64) -> Stamp) -> Disk {
        let content: Vec<_> = (0..sectors).map(content).collect();
        Disk {
            durable: content.clone(),
            content,
            log: vec![Vec::new(); sectors as usize],
            volatile: Vec::new(),
            block,
            failing: 0,
            dead: false,
        }
    }

    /// All sectors, as a read would return them.
    pub fn content(&self) -> &[Stamp] {
        &self.content
    }

    /// Sectors of a logical block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Gives all sectors new names; nothing may be volatile.
    pub fn rename(&mut self, mut name: impl FnMut(Stamp) -> Stamp) {
        for (content, durable) in self.content.iter_mut().zip(&mut self.durable) {
            *content = name(*content);
            *durable = *content;
        }
    }

    /// When what is volatile was completed.
    pub fn times(&self) -> impl Iterator<Item = Time> {
        let volatile = self.volatile.iter();
        let logs = volatile.flat_map(|&sector| &self.log[sector as usize]);
        logs.map(|entry| entry.completed)
    }

    /// Adds all that a read or a cut may show to `hash`; `name`: of a value, `rank`: of a time.
    pub fn digest(
        &self,
        name: impl Fn(Stamp) -> u64,
        rank: impl Fn(Time) -> usize,
        hash: &mut impl Hasher,
    ) {
        for &stamp in &self.durable {
            name(stamp).hash(hash);
        }
        let mut volatile = self.volatile.clone();
        volatile.sort_unstable();
        for sector in volatile {
            for entry in &self.log[sector as usize] {
                (sector, name(entry.stamp), rank(entry.completed)).hash(hash);
            }
        }
    }

    /// The write `writer` stores `stamp` in `sector`; it is not completed yet.
    pub fn write(&mut self, sector: u64, stamp: Stamp, writer: u64) {
        let at = sector as usize;
        self.content[at] = stamp;
        if self.log[at].is_empty() {
            self.volatile.push(sector as u32);
        }
        self.log[at].push(Entry {
            stamp,
            writer,
            completed: UNDER_WAY,
        });
    }

    /// The write `writer` to `count` sectors from `first` was completed at `now`; durable at once if `fua`.
    pub fn write_completed(&mut self, first: u64, count: u64, writer: u64, fua: bool, now: Time) {
        for sector in first as usize..(first + count) as usize {
            let Some(at) = self.log[sector].iter().rposition(|e| e.writer == writer) else {
                continue;
            };
            self.log[sector][at].completed = now;
            if fua {
                self.settle(sector, at);
            }
        }
        if fua {
            self.forget_durable();
        }
    }

    /// A flush that began at `start` was completed: what was completed before it is durable.
    pub fn flush_completed(&mut self, start: Time) {
        for index in 0..self.volatile.len() {
            let sector = self.volatile[index] as usize;
            if let Some(at) = self.log[sector].iter().rposition(|e| e.completed <= start) {
                self.settle(sector, at);
            }
        }
        self.forget_durable();
    }

    /// The entry is durable, and those before it are history.
    fn settle(&mut self, sector: usize, at: usize) {
        self.durable[sector] = self.log[sector][at].stamp;
        self.log[sector].drain(..=at);
    }

    fn forget_durable(&mut self) {
        let log = &self.log;
        self.volatile
            .retain(|&sector| !log[sector as usize].is_empty());
    }

    /// Nothing would be lost by a cut.
    pub fn is_durable(&self) -> bool {
        self.volatile.is_empty()
    }

    /// Nothing of these sectors would be lost by a cut.
    pub fn is_durable_at(&self, first: u64, count: u64) -> bool {
        let end = (first + count).min(self.log.len() as u64);
        self.log[first as usize..end as usize]
            .iter()
            .all(Vec::is_empty)
    }

    /// A flush with nothing under way.
    pub fn flush_all(&mut self) {
        for sector in std::mem::take(&mut self.volatile) {
            let sector = sector as usize;
            self.log[sector].clear();
            self.durable[sector] = self.content[sector];
        }
    }

    /// The machine died but the disk kept its power: what is volatile stays so, and nothing is under way any more.
    pub fn machine_died(&mut self, now: Time) {
        for &sector in &self.volatile {
            for entry in &mut self.log[sector as usize] {
                entry.completed = entry.completed.min(now);
            }
        }
    }

    /// The power goes. Whatever is left is durable.
    pub fn power_cut(&mut self, luck: Luck, rng: &mut fastrand::Rng) {
        for (sector, stamp) in self.survivors(luck, rng) {
            self.durable[sector] = stamp;
        }
        for sector in std::mem::take(&mut self.volatile) {
            let sector = sector as usize;
            self.log[sector].clear();
            self.content[sector] = self.durable[sector];
        }
    }

    /// All sectors, as a power cut now would leave them.
    pub fn after_power_cut(&self, luck: Luck, rng: &mut fastrand::Rng) -> Vec<Stamp> {
        let mut left = self.durable.clone();
        for (sector, stamp) in self.survivors(luck, rng) {
            left[sector] = stamp;
        }
        left
    }

    /// The volatile sectors of which a power cut leaves a newer value than the durable one.
    fn survivors(&self, luck: Luck, rng: &mut fastrand::Rng) -> Vec<(usize, Stamp)> {
        let salt = rng.u64(..);
        let survivor = |&sector: &u32| {
            let block = u64::from(sector) / self.block;
            let log = &self.log[sector as usize];
            let at = match luck {
                Luck::Keep => Some(log.len() - 1),
                Luck::Lose => None,
                Luck::Writes(share) => log.iter().rposition(|entry| {
                    let coin = mix(entry.writer, salt);
                    // Of eight lost writes one is torn.
                    coin as u8 <= share
                        || coin >> 8 & 7 == 0 && mix(entry.writer ^ block << 32, salt) & 1 == 0
                }),
                Luck::Blocks(share) => {
                    let coin = mix(block, salt);
                    (coin as u8 <= share).then_some((coin >> 8) as usize % log.len())
                }
            };
            at.map(|at| (sector as usize, log[at].stamp))
        };
        self.volatile.iter().filter_map(survivor).collect()
    }
}

/// A number that follows from two, without a pattern.
fn mix(a: u64, b: u64) -> u64 {
    let mut x = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ b;
    x ^= x >> 32;
    x.wrapping_mul(0x94d0_49bb_1331_11eb) >> 24
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(op: u32) -> Stamp {
        Stamp::new(op, 0, 0)
    }

    fn after(luck: Luck, seed: u64, write: impl Fn(&mut Disk)) -> Stamp {
        let mut disk = Disk::new(1, 1, |_| stamp(0));
        write(&mut disk);
        disk.power_cut(luck, &mut fastrand::Rng::with_seed(seed));
        disk.content()[0]
    }

    fn survivors(write: impl Fn(&mut Disk)) -> Vec<u32> {
        let mut all: Vec<_> = (0..200)
            .map(|seed| after(Luck::Blocks(170), seed, &write).op())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn any_value_since_the_last_durable_one_may_survive() {
        let two = |disk: &mut Disk| {
            disk.write(0, stamp(1), 1);
            disk.write_completed(0, 1, 1, false, 10);
            disk.write(0, stamp(2), 2);
        };
        assert_eq!(survivors(two), [0, 1, 2]);
        assert_eq!(after(Luck::Lose, 1, two), stamp(0));
        assert_eq!(after(Luck::Keep, 1, two), stamp(2));
    }

    #[test]
    fn a_flush_keeps_what_was_completed_before_it_began() {
        let flushed = |disk: &mut Disk| {
            disk.write(0, stamp(1), 1);
            disk.write_completed(0, 1, 1, false, 10);
            disk.write(0, stamp(2), 2);
            disk.write_completed(0, 1, 2, false, 12);
            disk.flush_completed(11);
        };
        assert_eq!(survivors(flushed), [1, 2]);
    }

    #[test]
    fn fua_is_durable_when_completed_and_not_before() {
        let moved = |disk: &mut Disk| disk.write(0, stamp(1), 1);
        assert_eq!(survivors(moved), [0, 1]);
        let ended = |disk: &mut Disk| {
            disk.write(0, stamp(1), 1);
            disk.write_completed(0, 1, 1, true, 10);
        };
        assert_eq!(survivors(ended), [1]);
        assert_eq!(after(Luck::Lose, 1, ended), stamp(1));
    }
}
