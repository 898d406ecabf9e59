// SPDX-License-Identifier: GPL-3.0-or-later
//! The disk below a cache that works: the disk may grow, and something beside the cache may change it.

use super::Service;
use super::plans::mapped;
use crate::decide::lifecycle;
use crate::model::action::Pair;
use crate::model::facts::Facts;
use crate::model::live::LiveMapping;
use crate::model::record::CacheRecord;
use tandem_api::{Mode, SECTOR_BYTES, Sharing};

impl Service {
    /// Makes a mapping as long as its disk, a partition or a volume that has grown. There is one attempt for each length:
    /// the module refuses some.
    pub(super) async fn let_grow(&self, live: &LiveMapping, facts: &Facts) {
        let disk = facts.devices.iter().find(|d| d.number == live.origin);
        let sectors = disk.map_or(0, |disk| disk.ident.text.size / SECTOR_BYTES);
        if sectors <= live.sectors || self.job(&live.uuid).is_some() {
            return;
        }
        let before = self.inner().grown.insert(live.uuid.clone(), sectors);
        if before == Some(sectors) {
            return;
        }
        match self.host.grow(&live.uuid, sectors).await {
            Ok(()) => tracing::info!(uuid = live.uuid, sectors, "the disk has grown"),
            Err(e) => tracing::error!(
                uuid = live.uuid,
                "the disk has grown, and its cache covers the old length: {e}"
            ),
        }
    }

    /// What beside the cache changes its disk.
    pub(super) fn sharing(pair: &Pair, facts: &Facts) -> Sharing {
        let disk = facts.same_hardware(&pair.origin);
        disk.map_or(Sharing::Alone, |disk| {
            facts.sharing(disk, mapped(facts, pair))
        })
    }

    /// If something beside the cache changes its disk, has the next start be cold, and ends write-back: what is on the SSD
    /// only would be missing there, or be written over what was changed. This is recorded again after each start. A disk on
    /// the network needs no such record: see [`Pair::starts_cold`]. For a caller that holds `refreshing`.
    pub(super) async fn guard_if_shared(
        &self,
        mut record: CacheRecord,
        pair: &Pair,
        facts: &Facts,
    ) -> CacheRecord {
        let sharing = Self::sharing(pair, facts);
        if sharing == Sharing::Alone {
            return record;
        }
        if record.pair.mode == Mode::Writeback || record.waits_for_kernel {
            self.end_write_back(pair).await;
            record = self.latest_record(&pair.uuid).await.unwrap_or(record);
        }
        if record.pair.copies_stale || sharing == Sharing::Network {
            return record;
        }
        let cold = self.change(&record, lifecycle::made_cold).await;
        cold.unwrap_or(record)
    }
}
