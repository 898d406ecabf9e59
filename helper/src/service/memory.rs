// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches in the computer's memory give their memory back while programs need it, and have it again, empty, when enough has
//! been free for a while.

use super::Service;
use crate::model::action::{Action, Pair};
use crate::model::memory::Room;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tandem_api::{Failure, Kind};
use tokio::time::sleep;

/// `Cache.StateReason` of a cache that has given its memory back.
pub(super) const MEMORY_NEEDED: &str = "memory-needed";
/// Time between two looks at the memory, in sample periods. A cache fills as fast as its disk is read, so a tenth of the
/// memory lasts for some seconds.
const PERIOD: u32 = 2;
/// How long there has to be room before a cache has its memory again, in sample periods.
const PATIENCE: u32 = 60;

/// The memory as last looked at.
#[derive(Debug, Default)]
pub(super) struct MemoryRoom {
    /// Programs need the memory that caches have.
    short: bool,
    /// Since when there is room for a cache (by UUID) that has given its memory back.
    since: BTreeMap<String, Instant>,
}

impl MemoryRoom {
    /// Looks at the memory. `caches`: the UUIDs of the caches in memory, with their sizes in bytes.
    fn look(&mut self, room: Room, caches: &[(String, u64)], now: Instant) {
        self.short = room.is_short();
        let fits = |uuid: &String| {
            let mut sizes = caches.iter().filter(|(known, _)| known == uuid);
            sizes.any(|(_, bytes)| room.fits(*bytes))
        };
        self.since.retain(|uuid, _| fits(uuid));
        for (uuid, _) in caches.iter().filter(|(uuid, _)| fits(uuid)) {
            self.since.entry(uuid.clone()).or_insert(now);
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
            let ours = pairs.iter().filter(|pair| pair.ssd.is_memory());
            let caches: Vec<_> = ours.map(|p| (p.uuid.clone(), p.ssd.text.size)).collect();
            if caches.is_empty() {
                continue;
            }
            let Some(room) = self.host.memory_room() else {
                continue;
            };
            self.inner().memory.look(room, &caches, Instant::now());
            let asks = |pair: &Pair| [self.gives_way(pair), self.may_return(pair)];
            let now: Vec<_> = pairs.iter().map(asks).collect();
            if now != wanted {
                wanted = now;
                self.again.notify_one();
            }
        }
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
        pair.ssd.is_memory() && since.is_some_and(|since| since.elapsed() >= patience)
    }

    /// Has the disk of a cache used alone, and gives the memory of the cache back.
    pub(super) async fn give_way(&self, pair: &Pair) -> Result<(), Failure> {
        tracing::info!(
            uuid = pair.uuid,
            "programs need the memory of the cache: the disk is used alone"
        );
        self.wait_for_room(pair);
        self.host.apply(&Action::Detach(pair.clone())).await?;
        self.again.notify_one();
        self.host.apply(&Action::FreeSsd(pair.clone())).await
    }

    /// The next attempt to put the cache into memory begins when there has been room for a while from now on.
    pub(super) fn wait_for_room(&self, pair: &Pair) {
        let mut inner = self.inner();
        inner.memory.since.remove(&pair.uuid);
        inner.attempts.forget(&pair.uuid);
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

    #[test]
    fn room_counts_from_when_it_began_for_each_cache() {
        let mut memory = MemoryRoom::default();
        let caches = [("a".to_owned(), 100), ("b".to_owned(), 700)];
        let begun = Instant::now();
        let look = |memory: &mut MemoryRoom, available, seconds| {
            let room = Room {
                total: 1000,
                available,
            };
            memory.look(room, &caches, begun + Duration::from_secs(seconds));
            (memory.short, memory.since.clone())
        };
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(look(&mut memory, 50, 0), (true, BTreeMap::new()));
        let a = |seconds| BTreeMap::from([("a".to_owned(), at(seconds))]);
        assert_eq!(look(&mut memory, 500, 1), (false, a(1)));
        assert_eq!(look(&mut memory, 500, 2), (false, a(1)));
        let (_, since) = look(&mut memory, 950, 3);
        assert_eq!(since.get("b"), Some(&at(3)));
        assert_eq!(look(&mut memory, 299, 4), (false, BTreeMap::new()));
        assert_eq!(look(&mut memory, 300, 5), (false, a(5)));
    }
}
