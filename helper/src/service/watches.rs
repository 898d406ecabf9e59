// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks without a cache that are watched, to predict what a cache would do.
//!
//! A watch belongs to a disk as a cache does: by the disk's identity, not by its name or number. While no single device
//! agrees with the whole identity, the watch pauses. Only `follow_watches`, `watch_disk` and `stop_watching` begin and end
//! watches, each of them while it holds `refreshing`.

mod kept;

use self::kept::{Kept, Session, load, new_advisor, save};
use super::Service;
use super::caches::no_object;
use crate::decide::plan;
use crate::host::watch::session::{self, End, lock};
use crate::machine::clock::unix_seconds;
use crate::model::facts::{Device, Facts};
use crate::model::record::WatchRecord;
use crate::service::auth::{self, Permission};
use std::sync::{Arc, Mutex};
use tandem_advisor::Advisor;
use tandem_api::{DeviceText, DiskWatch, Failure, Kind, WatchState};
use tokio::sync::oneshot;
use zbus::OwnedObjectPath;
use zbus::message::Header;

pub(super) use self::kept::Watches;

/// Disks that are watched at a time: each takes up to 4 MiB of memory, and as much on the disk of the system.
const MAX_WATCHES: usize = 8;

/// Samples from one signal about new requests to the next: a minute.
const TELL_FACTOR: u32 = 60;

impl Service {
    /// `Manager.Watches`.
    pub(crate) fn watches(&self) -> Vec<DiskWatch> {
        self.watches.views()
    }

    /// `Manager.WatchDisk`.
    pub(crate) async fn watch_disk(
        self: &Arc<Self>,
        header: &Header<'_>,
        disk: &OwnedObjectPath,
    ) -> Result<String, Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let (shown, facts) = self.shown_device(header, disk).await?;
        plan::watchable(&shown, &facts, &self.shown_pairs())?;
        let shown = shown.ident;
        self.may_watch(header, &shown.text).await?;

        let _alone = self.refreshing.lock().await;
        // The answer of the user may have taken minutes.
        let device = self.watchable(disk).await?;
        if !device.ident.same_device(&shown) {
            return Err(Failure::new(Kind::DeviceChanged).device(&shown.text));
        }
        let records = self.watches.records();
        let same = |record: &&WatchRecord| device.ident.same_hardware(&record.disk);
        if let Some(record) = records.iter().find(same) {
            return Ok(record.id.clone());
        }
        if records.len() >= MAX_WATCHES {
            return Err(Failure::new(Kind::TooMany).device(&device.ident.text));
        }
        let advisor = new_advisor(&device.ident)
            .map_err(|e| Failure::new(Kind::InvalidArgument).name("disk").detail(e))?;
        let record = WatchRecord {
            id: uuid::Uuid::new_v4().simple().to_string(),
            disk: device.ident.clone(),
            since: unix_seconds(),
        };
        let advisor = Arc::new(Mutex::new(advisor));
        let session = self.begin_session(&record.id, &advisor, &device).await?;
        if let Err(e) = self.store.save_watch(&record) {
            session.end(End::Dropped).await;
            return Err(Failure::new(Kind::Internal).detail(format_args!("cannot record: {e}")));
        }
        let id = record.id.clone();
        let kept = Kept {
            record,
            disk: device.ident.text,
            advisor,
            session: Some(session),
            state: WatchState::Watching,
        };
        self.watches.kept().insert(id.clone(), kept);
        self.watches.begun.notify_one();
        self.signal_watches().await;
        Ok(id)
    }

    /// `Manager.StopWatching`.
    pub(crate) async fn stop_watching(
        self: &Arc<Self>,
        header: &Header<'_>,
        id: &str,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let none = || Failure::new(Kind::WrongState).name("not-watched");
        let disk = self.watches.kept().get(id).map(|kept| kept.disk.clone());
        self.may_watch(header, &disk.ok_or_else(none)?).await?;
        let _alone = self.refreshing.lock().await;
        let forgotten = self.forget_watch(id).await;
        self.signal_watches().await;
        forgotten
            .map_err(|e| Failure::new(Kind::Internal).detail(format_args!("cannot forget: {e}")))
    }

    async fn may_watch(&self, header: &Header<'_>, disk: &DeviceText) -> Result<(), Failure> {
        let (permission, nothing) = (Permission::WatchDisk, DeviceText::none());
        auth::check(&self.connection, header, permission, disk, &nothing).await
    }

    /// The device with this object path, if it can be watched.
    async fn watchable(&self, disk: &OwnedObjectPath) -> Result<Device, Failure> {
        let facts = self.facts_in_time().await?;
        let device = plan::find(&facts, disk)?;
        let caches = self.store.caches().into_iter().map(|cache| cache.pair);
        plan::watchable(device, &facts, &caches.collect::<Vec<_>>())?;
        Ok(device.clone())
    }

    /// Reads the records of the watches and what was seen before.
    pub(super) async fn load_watches(&self) {
        let store = self.store();
        let read = move || {
            let mut loaded = Vec::new();
            for mut record in store.watches() {
                match load(&store, &mut record) {
                    Ok(advisor) => loaded.push((record, advisor)),
                    Err(e) => {
                        tracing::error!("the watch of {} ends: {e}", record.disk.text.name);
                        if let Err(e) = store.drop_watch(&record.id) {
                            tracing::warn!("a watch is not forgotten: {e}");
                        }
                    }
                }
            }
            loaded
        };
        let loaded = tokio::task::spawn_blocking(read).await;
        let mut all = self.watches.kept();
        for (record, advisor) in loaded.unwrap_or_default() {
            let kept = Kept {
                disk: DeviceText {
                    object: no_object(),
                    ..record.disk.text.clone()
                },
                advisor: Arc::new(Mutex::new(advisor)),
                session: None,
                state: WatchState::Away,
                record,
            };
            all.insert(kept.record.id.clone(), kept);
        }
    }

    /// Looks where the watched disks are, and whether one of them has got a cache.
    pub(super) async fn follow_watches(&self, facts: &Facts) {
        let caches = self.store.caches();
        let mut changed = false;
        for record in self.watches.records() {
            let cached = caches
                .iter()
                .any(|cache| cache.pair.origin.same_hardware(&record.disk));
            if cached {
                tracing::info!("{} has a cache, so its watch ends", record.disk.text.name);
                match self.forget_watch(&record.id).await {
                    Ok(()) => changed = true,
                    Err(e) => tracing::warn!("a watch is not forgotten: {e}"),
                }
            } else {
                changed |= self.follow_watch(record, facts).await;
            }
        }
        if changed {
            self.signal_watches().await;
        }
    }

    /// Returns whether the state has changed.
    async fn follow_watch(&self, record: WatchRecord, facts: &Facts) -> bool {
        let device = facts.same_hardware(&record.disk);
        let ended = {
            let mut all = self.watches.kept();
            let Some(kept) = all.get_mut(&record.id) else {
                return false;
            };
            let goes_on = |session: &Session| device.is_some_and(|device| session.is_of(device));
            if kept.session.as_ref().is_some_and(goes_on) {
                return false;
            }
            kept.session.take()
        };
        if let Some(session) = ended {
            let same = device.is_some_and(|device| session.is_about(device));
            session
                .end(if same { End::Drained } else { End::Dropped })
                .await;
            self.save_watch(&record.id).await;
        }
        let (session, state) = match device {
            Some(device) => match self.resume_watch(record.clone(), device).await {
                Ok(session) => (Some(session), WatchState::Watching),
                Err(e) => {
                    tracing::debug!("{} cannot be watched: {e}", device.ident.text.name);
                    (None, WatchState::Blind)
                }
            },
            None => (None, WatchState::Away),
        };
        let mut all = self.watches.kept();
        let Some(kept) = all.get_mut(&record.id) else {
            return false;
        };
        kept.disk = match device {
            Some(device) => device.ident.text.clone(),
            None => DeviceText {
                object: no_object(),
                ..kept.disk.clone()
            },
        };
        kept.session = session;
        std::mem::replace(&mut kept.state, state) != state
    }

    /// Goes on with a watch. The sizes of the caches belong to a size of the disk: if a partition has grown, its watch
    /// begins anew.
    async fn resume_watch(
        &self,
        mut record: WatchRecord,
        device: &Device,
    ) -> Result<Session, Failure> {
        if device.ident.text.size != record.disk.text.size {
            let internal = |e: String| Failure::new(Kind::Internal).detail(e);
            record.disk = device.ident.clone();
            record.since = unix_seconds();
            let advisor = new_advisor(&record.disk).map_err(|e| internal(e.to_string()))?;
            let recorded = self.store.save_watch(&record);
            recorded.map_err(|e| internal(e.to_string()))?;
            if let Some(kept) = self.watches.kept().get_mut(&record.id) {
                *lock(&kept.advisor) = advisor;
                kept.record = record.clone();
            }
        }
        let advisor = self.watches.advisor(&record.id);
        let advisor = advisor.ok_or_else(|| Failure::new(Kind::WrongState))?;
        self.begin_session(&record.id, &advisor, device).await
    }

    async fn begin_session(
        &self,
        id: &str,
        advisor: &Arc<Mutex<Advisor>>,
        device: &Device,
    ) -> Result<Session, Failure> {
        let mut source = self.host.requests(device).await?;
        let (end, ended) = oneshot::channel();
        let (store, id, advisor) = (self.store(), id.to_owned(), advisor.clone());
        let name = device.ident.text.name.clone();
        let task = tokio::spawn(async move {
            let save = move |state: Vec<u8>| save(&store, &id, &state);
            if let Err(e) = session::run(&mut *source, &advisor, save, ended).await {
                tracing::warn!("the kernel tells no more of {name}: {e}");
            }
        });
        Ok(Session {
            device: device.ident.clone(),
            end,
            task,
        })
    }

    async fn save_watch(&self, id: &str) {
        let Some(advisor) = self.watches.advisor(id) else {
            return;
        };
        let (store, id) = (self.store(), id.to_owned());
        let save = move || {
            let state = lock(&advisor).save();
            save(&store, &id, &state);
        };
        if let Err(e) = tokio::task::spawn_blocking(save).await {
            tracing::warn!("what was seen of a disk is not saved: {e}");
        }
    }

    /// Forgets a watch. On an error the watch goes on.
    async fn forget_watch(&self, id: &str) -> std::io::Result<()> {
        self.store.drop_watch(id)?;
        let kept = self.watches.kept().remove(id);
        if let Some(session) = kept.and_then(|kept| kept.session) {
            session.end(End::Dropped).await;
        }
        Ok(())
    }

    /// Ends all sessions and saves what they have seen. The watches stay on record.
    pub(super) async fn end_watches(&self) {
        for record in self.watches.records() {
            let session = {
                let mut all = self.watches.kept();
                all.get_mut(&record.id).and_then(|kept| kept.session.take())
            };
            if let Some(session) = session {
                session.end(End::Drained).await;
                self.save_watch(&record.id).await;
            }
        }
    }

    /// Tells from time to time that there were more requests, and tries to get the requests where the kernel did not give
    /// them.
    pub(super) async fn tell_watches(self: Arc<Self>) {
        let mut told = 0;
        loop {
            // A new watch begins a new period.
            tokio::select! {
                () = tokio::time::sleep(self.host.sample_period() * TELL_FACTOR) => {}
                () = self.watches.begun.notified() => continue,
            }
            let failed = |kept: &Kept| match &kept.session {
                Some(session) => session.task.is_finished(),
                None => kept.state == WatchState::Blind,
            };
            if self.watches.kept().values().any(failed) {
                self.look_again();
            }
            let requests = self.watches.requests();
            if requests != std::mem::replace(&mut told, requests) {
                self.signal_watches().await;
            }
        }
    }

    async fn signal_watches(&self) {
        self.watches.forget_views();
        self.tell("the watched disks", async |manager, emitter| {
            manager.watches_changed(emitter).await
        })
        .await;
    }
}
