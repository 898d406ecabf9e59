// SPDX-License-Identifier: GPL-3.0-or-later
//! Updates the records when the state of an SSD or a disk changes. Writes wait for that, for a second at most, so
//! this must not wait for anything else that the service does.

use super::{REFRESH_INTERVAL, RETRY, Service};
use crate::decide::lifecycle;
use crate::machine::dm::message::Message;
use crate::model::action::Pair;
use crate::model::facts::{Device, Facts, Ident};
use crate::model::record::CacheRecord;
use std::sync::Arc;
use tandem_api::Failure;

impl Service {
    /// Follows the changes of the machine. At each change, updates the records first, and then requests a refresh.
    pub(super) async fn follow_risk(self: Arc<Self>) {
        loop {
            let recorded = self.record_risks().await.unwrap_or_else(|e| {
                tracing::error!("cannot look at the mappings: {e}");
                false
            });
            tokio::time::sleep(REFRESH_INTERVAL).await;
            tokio::select! {
                () = self.host.changed() => self.again.notify_one(),
                () = tokio::time::sleep(RETRY), if !recorded => {}
            }
        }
    }

    /// Updates all records from the status of the module. Returns whether all records are up to date.
    pub(super) async fn record_risks(&self) -> Result<bool, Failure> {
        let mut recorded = true;
        for live in self
            .host
            .live_mappings()
            .await?
            .iter()
            .filter(|l| l.attached)
        {
            recorded &= self.record_risk(&live.uuid).await;
        }
        Ok(recorded)
    }

    /// Updates the record from the status of the module. After the loss of an SSD is on record, tells the module so.
    /// False: the record is not up to date.
    async fn record_risk(&self, uuid: &str) -> bool {
        let alone = self.recording.lock().await;
        let Ok(status) = self.host.status(uuid).await else {
            return true;
        };
        // A job that creates or removes the cache updates the record itself.
        if self.inner().jobs.records(uuid) {
            return true;
        }
        let loss = |record: &CacheRecord| (record.pair.copies_stale, record.pair.lost_generation);
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
        if lost && let Err(e) = self.host.send_message(uuid, Message::LossRecorded).await {
            // The module waits for a second at most, and the SSD may be in use again by now.
            tracing::info!("the module was not told of the record: {e}");
        }
        true
    }

    /// The record of a cache: the loss of its SSD may have been recorded since the cache was listed. `None`: the cache
    /// was removed since.
    pub(super) async fn latest_record(&self, uuid: &str) -> Option<CacheRecord> {
        let _lock = self.recording.lock().await;
        self.record(uuid).ok()
    }

    /// Records that the disk, or a device that may be the disk, is used without the cache, and returns the new record.
    /// `None`: the cache was removed since it was listed, and no record of it may be created again.
    pub(super) async fn record_use(
        &self,
        record: &CacheRecord,
        pair: &Pair,
        facts: &Facts,
    ) -> Option<CacheRecord> {
        let disk = facts.same_hardware(&pair.origin);
        let used: Vec<Ident> = match disk {
            Some(disk) => vec![disk.ident.clone()],
            None => {
                let devices = facts.possible(&pair.origin).into_iter();
                let used = devices.filter(|device| device.used_by_others());
                used.map(|device| device.ident.clone()).collect()
            }
        };
        let devices: Vec<_> = used.iter().map(Ident::node).collect();
        tracing::warn!(uuid = pair.uuid, ?devices, "used without the cache");
        let used = |now: CacheRecord| lifecycle::used_alone(now, &used, disk.is_some());
        self.change(record, used).await
    }

    /// Changes the record of a cache, and returns the new record also if it is not durable. `None`: the cache was
    /// removed meanwhile.
    pub(super) async fn change(
        &self,
        record: &CacheRecord,
        change: impl Fn(CacheRecord) -> CacheRecord,
    ) -> Option<CacheRecord> {
        let _lock = self.recording.lock().await;
        match self.store.change_cache(&record.pair.uuid, &change) {
            Ok(now) => now,
            Err(e) => {
                tracing::error!("the record of the cache cannot be changed: {e}");
                Some(change(record.clone()))
            }
        }
    }

    /// Records the names that the devices of a cache that works have now: see [`crate::model::facts::disk_of`] and
    /// [`crate::model::facts::ssd_of`]. `pair`: the devices under their present names. While UDisks2 or udev reads a device
    /// again, names are missing; what is on record stays then, or another device could agree with what is left.
    pub(super) fn record_names(&self, record: &CacheRecord, pair: &Pair) {
        let known = pair.origin.same_hardware(&record.pair.origin)
            && pair.ssd.same_hardware(&record.pair.ssd);
        let lacks = pair.origin.lacks_names_of(&record.pair.origin)
            || pair.ssd.lacks_names_of(&record.pair.ssd);
        if known || lacks {
            return;
        }
        tracing::info!(uuid = pair.uuid, "a device has other names now");
        let new = |mut now: CacheRecord| {
            now.pair.origin = Ident {
                content_uuid: now.pair.origin.content_uuid,
                ..pair.origin.clone()
            };
            now.pair.ssd = pair.ssd.clone();
            now
        };
        if let Err(e) = self.store.change_cache(&pair.uuid, new) {
            tracing::warn!("the names of the devices are not recorded: {e}");
        }
    }

    /// Records which file system is on the disk now. The user may have made another one through the cache, and the
    /// record of an earlier version does not name a file system.
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

    /// Records that a cache works again. The SSD has no old copies any more; the next start must drop the copies only
    /// after another loss.
    pub(super) async fn assembled(&self, pair: &Pair) -> Result<(), Failure> {
        let _alone = self.recording.lock().await;
        let record = self.record(&pair.uuid)?;
        if !record.pair.copies_stale && record.pair.lost_generation == 0 {
            return Ok(());
        }
        let status = match self.host.status(&pair.uuid).await {
            Ok(status) => status,
            Err(e) => {
                tracing::warn!("the next start will be cold too: {e}");
                return Ok(());
            }
        };
        let new = |record: CacheRecord| lifecycle::assembled(record).after(&status);
        if let Err(e) = self.store.change_cache(&pair.uuid, new) {
            tracing::warn!("the next start will be cold too: {e}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::tests::{device, mount};
    use crate::host::none::NoEngine;
    use crate::machine::store::Store;
    use crate::model::facts::Mounter;
    use tandem_api::Mode;
    use tandem_stage::bus;

    /// A service without a machine, and the bus that it needs.
    async fn service(store: &Store) -> (bus::Running, Service) {
        let (bus, address) = bus::start();
        let connection = zbus::connection::Builder::address(address.as_str()).build();
        let service = Service::new(
            Arc::new(NoEngine::mute()),
            store.clone(),
            connection.await.unwrap(),
        );
        (bus, service)
    }

    // promise 32: programs/tandem_helper::service::risk::tests::a_cache_that_was_removed_meanwhile_does_not_come_back_on_record
    #[tokio::test]
    async fn a_cache_that_was_removed_meanwhile_does_not_come_back_on_record() {
        let root = std::env::temp_dir().join(format!("tandem-removed-{}", std::process::id()));
        let store = Store::open(&root).unwrap();
        let (_bus, service) = service(&store).await;
        let mut disk = device("sda1", 1 << 30);
        disk.mounts = vec![mount("/mnt", Mounter::Other)];
        let mut record = CacheRecord::new(Pair::nowhere(Mode::Writeback));
        record.pair.origin = disk.ident.clone();
        let facts = Facts {
            devices: vec![disk],
            ..Facts::default()
        };
        for removed in [false, true] {
            store.save_cache(&record).unwrap();
            if removed {
                store.drop_cache(&record.pair.uuid).unwrap();
            }
            let now = service.record_use(&record, &record.pair, &facts).await;
            assert_eq!(
                now.map(|now| now.origin_diverged),
                (!removed).then_some(true)
            );
            let origin_diverged: Vec<_> =
                store.caches().iter().map(|r| r.origin_diverged).collect();
            assert_eq!(origin_diverged, if removed { vec![] } else { vec![true] });
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// While UDisks2 reads a device again, it may show no serial number and no UUID.
    #[tokio::test]
    async fn names_that_are_missing_for_a_moment_stay_on_record() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(root.path()).unwrap();
        let (_bus, service) = service(&store).await;
        let named = |hardware: &str, part_uuid: &str| Ident {
            hardware: hardware.into(),
            part_uuid: part_uuid.into(),
            ..device("sdb1", 1 << 30).ident
        };
        let mut record = CacheRecord::new(Pair::nowhere(Mode::Writeback));
        record.pair.origin = device("sda1", 1 << 30).ident;
        record.pair.ssd = named("0x5/S", "aa-01");
        store.save_cache(&record).unwrap();
        for (now, recorded) in [
            (named("", "aa-01"), "0x5/S"),
            (named("0x5/S", ""), "0x5/S"),
            (named("/ENCLOSURE", "aa-01"), "/ENCLOSURE"),
        ] {
            let pair = Pair {
                ssd: now,
                ..record.pair.clone()
            };
            service.record_names(&record, &pair);
            let known = store.caches().remove(0).pair.ssd;
            assert_eq!(
                (known.hardware.as_str(), known.part_uuid.as_str()),
                (recorded, "aa-01")
            );
        }
    }
}
