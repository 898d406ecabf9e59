// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches in the computer's memory give their memory back while programs need it, and have it again, empty, when enough has
//! been free for a while.

use super::Service;
use crate::model::action::{Action, Pair};
use crate::model::memory::Room;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tandem_api::{Failure, Kind, SECTOR_BYTES};
use tokio::time::sleep;

/// `Cache.StateReason` of a cache that has given its memory back.
pub(super) const MEMORY_NEEDED: &str = "memory-needed";
/// Time between two looks at the memory, in sample periods. A cache fills as fast as its disk is read, so a tenth of the
/// memory lasts for some seconds.
const PERIOD: u32 = 2;
/// How long there has to be room before a cache has its memory again, in sample periods. Twice as long after each attempt that
/// failed, until it is 64 times as long.
const PATIENCE: u32 = 60;
const MOST_DOUBLINGS: u32 = 6;

/// A cache in memory.
struct InMemory {
    uuid: String,
    /// Bytes of memory that the cache takes beside what it has, until it is full.
    lacks: u64,
    /// The cache has its memory now.
    has: bool,
}

/// The memory as last looked at.
#[derive(Debug, Default)]
pub(super) struct MemoryRoom {
    /// Programs need the memory that caches have.
    short: bool,
    /// Since when there is room for a cache (by UUID) that has given its memory back.
    since: BTreeMap<String, Instant>,
    /// How often in a row a cache (by UUID) could not have its memory again.
    failed: BTreeMap<String, u32>,
}

impl MemoryRoom {
    /// Looks at the memory. There is room for a cache if it and those before it fit together, beside those that fill now.
    fn look(&mut self, room: Room, caches: &[InMemory], now: Instant) {
        self.short = room.is_short();
        let filling = caches.iter().filter(|cache| cache.has);
        let mut asked = filling.fold(0, |sum: u64, cache| sum.saturating_add(cache.lacks));
        let mut fits = BTreeSet::new();
        for cache in caches.iter().filter(|cache| !cache.has) {
            asked = asked.saturating_add(cache.lacks);
            if room.fits(asked) {
                fits.insert(cache.uuid.clone());
            }
        }
        self.since.retain(|uuid, _| fits.contains(uuid));
        for uuid in fits {
            self.since.entry(uuid).or_insert(now);
        }
    }
}

impl Service {
    /// Looks at the memory while there are caches in it.
    pub(super) async fn follow_memory(self: Arc<Self>) {
        let mut wanted = Vec::new();
        loop {
            sleep(self.host.sample_period() * PERIOD).await;
            let pairs = self.shown_pairs();
            let facts = self.inner().devices.clone();
            let mut caches = Vec::new();
            for pair in pairs.iter().filter(|pair| pair.ssd.is_memory()) {
                let has = facts.same_hardware(&pair.ssd).is_some();
                let used = match has {
                    true => self.used_memory(pair).await,
                    false => 0,
                };
                caches.push(InMemory {
                    uuid: pair.uuid.clone(),
                    lacks: pair.ssd.text.size.saturating_sub(used),
                    has,
                });
            }
            if caches.is_empty() {
                continue;
            }
            let Some(room) = self.host.memory_room() else {
                continue;
            };
            self.inner().memory.look(room, &caches, Instant::now());
            let asks = |pair: &Pair| [self.gives_way(pair), self.may_return(pair)];
            let now: Vec<_> = pairs.iter().map(asks).collect();
            // An attempt to give memory back may have failed.
            let urgent = room.is_short() && caches.iter().any(|cache| cache.has);
            if now != wanted || urgent {
                wanted = now;
                self.again.notify_one();
            }
        }
    }

    /// Bytes of copies that a cache has in memory.
    async fn used_memory(&self, pair: &Pair) -> u64 {
        let status = self.host.status(&pair.uuid).await;
        status.map_or(0, |status| {
            let sample = status.sample;
            let sectors = sample.frames_used.saturating_mul(sample.frame_sectors);
            sectors.saturating_mul(SECTOR_BYTES)
        })
    }

    /// Whether the kernel can have a cache in memory.
    pub(super) fn has_memory(&self) -> bool {
        self.host.memory_for_caches() > 0
    }

    /// Whether a cache has to give its memory back now.
    pub(super) fn gives_way(&self, pair: &Pair) -> bool {
        pair.ssd.is_memory() && self.inner().memory.short
    }

    /// Whether a cache that has given its memory back may have it again.
    pub(super) fn may_return(&self, pair: &Pair) -> bool {
        let patience = self.host.sample_period() * PATIENCE;
        let inner = self.inner();
        let since = inner.memory.since.get(&pair.uuid);
        let failed = inner.memory.failed.get(&pair.uuid).copied();
        let patience = patience * (1 << failed.unwrap_or(0).min(MOST_DOUBLINGS));
        pair.ssd.is_memory() && since.is_some_and(|since| since.elapsed() >= patience)
    }

    /// Has the disk of a cache used alone, and gives the memory of the cache back. A mapping that leads to no disk and that
    /// nobody uses is removed.
    pub(super) async fn give_way(&self, pair: &Pair) -> Result<(), Failure> {
        tracing::info!(uuid = pair.uuid, "the memory of the cache is given back");
        self.inner().memory.since.remove(&pair.uuid);
        match self.host.apply(&Action::Detach(pair.clone())).await {
            Err(e) if e.kind == Kind::DeviceGone => {
                self.host.apply(&Action::Disassemble(pair.clone())).await?;
            }
            detached => detached?,
        }
        self.host.apply(&Action::FreeSsd(pair.clone())).await
    }

    /// An attempt to put a cache into memory has ended. After a failure the next one begins when there has been room for a
    /// longer while from now on.
    pub(super) fn has_returned(&self, pair: &Pair, done: bool) {
        let mut inner = self.inner();
        inner.memory.since.remove(&pair.uuid);
        inner.attempts.forget(&pair.uuid);
        match done {
            true => drop(inner.memory.failed.remove(&pair.uuid)),
            false => *inner.memory.failed.entry(pair.uuid.clone()).or_default() += 1,
        }
    }

    /// Most bytes of memory that a further cache may take.
    ///
    /// # Errors
    /// `MemoryUnable` (`absent`).
    pub(super) fn memory_for_cache(&self) -> Result<u64, Failure> {
        let all = self.host.memory_for_caches();
        if all == 0 {
            return Err(Failure::new(Kind::MemoryUnable)
                .name("absent")
                .detail(self.host.kernel()));
        }
        let records = self.store.caches();
        let taken = records.iter().filter(|record| record.pair.ssd.is_memory());
        let taken: u64 = taken.map(|record| record.pair.ssd.text.size).sum();
        Ok(all.saturating_sub(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Bytes that are available, whether that is short, and since when there is room for which cache.
    type Expected<'a> = (u64, bool, &'a [(&'a str, u64)]);

    #[test]
    fn room_counts_from_when_it_began_for_each_cache() {
        let mut memory = MemoryRoom::default();
        let cache = |uuid: &str, lacks, has| InMemory {
            uuid: uuid.to_owned(),
            lacks,
            has,
        };
        let caches = [
            cache("a", 60, false),
            cache("b", 600, false),
            cache("c", 40, true),
        ];
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let since = |known: &[(&str, u64)]| -> BTreeMap<String, Instant> {
            let known = known.iter();
            known
                .map(|(uuid, s)| ((*uuid).to_owned(), at(*s)))
                .collect()
        };
        // Both fit together from 900 on, and the first alone from 300 on.
        let expected: [Expected<'_>; 7] = [
            (50, true, &[]),
            (500, false, &[("a", 1)]),
            (899, false, &[("a", 1)]),
            (900, false, &[("a", 1), ("b", 3)]),
            (950, false, &[("a", 1), ("b", 3)]),
            (299, false, &[]),
            (300, false, &[("a", 6)]),
        ];
        for (second, (available, short, known)) in (0..).zip(expected) {
            let room = Room {
                total: 1000,
                available,
            };
            memory.look(room, &caches, at(second));
            assert_eq!(
                (memory.short, &memory.since),
                (short, &since(known)),
                "{second}"
            );
        }
    }
}
