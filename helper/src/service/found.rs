// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches of which this system has no record.

use super::Service;
use crate::model::action::{Action, PARTITION_TYPE, Pair, Partition};
use crate::model::facts::{Carried, Device, Facts, Ident};
use crate::model::record::CacheRecord;
use crate::service::auth::{self, Permission};
use std::sync::Arc;
use tandem_api::{DeviceText, DirtyLimit, Failure, FoundCache, Kind, Mode};
use zbus::OwnedObjectPath;
use zbus::message::Header;

/// The devices of a cache of which there is no record.
struct Found<'a> {
    ssd: &'a Device,
    carried: &'a Carried,
    /// The disk that the SSD names, if it is there once.
    disk: Option<&'a Device>,
}

impl Found<'_> {
    fn shown(&self) -> FoundCache {
        FoundCache {
            uuid: self.carried.uuid.clone(),
            ssd: self.ssd.ident.text.clone(),
            disk: self
                .disk
                .map_or_else(DeviceText::none, |disk| disk.ident.text.clone()),
            may_be_unwritten: self.carried.may_be_dirty,
        }
    }

    /// The devices of the cache as far as they are known.
    fn pair(&self, facts: &Facts) -> Pair {
        let ssd = self.ssd;
        let mut pair = Pair {
            uuid: self.carried.uuid.clone(),
            origin: self.disk.map_or_else(Ident::default, |d| d.ident.clone()),
            ssd: ssd.ident.clone(),
            origin_id: self.carried.disk_id.clone(),
            // The superblock does not tell the mode.
            mode: Mode::Writethrough,
            // The disk may have been used without the cache. Dirty data stays; the module compares its samples.
            copies_stale: true,
            lost_generation: 0,
            dirty_limit: DirtyLimit::default(),
            partition: None,
            target: self.carried.target,
        };
        let whole = ssd.table.as_deref().and_then(|table| facts.device(table));
        let is_made = ssd.part_type == PARTITION_TYPE && ssd.part_name == pair.partition_name();
        pair.partition = whole.filter(|_| is_made).map(|whole| {
            Box::new(Partition {
                disk: whole.ident.clone(),
                start: ssd.ident.start,
                size: ssd.ident.text.size,
                new_table: false,
            })
        });
        pair
    }
}

/// The caches whose superblocks are on devices and that are none of `known` (UUIDs).
fn find<'a>(facts: &'a Facts, known: &[String]) -> Vec<Found<'a>> {
    let carrying = facts.devices.iter().filter_map(|ssd| {
        let carried = ssd.carried.as_ref()?;
        let named = |disk: &&Device| disk.ident.origin_ids().contains(&carried.disk_id);
        let mut disks = facts.devices.iter().filter(named);
        let disk = disks.next().filter(|_| disks.next().is_none());
        Some(Found { ssd, carried, disk })
    });
    carrying
        .filter(|found| !known.contains(&found.carried.uuid))
        .collect()
}

impl Service {
    /// UUIDs of the caches that have a record, or a job that has begun.
    fn known_caches(&self) -> Vec<String> {
        let jobs = self.store.intents().into_iter().map(|job| job.uuid);
        let caches = self.store.caches().into_iter().map(|r| r.pair.uuid);
        let running = self.inner().jobs.caches();
        jobs.chain(caches).chain(running).collect()
    }

    /// `Manager.FoundCaches`.
    pub(crate) fn found_caches(&self) -> Vec<FoundCache> {
        self.inner().found.clone()
    }

    /// Shows the caches that have no record.
    pub(super) async fn show_found(&self, facts: &Facts) {
        let known = self.known_caches();
        let now: Vec<_> = find(facts, &known).iter().map(Found::shown).collect();
        let before = std::mem::replace(&mut self.inner().found, now.clone());
        if before == now {
            return;
        }
        self.tell("the caches without a record", async |manager, emitter| {
            manager.found_caches_changed(emitter).await
        })
        .await;
    }

    /// A cache that is shown, and the answer of polkit.
    async fn may(
        &self,
        header: &Header<'_>,
        permission: Permission,
        ssd: &OwnedObjectPath,
        uuid: &str,
    ) -> Result<FoundCache, Failure> {
        let shown = self.found_caches();
        // Another SSD may have the name of the SSD that the caller was asked about.
        let asked = |found: &FoundCache| found.ssd.object == *ssd && found.uuid == uuid;
        let shown = shown.into_iter().find(asked);
        let shown = shown.ok_or_else(|| Failure::new(Kind::WrongState).name("not-found"))?;
        auth::check(
            &self.connection,
            header,
            permission,
            &shown.disk,
            &shown.ssd,
        )
        .await?;
        Ok(shown)
    }

    /// `Manager.TakeOver`. The record is made; what is to be done with a cache on record follows by itself.
    pub(crate) async fn take_over(
        self: &Arc<Self>,
        header: &Header<'_>,
        ssd: &OwnedObjectPath,
        uuid: &str,
    ) -> Result<(), Failure> {
        self.answer(header, Permission::TakeOver, (ssd, uuid), async |shown| {
            self.record_found(&shown).await
        })
        .await
    }

    /// Does `work` for the caller, if the caller has the permission, and shows what has become of the cache.
    async fn answer(
        self: &Arc<Self>,
        header: &Header<'_>,
        permission: Permission,
        (ssd, uuid): (&OwnedObjectPath, &str),
        work: impl AsyncFnOnce(FoundCache) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let shown = self.may(header, permission, ssd, uuid).await?;
        let done = {
            let _alone = self.refreshing.lock().await;
            work(shown).await
        };
        self.refresh().await;
        done
    }

    async fn record_found(&self, shown: &FoundCache) -> Result<(), Failure> {
        let facts = self.facts_in_time().await?;
        let known = self.known_caches();
        let all = find(&facts, &known);
        let found = again(&all, shown)?;
        let twin = |f: &&Found<'_>| {
            f.carried.uuid == shown.uuid && f.ssd.object() != shown.ssd.object.as_str()
        };
        if let Some(twin) = all.iter().find(twin) {
            // Only one of them has the newest data.
            let refused = Failure::new(Kind::Indistinguishable).device(&shown.ssd);
            return Err(refused.name(&twin.ssd.ident.text.name));
        }
        let disk = found
            .disk
            .filter(|disk| disk.object() == shown.disk.object.as_str());
        let disk = disk.ok_or_else(|| Failure::new(Kind::DeviceGone).device(&shown.disk))?;
        let unwritten = found.carried.may_be_dirty;
        if unwritten && disk.used_by_others() {
            // The cache would overwrite data that is written to the disk now.
            let points = disk.mount_points();
            let used = Failure::new(Kind::OriginInUse).device(&disk.ident.text);
            return Err(used.name("mount").mount_points(points));
        }
        let pair = found.pair(&facts);
        self.inner()
            .jobs
            .free(&[pair.origin.clone(), pair.ssd.clone()])?;
        let record = CacheRecord {
            may_be_dirty: unwritten,
            ..CacheRecord::new(pair)
        };
        let saved = self.store.save_cache(&record);
        saved.map_err(|e| Failure::new(Kind::Internal).detail(format_args!("cannot record: {e}")))
    }

    /// `Manager.DiscardFound`.
    pub(crate) async fn discard_found(
        self: &Arc<Self>,
        header: &Header<'_>,
        ssd: &OwnedObjectPath,
        uuid: &str,
    ) -> Result<(), Failure> {
        self.answer(header, Permission::Discard, (ssd, uuid), async |shown| {
            self.wipe_found(&shown).await
        })
        .await
    }

    async fn wipe_found(&self, shown: &FoundCache) -> Result<(), Failure> {
        let facts = self.facts_in_time().await?;
        let known = self.known_caches();
        let all = find(&facts, &known);
        let found = again(&all, shown)?;
        if !found.ssd.unused() {
            return Err(Failure::new(Kind::SsdInUse).device(&shown.ssd));
        }
        let pair = found.pair(&facts);
        let devices = [pair.ssd.clone(), pair.ssd.clone()];
        let _reserved = self.reserve(&pair.uuid, &devices, true)?;
        self.host.apply(&Action::FreeSsd(pair)).await
    }
}

/// The cache that was shown, if it is still on the same SSD.
fn again<'a, 'b>(all: &'a [Found<'b>], shown: &FoundCache) -> Result<&'a Found<'b>, Failure> {
    let same = |f: &&Found<'_>| {
        f.carried.uuid == shown.uuid && f.ssd.object() == shown.ssd.object.as_str()
    };
    let gone = || Failure::new(Kind::DeviceChanged).device(&shown.ssd);
    all.iter().find(same).ok_or_else(gone)
}
