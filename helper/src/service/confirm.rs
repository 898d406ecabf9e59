// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that a person has to confirm, because their identity is in doubt.

use super::Service;
use crate::decide::lifecycle;
use crate::model::facts::{Device, Facts, Ident};
use crate::model::record::CacheRecord;
use crate::service::auth::{self, Permission};
use std::sync::Arc;
use tandem_api::{DiskCandidate, DiskMark, Failure, Kind};
use zbus::OwnedObjectPath;
use zbus::message::Header;

impl Service {
    /// The devices that may be the disk of a cache, for the question whether one of them is.
    pub(super) fn candidates(&self, record: &CacheRecord, facts: &Facts) -> Vec<DiskCandidate> {
        let candidate = |device: &Device| {
            let marks = device.ident.marks(&record.pair.origin);
            let with = |same: bool| marks.iter().filter(move |m| m.1 == same).map(|m| m.0);
            let used = lifecycle::is_on_record(record, &device.ident).then_some(DiskMark::Used);
            DiskCandidate {
                device: device.ident.text.clone(),
                agreeing: with(true).collect(),
                differing: with(false).chain(used).collect(),
            }
        };
        let possible = facts.possible(&record.pair.origin);
        possible.into_iter().map(candidate).collect()
    }

    /// `Cache.ConfirmDisk`. The record names this disk from now on; the module still compares the disk with its samples.
    pub(crate) async fn confirm_disk(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
        disk: &OwnedObjectPath,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let ssd = self.shown_pair(uuid)?.ssd.text;
        let (shown, _) = self.shown_device(header, disk).await?;
        let text = &shown.ident.text;
        let confirm = Permission::ConfirmDisk;
        auth::check(&self.connection, header, confirm, text, &ssd).await?;
        let confirmed = {
            let _alone = self.refreshing.lock().await;
            self.record_disk(uuid, &shown).await
        };
        self.refresh().await;
        confirmed
    }

    async fn record_disk(&self, uuid: &str, shown: &Device) -> Result<(), Failure> {
        let facts = self.facts_in_time().await?;
        let record = self.record(uuid)?;
        let refused = |why: &str| {
            let failure = Failure::new(Kind::WrongState).name(why);
            Err(failure.device(&shown.ident.text))
        };
        if facts.disk(&record.pair).is_some() || record.origin_diverged {
            return refused("disk-known");
        }
        let possible = facts.possible(&record.pair.origin);
        let same = |device: &&&Device| device.ident.same_device(&shown.ident);
        let Some(device) = possible.iter().find(same) else {
            return refused("other-disk");
        };
        if lifecycle::is_on_record(&record, &device.ident) {
            // What is on the SSD belongs to an older state of this disk.
            return refused("disk-changed");
        }
        if device.used_by_others() {
            return refused("disk-in-use");
        }
        let confirmed = |mut now: CacheRecord| {
            now.pair.origin = Ident {
                content_uuid: now.pair.origin.content_uuid,
                ..device.ident.clone()
            };
            lifecycle::without_doubt(now)
        };
        match self.store.change_cache(uuid, confirmed) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Failure::new(Kind::WrongState).name("removed")),
            Err(e) => Err(Failure::new(Kind::Internal).detail(format_args!("cannot record: {e}"))),
        }
    }
}
