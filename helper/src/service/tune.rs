// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes of a cache that stays: a new mode, and a flush of the dirty data.

use super::Service;
use super::plans::{current, mapped};
use crate::action::Action;
use crate::auth::{self, Permission};
use crate::dm::message::Message;
use crate::engine::Status;
use crate::plan;
use crate::state::CacheRecord;
use std::sync::Arc;
use tandem_api::{CacheState, Failure, Kind, Mode, SECTOR_BYTES};
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
        let record = self.record(uuid)?;
        let permission = match mode {
            Mode::Writeback => Permission::WriteBack,
            Mode::Writethrough | Mode::Writearound => Permission::Tune,
        };
        let (disk, ssd) = (&record.pair.origin, &record.pair.ssd);
        auth::check(&self.connection, header, permission, &disk.text, &ssd.text).await?;

        let devices = [disk.clone(), ssd.clone()];
        self.ensure_no_job(&devices).await?;
        let reserved = self.reserve(uuid, devices, true)?;
        let (mut record, _) = self.working(uuid).await?;
        self.offered(&record, mode).await?;
        record.waits_for_kernel = false;
        let result = {
            // A refresh reads the record and may change it, so no refresh may run meanwhile.
            let _alone = self.refreshing.lock().await;
            self.change_mode(&record, mode).await
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
        let record = self.record(uuid)?;
        let (disk, ssd) = (&record.pair.origin.text, &record.pair.ssd.text);
        auth::check(&self.connection, header, Permission::Tune, disk, ssd).await?;
        if minutes > 0 {
            self.engine.drain_at_shutdown().await?;
        }
        let set = |now: CacheRecord| CacheRecord {
            shutdown_minutes: minutes,
            ..now
        };
        let changed = self.store.change_cache(uuid, set);
        let changed = changed
            .map_err(|e| Failure::new(Kind::Internal).detail(format_args!("cannot record: {e}")))?;
        self.refresh().await;
        changed
            .map(drop)
            .ok_or_else(|| Failure::new(Kind::WrongState))
    }

    /// Makes the copies of a changed record in the initial file systems anew. This takes up to some minutes, and no
    /// caller waits for it: with an old copy the cache starts in the old mode.
    fn copy_record(self: &Arc<Self>, record: &CacheRecord) {
        let (engine, disk) = (self.engine.clone(), record.pair.origin.text.clone());
        tokio::spawn(async move {
            if let Err(e) = engine.apply(&Action::UpdateInitramfs(disk)).await {
                tracing::error!("the next start uses the old mode: {e}");
            }
        });
    }

    /// Sets the mode. Write-back is recorded before data can be on the SSD only; another mode is recorded after the
    /// module has left write-back.
    pub(super) async fn change_mode(
        &self,
        record: &CacheRecord,
        mode: Mode,
    ) -> Result<(), Failure> {
        let failed = |e| Failure::new(Kind::Internal).detail(format_args!("cannot record: {e}"));
        let mut new = record.clone();
        new.pair.mode = mode;
        new.may_be_dirty |= mode == Mode::Writeback;
        if mode == Mode::Writeback {
            self.store.save_cache(&new).map_err(failed)?;
        }
        let told = self
            .engine
            .send_message(&record.pair.uuid, Message::Mode(mode))
            .await;
        if let Err(e) = told {
            if mode == Mode::Writeback {
                // The module did not take the mode, so the record gets the old one. `may_be_dirty` stays; the
                // module's status settles it.
                new.pair.mode = record.pair.mode;
                self.store.save_cache(&new).map_err(failed)?;
            }
            return Err(e.name("mode"));
        }
        self.store.save_cache(&new).map_err(failed)
    }

    /// `Cache.Flush`.
    pub(crate) async fn flush(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
    ) -> Result<OwnedObjectPath, Failure> {
        let _call = self.call();
        let caller = self.caller(header).await?;
        let record = self.record(uuid)?;
        let (disk, ssd) = (&record.pair.origin, &record.pair.ssd);
        let tune = Permission::Tune;
        auth::check(&self.connection, header, tune, &disk.text, &ssd.text).await?;
        self.ensure_no_job(&[disk.clone(), ssd.clone()]).await?;
        let (record, status) = self.working(uuid).await?;
        let bytes = status.sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
        let facts = self.engine.facts().await?;
        let points = mapped(&facts, &record.pair).map(|d| d.mount_points());
        let plan = plan::flush(&record.pair, bytes, points.unwrap_or_default());
        self.begin(plan, caller.uid).await
    }

    /// The record and status of a cache that is assembled and uses its SSD, with its devices under their present
    /// names.
    pub(super) async fn working(&self, uuid: &str) -> Result<(CacheRecord, Status), Failure> {
        let mut record = self.record(uuid)?;
        let live = self.engine.live_mappings().await?;
        if !live.iter().any(|l| l.uuid == uuid && l.attached) {
            return Err(Failure::new(Kind::WrongState).name(CacheState::Stopped.as_str()));
        }
        let status = self.engine.status(uuid).await?;
        if status.state != CacheState::Active.as_str() {
            return Err(Failure::new(Kind::WrongState).name(&status.state));
        }
        record.pair = current(&record.pair, &self.engine.facts().await?);
        Ok((record, status))
    }

    /// Whether a mode is offered for a cache.
    async fn offered(&self, record: &CacheRecord, mode: Mode) -> Result<(), Failure> {
        let facts = self.engine.facts().await?;
        let pair = &record.pair;
        let gone = |text| Failure::new(Kind::DeviceGone).device(text);
        let origin = facts.same_hardware(&pair.origin);
        let origin = origin.ok_or_else(|| gone(&pair.origin.text))?;
        let ssd = facts.same_hardware(&pair.ssd);
        let ssd = ssd.ok_or_else(|| gone(&pair.ssd.text))?;
        let refused = plan::refused_modes(origin, ssd, mapped(&facts, pair));
        plan::offered(mode, &refused, origin)
    }
}
