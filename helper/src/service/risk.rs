// SPDX-License-Identifier: GPL-3.0-or-later
//! Has the records say what becomes of the SSDs and the disks. Writes wait for it, for a second at most: it must not
//! wait for anything else that the service does.

use super::plans::leads_to;
use super::{CALM, RETRY, Service};
use crate::action::Pair;
use crate::dm::message::Message;
use crate::engine::Live;
use crate::facts::{Device, Facts};
use crate::state::CacheRecord;
use std::sync::Arc;
use tandem_api::Failure;

impl Service {
    /// Hears of every change of the machine first, and passes it on.
    pub(super) async fn follow_risk(self: Arc<Self>) {
        loop {
            let recorded = self.record_risks().await.unwrap_or_else(|e| {
                tracing::error!("cannot look at the mappings: {e}");
                false
            });
            tokio::time::sleep(CALM).await;
            tokio::select! {
                () = self.engine.changed() => self.again.notify_one(),
                () = tokio::time::sleep(RETRY), if !recorded => {}
            }
        }
    }

    /// Whether all records say what the module knows of the SSDs.
    pub(super) async fn record_risks(&self) -> Result<bool, Failure> {
        let mut recorded = true;
        for live in self.engine.live().await?.iter().filter(|l| l.attached) {
            recorded &= self.record_risk(&live.uuid).await;
        }
        Ok(recorded)
    }

    /// Has the record say what the module knows of the SSD, and tells the module when its loss is on record. False:
    /// it does not.
    async fn record_risk(&self, uuid: &str) -> bool {
        let alone = self.recording.lock().await;
        let Ok(status) = self.engine.status(uuid).await else {
            return true;
        };
        // A job that makes or removes the cache keeps the record itself.
        if self.inner().records(uuid) {
            return true;
        }
        let loss = |record: &CacheRecord| (record.pair.cold, record.pair.lost);
        let mut before = Default::default();
        let recorded = self.store.change_cache(uuid, |record| {
            before = loss(&record);
            record.after(&status)
        });
        let now = match recorded {
            Ok(Some(now)) => now,
            Ok(None) => return true,
            Err(e) => {
                tracing::error!("cannot record what is on the SSD only: {e}");
                return false;
            }
        };
        drop(alone);
        let lost = loss(&now) != before;
        if lost && let Err(e) = self.engine.tell(uuid, Message::LossRecorded).await {
            // It waits for a second at most; the SSD may be in use again by now.
            tracing::info!("the module was not told of the record: {e}");
        }
        true
    }

    /// Has the record say that the disk is used without the cache, if it is: what the SSD has is not the
    /// truth any more. None: the cache was removed since it was listed, and nothing of it is to be put on record again.
    pub(super) async fn record_fork(
        &self,
        pair: &Pair,
        live: Option<&Live>,
        facts: &Facts,
    ) -> Option<CacheRecord> {
        // Where no device agrees with all of the record, each that may be the disk counts.
        let disks = match facts.same_hardware(&pair.origin) {
            Some(disk) => vec![disk],
            None => facts.possible(&pair.origin),
        };
        // A mapping may lead to nowhere since the disk was pulled and plugged in again.
        let uncovered = live.is_none_or(|live| !leads_to(live, pair, facts))
            && disks.into_iter().any(Device::used_by_others);
        let _alone = self.recording.lock().await;
        // The loss of its SSD may have been recorded since it was listed.
        let mut record = self.record(&pair.uuid).ok()?;
        // Nobody asked for one that passes through: its SSD was back and could not be used, and the disk lacked nothing.
        let plain = uncovered || live.is_some_and(|live| !live.attached);
        let kept = self.inner().running.iter().any(|r| r.uuid == pair.uuid);
        let forked = uncovered && record.may_be_dirty;
        let known = (record.forked || !forked) && (record.pair.cold || !plain);
        if !known && !kept && record.detached_in.is_none() {
            tracing::warn!(
                uuid = pair.uuid,
                forked,
                "the disk is used without its cache"
            );
            record.forked |= forked;
            record.pair.cold |= plain;
            let mark = |mut now: CacheRecord| {
                now.forked |= record.forked;
                now.pair.cold |= record.pair.cold;
                now
            };
            if let Err(e) = self.store.change_cache(&pair.uuid, mark) {
                tracing::error!("cannot record that: {e}");
            }
        }
        Some(record)
    }

    /// Has the record say which file system is on the disk now: a person may have made another one through the cache,
    /// and the record of an earlier version does not name one.
    pub(super) fn record_content(&self, record: &CacheRecord, device: Option<&Device>) {
        let Some(uuid) = device.map(|device| device.content_uuid.clone()) else {
            return;
        };
        if uuid.is_empty() || uuid == record.pair.origin.content_uuid {
            return;
        }
        let new = |mut now: CacheRecord| {
            now.pair.origin.content_uuid = uuid;
            now
        };
        if let Err(e) = self.store.change_cache(&record.pair.uuid, new) {
            tracing::warn!("the file system of the disk is not recorded: {e}");
        }
    }

    /// A cache works: what its SSD had to forget is forgotten, and only what was lost since is to be.
    pub(super) async fn assembled(&self, pair: &Pair) -> Result<(), Failure> {
        let _alone = self.recording.lock().await;
        let record = self.record(&pair.uuid)?;
        if !record.pair.cold && record.pair.lost == 0 {
            return Ok(());
        }
        let status = match self.engine.status(&pair.uuid).await {
            Ok(status) => status,
            Err(e) => {
                tracing::warn!("the next start will be cold too: {e}");
                return Ok(());
            }
        };
        let new = |mut record: CacheRecord| {
            (record.pair.cold, record.pair.lost) = (false, 0);
            record.after(&status)
        };
        if let Err(e) = self.store.change_cache(&pair.uuid, new) {
            tracing::warn!("the next start will be cold too: {e}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::bus;
    use crate::engine::{Engine, Status};
    use crate::facts::Mounter;
    use crate::plan::tests::{device, mount};
    use crate::state::Store;
    use tandem_api::{FileUser, Kind, Mode, ModuleState};

    /// The record of a fork needs nothing from the engine.
    struct NoEngine;

    #[async_trait::async_trait]
    impl Engine for NoEngine {
        fn name(&self) -> &'static str {
            "none"
        }

        fn kernel(&self) -> String {
            String::new()
        }

        fn boot_id(&self) -> String {
            String::new()
        }

        async fn module_state(&self) -> ModuleState {
            ModuleState::NotBuilt
        }

        async fn facts(&self) -> Result<Facts, Failure> {
            Err(Failure::new(Kind::Internal))
        }

        async fn blank(&self, _: &Device) -> Result<bool, Failure> {
            Err(Failure::new(Kind::Internal))
        }

        async fn claimed(&self, _: &Device) -> Result<bool, Failure> {
            Err(Failure::new(Kind::Internal))
        }

        async fn users(&self, _: &Device) -> Vec<FileUser> {
            Vec::new()
        }

        async fn apply(&self, _: &Action) -> Result<(), Failure> {
            Err(Failure::new(Kind::Internal))
        }

        async fn tell(&self, _: &str, _: Message) -> Result<(), Failure> {
            Err(Failure::new(Kind::Internal))
        }

        async fn live(&self) -> Result<Vec<Live>, Failure> {
            Ok(Vec::new())
        }

        async fn status(&self, _: &str) -> Result<Status, Failure> {
            Err(Failure::new(Kind::Internal))
        }

        async fn changed(&self) {}
    }

    #[tokio::test]
    async fn a_cache_that_was_removed_meanwhile_does_not_come_back_on_record() {
        let root = std::env::temp_dir().join(format!("tandem-removed-{}", std::process::id()));
        let store = Store::open(&root).unwrap();
        let (_bus, address) = bus::start();
        let connection = zbus::connection::Builder::address(address.as_str()).build();
        let service = Service::new(Arc::new(NoEngine), store.clone(), connection.await.unwrap());
        let mut disk = device("sda1", 1 << 30);
        disk.mounts = vec![mount("/mnt", Mounter::Other)];
        let mut record = CacheRecord::new(Pair::nowhere(Mode::Writeback));
        record.pair.origin = disk.ident.clone();
        let facts = Facts {
            devices: vec![disk],
        };
        for removed in [false, true] {
            store.save_cache(&record).unwrap();
            if removed {
                store.drop_cache(&record.pair.uuid).unwrap();
            }
            let now = service.record_fork(&record.pair, None, &facts).await;
            assert_eq!(now.map(|now| now.forked), (!removed).then_some(true));
            let forked: Vec<_> = store.caches().iter().map(|r| r.forked).collect();
            assert_eq!(forked, if removed { vec![] } else { vec![true] });
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
