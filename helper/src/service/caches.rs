// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows the caches on the bus. Every change of the machine leads here, and only this file adds, changes and removes
//! the objects of caches.

use super::memory::MEMORY_NEEDED;
use super::plans::{current, leads_to, mapped};
use super::steps::Seen;
use super::{Service, Shown};
use crate::decide::lifecycle::{self, Attempt, Disk, Link, Reason, Situation};
use crate::decide::plan;
use crate::model::action::Pair;
use crate::model::facts::Device;
use crate::model::record::{CacheRecord, Intent};
use crate::service::auth::{self, Permission};
use crate::service::history::History;
use crate::service::iface::bounded::Bounded;
use crate::service::iface::cache::{CacheObject, View};
use crate::service::sampler::Sampler;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tandem_api::{
    CacheState, DeviceText, Failure, JobKind, Kind, ModuleState, ROOT_PATH, SpeedTest, SsdHealth,
    Target,
};
use zbus::OwnedObjectPath;
use zbus::message::Header;

fn path(uuid: &str) -> String {
    format!("{ROOT_PATH}/caches/{uuid}")
}

pub(super) fn no_object() -> OwnedObjectPath {
    DeviceText::none().object
}

impl Service {
    /// Looks at the machine and shows its caches. False: a part of that failed, and has to be tried again.
    pub(crate) async fn refresh(self: &Arc<Self>) -> bool {
        let _serial = self.refreshing.lock().await;
        self.refresh_views().await.unwrap_or_else(|e| {
            tracing::error!("cannot look at the machine: {e}");
            false
        })
    }

    /// Whether every disk that has to be held is held, and every record is written.
    async fn refresh_views(self: &Arc<Self>) -> Result<bool, Failure> {
        // The records come first, and without other services: writes wait for these records, and UDisks2 may wait for a
        // failing device. follow_risk writes the records at every event, but not the record of a cache that a job works
        // on. This call updates the record when the job has ended.
        let recorded = self.record_risks().await?;
        let at = Instant::now();
        let facts = Arc::new(self.facts_in_time().await?);
        self.inner().devices = facts.clone();
        let live = self.host.live_mappings().await?;
        let jobs = self.store.intents();
        let mut all_protected = recorded;
        let seen = |uuid: &str| Seen {
            facts: &facts,
            at,
            live: live.iter().find(|l| l.uuid == uuid),
            jobs: &jobs,
        };
        // All disks are protected before a view is made: a view may wait for an SSD that does not answer.
        let mut protected_records = Vec::new();
        for record in self.store.caches() {
            let uuid = record.pair.uuid;
            if let Some((record, protected)) = self.take_steps(&uuid, &seen(&uuid)).await {
                all_protected &= protected;
                protected_records.push((uuid, record));
            }
        }
        let mut views = BTreeMap::new();
        for (uuid, record) in protected_records {
            let seen = seen(&uuid);
            let pair = current(&record.pair, &facts);
            let record = self.guard_if_shared(record, &pair, &facts).await;
            if let Some(live) = seen.live.filter(|live| live.attached) {
                self.let_grow(live, &facts).await;
                let ssd = facts.ssd(&pair).filter(|ssd| ssd.number == live.ssd);
                if let Some(ssd) = ssd {
                    self.use_all_of_ssd(&record, ssd).await;
                }
                let disk = leads_to(live, &pair, &facts);
                if ssd.is_some() && disk {
                    self.record_names(&record, &pair);
                }
                if disk && lifecycle::lacks_data(&record) {
                    self.hold_at_return(&uuid);
                }
            }
            self.record_content(&record, mapped(&facts, &pair));
            let view = self.view(&record, &pair, &seen).await;
            views.insert(uuid, (pair, view));
        }
        if let Err(e) = self.show(views).await {
            tracing::error!("cannot show the caches: {e}");
        }
        self.show_found(&facts).await;
        self.show_judged(&facts).await;
        self.others_again.notify_one();
        self.follow_watches(&facts).await;
        self.host.tell_sleep().await;
        Ok(all_protected)
    }

    /// Lets the caller go on that polkit allows to act on the devices of a cache that is shown: before the service does any
    /// work.
    ///
    /// # Errors
    ///
    /// `WrongState` without the cache, else what [`auth::check`] returns.
    pub(super) async fn permitted(
        &self,
        header: &Header<'_>,
        uuid: &str,
        permission: Permission,
    ) -> Result<(), Failure> {
        let pair = self.shown_pair(uuid)?;
        let (disk, ssd) = (&pair.origin.text, &pair.ssd.text);
        auth::check(&self.connection, header, permission, disk, ssd).await
    }

    /// The devices of a cache that is shown, in words.
    pub(super) fn shown_pair(&self, uuid: &str) -> Result<Pair, Failure> {
        let shown = self.inner().shown.get(uuid).map(|shown| shown.pair.clone());
        shown.ok_or_else(|| Failure::new(Kind::WrongState).name("removed"))
    }

    /// The devices of all caches that are shown.
    pub(super) fn shown_pairs(&self) -> Vec<Pair> {
        let inner = self.inner();
        inner
            .shown
            .values()
            .map(|shown| shown.pair.clone())
            .collect()
    }

    async fn view(&self, record: &CacheRecord, pair: &Pair, seen: &Seen<'_>) -> View {
        let facts = seen.facts;
        let (origin, ssd) = (
            facts.same_hardware(&pair.origin),
            facts.same_hardware(&pair.ssd),
        );
        let status = match seen.live {
            Some(live) if live.attached => self.host.status(&pair.uuid).await.ok(),
            _ => None,
        };
        let job = self.job(&pair.uuid);
        let leaving = seen.jobs.iter().any(|job| job.abandons_cache(&pair.uuid));
        let asked = leaving || job.is_some() || record.detached_in.is_some();
        let resize = |job: &Intent| job.uuid == pair.uuid && job.kind == JobKind::Resize;
        let resizes = record.detached_in.is_none() && seen.jobs.iter().any(resize);
        let now = self.situation(record, pair, seen, status.as_ref());
        // Programs see no difference.
        let link = match now.link {
            Link::PassesThroughBeside => Link::PassesThrough,
            link => link,
        };
        let (state, reason) = match (link, &status) {
            (Link::None, _) if lifecycle::obstacle(record, &now) == Some(Reason::Prepared) => {
                (CacheState::Pending, String::new())
            }
            (Link::None, _) => {
                let mounted = origin.is_some_and(|d| !d.mounts.is_empty());
                let reason = match lifecycle::obstacle(record, &now) {
                    Some(obstacle) => obstacle.word(),
                    None => self.reason(&now, mounted, pair.target).await,
                };
                (CacheState::Stopped, reason.to_owned())
            }
            // A resize brings the SSD back, or records that it cannot.
            (Link::PassesThrough, _) if resizes => (CacheState::Suspended, String::new()),
            // No job and no record asked the module to pass through.
            (Link::PassesThrough, _) if !asked && pair.ssd.is_memory() => {
                (CacheState::Bypass, MEMORY_NEEDED.to_owned())
            }
            (Link::PassesThrough, _) if !asked => {
                (CacheState::Bypass, Reason::PassesThrough.word().to_owned())
            }
            (Link::PassesThrough, _) => (CacheState::Detached, String::new()),
            (Link::LeadsNowhere | Link::LeadsNowhereInUse, _) => {
                (CacheState::Bypass, Reason::DiskMissing.word().to_owned())
            }
            (_, Some(status)) => (status.known_state(), status.reason.clone()),
            (_, None) => (CacheState::Suspended, String::new()),
        };
        let refused_modes = match (origin, ssd) {
            (Some(origin), Some(ssd)) if state != CacheState::Pending => {
                let sharing = Self::sharing(pair, facts);
                plan::refused_modes(pair.target, origin, ssd, mapped(facts, pair), sharing)
            }
            _ => Vec::new(),
        };
        let gone = |text: &DeviceText| DeviceText {
            object: no_object(),
            ..text.clone()
        };
        let device = mapped(facts, pair);
        let mounted = if state == CacheState::Pending {
            origin
        } else {
            device
        };
        View {
            origin: origin.map_or_else(|| gone(&pair.origin.text), |d| d.ident.text.clone()),
            ssd: ssd.map_or_else(|| gone(&pair.ssd.text), |d| d.ident.text.clone()),
            mode: status.as_ref().map_or(pair.mode, |s| s.mode),
            refused_modes,
            may_be_unwritten: record.may_be_dirty,
            waits_for_kernel: record.waits_for_kernel,
            // GRUB's folder lies on the mapping, which is above the disk, or on the disk alone.
            grub_would_fail: origin.is_some_and(|disk| facts.is_below_grub(disk)),
            sharing: Self::sharing(pair, facts),
            shutdown_minutes: record.shutdown_minutes,
            dirty_limit: record.pair.dirty_limit,
            paused: state == CacheState::Active
                && status
                    .as_ref()
                    .is_some_and(|s| s.sample.paused() == Some(true)),
            health: match ssd {
                Some(ssd) => self.health(ssd).await,
                None => SsdHealth::unknown(),
            },
            chosen_name: record.name.clone(),
            candidates: match (now.link, now.disk) {
                (Link::None, Disk::Similar(_)) if record.may_be_dirty => {
                    self.candidates(record, facts)
                }
                _ => Vec::new(),
            },
            state,
            reason,
            mapped: device.map_or_else(no_object, |d| d.ident.text.object.clone()),
            mount_points: mounted.map(Device::mount_points).unwrap_or_default(),
            cache_bytes: status.map_or(0, |s| {
                s.sample
                    .frames_total
                    .saturating_mul(s.sample.frame_sectors)
                    .saturating_mul(tandem_api::SECTOR_BYTES)
            }),
            job: job.unwrap_or_else(no_object),
        }
    }

    /// The reason why a cache whose devices are both there is not assembled.
    async fn reason(&self, now: &Situation, disk_mounted: bool, target: Target) -> &'static str {
        match now.attempt {
            // The module's refusal of these devices is valid, whatever the state of the module is now.
            Attempt::Refused(why) => return why.word(),
            Attempt::PutAway => return Reason::DiskPutAway.word(),
            Attempt::Failed | Attempt::None => {}
        }
        match self.host.module_state().await {
            ModuleState::NotBuilt if target == Target::Tandem => "module-not-built",
            ModuleState::Refused if target == Target::Tandem => "module-refused",
            _ if disk_mounted => Reason::DiskInUse.word(),
            _ => Reason::NotAssembled.word(),
        }
    }

    /// Keeps the result of a speed test with its cache, and shows it.
    pub(super) async fn keep_result(&self, uuid: &str, result: &SpeedTest) {
        let (store, kept, of) = (self.store(), result.clone(), uuid.to_owned());
        let save = tokio::task::spawn_blocking(move || store.save_speed_test(&of, &kept));
        if let Err(e) = save.await.unwrap_or_else(|e| Err(std::io::Error::other(e))) {
            tracing::warn!(uuid, "the result of the speed test is not kept: {e}");
        }
        let object = self.connection.object_server().interface(path(uuid)).await;
        let shown = match object {
            Ok(object) => CacheObject::show_speed(&object, result.clone()).await,
            Err(e) => Err(e),
        };
        if let Err(e) = shown {
            tracing::warn!(uuid, "the result of the speed test is not shown: {e}");
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
            let is_shown = self.inner().shown.get_mut(&uuid).map(|shown| {
                shown.pair.clone_from(&pair);
            });
            if is_shown.is_some() {
                CacheObject::show(&server.interface(path.as_str()).await?, view).await?;
                continue;
            }
            let sampler = Arc::new(Sampler::new(History::load(&self.store, &uuid)));
            let speed = self.store.load_speed_test(&uuid);
            let object = CacheObject::new(self.clone(), pair.clone(), view, sampler.clone(), speed);
            let object = Bounded::new(object, self.queues.clone());
            server.at(path.as_str(), object).await?;
            let object = server.interface(path.as_str()).await?;
            let task = tokio::spawn(sampler.clone().run(self.clone(), uuid.clone(), object));
            let shown = Shown {
                pair,
                sampler,
                task,
            };
            self.inner().shown.insert(uuid, shown);
        }
        self.look_at_module(false).await
    }
}
