// SPDX-License-Identifier: GPL-3.0-or-later
//! `org.tandemcache.Tandem1.Cache`, see [`tandem_api::CacheProxy`].

mod view;

pub use view::View;

use crate::model::action::Pair;
use crate::service::Service;
use crate::service::iface::bounded::Bounded;
use crate::service::sampler::Sampler;
use std::sync::{Arc, Mutex, PoisonError};
use tandem_api::{
    CacheState, DeviceText, DirtyLimit, DiskCandidate, Failure, JobKind, Kind, LongHistory, Mode,
    PlanReply, RefusedMode, SECTOR_BYTES, Sample, Sharing, Span, SpeedTest, SsdHealth, Target,
};
use zbus::message::Header;
use zbus::object_server::{InterfaceRef, ResponseDispatchNotifier, SignalEmitter};
use zbus::{OwnedObjectPath, interface};

/// One cache.
pub struct CacheObject {
    service: Arc<Service>,
    pair: Pair,
    view: Mutex<View>,
    sampler: Arc<Sampler>,
    speed: Mutex<SpeedTest>,
}

impl CacheObject {
    /// A cache with its first view. `speed`: the result of its last speed test.
    pub fn new(
        service: Arc<Service>,
        pair: Pair,
        view: View,
        sampler: Arc<Sampler>,
        speed: SpeedTest,
    ) -> Self {
        Self {
            service,
            pair,
            view: Mutex::new(view),
            sampler,
            speed: Mutex::new(speed),
        }
    }

    fn view<T>(&self, f: impl FnOnce(&View) -> T) -> T {
        f(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows the result of a speed test.
    ///
    /// # Errors
    /// If the connection to the bus is lost.
    pub async fn show_speed(
        object: &InterfaceRef<Bounded<Self>>,
        result: SpeedTest,
    ) -> zbus::Result<()> {
        let this = object.get().await;
        *this.speed.lock().unwrap_or_else(PoisonError::into_inner) = result;
        this.last_speed_test_changed(object.signal_emitter()).await
    }

    async fn execute(
        &self,
        header: &Header<'_>,
        kind: JobKind,
        plan_id: &str,
        digest: &str,
    ) -> Result<OwnedObjectPath, Failure> {
        self.service.note_activity();
        let cache = Some(self.pair.uuid.as_str());
        self.service
            .execute(header, kind, cache, plan_id, digest)
            .await
    }

    /// Shows a new view and emits a signal for each changed property.
    ///
    /// # Errors
    /// If the connection to the bus is lost.
    pub async fn show(object: &InterfaceRef<Bounded<Self>>, new: View) -> zbus::Result<()> {
        let this = object.get().await;
        let old = this.view(Clone::clone);
        if old == new {
            return Ok(());
        }
        *this.view.lock().unwrap_or_else(PoisonError::into_inner) = new.clone();
        let emitter = object.signal_emitter();
        if old.origin != new.origin {
            this.origin_changed(emitter).await?;
            this.origin_text_changed(emitter).await?;
        }
        if old.ssd != new.ssd {
            this.ssd_changed(emitter).await?;
            this.ssd_text_changed(emitter).await?;
        }
        if old.mode != new.mode {
            this.mode_changed(emitter).await?;
        }
        if old.refused_modes != new.refused_modes {
            this.refused_modes_changed(emitter).await?;
        }
        if old.may_be_unwritten != new.may_be_unwritten {
            this.may_be_unwritten_changed(emitter).await?;
        }
        if old.waits_for_kernel != new.waits_for_kernel {
            this.waits_for_kernel_changed(emitter).await?;
        }
        if old.grub_would_fail != new.grub_would_fail {
            this.grub_would_fail_changed(emitter).await?;
        }
        if old.sharing != new.sharing {
            this.sharing_changed(emitter).await?;
        }
        if old.shutdown_minutes != new.shutdown_minutes {
            this.shutdown_minutes_changed(emitter).await?;
        }
        if old.dirty_limit != new.dirty_limit {
            this.dirty_limit_changed(emitter).await?;
        }
        if old.paused != new.paused {
            this.paused_changed(emitter).await?;
        }
        if old.health != new.health {
            this.ssd_health_changed(emitter).await?;
        }
        if old.chosen_name != new.chosen_name {
            this.chosen_name_changed(emitter).await?;
        }
        if old.mapped != new.mapped {
            this.mapped_changed(emitter).await?;
        }
        if old.mount_points != new.mount_points {
            this.mount_points_changed(emitter).await?;
        }
        if old.cache_bytes != new.cache_bytes {
            this.cache_bytes_changed(emitter).await?;
        }
        if old.job != new.job {
            this.job_changed(emitter).await?;
        }
        if old.candidates != new.candidates {
            this.candidates_changed(emitter).await?;
        }
        // The reason comes first: a client that acts on the state already has the reason.
        if old.reason != new.reason {
            this.state_reason_changed(emitter).await?;
        }
        if old.state != new.state {
            this.state_changed(emitter).await?;
        }
        Ok(())
    }
}

fn sender(header: &Header<'_>) -> Result<String, Failure> {
    header
        .sender()
        .map(ToString::to_string)
        .ok_or_else(|| Failure::new(Kind::InvalidArgument).name("sender"))
}

#[interface(name = "org.tandemcache.Tandem1.Cache")]
impl CacheObject {
    async fn watch(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Failure> {
        self.service.note_activity();
        let caller = self.service.caller(&header).await?;
        let who = sender(&header)?;
        self.sampler.watch(who.clone(), caller.uid)?;
        // The caller may have left the bus before it became a watcher.
        self.service
            .uid(&header)
            .await
            .map(drop)
            .inspect_err(|_| self.sampler.unwatch(&who))
    }

    async fn unwatch(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Failure> {
        self.sampler.unwatch(&sender(&header)?);
        Ok(())
    }

    async fn history(
        &self,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<ResponseDispatchNotifier<Vec<Sample>>, Failure> {
        let slot = self.service.queue_slot(&header).await?;
        let samples = self.sampler.history();
        slot.charge(samples.len())?;
        Ok(slot.reply(samples))
    }

    async fn long_history(
        &self,
        span: Span,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<ResponseDispatchNotifier<LongHistory>, Failure> {
        let slot = self.service.queue_slot(&header).await?;
        let history = self.sampler.long_history(span);
        slot.charge(history.periods.len())?;
        Ok(slot.reply(history))
    }

    async fn plan_remove(&self, #[zbus(header)] header: Header<'_>) -> Result<PlanReply, Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.plan_remove(&header, uuid, false).await
    }

    async fn plan_discard(&self, #[zbus(header)] header: Header<'_>) -> Result<PlanReply, Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.plan_remove(&header, uuid, true).await
    }

    async fn plan_resize(
        &self,
        bytes: u64,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<PlanReply, Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.plan_resize(&header, uuid, bytes).await
    }

    async fn set_mode(
        &self,
        mode: Mode,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.service.note_activity();
        self.service.set_mode(&header, &self.pair.uuid, mode).await
    }

    async fn set_shutdown_minutes(
        &self,
        minutes: u32,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service
            .set_shutdown_minutes(&header, uuid, minutes)
            .await
    }

    async fn set_dirty_limit(
        &self,
        limit: DirtyLimit,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.set_dirty_limit(&header, uuid, limit).await
    }

    async fn set_paused(
        &self,
        paused: bool,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.set_paused(&header, uuid, paused).await
    }

    async fn start(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Failure> {
        self.service.note_activity();
        self.service.start_cache(&header, &self.pair.uuid).await
    }

    async fn set_name(
        &self,
        name: String,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.set_name(&header, uuid, &name).await
    }

    async fn reset_statistics(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.reset_statistics(&header, uuid, false).await
    }

    async fn undo_reset_statistics(
        &self,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.reset_statistics(&header, uuid, true).await
    }

    async fn flush(&self, #[zbus(header)] header: Header<'_>) -> Result<OwnedObjectPath, Failure> {
        self.service.note_activity();
        self.service.flush(&header, &self.pair.uuid).await
    }

    async fn confirm_disk(
        &self,
        disk: OwnedObjectPath,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.service.note_activity();
        let uuid = &self.pair.uuid;
        self.service.confirm_disk(&header, uuid, &disk).await
    }

    async fn test_speed(&self, #[zbus(header)] header: Header<'_>) -> Result<SpeedTest, Failure> {
        self.service.note_activity();
        self.service.test_cache(&header, &self.pair.uuid).await
    }

    async fn remove(
        &self,
        plan_id: String,
        digest: String,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<OwnedObjectPath, Failure> {
        self.execute(&header, JobKind::Remove, &plan_id, &digest)
            .await
    }

    async fn resize(
        &self,
        plan_id: String,
        digest: String,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<OwnedObjectPath, Failure> {
        self.execute(&header, JobKind::Resize, &plan_id, &digest)
            .await
    }

    /// See [`tandem_api::CacheProxy::receive_sampled`].
    #[zbus(signal)]
    pub async fn sampled(emitter: &SignalEmitter<'_>, sample: Sample) -> zbus::Result<()>;

    #[zbus(property(emits_changed_signal = "const"))]
    fn uuid(&self) -> String {
        self.pair.uuid.clone()
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn name(&self) -> String {
        self.pair.name()
    }

    #[zbus(property)]
    fn origin(&self) -> OwnedObjectPath {
        self.view(|v| v.origin.object.clone())
    }

    #[zbus(property)]
    fn ssd(&self) -> OwnedObjectPath {
        self.view(|v| v.ssd.object.clone())
    }

    #[zbus(property)]
    fn origin_text(&self) -> DeviceText {
        self.view(|v| v.origin.clone())
    }

    #[zbus(property)]
    fn ssd_text(&self) -> DeviceText {
        self.view(|v| v.ssd.clone())
    }

    #[zbus(property)]
    fn mode(&self) -> Mode {
        self.view(|v| v.mode)
    }

    #[zbus(property)]
    fn refused_modes(&self) -> Vec<RefusedMode> {
        self.view(|v| v.refused_modes.clone())
    }

    #[zbus(property)]
    fn may_be_unwritten(&self) -> bool {
        self.view(|v| v.may_be_unwritten)
    }

    #[zbus(property)]
    fn waits_for_kernel(&self) -> bool {
        self.view(|v| v.waits_for_kernel)
    }

    #[zbus(property)]
    fn grub_would_fail(&self) -> bool {
        self.view(|v| v.grub_would_fail)
    }

    #[zbus(property)]
    fn sharing(&self) -> Sharing {
        self.view(|v| v.sharing)
    }

    #[zbus(property)]
    fn shutdown_minutes(&self) -> u32 {
        self.view(|v| v.shutdown_minutes)
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn target(&self) -> Target {
        self.pair.target
    }

    #[zbus(property)]
    fn dirty_limit(&self) -> DirtyLimit {
        self.view(|v| v.dirty_limit)
    }

    #[zbus(property)]
    fn paused(&self) -> bool {
        self.view(|v| v.paused)
    }

    #[zbus(property)]
    fn ssd_health(&self) -> SsdHealth {
        self.view(|v| v.health)
    }

    #[zbus(property)]
    fn candidates(&self) -> Vec<DiskCandidate> {
        self.view(|v| v.candidates.clone())
    }

    #[zbus(property)]
    fn chosen_name(&self) -> String {
        self.view(|v| v.chosen_name.clone())
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn dirty_bytes(&self) -> u64 {
        self.sampler
            .latest()
            .dirty_sectors
            .saturating_mul(SECTOR_BYTES)
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn seconds_to_drain(&self) -> u64 {
        self.sampler.latest().drain_seconds
    }

    #[zbus(property)]
    fn state(&self) -> CacheState {
        self.view(|v| v.state)
    }

    #[zbus(property)]
    fn state_reason(&self) -> String {
        self.view(|v| v.reason.clone())
    }

    #[zbus(property)]
    fn mapped(&self) -> OwnedObjectPath {
        self.view(|v| v.mapped.clone())
    }

    #[zbus(property)]
    fn mount_points(&self) -> Vec<String> {
        self.view(|v| v.mount_points.clone())
    }

    #[zbus(property)]
    fn cache_bytes(&self) -> u64 {
        self.view(|v| v.cache_bytes)
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn latest(&self) -> Sample {
        self.sampler.latest()
    }

    #[zbus(property)]
    fn last_speed_test(&self) -> SpeedTest {
        let speed = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        speed.clone()
    }

    #[zbus(property)]
    fn job(&self) -> OwnedObjectPath {
        self.view(|v| v.job.clone())
    }
}
