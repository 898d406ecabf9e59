// SPDX-License-Identifier: GPL-3.0-or-later
//! `org.tandemcache.Tandem1.Manager`, see [`tandem_api::ManagerProxy`].

use crate::decide::plan::MINIMUM_SSD_BYTES;
use crate::service::Service;
use std::sync::Arc;
use tandem_api::{
    DiskWatch, Failure, FoundCache, JobKind, JudgedDevice, ModuleProblem, ModuleState, NameChange,
    OtherCache, OtherPeriod, PlanReply, PlanSpec, SigningKey, SpeedTest, SsdPart,
};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{OwnedObjectPath, interface};

/// The service as a whole.
pub struct ManagerObject(pub Arc<Service>);

#[interface(name = "org.tandemcache.Tandem1.Manager")]
impl ManagerObject {
    async fn plan(
        &self,
        spec: PlanSpec,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<PlanReply, Failure> {
        self.0.note_activity();
        self.0.plan_create(&header, spec).await
    }

    async fn ssd_layout(
        &self,
        ssd: OwnedObjectPath,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<Vec<SsdPart>, Failure> {
        self.0.note_activity();
        self.0.ssd_layout(&header, ssd).await
    }

    async fn name_changes(
        &self,
        disk: OwnedObjectPath,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<Vec<NameChange>, Failure> {
        self.0.note_activity();
        self.0.name_changes(&header, &disk).await
    }

    async fn change_names(
        &self,
        disk: OwnedObjectPath,
        changes: Vec<NameChange>,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Failure> {
        self.0.note_activity();
        self.0.change_names(&header, &disk, &changes).await
    }

    async fn create(
        &self,
        plan_id: String,
        digest: String,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<OwnedObjectPath, Failure> {
        self.0.note_activity();
        self.0
            .execute(&header, JobKind::Create, None, &plan_id, &digest)
            .await
    }

    async fn enroll_key(
        &self,
        password: &str,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.0.note_activity();
        self.0.enroll_key(&header, password).await
    }

    async fn test_speed(
        &self,
        disk: OwnedObjectPath,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<SpeedTest, Failure> {
        self.0.note_activity();
        self.0.test_disk(&header, &disk).await
    }

    async fn cancel_speed_test(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Failure> {
        self.0.note_activity();
        self.0.cancel_test(&header).await
    }

    /// See [`tandem_api::ManagerProxy::receive_speed_test_progressed`].
    #[zbus(signal)]
    pub async fn speed_test_progressed(
        emitter: &SignalEmitter<'_>,
        done: f64,
        through_cache: bool,
    ) -> zbus::Result<()>;

    async fn watch_disk(
        &self,
        disk: OwnedObjectPath,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Failure> {
        self.0.note_activity();
        self.0.watch_disk(&header, &disk).await
    }

    async fn stop_watching(
        &self,
        id: &str,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.0.note_activity();
        self.0.stop_watching(&header, id).await
    }

    #[zbus(property)]
    fn watches(&self) -> Vec<DiskWatch> {
        self.0.watches()
    }

    #[zbus(property)]
    fn devices(&self) -> Vec<JudgedDevice> {
        self.0.judged_devices()
    }

    #[zbus(property)]
    fn other_caches(&self) -> Vec<OtherCache> {
        // The figures of these caches are followed for as long as somebody asks.
        self.0.note_activity();
        self.0.other_caches()
    }

    fn other_history(&self, id: &str) -> Result<Vec<OtherPeriod>, Failure> {
        // As for the property.
        self.0.note_activity();
        self.0.other_history(id)
    }

    async fn plan_remove_other(
        &self,
        id: &str,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<PlanReply, Failure> {
        self.0.note_activity();
        self.0.plan_remove_other(&header, id).await
    }

    async fn remove_other(
        &self,
        plan_id: &str,
        digest: &str,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<OwnedObjectPath, Failure> {
        self.0.note_activity();
        self.0.remove_other(&header, plan_id, digest).await
    }

    async fn write_back_other(
        &self,
        id: &str,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<OwnedObjectPath, Failure> {
        self.0.note_activity();
        self.0.write_back_other(&header, id).await
    }

    #[zbus(property)]
    fn found_caches(&self) -> Vec<FoundCache> {
        self.0.found_caches()
    }

    async fn take_over(
        &self,
        ssd: OwnedObjectPath,
        uuid: &str,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.0.note_activity();
        self.0.take_over(&header, &ssd, uuid).await
    }

    async fn discard_found(
        &self,
        ssd: OwnedObjectPath,
        uuid: &str,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(), Failure> {
        self.0.note_activity();
        self.0.discard_found(&header, &ssd, uuid).await
    }

    async fn check_kernels(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Failure> {
        self.0.note_activity();
        self.0.check_kernels(&header).await
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn engine(&self) -> &str {
        self.0.host().name()
    }

    #[zbus(property(emits_changed_signal = "const"), name = "HasDmCache")]
    fn has_dm_cache(&self) -> bool {
        self.0.host().has_dm_cache()
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn memory_for_caches(&self) -> u64 {
        self.0.host().memory_for_caches()
    }

    #[zbus(property)]
    fn module_state(&self) -> ModuleState {
        self.0.shown_module().state
    }

    #[zbus(property)]
    fn module_problem(&self) -> (ModuleProblem, String) {
        self.0.shown_module().problem
    }

    #[zbus(property)]
    fn signing_key(&self) -> SigningKey {
        self.0.shown_module().key
    }

    #[zbus(property)]
    fn kernels_without_module(&self) -> Vec<String> {
        self.0.kernels_without_module()
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn kernel(&self) -> String {
        self.0.host().kernel()
    }

    #[zbus(property(emits_changed_signal = "const"), name = "MinimumSsdBytes")]
    fn minimum_ssd_bytes(&self) -> u64 {
        MINIMUM_SSD_BYTES
    }
}
