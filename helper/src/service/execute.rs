// SPDX-License-Identifier: GPL-3.0-or-later
//! From a question to a plan, and from a plan to a running job.

use super::{MOST_JOBS, Running, Service};
use crate::action::{Action, Pair};
use crate::apply::{self, Watcher};
use crate::auth::{self, Permission};
use crate::engine::Live;
use crate::facts::{Device, Facts, Ident};
use crate::iface::job::{JobObject, Progress};
use crate::mounts::users;
use crate::plan::{self, Plan, RemoveInput};
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{Failure, FileUser, JobKind, Kind, PlanReply, PlanSpec, ROOT_PATH};
use zbus::OwnedObjectPath;
use zbus::message::Header;

/// How long a finished job's object stays.
const LINGER: Duration = Duration::from_secs(10);

impl Service {
    /// `Manager.Plan`.
    pub(crate) async fn plan_create(
        &self,
        header: &Header<'_>,
        spec: PlanSpec,
    ) -> Result<PlanReply, Failure> {
        let _call = self.call();
        let uid = auth::sender_uid(&self.connection, header).await?;
        let uuid = uuid::Uuid::new_v4().simple().to_string();
        let plan = self.creation(&spec, &uuid, uid).await?;
        self.offer(plan, Some(spec), uid)
    }

    /// `Cache.PlanRemove`.
    pub(crate) async fn plan_remove(
        &self,
        header: &Header<'_>,
        uuid: &str,
    ) -> Result<PlanReply, Failure> {
        let _call = self.call();
        let uid = auth::sender_uid(&self.connection, header).await?;
        let plan = self.removal(uuid, uid).await?;
        self.offer(plan, None, uid)
    }

    async fn creation(&self, spec: &PlanSpec, uuid: &str, uid: u32) -> Result<Plan, Failure> {
        let _one = self.planning.lock().await;
        let mut facts = self.engine.facts().await?;
        let parts = self.parts(&facts);
        if plan::worth_reading(spec, &facts, &parts) {
            for object in [spec.ssd.as_str(), spec.origin.as_str()] {
                let devices = &mut facts.devices;
                let Some(device) = devices.iter_mut().find(|d| d.object() == object) else {
                    continue;
                };
                if device.mounts.is_empty() && device.holders.is_empty() {
                    device.claimed = self.engine.claimed(device).await?;
                }
                if object == spec.ssd.as_str() && device.usage.is_empty() && !device.partitioned {
                    device.blank = self.engine.blank(device).await?;
                }
            }
        }
        let users = match facts.device(spec.origin.as_str()) {
            Some(device) if !device.mounts.is_empty() => self.engine.users(device).await,
            _ => Vec::new(),
        };
        let users = users::discreet(users, uid, facts.hides_processes);
        plan::create(spec, uuid, &facts, &parts, users)
    }

    async fn removal(&self, uuid: &str, uid: u32) -> Result<Plan, Failure> {
        let record = self
            .store
            .caches()
            .into_iter()
            .find(|r| r.pair.uuid == uuid);
        let record = record.ok_or_else(|| Failure::new(Kind::WrongState).name("removed"))?;
        let facts = self.engine.facts().await?;
        let live = self
            .engine
            .live()
            .await?
            .into_iter()
            .find(|l| l.uuid == uuid);
        let pair = current(&record.pair, &facts);
        let device = mapped(&facts, &pair);
        let users = match device {
            Some(device) if !device.mounts.is_empty() => self.engine.users(device).await,
            _ => Vec::new(),
        };
        let users = users::discreet(users, uid, facts.hides_processes);
        let attached = live.as_ref().is_some_and(|l| l.attached);
        let intact = live.as_ref().is_some_and(|l| leads_to(l, &pair, &facts));
        Ok(plan::remove(RemoveInput {
            pair: &pair,
            attached: attached && intact,
            orphaned: attached && !intact,
            mapped: live.is_some(),
            ssd_present: record.detached_in.is_none() && facts.same_hardware(&pair.ssd).is_some(),
            mounts: device.map_or(&[], |d| &d.mounts),
            users,
            pinned: device.is_some_and(|d| !d.submounts.is_empty() || !d.holders.is_empty()),
        }))
    }

    /// Object paths of all devices that are part of a cache.
    fn parts(&self, facts: &Facts) -> Vec<String> {
        let mut parts = Vec::new();
        for record in self.store.caches() {
            let ssd = record.detached_in.is_none().then_some(&record.pair.ssd);
            for ident in std::iter::once(&record.pair.origin).chain(ssd) {
                parts.extend(facts.same_hardware(ident).map(|d| d.object().to_owned()));
            }
        }
        parts
    }

    /// `Manager.Create` and `Cache.Remove`. What is authorised and done is the plan as it was given
    /// out; nothing that the caller can still change takes part.
    pub(crate) async fn execute(
        self: &Arc<Self>,
        header: &Header<'_>,
        kind: JobKind,
        cache: Option<&str>,
        plan_id: &str,
        digest: &str,
    ) -> Result<OwnedObjectPath, Failure> {
        let _call = self.call();
        let uid = auth::sender_uid(&self.connection, header).await?;
        let unknown = || Failure::new(Kind::PlanUnknown);
        let valid = Duration::from_secs(plan::VALID_SECONDS.into());
        let (frozen, spec) = {
            let inner = self.inner();
            let offer = inner.offers.get(plan_id).filter(|offer| {
                offer.uid == uid
                    && offer.at.elapsed() < valid
                    && offer.plan.kind == kind
                    && offer.plan.reply.digest == digest
                    && cache.is_none_or(|uuid| offer.plan.uuid == uuid)
            });
            let offer = offer.ok_or_else(unknown)?;
            (offer.plan.clone(), offer.spec.clone())
        };
        let permission = match kind {
            JobKind::Create if frozen.erases() => Permission::CreateErasing,
            JobKind::Create => Permission::Create,
            JobKind::Remove | JobKind::Flush => Permission::Remove,
        };
        let (disk, ssd) = (&frozen.reply.origin, &frozen.reply.ssd);
        auth::check(&self.connection, header, permission, disk, ssd).await?;
        // A plan is executed once, even if two calls were waiting for the same answer.
        self.inner().offers.remove(plan_id).ok_or_else(unknown)?;
        self.touch();

        if let Some(devices) = involved(&frozen.actions) {
            self.idle(&devices).await?;
        }
        let now = match &spec {
            Some(spec) => self.creation(spec, &frozen.uuid, uid).await?,
            None => self.removal(&frozen.uuid, uid).await?,
        };
        if !now.does_the_same(&frozen) {
            return Err(Failure::new(Kind::DeviceChanged).device(disk));
        }
        self.unused(&now, disk).await?;
        self.begin(frozen, uid).await
    }

    /// A file system in use is answered before anything is changed.
    async fn unused(&self, plan: &Plan, disk: &tandem_api::DeviceText) -> Result<(), Failure> {
        let unmounts = plan
            .actions
            .iter()
            .any(|a| matches!(a, Action::Unmount(..)));
        let users: Vec<FileUser> = plan
            .reply
            .warnings
            .iter()
            .flat_map(|w| w.users.clone())
            .collect();
        if unmounts && !users.is_empty() {
            return Err(Failure::new(Kind::FilesystemBusy)
                .device(disk)
                .mount_points(plan.reply.mount_points.clone())
                .users(users));
        }
        Ok(())
    }

    /// No job, running or left half done by an earlier one, has to do with these devices.
    async fn idle(&self, devices: &[Ident; 2]) -> Result<(), Failure> {
        if let Some(running) = self
            .inner()
            .running
            .iter()
            .find(|r| shared(&r.devices, devices))
        {
            return Err(Failure::new(Kind::Busy).device(&running.devices[0].text));
        }
        let unfinished = || {
            let intents = self.store.intents();
            intents
                .iter()
                .any(|i| involved(&i.actions).is_some_and(|d| shared(&d, devices)))
        };
        if unfinished() {
            self.recover().await;
            if unfinished() {
                return Err(Failure::new(Kind::Busy).device(&devices[0].text));
            }
        }
        Ok(())
    }

    async fn begin(self: &Arc<Self>, plan: Plan, uid: u32) -> Result<OwnedObjectPath, Failure> {
        let devices = involved(&plan.actions)
            .ok_or_else(|| Failure::new(Kind::Internal).detail("plan without devices"))?;
        let path = {
            let mut inner = self.inner();
            if inner.running.len() >= MOST_JOBS {
                return Err(Failure::new(Kind::TooMany));
            }
            if let Some(running) = inner.running.iter().find(|r| shared(&r.devices, &devices)) {
                return Err(Failure::new(Kind::Busy).device(&running.devices[0].text));
            }
            inner.next_job += 1;
            let path = OwnedObjectPath::try_from(format!("{ROOT_PATH}/jobs/{}", inner.next_job))
                .map_err(|e| Failure::new(Kind::Internal).detail(e))?;
            inner.running.push(Running {
                path: path.clone(),
                uuid: plan.uuid.clone(),
                devices,
            });
            path
        };
        let progress = Arc::new(Progress::new(plan.reply.steps.clone()));
        let object = JobObject::new(plan.kind, plan.uuid.clone(), uid, progress.clone());
        let server = self.connection.object_server();
        let shown = async {
            server.at(&path, object).await?;
            server.interface::<_, JobObject>(&path).await
        };
        let object = match shown.await {
            Ok(object) => object,
            Err(e) => {
                self.inner().running.retain(|r| r.path != path);
                return Err(Failure::new(Kind::Internal).detail(e));
            }
        };
        let told = tokio::spawn(JobObject::tell(object));
        let (this, job) = (self.clone(), path.clone());
        tokio::spawn(async move {
            this.refresh().await;
            let result = apply::run(this.engine(), &this.store, &plan, &*progress).await;
            match &result {
                Ok(outcome) => {
                    tracing::info!(kind = %plan.kind, uuid = plan.uuid, ?outcome, "job done")
                }
                Err(failure) => {
                    tracing::error!(kind = %plan.kind, uuid = plan.uuid, "job failed: {failure}")
                }
            }
            this.inner().running.retain(|r| r.path != job);
            this.touch();
            // Who hears of the end already finds the cache there, or gone.
            this.refresh().await;
            let result = match result {
                // Everybody can read how a job ended.
                Err(failure) if !failure.users.is_empty() => {
                    let shows = this.engine.facts().await.is_ok_and(|f| !f.hides_processes);
                    let users = users::discreet(failure.users.clone(), uid, !shows);
                    Err(failure.users(users))
                }
                other => other.map(drop),
            };
            progress.finish(result);
            let _ = told.await;
            tokio::time::sleep(LINGER).await;
            let _ = this
                .connection
                .object_server()
                .remove::<JobObject, _>(&job)
                .await;
        });
        Ok(path)
    }

    /// Ends or undoes what an earlier life of the service, or a job that failed, left half done.
    pub(super) async fn recover(&self) {
        let _one = self.recovering.lock().await;
        for intent in self.store.intents() {
            if self.inner().running.iter().any(|r| r.uuid == intent.uuid) {
                continue;
            }
            if let Err(e) = apply::recover(self.engine(), &self.store, intent, &Unseen).await {
                tracing::error!("cannot put an unfinished job right: {e}");
            }
        }
    }
}

/// Nobody watches a recovery.
pub(super) struct Unseen;

impl Watcher for Unseen {
    fn step(&self, _: usize, _: bool) {}

    fn cancelled(&self) -> bool {
        false
    }

    fn no_return(&self) {}
}

/// Disk and SSD of a plan.
fn involved(actions: &[Action]) -> Option<[Ident; 2]> {
    actions.iter().find_map(|action| match action {
        Action::Map(pair) | Action::Detach(pair) | Action::FreeSsd(pair) | Action::Unmap(pair) => {
            Some([pair.origin.clone(), pair.ssd.clone()])
        }
        _ => None,
    })
}

/// Whether two jobs have to do with the same device.
pub(super) fn shared(a: &[Ident; 2], b: &[Ident; 2]) -> bool {
    let same = |a: &Ident, b: &Ident| a.same_hardware(b) || a.text.object == b.text.object;
    a.iter().any(|a| b.iter().any(|b| same(a, b)))
}

/// The pair with its devices as they are called now.
pub(super) fn current(pair: &Pair, facts: &Facts) -> Pair {
    let now = |ident: &Ident| {
        facts
            .same_hardware(ident)
            .map_or_else(|| ident.clone(), |d| d.ident.clone())
    };
    Pair {
        origin: now(&pair.origin),
        ssd: now(&pair.ssd),
        ..pair.clone()
    }
}

/// The mapped device of a pair.
pub(super) fn mapped<'a>(facts: &'a Facts, pair: &Pair) -> Option<&'a Device> {
    let dm_uuid = pair.dm_uuid();
    facts.devices.iter().find(|d| d.ident.hardware == dm_uuid)
}

/// Whether a mapping still leads to the disk of its pair: one that was pulled and plugged in again is
/// another device to the kernel, and the mapping still means the one that is gone.
pub(super) fn leads_to(live: &Live, pair: &Pair, facts: &Facts) -> bool {
    facts
        .same_hardware(&pair.origin)
        .is_some_and(|disk| disk.number == live.origin)
}
