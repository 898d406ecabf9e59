// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows the caches as the machine has them. Every change of the machine leads here, and only this file adds, changes
//! and removes the objects of caches.

use super::execute::shared;
use super::plans::{current, leads_to, mapped};
use super::{RETRY, Running, Service, Shown};
use crate::action::{Action, Pair};
use crate::apply::{self, Unwatched};
use crate::engine::{Live, Status};
use crate::facts::{Device, Facts, Ident};
use crate::history::History;
use crate::iface::bounded::Bounded;
use crate::iface::cache::{CacheObject, View};
use crate::iface::manager::ManagerObject;
use crate::plan;
use crate::sampler::Sampler;
use crate::state::{CacheRecord, Intent};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{CacheState, DeviceText, Failure, Kind, ModuleState, ROOT_PATH};
use zbus::OwnedObjectPath;

/// Time limit for the list of devices: far longer than a listing takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn path(uuid: &str) -> String {
    format!("{ROOT_PATH}/caches/{uuid}")
}

fn nothing() -> OwnedObjectPath {
    DeviceText::none().object
}

impl Service {
    /// Looks at the machine and shows its caches. False: a part of that failed, and has to be tried again.
    pub(crate) async fn refresh(self: &Arc<Self>) -> bool {
        let _serial = self.refreshing.lock().await;
        self.look().await.unwrap_or_else(|e| {
            tracing::error!("cannot look at the machine: {e}");
            false
        })
    }

    /// Whether every disk that has to be held is held, and every record is written.
    async fn look(self: &Arc<Self>) -> Result<bool, Failure> {
        // The records come first, and without other services: writes wait for these records, and UDisks2 may wait for
        // a failing device. follow_risk writes them at every event. This call is for a record that a job kept from it
        // and that has ended since.
        let recorded = self.record_risks().await?;
        let facts = tokio::time::timeout(PATIENCE, self.engine.facts()).await;
        let facts = facts.map_err(|_| Failure::new(Kind::Internal).detail("no answer"))??;
        let live = self.engine.live().await?;
        let jobs = self.store.intents();
        let mut all_kept = recorded;
        let mut views = BTreeMap::new();
        for record in self.store.caches() {
            let live = live.iter().find(|l| l.uuid == record.pair.uuid);
            if record.detached_in.is_some() && live.is_none() {
                // The detached cache ended with its mapping.
                if let Err(e) = self.store.drop_cache(&record.pair.uuid) {
                    tracing::error!("cannot forget a cache: {e}");
                }
                continue;
            }
            let pair = current(&record.pair, &facts);
            if live.is_none() && record.setup.waits_in(&self.engine.boot_id()) {
                let view = self.view_prepared(&record, &pair, &facts);
                views.insert(pair.uuid.clone(), (pair, view));
                continue;
            }
            let Some(record) = self.record_fork(&pair, live, &facts).await else {
                continue;
            };
            let pair = Pair {
                cold: record.pair.cold,
                lost: record.pair.lost,
                ..pair
            };
            if !jobs.iter().any(|job| job.gives_up(&pair.uuid)) {
                let kept = self.protect(&record, &pair, live, &facts).await;
                if let Err(e) = &kept {
                    tracing::error!(uuid = pair.uuid, "the disk is not protected: {e}");
                }
                all_kept &= kept.is_ok();
            }
            self.record_content(&record, mapped(&facts, &pair));
            let view = self.view(&record, &pair, live, &facts, &jobs).await;
            views.insert(pair.uuid.clone(), (pair, view));
        }
        if let Err(e) = self.show(views).await {
            tracing::error!("cannot show the caches: {e}");
        }
        Ok(all_kept)
    }

    /// Holds a disk that lacks data, and all devices that may be that disk, until the cache is assembled. A mapping
    /// whose disk was pulled and plugged in again leads nowhere; it is removed for the hold if nothing uses it.
    async fn protect(
        &self,
        record: &CacheRecord,
        pair: &Pair,
        live: Option<&Live>,
        facts: &Facts,
    ) -> Result<(), Failure> {
        let away = facts.possible(&pair.origin).is_empty();
        let busy = self.inner().running.iter().any(|r| r.uuid == pair.uuid);
        if away || busy || record.detached_in.is_some() {
            return Ok(());
        }
        let mut to_be_held = facts.to_be_held(&pair.origin);
        match live {
            Some(live) if live.attached && !leads_to(live, pair, facts) => {
                match mapped(facts, pair).is_some_and(Device::unused) {
                    true => self.engine.apply(&Action::GiveBack(pair.clone())).await,
                    false => Ok(()),
                }
            }
            None if record.may_be_dirty && !record.forked && to_be_held.any(Device::unused) => {
                self.engine.apply(&Action::Hold(pair.clone())).await
            }
            _ => Ok(()),
        }
    }

    /// A cache that the next start of the machine maps. Its disk is used without it until then, as is on record.
    fn view_prepared(&self, record: &CacheRecord, pair: &Pair, facts: &Facts) -> View {
        let text = |ident: &Ident| {
            let gone = || DeviceText {
                object: nothing(),
                ..ident.text.clone()
            };
            facts
                .same_hardware(ident)
                .map_or_else(gone, |d| d.ident.text.clone())
        };
        let inner = self.inner();
        let job = inner.running.iter().find(|r| r.uuid == pair.uuid);
        View {
            origin: text(&pair.origin),
            ssd: text(&pair.ssd),
            mode: pair.mode,
            refused_modes: Vec::new(),
            may_be_unwritten: record.may_be_dirty,
            state: CacheState::Pending,
            reason: String::new(),
            mapped: nothing(),
            mount_points: facts
                .same_hardware(&pair.origin)
                .map(Device::mount_points)
                .unwrap_or_default(),
            cache_bytes: 0,
            job: job.map_or_else(nothing, |r| r.path.clone()),
        }
    }

    async fn view(
        self: &Arc<Self>,
        record: &CacheRecord,
        pair: &Pair,
        live: Option<&Live>,
        facts: &Facts,
        jobs: &[Intent],
    ) -> View {
        let (origin, ssd) = (
            facts.same_hardware(&pair.origin),
            facts.same_hardware(&pair.ssd),
        );
        let status = match live {
            Some(live) if live.attached => self.engine.status(&pair.uuid).await.ok(),
            _ => None,
        };
        let job = self
            .inner()
            .running
            .iter()
            .find(|r| r.uuid == pair.uuid)
            .map(|r| r.path.clone());
        let leaving = jobs.iter().any(|job| job.gives_up(&pair.uuid));
        let asked = leaving || job.is_some() || record.detached_in.is_some();
        let (state, reason) = match (live, &status) {
            // No job or record asked for that: an SSD that came back could not be used, and the mapping went on with
            // the disk alone.
            (Some(live), _) if !live.attached && !asked => {
                (CacheState::Bypass, "ssd-error".to_owned())
            }
            (Some(live), _) if !live.attached => (CacheState::Detached, String::new()),
            (Some(live), _) if !leads_to(live, pair, facts) => {
                (CacheState::Bypass, "disk-missing".to_owned())
            }
            (Some(_), Some(status)) => state(status),
            (Some(_), None) => (CacheState::Suspended, String::new()),
            // This case comes first: any other reason may say that nothing is lost, or that the cache comes back by
            // itself.
            (None, _) if record.forked => (CacheState::Stopped, "disk-changed".to_owned()),
            (None, _) if origin.is_none() => (CacheState::Stopped, "disk-missing".to_owned()),
            (None, _) if ssd.is_none() && record.may_be_dirty => {
                (CacheState::Stopped, "ssd-gone-dirty".to_owned())
            }
            (None, _) if ssd.is_none() => (CacheState::Stopped, "ssd-missing".to_owned()),
            (None, _) => (
                CacheState::Stopped,
                self.reason(record, origin.is_some_and(|d| !d.mounts.is_empty()))
                    .await,
            ),
        };
        let missing = origin.is_none() || ssd.is_none();
        let back = live
            .filter(|live| live.attached && ssd.is_some_and(|ssd| ssd.number != live.ssd))
            .and_then(|_| Back::of(state, &reason, mapped(facts, pair)));
        let waits = missing && state == CacheState::Bypass;
        if (state == CacheState::Stopped || back.is_some() || waits)
            && job.is_none()
            && !record.forked
            // An unfinished job is finished or undone first: its record knows what was mounted.
            && !leaving
            && !jobs.iter().any(|job| job.creates(&pair.uuid))
        {
            self.assemble(record, pair, origin, missing, back);
        }
        let refused_modes = match (origin, ssd) {
            (Some(origin), Some(ssd)) => plan::refused_modes(origin, ssd, mapped(facts, pair)),
            _ => Vec::new(),
        };
        let gone = |text: &DeviceText| DeviceText {
            object: nothing(),
            ..text.clone()
        };
        let device = mapped(facts, pair);
        View {
            origin: origin.map_or_else(|| gone(&pair.origin.text), |d| d.ident.text.clone()),
            ssd: ssd.map_or_else(|| gone(&pair.ssd.text), |d| d.ident.text.clone()),
            mode: status.as_ref().map_or(pair.mode, |s| s.mode),
            refused_modes,
            may_be_unwritten: record.may_be_dirty,
            state,
            reason,
            mapped: device.map_or_else(nothing, |d| d.ident.text.object.clone()),
            mount_points: device.map(|d| d.mount_points()).unwrap_or_default(),
            cache_bytes: status.map_or(0, |s| {
                s.sample
                    .frames_total
                    .saturating_mul(s.sample.frame_sectors)
                    .saturating_mul(tandem_api::SECTOR_BYTES)
            }),
            job: job.unwrap_or_else(nothing),
        }
    }

    /// The reason why a cache whose devices are both there is not assembled.
    async fn reason(&self, record: &CacheRecord, disk_mounted: bool) -> String {
        let refused = self.inner().refused.get(&record.pair.uuid).copied();
        // The module's refusal of these devices is valid, whatever the state of the module is now.
        if let Some(word) = refused {
            return word.to_owned();
        }
        let word = match self.engine.module_state().await {
            ModuleState::NotBuilt => "module-not-built",
            ModuleState::Refused => "module-refused",
            _ if disk_mounted => "disk-in-use",
            _ => "not-assembled",
        };
        word.to_owned()
    }

    /// Assembles a cache whose devices are both there, or makes it use its SSD that is `back`. Once for each time
    /// that the two devices come together.
    fn assemble(
        self: &Arc<Self>,
        record: &CacheRecord,
        pair: &Pair,
        disk: Option<&Device>,
        missing: bool,
        back: Option<Back>,
    ) {
        let first = {
            let mut inner = self.inner();
            if missing {
                inner.attempted.remove(&pair.uuid);
                inner.refused.remove(&pair.uuid);
                false
            } else {
                let devices = [pair.origin.clone(), pair.ssd.clone()];
                let idle = !inner.running.iter().any(|r| shared(&r.devices, &devices));
                let first = idle
                    && record.detached_in.is_none()
                    && inner.attempted.insert(pair.uuid.clone());
                if first {
                    // While this runs, no job may use the devices.
                    let uuid = pair.uuid.clone();
                    inner.running.push(Running {
                        path: nothing(),
                        uuid,
                        devices,
                        records: false,
                    });
                }
                first
            }
        };
        if !first {
            return;
        }
        let (this, pair, disk) = (self.clone(), pair.clone(), disk.cloned());
        tokio::spawn(async move {
            let anew = back.is_none();
            let assembled = match back {
                Some(back) => this.rejoin(&pair, back).await,
                None => this.assemble_now(&pair, disk.as_ref()).await,
            };
            if let Err(e) = &assembled {
                tracing::error!(uuid = pair.uuid, "cannot assemble: {e}");
                match e.kind {
                    Kind::WrongDisk => this.refuse(&pair, "disk-changed"),
                    Kind::SsdDamaged => this.refuse(&pair, "ssd-damaged"),
                    Kind::SsdBlocks => this.refuse(&pair, "ssd-blocks"),
                    // The content of the SSD does not go away by itself, so no further attempt is made.
                    Kind::SsdHoldsData | Kind::SsdTooSmall => {}
                    _ => this.clone().try_again(pair.clone()),
                }
            }
            let ours = |r: &Running| r.uuid == pair.uuid && r.path == nothing();
            this.inner().running.retain(|r| !ours(r));
            this.again.notify_one();
            // No caller waits for this task, and its result is on record.
            if anew && assembled.is_ok() {
                this.engine.mount_left_out(&pair).await;
            }
        });
    }

    fn refuse(&self, pair: &Pair, why: &'static str) {
        self.inner().refused.insert(pair.uuid.clone(), why);
    }

    /// The reason why a cache is not assembled may pass without an event. The mounts of a user are moved only once,
    /// not repeatedly.
    fn try_again(self: Arc<Self>, pair: Pair) {
        tokio::spawn(async move {
            let facts = loop {
                tokio::time::sleep(RETRY).await;
                if let Ok(facts) = self.engine.facts().await {
                    break facts;
                }
            };
            let mounted = |disk: &Device| !disk.mounts.is_empty();
            if !facts.same_hardware(&pair.origin).is_some_and(mounted) {
                self.inner().attempted.remove(&pair.uuid);
                self.again.notify_one();
            }
        });
    }

    /// Assembles a cache. A disk that is mounted without it is moved to the cache if no program uses it.
    async fn assemble_now(&self, pair: &Pair, disk: Option<&Device>) -> Result<(), Failure> {
        let mounts = disk.map(|d| d.mounts.clone()).unwrap_or_default();
        if let Some(disk) = disk.filter(|d| !d.mounts.is_empty()) {
            plan::mounts_come_back(disk)?;
            let users = self.engine.users(disk).await;
            if !users.is_empty() {
                return Err(Failure::new(Kind::FilesystemBusy)
                    .device(&disk.ident.text)
                    .users(users));
            }
        }
        tracing::info!(uuid = pair.uuid, mounts = mounts.len(), "assembling");
        let plan = plan::assemble(pair, &mounts);
        apply::run(self.engine(), &self.store, &plan, 0, &Unwatched).await?;
        self.assembled(pair).await
    }

    /// Makes a cache that is in force use its SSD again. There is nothing to undo: if it fails, all is as before.
    async fn rejoin(&self, pair: &Pair, back: Back) -> Result<(), Failure> {
        tracing::info!(uuid = pair.uuid, ?back, "the SSD is back");
        match back {
            Back::Clean => {
                self.engine.apply(&Action::Assemble(pair.clone())).await?;
                self.assembled(pair).await
            }
            Back::Dirty => {
                self.engine.apply(&Action::GiveBack(pair.clone())).await?;
                self.inner().attempted.remove(&pair.uuid);
                Ok(())
            }
        }
    }

    async fn show(self: &Arc<Self>, views: BTreeMap<String, (Pair, View)>) -> zbus::Result<()> {
        let server = self.connection.object_server();
        let gone: Vec<_> = {
            let mut inner = self.inner();
            let gone: Vec<_> = inner
                .shown
                .keys()
                .filter(|u| !views.contains_key(*u))
                .cloned()
                .collect();
            for shown in gone.iter().filter_map(|uuid| inner.shown.remove(uuid)) {
                shown.task.abort();
            }
            gone
        };
        for uuid in gone {
            server
                .remove::<Bounded<CacheObject>, _>(path(&uuid))
                .await?;
        }
        for (uuid, (pair, view)) in views {
            let path = path(&uuid);
            if self.inner().shown.contains_key(&uuid) {
                CacheObject::show(&server.interface(path.as_str()).await?, view).await?;
                continue;
            }
            let sampler = Arc::new(Sampler::new(History::load(&self.store, &uuid)));
            let object = CacheObject::new(self.clone(), pair, view, sampler.clone());
            let object = Bounded::new(object, self.queues.clone());
            server.at(path.as_str(), object).await?;
            let object = server.interface(path.as_str()).await?;
            let task = tokio::spawn(sampler.clone().run(self.clone(), uuid.clone(), object));
            self.inner().shown.insert(uuid, Shown { sampler, task });
        }
        let module = self.engine.module_state().await;
        if self.inner().module.replace(module) == Some(module) {
            return Ok(());
        }
        let manager = server
            .interface::<_, Bounded<ManagerObject>>(ROOT_PATH)
            .await?;
        manager
            .get()
            .await
            .module_state_changed(manager.signal_emitter())
            .await
    }
}

/// How an SSD that was away while its cache was in force is used again.
#[derive(Debug, Clone, Copy)]
enum Back {
    /// The SSD had no dirty data: it is used again under the mounted file system.
    Clean,
    /// The newest writes that the file system did not flush went away with the SSD, and the file system does not know
    /// that. So the cache is assembled anew, and only while no file system is there that could go on as if nothing
    /// had happened.
    Dirty,
}

impl Back {
    fn of(state: CacheState, reason: &str, mapped: Option<&Device>) -> Option<Self> {
        let unused =
            mapped.is_some_and(|device| device.mounts.is_empty() && device.holders.is_empty());
        match (state, reason) {
            (CacheState::Bypass, "ssd-error") => Some(Self::Clean),
            (CacheState::Bypass, "ssd-gone-dirty") if unused => Some(Self::Dirty),
            _ => None,
        }
    }
}

fn state(status: &Status) -> (CacheState, String) {
    let state = status.state.parse().unwrap_or_else(|e| {
        tracing::warn!("state of the module: {e}");
        CacheState::Bypass
    });
    (state, status.reason.clone())
}
