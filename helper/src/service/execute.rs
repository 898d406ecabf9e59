// SPDX-License-Identifier: GPL-3.0-or-later
//! From a plan to a running job.

use super::jobs::shared;
use super::offers::Named;
use super::plans::Rights;
use super::{Inner, Service};
use crate::decide::plan::Plan;
use crate::model::action::{Action, Pair};
use crate::model::facts::Ident;
use crate::model::record::Intent;
use crate::service::apply::{self, Unwatched};
use crate::service::auth::{self, Permission};
use crate::service::iface::bounded::Bounded;
use crate::service::iface::job::{JobObject, Progress};
use crate::service::inhibit;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{DeviceText, Failure, FileUser, JobKind, Kind, Mode, SECTOR_BYTES, Step};
use zbus::OwnedObjectPath;
use zbus::message::Header;

/// How long a finished job's object stays.
const FINISHED_JOB_STAYS: Duration = Duration::from_secs(10);

impl Service {
    /// `Manager.Create`, `Cache.Remove` and `Cache.Resize`. The service authorises and executes the plan that it keeps.
    /// The caller cannot change that plan.
    pub(crate) async fn execute(
        self: &Arc<Self>,
        header: &Header<'_>,
        kind: JobKind,
        cache: Option<&str>,
        plan_id: &str,
        digest: &str,
    ) -> Result<OwnedObjectPath, Failure> {
        let _call = self.call();
        let caller = self.caller(header).await?;
        let uid = caller.uid;
        let unknown = || Failure::new(Kind::PlanUnknown);
        let named = Named {
            id: plan_id,
            digest,
            kind,
            cache,
            uid,
        };
        let found = self.inner().offers.find(&named);
        let (frozen, spec) = found.ok_or_else(unknown)?;
        let permission = match kind {
            JobKind::Create if frozen.erases() => Permission::CreateErasing,
            JobKind::Create => Permission::Create,
            JobKind::Resize => Permission::Resize,
            JobKind::Remove if frozen.discards => Permission::Discard,
            JobKind::Remove | JobKind::Flush | JobKind::MakePlain => Permission::Remove,
        };
        let (disk, ssd) = (&frozen.reply.origin, &frozen.reply.ssd);
        auth::check(&self.connection, header, permission, disk, ssd).await?;
        if kind == JobKind::Create && frozen.reply.mode == Mode::Writeback {
            auth::check(&self.connection, header, Permission::WriteBack, disk, ssd).await?;
        }
        // A plan is executed once, even if two calls wait for the same authentication.
        if !self.inner().offers.take(plan_id) {
            return Err(unknown());
        }
        self.note_activity();

        if let Some(devices) = involved(&frozen.actions) {
            self.ensure_no_job(&devices).await?;
        }
        let now = match &spec {
            Some(spec) => {
                let rights = Rights::Authorised;
                self.creation(spec, &frozen.uuid, uid, rights).await?
            }
            None if kind == JobKind::Resize => {
                self.resizing(&frozen.uuid, frozen.reply.ssd.size).await?
            }
            None => self.removal(&frozen.uuid, frozen.discards, uid).await?,
        };
        if !now.does_the_same(&frozen) {
            return Err(Failure::new(Kind::DeviceChanged).device(disk));
        }
        self.ensure_unused(&now, disk).await?;
        self.begin(frozen, uid).await
    }

    /// Refuses a file system in use before anything is changed.
    async fn ensure_unused(
        &self,
        plan: &Plan,
        disk: &tandem_api::DeviceText,
    ) -> Result<(), Failure> {
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

    /// Checks that no job, running or unfinished, uses these devices.
    pub(super) async fn ensure_no_job(
        self: &Arc<Self>,
        devices: &[Ident; 2],
    ) -> Result<(), Failure> {
        self.inner().jobs.free(devices)?;
        let unfinished = || {
            let intents = self.store.intents();
            intents
                .into_iter()
                .filter(|i| involved(&i.actions).is_some_and(|d| shared(&d, devices)))
                .collect::<Vec<_>>()
        };
        if !unfinished().is_empty() {
            self.recover().await;
            let busy = || Failure::new(Kind::Busy).device(&devices[0].text);
            if self.inner().jobs.free(devices).is_err() {
                return Err(busy());
            }
            for intent in unfinished() {
                // An unfinished drain waits for its cache to be assembled, and has changed nothing that matters.
                if intent.draining().is_none() || self.store.drop_intent(&intent).is_err() {
                    return Err(busy());
                }
            }
        }
        Ok(())
    }

    /// Reserves the devices without a job, until the result is dropped. `records`: see [`super::jobs::Jobs::begin`].
    pub(super) fn reserve(
        &self,
        uuid: &str,
        devices: &[Ident; 2],
        records: bool,
    ) -> Result<Reservation<'_>, Failure> {
        let mut inner = self.inner();
        inner.jobs.reserve(uuid, devices, records)?;
        inner.end_test(devices);
        self.leave_disk_to_job(uuid, records);
        Ok(Reservation(self, uuid.to_owned()))
    }

    /// Work that changes the cache takes the disk from its mapping itself.
    fn leave_disk_to_job(&self, uuid: &str, changes: bool) {
        if changes {
            self.host.hold_at_return(uuid, false);
        }
    }

    /// Starts the job of a plan.
    pub(super) async fn begin(
        self: &Arc<Self>,
        plan: Plan,
        uid: u32,
    ) -> Result<OwnedObjectPath, Failure> {
        let (kind, uuid) = (plan.kind, plan.uuid.clone());
        let devices = involved(&plan.actions).ok_or_else(no_devices)?;
        self.start_job(
            kind,
            uuid,
            plan.reply.steps.clone(),
            devices,
            uid,
            move |this, watcher| async move {
                apply::run(this.host(), &this.store, &plan, uid, &*watcher)
                    .await
                    .map(drop)
            },
        )
        .await
    }

    /// Continues a drain that an earlier process of the service began, as a job of the same user.
    async fn resume(self: &Arc<Self>, intent: Intent) -> Result<OwnedObjectPath, Failure> {
        let bytes = match self.host.status(&intent.uuid).await {
            Ok(status) => status.sample.dirty_sectors.saturating_mul(SECTOR_BYTES),
            Err(_) => 0,
        };
        let (kind, uuid, owner) = (intent.kind, intent.uuid.clone(), intent.owner);
        let devices = involved(&intent.actions).ok_or_else(no_devices)?;
        let steps = Action::steps(&intent.actions, 0, bytes);
        self.start_job(
            kind,
            uuid,
            steps,
            devices,
            owner,
            move |this, watcher| async move {
                apply::recover(this.host(), &this.store, intent, &*watcher).await
            },
        )
        .await
    }

    /// Starts a job on these devices, disk and SSD.
    pub(super) async fn start_job<J: Future<Output = Result<(), Failure>> + Send>(
        self: &Arc<Self>,
        kind: JobKind,
        uuid: String,
        steps: Vec<Step>,
        devices: [Ident; 2],
        uid: u32,
        work: impl FnOnce(Arc<Self>, Arc<Progress>) -> J + Send + 'static,
    ) -> Result<OwnedObjectPath, Failure> {
        let (path, tested) = {
            let mut inner = self.inner();
            let records = kind != JobKind::Flush;
            let path = inner.jobs.begin(&uuid, &devices, records)?;
            self.leave_disk_to_job(&uuid, records);
            (path, inner.end_test(&devices))
        };
        if tested {
            self.wait_for_test().await;
        }
        let progress = Arc::new(Progress::new(steps));
        let object = JobObject::new(kind, uuid.clone(), uid, progress.clone());
        let server = self.connection.object_server();
        let shown = async {
            server
                .at(&path, Bounded::new(object, self.queues.clone()))
                .await?;
            server.interface(&path).await
        };
        let object = match shown.await {
            Ok(object) => object,
            Err(e) => {
                self.inner().jobs.end(&path);
                return Err(Failure::new(Kind::Internal).detail(e));
            }
        };
        let told = tokio::spawn(JobObject::emit_changes(object));
        let why = reason(kind, &devices[0].text);
        tokio::spawn(inhibit::while_working(progress.works(), why));
        let (this, job) = (self.clone(), path.clone());
        tokio::spawn(async move {
            this.refresh().await;
            let result = work(this.clone(), progress.clone()).await;
            match &result {
                Ok(()) => tracing::info!(%kind, uuid, "job done"),
                Err(failure) => tracing::error!(%kind, uuid, "job failed: {failure}"),
            }
            this.inner().jobs.end(&job);
            this.note_activity();
            // The refresh comes before the signal of the end: a client that gets the signal sees the new state of the
            // cache.
            this.refresh().await;
            progress.finish(result);
            let _ = told.await;
            tokio::time::sleep(FINISHED_JOB_STAYS).await;
            let _ = this
                .connection
                .object_server()
                .remove::<Bounded<JobObject>, _>(&job)
                .await;
        });
        Ok(path)
    }

    /// Finishes or undoes each job that an earlier process of the service, or a failed job, left unfinished.
    ///
    /// A drain can take hours. It continues as a job as soon as its cache is assembled.
    pub(super) async fn recover(self: &Arc<Self>) {
        let _one = self.recovering.lock().await;
        for found in self.store.intents() {
            // The earlier recoveries took time: this job may have ended or gone on meanwhile.
            let Some(intent) = self.store.intents().into_iter().find(|now| *now == found) else {
                continue;
            };
            if self.job(&intent.uuid).is_some() {
                continue;
            }
            if intent.draining().is_some() {
                let live = self.host.live_mappings().await.unwrap_or_default();
                let attached = live.iter().any(|l| l.uuid == intent.uuid && l.attached);
                if attached && let Err(e) = self.resume(intent).await {
                    tracing::error!("cannot go on with a flush: {e}");
                }
                continue;
            }
            let assembles = intent.actions.iter().find_map(|action| match action {
                Action::Assemble(pair) => Some(pair.clone()),
                _ => None,
            });
            // While this runs, no other job may use the devices.
            let Some(Ok(_reserved)) = involved(&intent.actions)
                .map(|d| self.reserve(&intent.uuid, &d, assembles.is_none()))
            else {
                continue;
            };
            match apply::recover(self.host(), &self.store, intent, &Unwatched).await {
                Ok(()) => self.mount_left_out(assembles).await,
                Err(e) => tracing::error!("cannot put an unfinished job right: {e}"),
            }
        }
    }
}

impl Service {
    /// Mounts what was left out, if an interrupted assembly has been finished. No caller waits for these mounts.
    async fn mount_left_out(self: &Arc<Self>, pair: Option<Pair>) {
        let Some(pair) = pair else { return };
        let live = self.host.live_mappings().await.unwrap_or_default();
        if live.iter().any(|l| l.uuid == pair.uuid && l.attached) {
            let host = self.host.clone();
            tokio::spawn(async move { host.mount_left_out(&pair).await });
        }
    }
}

impl Inner {
    /// Ends the speed test that uses one of these devices. Returns whether there was one.
    fn end_test(&self, devices: &[Ident; 2]) -> bool {
        let test = self.test.as_ref();
        test.is_some_and(|test| test.make_way(devices))
    }
}

fn no_devices() -> Failure {
    Failure::new(Kind::Internal).detail("plan without devices")
}

/// The work of a job in words, for the programs that ask why the machine must stay on.
fn reason(kind: JobKind, disk: &DeviceText) -> String {
    let disk = auth::describe(disk);
    match kind {
        JobKind::Create => format!("A cache for {disk} is being set up"),
        JobKind::Remove => format!("The cache of {disk} is being removed"),
        JobKind::Flush => format!("Data is being written to {disk}"),
        JobKind::Resize => format!("The cache of {disk} is getting another size"),
        JobKind::MakePlain => format!("The partition table of {disk} is being changed"),
    }
}

/// A reservation of devices for work without a job. Dropping this value ends the reservation.
pub(super) struct Reservation<'a>(&'a Service, String);

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.0.inner().jobs.end_reservation(&self.1);
    }
}

/// Disk and SSD of a plan. If the plan makes or deletes a partition: the whole SSD, so that two jobs never change one
/// partition table.
fn involved(actions: &[Action]) -> Option<[Ident; 2]> {
    let changes_table = |action: &&Action| {
        matches!(
            action,
            Action::CreatePartition(_) | Action::DeletePartition(_) | Action::ResizePartition(_)
        )
    };
    let pair = actions.iter().find_map(Action::pair)?;
    let changed = actions.iter().find(changes_table).and_then(Action::pair);
    let table = changed.and_then(|pair| pair.partition.as_ref());
    let ssd = table.map_or(&pair.ssd, |partition| &partition.disk);
    Some([pair.origin.clone(), ssd.clone()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::action::Partition;

    /// Two caches may have partitions of one SSD. Only one job at a time may change its partition table.
    #[test]
    fn a_job_that_changes_a_partition_table_takes_the_whole_ssd() {
        let device = |object: &str| crate::decide::plan::tests::device(object, 1 << 30).ident;
        let pair = |disk: &str, partition: &str| Pair {
            origin: device(disk),
            ssd: device(partition),
            partition: Some(Box::new(Partition {
                disk: device("sdc"),
                start: 1 << 20,
                size: 1 << 30,
                new_table: false,
            })),
            ..Pair::nowhere(Mode::Writethrough)
        };
        let (one, other) = (pair("sda", "sdc1"), pair("sdb", "sdc2"));
        let removal = |pair: &Pair| {
            let pair = pair.clone();
            [Action::Detach(pair.clone()), Action::DeletePartition(pair)]
        };
        let [_, first] = involved(&removal(&one)).unwrap();
        let [_, second] = involved(&removal(&other)).unwrap();
        assert_eq!(first.text, second.text);
        // A job that leaves the table alone takes the cache's share only.
        let [_, drained] = involved(&[Action::Drain(other)]).unwrap();
        assert_ne!(drained.text, first.text);
    }
}
