// SPDX-License-Identifier: GPL-3.0-or-later
//! Removals of caches that other systems have made, on the bus.

use super::Service;
use super::offers::Named;
use crate::decide::plan;
use crate::model::removal::{OtherRemoval, OtherTask};
use crate::service::apply;
use crate::service::auth::{self, Permission};
use crate::service::iface::job::Progress;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{DeviceText, Failure, JobKind, Kind, OtherCache, PlanReply};
use tokio::time::timeout;
use zbus::OwnedObjectPath;
use zbus::message::Header;

/// Longest wait for a look at the caches of other systems: one of them may not answer.
const LIMIT: Duration = Duration::from_secs(5);

/// The cache with this id.
fn find(caches: Vec<OtherCache>, id: &str) -> Result<OtherCache, Failure> {
    let gone = || Failure::new(Kind::WrongState).name("not-found");
    caches
        .into_iter()
        .find(|cache| cache.id == id)
        .ok_or_else(gone)
}

impl Service {
    /// `Manager.PlanRemoveOther`. The plan is made of what is known, so that a caller causes no work.
    pub(crate) async fn plan_remove_other(
        &self,
        header: &Header<'_>,
        id: &str,
    ) -> Result<PlanReply, Failure> {
        let caller = self.caller(header).await?;
        let cache = find(self.other_caches(), id)?;
        let facts = self.inner().devices.clone();
        let (plan, _) = plan::end_other(&cache, &facts, OtherTask::Remove, caller.uid)?;
        Ok(self.inner().offers.keep(plan, None, caller.uid))
    }

    /// `Manager.RemoveOther`. After the authorisation the plan is made anew.
    pub(crate) async fn remove_other(
        self: &Arc<Self>,
        header: &Header<'_>,
        plan_id: &str,
        digest: &str,
    ) -> Result<OwnedObjectPath, Failure> {
        let _call = self.call();
        let uid = self.caller(header).await?.uid;
        let unknown = || Failure::new(Kind::PlanUnknown);
        let named = Named {
            id: plan_id,
            digest,
            kind: JobKind::Remove,
            cache: None,
            uid,
        };
        let found = self.inner().offers.find(&named);
        let (frozen, _) = found.ok_or_else(unknown)?;
        // The plans for caches of Tandem are executed elsewhere.
        find(self.other_caches(), &frozen.uuid).map_err(|_| unknown())?;
        let (disk, ssd) = (&frozen.reply.origin, &frozen.reply.ssd);
        let permission = match ssd.is_none() {
            true => Permission::MovePartition,
            false => Permission::Remove,
        };
        auth::check(&self.connection, header, permission, disk, ssd).await?;
        if !self.inner().offers.take(plan_id) {
            return Err(unknown());
        }
        self.begin_task(&frozen.uuid, OtherTask::Remove, (disk, ssd), uid)
            .await
    }

    /// `Manager.WriteBackOther`.
    pub(crate) async fn write_back_other(
        self: &Arc<Self>,
        header: &Header<'_>,
        id: &str,
    ) -> Result<OwnedObjectPath, Failure> {
        let _call = self.call();
        let (uid, task) = (self.caller(header).await?.uid, OtherTask::WriteBack);
        let cache = find(self.other_caches(), id)?;
        let facts = self.inner().devices.clone();
        let (plan, _) = plan::end_other(&cache, &facts, task, uid)?;
        let (disk, ssd) = (&plan.reply.origin, &plan.reply.ssd);
        auth::check(&self.connection, header, Permission::Tune, disk, ssd).await?;
        self.begin_task(id, task, (disk, ssd), uid).await
    }

    /// Makes the plan of a task anew, and begins the task if its devices are those that the user has agreed to.
    async fn begin_task(
        self: &Arc<Self>,
        id: &str,
        task: OtherTask,
        (disk, ssd): (&DeviceText, &DeviceText),
        uid: u32,
    ) -> Result<OwnedObjectPath, Failure> {
        self.note_activity();
        let facts = Arc::new(self.facts_in_time().await?);
        let look = timeout(LIMIT, self.host.other_caches(facts.clone()));
        let now = match look.await {
            Ok(seen) => seen.into_iter().map(|seen| seen.cache).collect(),
            Err(_) => self.other_caches(),
        };
        let cache = find(now, id)?;
        let (now, removal) = plan::end_other(&cache, &facts, task, uid)?;
        if now.reply.origin != *disk || now.reply.ssd != *ssd {
            return Err(Failure::new(Kind::DeviceChanged).device(disk));
        }
        self.ensure_no_job(&removal.devices).await?;
        self.begin_other(removal, true).await
    }

    /// Starts the job of a removal. `begin`: the removal has not begun yet.
    async fn begin_other(
        self: &Arc<Self>,
        removal: OtherRemoval,
        begin: bool,
    ) -> Result<OwnedObjectPath, Failure> {
        let kind = match removal.task {
            OtherTask::Remove => JobKind::Remove,
            OtherTask::WriteBack => JobKind::Flush,
            OtherTask::MakePlain => JobKind::MakePlain,
        };
        let (uuid, steps) = (removal.id.clone(), removal.steps.clone());
        let (devices, owner) = (removal.devices.clone(), removal.owner);
        let work = move |this: Arc<Self>, watcher: Arc<Progress>| async move {
            apply::remove_other(this.host(), &removal, begin, &*watcher).await
        };
        self.start_job(kind, uuid, steps, devices, owner, work)
            .await
    }

    /// Takes up the removals that were under way when an earlier process of the service was killed. What outlives a start of the
    /// machine is taken up when its cache is seen.
    pub(super) async fn take_up_removals(self: &Arc<Self>) {
        self.take_up(|removal| !removal.outlives_a_start()).await;
    }

    /// Takes up what an earlier process, or an earlier start of the machine, has left to be put back at these caches.
    pub(super) async fn take_up_removals_of(self: &Arc<Self>, caches: &[OtherCache]) {
        let is_there = |removal: &OtherRemoval| {
            let is_same = |cache: &OtherCache| cache.id == removal.id && cache.kind == removal.kind;
            caches.iter().any(is_same)
        };
        self.take_up(|removal| removal.outlives_a_start() && is_there(removal))
            .await;
    }

    /// Whether a mode is still to be put back, at a cache that may appear. What was to be put back at a cache that another program
    /// has removed meanwhile is forgotten.
    pub(super) async fn awaits_a_cache(&self) -> bool {
        let caches = self.other_caches().into_iter();
        let there: Vec<_> = caches.map(|cache| cache.id).collect();
        self.host.forget_modes_of_none(&there).await
    }

    async fn take_up(self: &Arc<Self>, wanted: impl Fn(&OtherRemoval) -> bool) {
        let begun = self.host.begun_removals().await.into_iter();
        for removal in begun.filter(wanted).collect::<Vec<_>>() {
            let name = removal.name.clone();
            if let Err(e) = self.begin_other(removal, false).await {
                tracing::error!("cannot follow the removal of the cache {name}: {e}");
            }
        }
    }
}
