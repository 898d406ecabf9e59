// SPDX-License-Identifier: GPL-3.0-or-later
//! The devices below a cache that works: both may grow, and something beside the cache may change the disk.

use super::Service;
use super::apply::record_size;
use super::plans::mapped;
use crate::decide::lifecycle;
use crate::machine::dm::control::MOST_SSD_SECTORS;
use crate::model::action::{Action, Pair};
use crate::model::facts::{Device, Facts};
use crate::model::live::LiveMapping;
use crate::model::record::CacheRecord;
use tandem_api::{CacheState, Mode, SECTOR_BYTES, Sharing, Target};

/// Partitions begin and end at multiples of so many bytes, as a rule.
const PARTITION_UNIT: u64 = 1 << 20;

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

    /// Has a cache use all of an SSD, a partition or a volume that has grown, once nothing is dirty. There is one attempt for
    /// each size, but for those at which something became dirty just then, and none for what rounding leaves.
    pub(super) async fn use_all_of_ssd(&self, record: &CacheRecord, ssd: &Device) {
        let pair = &record.pair;
        // An older kernel of the machine may have a module in its initial file system that refuses such a cache.
        if record.in_initramfs {
            return;
        }
        let (uuid, bytes) = (
            &pair.uuid,
            ssd.ident.text.size.min(MOST_SSD_SECTORS * SECTOR_BYTES),
        );
        let planned = self.store.intents().iter().any(|job| job.uuid == *uuid);
        let ours = pair.target == Target::Tandem && !pair.ssd.is_memory();
        if !ours || planned || self.job(uuid).is_some() {
            return;
        }
        let Ok(status) = self.host.status(uuid).await else {
            return;
        };
        // A module of before does not say it.
        let used = status
            .sample
            .event("ssd_sectors")
            .saturating_mul(SECTOR_BYTES);
        let active = status.state == CacheState::Active.as_str();
        if used == 0 || bytes < used + PARTITION_UNIT || !active || status.sample.dirty_sectors > 0
        {
            return;
        }
        let before = self.inner().grown_ssds.insert(uuid.clone(), bytes);
        if before == Some(bytes) {
            return;
        }
        let new = pair.resized(bytes);
        if let Err(e) = self.host.apply(&Action::ResizeCache(new.clone())).await {
            tracing::error!(
                uuid,
                "the SSD has grown, and its cache uses a part of it only: {e}"
            );
            let status = self.host.status(uuid).await;
            if status.is_ok_and(|status| status.sample.dirty_sectors > 0) {
                self.inner().grown_ssds.remove(uuid);
            }
            return;
        }
        match record_size(&self.store, &new) {
            Ok(()) => tracing::info!(uuid, bytes, "the SSD has grown"),
            Err(e) => tracing::warn!(uuid, "the SSD has grown: {e}"),
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
