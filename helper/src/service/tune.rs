// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes of a cache that stays: another mode or name, and a flush of the dirty data. Each change writes only its own
//! fields of the record, so that two changes at the same time cannot undo each other.

use super::Service;
use super::execute::Reservation;
use super::plans::{current, mapped};
use crate::decide::plan;
use crate::machine::dm::message::Message;
use crate::model::action::{Action, Pair};
use crate::model::live::Status;
use crate::model::record::CacheRecord;
use crate::service::auth::Permission;
use std::sync::Arc;
use tandem_api::{CacheState, DirtyLimit, Failure, Kind, Mode, SECTOR_BYTES, Target};
use zbus::OwnedObjectPath;
use zbus::message::Header;

/// Longest time that a shutdown may be told to take. The unit's own limit is a little longer, and after 30 minutes systemd
/// switches the machine off in any case.
const MAX_SHUTDOWN_MINUTES: u32 = 25;

impl Service {
    /// `Cache.SetMode`.
    pub(crate) async fn set_mode(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
        mode: Mode,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let permission = match mode {
            Mode::Writeback => Permission::WriteBack,
            Mode::Writethrough | Mode::Writearound => Permission::Tune,
        };
        let (reserved, record, _) = self.reserve_working(header, uuid, permission).await?;
        self.offered(&record, mode).await?;
        let result = {
            // A refresh reads the record and may change it, so no refresh may run meanwhile.
            let _alone = self.refreshing.lock().await;
            self.change_mode(uuid, mode, false).await
        };
        drop(reserved);
        self.refresh().await;
        if result.is_ok() && record.in_initramfs {
            self.copy_record(&record);
        }
        result
    }

    /// `Cache.SetShutdownMinutes`.
    pub(crate) async fn set_shutdown_minutes(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
        minutes: u32,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        if minutes > MAX_SHUTDOWN_MINUTES {
            return Err(Failure::new(Kind::InvalidArgument).name("minutes"));
        }
        self.permitted(header, uuid, Permission::Tune).await?;
        self.ensure_setting(uuid, "shutdown")?;
        if minutes > 0 {
            self.host.drain_at_shutdown().await?;
        }
        let set = |now: CacheRecord| CacheRecord {
            shutdown_minutes: minutes,
            ..now
        };
        let changed = self.set_fields(uuid, set);
        self.refresh().await;
        changed
    }

    /// `Cache.SetDirtyLimit`. The limit is recorded when the module has taken it.
    pub(crate) async fn set_dirty_limit(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
        limit: DirtyLimit,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        if !limit.is_valid() {
            return Err(Failure::new(Kind::InvalidArgument).name("limit"));
        }
        let (reserved, record) = self.reserve_for_setting(header, uuid).await?;
        let changed = {
            // A refresh may load the line of the table again, so no refresh may run meanwhile.
            let _alone = self.refreshing.lock().await;
            let told = self.host.send_message(uuid, Message::DirtyLimit(limit));
            match told.await {
                Ok(()) => self.record_limit(&record, limit).await,
                Err(e) => Err(e.name("limit")),
            }
        };
        drop(reserved);
        self.refresh().await;
        if changed.is_ok() && record.in_initramfs {
            self.copy_record(&record);
        }
        changed
    }

    /// Records a limit that the module has taken. `before`: the record until now. After an error the module has the limit
    /// of before.
    async fn record_limit(&self, before: &CacheRecord, limit: DirtyLimit) -> Result<(), Failure> {
        let uuid = &before.pair.uuid;
        let set = |mut now: CacheRecord| {
            now.pair.dirty_limit = limit;
            now
        };
        let changed = self.set_fields(uuid, set);
        if changed.is_err() {
            let back = Message::DirtyLimit(before.pair.dirty_limit);
            if let Err(e) = self.host.send_message(uuid, back).await {
                tracing::error!(uuid, "the limit of dirty data is not recorded: {e}");
            }
        }
        changed
    }

    /// `Cache.SetPaused`.
    pub(crate) async fn set_paused(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
        paused: bool,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let (reserved, _) = self.reserve_for_setting(header, uuid).await?;
        let told = {
            let _alone = self.refreshing.lock().await;
            let message = Message::Promotion(!paused);
            self.host.send_message(uuid, message).await
        };
        drop(reserved);
        self.refresh().await;
        told.map_err(|e| e.name("paused"))
    }

    /// Checks that the target of a cache has settings.
    fn ensure_setting(&self, uuid: &str, name: &str) -> Result<(), Failure> {
        let pair = self.record(uuid)?.pair;
        match pair.target {
            Target::Tandem => Ok(()),
            Target::DmCache => Err(Failure::new(Kind::TargetUnable)
                .device(&pair.origin.text)
                .name(name)),
        }
    }

    /// Keeps jobs away from a cache whose module can take a setting now, if polkit allows it (`.tune`).
    async fn reserve_for_setting(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
    ) -> Result<(Reservation<'_>, CacheRecord), Failure> {
        let (reserved, record, status) =
            self.reserve_working(header, uuid, Permission::Tune).await?;
        self.ensure_setting(uuid, "setting")?;
        if status.sample.paused().is_none() {
            return Err(Failure::new(Kind::ModuleTooOld));
        }
        Ok((reserved, record))
    }

    /// Keeps jobs away from a cache that works, if polkit allows it. Returns also the record with the devices under their
    /// present names, and the status of the module.
    async fn reserve_working(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
        permission: Permission,
    ) -> Result<(Reservation<'_>, CacheRecord, Status), Failure> {
        self.permitted(header, uuid, permission).await?;
        let pair = self.record(uuid)?.pair;
        let devices = [pair.origin, pair.ssd];
        self.ensure_no_job(&devices).await?;
        let reserved = self.reserve(uuid, &devices, true)?;
        let (record, status) = self.working(uuid).await?;
        Ok((reserved, record, status))
    }

    /// `Cache.SetName`.
    pub(crate) async fn set_name(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
        name: &str,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        let refused = || Failure::new(Kind::InvalidArgument).name("name");
        let name = tandem_api::checked_name(name)
            .ok_or_else(refused)?
            .to_owned();
        self.permitted(header, uuid, Permission::Tune).await?;
        let changed = self.set_fields(uuid, |now| CacheRecord { name, ..now });
        self.refresh().await;
        changed
    }

    /// `Cache.ResetStatistics` and `Cache.UndoResetStatistics`.
    pub(crate) async fn reset_statistics(
        &self,
        header: &Header<'_>,
        uuid: &str,
        undo: bool,
    ) -> Result<(), Failure> {
        let _call = self.call();
        let _caller = self.caller(header).await?;
        self.permitted(header, uuid, Permission::Tune).await?;
        let sampler = self.inner().shown.get(uuid).map(|s| s.sampler.clone());
        let sampler = sampler.ok_or_else(|| Failure::new(Kind::WrongState))?;
        let (store, uuid) = (self.store(), uuid.to_owned());
        let reset = move || sampler.reset_totals(&store, &uuid, undo);
        let reset = tokio::task::spawn_blocking(reset).await;
        reset.map_err(|e| Failure::new(Kind::Internal).detail(e))?
    }

    /// Changes fields of the record of a cache.
    fn set_fields(
        &self,
        uuid: &str,
        change: impl FnOnce(CacheRecord) -> CacheRecord,
    ) -> Result<(), Failure> {
        match self.store.change_cache(uuid, change) {
            Ok(Some(_)) => Ok(()),
            // The cache was removed meanwhile.
            Ok(None) => Err(Failure::new(Kind::WrongState)),
            Err(e) => Err(Failure::new(Kind::Internal).detail(format_args!("cannot record: {e}"))),
        }
    }

    /// Has the initial file systems made anew, with the record of today and the modules of today. This takes up to some
    /// minutes, and no caller waits for it: with an old copy the cache starts in the old mode.
    pub(super) fn copy_record(self: &Arc<Self>, record: &CacheRecord) {
        let (host, disk) = (self.host.clone(), record.pair.origin.text.clone());
        tokio::spawn(async move {
            if let Err(e) = host.apply(&Action::UpdateInitramfs(disk)).await {
                tracing::error!("the next start uses the old record or has no module: {e}");
            }
        });
    }

    /// Sets the mode. Write-back is recorded before data can be on the SSD only; another mode is recorded after the
    /// module has left write-back. `waits`: write-back is to be set again when each kernel has the module. After an error
    /// the record says the mode and the wait as before.
    pub(super) async fn change_mode(
        &self,
        uuid: &str,
        mode: Mode,
        waits: bool,
    ) -> Result<(), Failure> {
        let mut before = None;
        let set = |mut now: CacheRecord| {
            before.get_or_insert((now.pair.mode, now.waits_for_kernel));
            now.pair.mode = mode;
            now.may_be_dirty |= mode == Mode::Writeback;
            now.waits_for_kernel = waits;
            now
        };
        if mode != Mode::Writeback {
            self.tell_mode(uuid, mode).await?;
            return self.set_fields(uuid, set);
        }
        self.set_fields(uuid, set)?;
        let Err(e) = self.tell_mode(uuid, mode).await else {
            return Ok(());
        };
        // The module did not take the mode. `may_be_dirty` stays; the module's status settles it.
        self.set_fields(uuid, |mut now| {
            if let Some((mode, waits)) = before {
                now.pair.mode = mode;
                now.waits_for_kernel = waits;
            }
            now
        })?;
        Err(e)
    }

    /// Leaves write-back, unless a job works on the cache or the cache does not run. For a caller that holds `refreshing`.
    pub(super) async fn end_write_back(&self, pair: &Pair) {
        let (uuid, devices) = (&pair.uuid, [pair.origin.clone(), pair.ssd.clone()]);
        let live = self.host.live_mappings().await.unwrap_or_default();
        if !live.iter().any(|l| l.uuid == *uuid && l.attached) {
            return;
        }
        let Ok(_reserved) = self.reserve(uuid, &devices, true) else {
            return;
        };
        tracing::warn!(uuid, "write-back ends: something else changes the disk");
        if let Err(e) = self.change_mode(uuid, Mode::Writethrough, false).await {
            tracing::error!(uuid, "write-back does not end: {e}");
        }
    }

    async fn tell_mode(&self, uuid: &str, mode: Mode) -> Result<(), Failure> {
        let told = self.host.send_message(uuid, Message::Mode(mode)).await;
        told.map_err(|e| e.name("mode"))
    }

    /// `Cache.Flush`.
    pub(crate) async fn flush(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
    ) -> Result<OwnedObjectPath, Failure> {
        let _call = self.call();
        let caller = self.caller(header).await?;
        self.permitted(header, uuid, Permission::Tune).await?;
        let pair = self.record(uuid)?.pair;
        self.ensure_no_job(&[pair.origin, pair.ssd]).await?;
        let (record, status) = self.working(uuid).await?;
        let bytes = status.sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
        let facts = self.host.facts().await?;
        let points = mapped(&facts, &record.pair).map(|d| d.mount_points());
        let plan = plan::flush(&record.pair, bytes, points.unwrap_or_default());
        self.begin(plan, caller.uid).await
    }

    /// The record and status of a cache that is assembled and uses its SSD, with its devices under their present
    /// names.
    pub(super) async fn working(&self, uuid: &str) -> Result<(CacheRecord, Status), Failure> {
        let mut record = self.record(uuid)?;
        let live = self.host.live_mappings().await?;
        if !live.iter().any(|l| l.uuid == uuid && l.attached) {
            return Err(Failure::new(Kind::WrongState).name(CacheState::Stopped.as_str()));
        }
        let status = self.host.status(uuid).await?;
        if status.state != CacheState::Active.as_str() {
            return Err(Failure::new(Kind::WrongState).name(&status.state));
        }
        record.pair = current(&record.pair, &self.host.facts().await?);
        Ok((record, status))
    }

    /// Whether a mode is offered for a cache.
    async fn offered(&self, record: &CacheRecord, mode: Mode) -> Result<(), Failure> {
        let facts = self.host.facts().await?;
        let pair = &record.pair;
        let gone = |text| Failure::new(Kind::DeviceGone).device(text);
        let origin = facts.same_hardware(&pair.origin);
        let origin = origin.ok_or_else(|| gone(&pair.origin.text))?;
        let ssd = facts.same_hardware(&pair.ssd);
        let ssd = ssd.ok_or_else(|| gone(&pair.ssd.text))?;
        let refused = plan::refused_modes(
            pair.target,
            origin,
            ssd,
            mapped(&facts, pair),
            Self::sharing(pair, &facts),
        );
        plan::offered(mode, &refused, origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::none::NoEngine;
    use crate::machine::store::Store;
    use std::sync::Mutex;
    use tandem_stage::bus;

    /// Another call sets the name while the module is told of the mode. `taken`: whether the module takes the mode.
    async fn renamed_while(mode: Mode, taken: bool) -> CacheRecord {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (_bus, address) = bus::start();
        let connection = zbus::connection::Builder::address(address.as_str()).build();
        let mut record = CacheRecord::new(Pair::nowhere(Mode::Writearound));
        (record.waits_for_kernel, record.may_be_dirty) = (true, false);
        store.save_cache(&record).unwrap();
        let (meanwhile, uuid) = (store.clone(), record.pair.uuid.clone());
        let host = NoEngine::answers(move |_| {
            let named = |now| CacheRecord {
                name: "Photos".to_owned(),
                shutdown_minutes: 5,
                ..now
            };
            meanwhile.change_cache(&uuid, named).unwrap();
            let refusal = Failure::new(Kind::StepFailed);
            taken.then_some(()).ok_or(refusal)
        });
        let service = Service::new(Arc::new(host), store.clone(), connection.await.unwrap());
        let changed = service.change_mode(&record.pair.uuid, mode, false).await;
        assert_eq!(changed.is_ok(), taken);
        store.caches().remove(0)
    }

    #[tokio::test]
    async fn a_limit_that_is_not_recorded_is_taken_back_from_the_module() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (_bus, address) = bus::start();
        let connection = zbus::connection::Builder::address(address.as_str()).build();
        let told = Arc::new(Mutex::new(Vec::new()));
        let messages = told.clone();
        let host = NoEngine::answers(move |message| {
            messages.lock().unwrap().push(message);
            Ok(())
        });
        let service = Service::new(Arc::new(host), store.clone(), connection.await.unwrap());
        // There is no record of this cache any more.
        let before = CacheRecord::new(Pair::nowhere(Mode::Writeback));
        let limit = DirtyLimit {
            seconds: 5,
            bytes: 0,
            rest: 0,
        };
        let failure = service.record_limit(&before, limit).await.unwrap_err();
        assert_eq!(failure.kind, Kind::WrongState);
        let back = Message::DirtyLimit(DirtyLimit::default());
        assert_eq!(*told.lock().unwrap(), [back]);
    }

    #[tokio::test]
    async fn a_change_of_the_mode_keeps_what_another_call_records_meanwhile() {
        for mode in [Mode::Writeback, Mode::Writethrough] {
            for taken in [true, false] {
                let now = renamed_while(mode, taken).await;
                assert_eq!(
                    (now.name.as_str(), now.shutdown_minutes),
                    ("Photos", 5),
                    "{mode} {taken}"
                );
                let expected = match taken {
                    true => (mode, false),
                    false => (Mode::Writearound, true),
                };
                assert_eq!((now.pair.mode, now.waits_for_kernel), expected, "{mode}");
                // Write-back may have begun, whatever the module said.
                assert_eq!(now.may_be_dirty, mode == Mode::Writeback, "{mode} {taken}");
            }
        }
    }
}
