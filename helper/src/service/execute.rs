// SPDX-License-Identifier: GPL-3.0-or-later
//! From a plan to a running job.

use super::plans::Rights;
use super::{Inner, MAX_JOBS, Running, Service};
use crate::action::{Action, Pair};
use crate::apply::{self, Unwatched};
use crate::auth::{self, Permission};
use crate::facts::Ident;
use crate::iface::bounded::Bounded;
use crate::iface::job::{JobObject, Progress};
use crate::inhibit;
use crate::plan::{self, Plan};
use crate::state::Intent;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{
    DeviceText, Failure, FileUser, JobKind, Kind, Mode, ROOT_PATH, SECTOR_BYTES, Step,
};
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
            JobKind::Resize => Permission::Resize,
            JobKind::Remove if frozen.discards => Permission::Discard,
            JobKind::Remove | JobKind::Flush => Permission::Remove,
        };
        let (disk, ssd) = (&frozen.reply.origin, &frozen.reply.ssd);
        auth::check(&self.connection, header, permission, disk, ssd).await?;
        if kind == JobKind::Create && frozen.reply.mode == Mode::Writeback {
            auth::check(&self.connection, header, Permission::WriteBack, disk, ssd).await?;
        }
        // A plan is executed once, even if two calls wait for the same authentication.
        self.inner().offers.remove(plan_id).ok_or_else(unknown)?;
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
        self.inner().free(devices)?;
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
            if self.inner().free(devices).is_err() {
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

    /// Reserves the devices without a job, until the result is dropped. `records`: see [`Running`].
    pub(super) fn reserve(
        &self,
        uuid: &str,
        devices: [Ident; 2],
        records: bool,
    ) -> Result<Reservation<'_>, Failure> {
        let mut inner = self.inner();
        inner.free(&devices)?;
        inner.end_test(&devices);
        let running = Running {
            path: DeviceText::none().object,
            uuid: uuid.to_owned(),
            devices,
            records,
        };
        self.enter(&mut inner, running);
        Ok(Reservation(self, uuid.to_owned()))
    }

    /// Notes that a job or a reservation is under way. If it changes the cache, it takes the disk from its mapping itself.
    fn enter(&self, inner: &mut Inner, running: Running) {
        if running.records {
            self.engine.hold_at_return(&running.uuid, false);
        }
        inner.running.push(running);
    }

    /// Starts the job of a plan.
    pub(super) async fn begin(
        self: &Arc<Self>,
        plan: Plan,
        uid: u32,
    ) -> Result<OwnedObjectPath, Failure> {
        let (kind, uuid) = (plan.kind, plan.uuid.clone());
        let (steps, actions) = (plan.reply.steps.clone(), plan.actions.clone());
        self.start_job(
            kind,
            uuid,
            steps,
            &actions,
            uid,
            move |this, watcher| async move {
                apply::run(this.engine(), &this.store, &plan, uid, &*watcher)
                    .await
                    .map(drop)
            },
        )
        .await
    }

    /// Continues a drain that an earlier process of the service began, as a job of the same user.
    async fn resume(self: &Arc<Self>, intent: Intent) -> Result<OwnedObjectPath, Failure> {
        let bytes = match self.engine.status(&intent.uuid).await {
            Ok(status) => status.sample.dirty_sectors.saturating_mul(SECTOR_BYTES),
            Err(_) => 0,
        };
        let (kind, uuid, owner) = (intent.kind, intent.uuid.clone(), intent.owner);
        let actions = intent.actions.clone();
        let steps = Action::steps(&actions, 0, bytes);
        self.start_job(
            kind,
            uuid,
            steps,
            &actions,
            owner,
            move |this, watcher| async move {
                apply::recover(this.engine(), &this.store, intent, &*watcher).await
            },
        )
        .await
    }

    async fn start_job<J: Future<Output = Result<(), Failure>> + Send>(
        self: &Arc<Self>,
        kind: JobKind,
        uuid: String,
        steps: Vec<Step>,
        actions: &[Action],
        uid: u32,
        work: impl FnOnce(Arc<Self>, Arc<Progress>) -> J + Send + 'static,
    ) -> Result<OwnedObjectPath, Failure> {
        let devices = involved(actions)
            .ok_or_else(|| Failure::new(Kind::Internal).detail("plan without devices"))?;
        let (path, tested) = {
            let mut inner = self.inner();
            if inner.running.len() >= MAX_JOBS {
                return Err(Failure::new(Kind::TooMany));
            }
            inner.free(&devices)?;
            inner.next_job += 1;
            let path = OwnedObjectPath::try_from(format!("{ROOT_PATH}/jobs/{}", inner.next_job))
                .map_err(|e| Failure::new(Kind::Internal).detail(e))?;
            let running = Running {
                path: path.clone(),
                uuid: uuid.clone(),
                devices: devices.clone(),
                records: kind != JobKind::Flush,
            };
            self.enter(&mut inner, running);
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
                self.inner().running.retain(|r| r.path != path);
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
            this.inner().running.retain(|r| r.path != job);
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
            if self.inner().running.iter().any(|r| r.uuid == intent.uuid) {
                continue;
            }
            if intent.draining().is_some() {
                let live = self.engine.live_mappings().await.unwrap_or_default();
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
                .map(|d| self.reserve(&intent.uuid, d, assembles.is_none()))
            else {
                continue;
            };
            match apply::recover(self.engine(), &self.store, intent, &Unwatched).await {
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
        let live = self.engine.live_mappings().await.unwrap_or_default();
        if live.iter().any(|l| l.uuid == pair.uuid && l.attached) {
            let engine = self.engine.clone();
            tokio::spawn(async move { engine.mount_left_out(&pair).await });
        }
    }
}

impl Inner {
    /// Whether a job or a reservation is under way that updates the record of this cache itself.
    pub(super) fn records(&self, uuid: &str) -> bool {
        self.running.iter().any(|r| r.uuid == uuid && r.records)
    }

    /// Ends the speed test that uses one of these devices. Returns whether there was one.
    fn end_test(&self, devices: &[Ident; 2]) -> bool {
        let test = self.test.as_ref();
        test.is_some_and(|test| test.make_way(devices))
    }

    /// Whether no job uses these devices.
    pub(super) fn free(&self, devices: &[Ident; 2]) -> Result<(), Failure> {
        let busy = self.running.iter().find(|r| shared(&r.devices, devices));
        busy.map_or(Ok(()), |running| {
            Err(Failure::new(Kind::Busy).device(&running.devices[0].text))
        })
    }
}

/// The work of a job in words, for the programs that ask why the machine must stay on.
fn reason(kind: JobKind, disk: &DeviceText) -> String {
    let disk = auth::describe(disk);
    match kind {
        JobKind::Create => format!("A cache for {disk} is being set up"),
        JobKind::Remove => format!("The cache of {disk} is being removed"),
        JobKind::Flush => format!("Data is being written to {disk}"),
        JobKind::Resize => format!("The cache of {disk} is getting another size"),
    }
}

/// A reservation of devices for work without a job. Dropping this value ends the reservation.
pub(super) struct Reservation<'a>(&'a Service, String);

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let none = DeviceText::none().object;
        let ours = |r: &Running| r.uuid == self.1 && r.path == none;
        self.0.inner().running.retain(|r| !ours(r));
    }
}

/// Disk and SSD of a plan. If the plan makes or deletes a partition: the whole SSD, so that two jobs never change one
/// partition table.
fn involved(actions: &[Action]) -> Option<[Ident; 2]> {
    let changes_table = |action: &&Action| {
        matches!(
            action,
            Action::CreatePartition(_) | Action::DeletePartition(_)
        )
    };
    let pair = actions.iter().find_map(Action::pair)?;
    let changed = actions.iter().find(changes_table).and_then(Action::pair);
    let table = changed.and_then(|pair| pair.partition.as_ref());
    let ssd = table.map_or(&pair.ssd, |partition| &partition.disk);
    Some([pair.origin.clone(), ssd.clone()])
}

/// Whether two jobs use the same device. One of the jobs may have an old record, which names a drive in another way:
/// only the present identity has all names of the drive.
pub(super) fn shared(a: &[Ident; 2], b: &[Ident; 2]) -> bool {
    let same = |a: &Ident, b: &Ident| {
        a.same_hardware(b) || b.same_hardware(a) || a.text.object == b.text.object
    };
    a.iter().any(|a| b.iter().any(|b| same(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Partition;

    #[test]
    fn a_device_of_an_old_record_is_found_to_be_in_use_whichever_comes_first() {
        let ident = |object: &str, hardware: &str, names: &[&str]| {
            let mut ident = crate::plan::tests::device(object, 1 << 30).ident;
            ident.hardware = hardware.to_owned();
            ident.names = names.iter().map(|&name| name.to_owned()).collect();
            ident
        };
        let old = [
            ident("sda", "naa.5/SER_A", &[]),
            ident("sdb", "naa.6/SER_B", &[]),
        ];
        let now = [
            ident("sdx", "0x5/A", &["0x5", "A", "SER_A", "naa.5"]),
            ident("sdy", "0x7/C", &["0x7", "C"]),
        ];
        let other = [now[1].clone(), now[1].clone()];
        assert!(shared(&now, &old) && shared(&old, &now));
        assert!(!shared(&other, &old) && !shared(&old, &other));
    }

    /// Two caches may have partitions of one SSD. Only one job at a time may change its partition table.
    #[test]
    fn a_job_that_changes_a_partition_table_takes_the_whole_ssd() {
        let device = |object: &str| crate::plan::tests::device(object, 1 << 30).ident;
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
