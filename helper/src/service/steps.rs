// SPDX-License-Identifier: GPL-3.0-or-later
//! Carries out what [`crate::decide::lifecycle`] decides about the caches of a running machine.

use super::attempts::DiskUse;
use super::plans::{current, leads_to, mapped};
use super::{RETRY, Service};
use crate::decide::lifecycle::{
    self, Access, Attempt, Disk, Job, Link, Phase, Reason, Situation, Ssd, Step,
};
use crate::decide::plan;
use crate::model::action::{Action, Pair};
use crate::model::facts::{Device, Facts};
use crate::model::live::{LiveMapping, Status};
use crate::model::record::{CacheRecord, Intent};
use crate::service::apply::{self, Unwatched};
use std::sync::Arc;
use std::time::Instant;
use tandem_api::{CacheState, Failure, Kind, Target};
use zbus::OwnedObjectPath;

/// Most steps at once. A cache needs four at most: its disk is recorded as used, its doubt ends, its disk is held, and
/// the cache is assembled.
const MAX_STEPS: usize = 8;

/// The observed state of the machine.
pub(super) struct Seen<'a> {
    pub facts: &'a Facts,
    /// The facts are not older than this.
    pub at: Instant,
    /// The mapping of the cache.
    pub live: Option<&'a LiveMapping>,
    /// All jobs that have not ended.
    pub jobs: &'a [Intent],
}

impl Service {
    /// The job of a cache that runs now.
    pub(super) fn job(&self, uuid: &str) -> Option<OwnedObjectPath> {
        self.inner().jobs.of(uuid)
    }

    /// The situation of a cache whose devices have their present names in `pair`.
    pub(super) fn situation(
        &self,
        record: &CacheRecord,
        pair: &Pair,
        seen: &Seen<'_>,
        status: Option<&Status>,
    ) -> Situation {
        let (facts, uuid) = (seen.facts, &pair.uuid);
        let disk = facts.same_hardware(&pair.origin);
        let ssd = facts.same_hardware(&pair.ssd);
        let possible = facts.possible(&pair.origin);
        let abandons = seen.jobs.iter().any(|job| job.abandons_cache(uuid));
        let passing = Passing {
            may_return: self.may_return(pair) || (ssd.is_some() && pair.target == Target::DmCache),
            ends_without_disk: pair.copies_stale && record.detached_in.is_none() && !abandons,
        };
        let attempt = {
            let inner = self.inner();
            match inner.put_away.contains_key(uuid) {
                true => Attempt::PutAway,
                false => inner.attempts.last(pair, &DiskUse::of(disk), seen.at),
            }
        };
        Situation {
            disk: match disk {
                Some(_) => Disk::Recorded(access(record, pair, facts)),
                None if possible.is_empty() => Disk::Absent,
                None => Disk::Similar(access(record, pair, facts)),
            },
            // The service makes the memory of a cache when the cache is assembled.
            ssd: match ssd.is_some() || (pair.ssd.is_memory() && self.has_memory()) {
                true => Ssd::There,
                false => Ssd::Absent,
            },
            link: match link(pair, seen, ssd, status, &passing) {
                Link::Works if self.gives_way(pair) => Link::SsdLost,
                link => link,
            },
            job: match () {
                () if self.job(uuid).is_some() => Job::Running,
                () if abandons => Job::Abandons,
                () if seen.jobs.iter().any(|job| job.creates(uuid)) => Job::Creates,
                () => Job::None,
            },
            doubt: lifecycle::doubt(
                record,
                disk.map(|d| &d.ident),
                possible.iter().map(|d| &d.ident),
            ),
            attempt,
            phase: Phase::Running,
            restarted: !record.setup.waits_in(&self.host.boot_id()),
            left: self.is_left(uuid),
        }
    }

    /// Has the disk of a cache that lacks data held as soon as it comes back as another device. A job that changes the
    /// cache ends that.
    pub(super) fn hold_at_return(&self, uuid: &str) {
        let inner = self.inner();
        if !inner.jobs.records(uuid) {
            self.host.hold_at_return(uuid, true);
        }
    }

    /// Does what is to be done with a cache now. Returns its record, and false if a disk that has to be held is not
    /// held. `None`: the cache has no record any more.
    pub(super) async fn take_steps(
        self: &Arc<Self>,
        uuid: &str,
        seen: &Seen<'_>,
    ) -> Option<(CacheRecord, bool)> {
        let mut record = self.latest_record(uuid).await?;
        self.follow_use(&current(&record.pair, seen.facts), seen);
        let mut is_held = false;
        for _ in 0..MAX_STEPS {
            let pair = current(&record.pair, seen.facts);
            let status = match seen.live {
                Some(live) if live.attached => self.host.status(uuid).await.ok(),
                _ => None,
            };
            let mut now = self.situation(&record, &pair, seen, status.as_ref());
            if let (true, Disk::Recorded(access) | Disk::Similar(access)) = (is_held, &mut now.disk)
            {
                *access = Access::Held;
            }
            if !matches!(now.disk, Disk::Recorded(_)) || now.ssd == Ssd::Absent {
                // Both devices may be there together again later.
                self.inner().attempts.forget(uuid);
                now.attempt = Attempt::None;
            }
            let protected = match lifecycle::next(&record, &now) {
                Step::Hold => {
                    let held = self.host.apply(&Action::Hold(pair)).await;
                    is_held = held.is_ok();
                    held
                }
                Step::UnmapAndHold if now.link == Link::LeadsNowhere => {
                    let unmapped = self.host.apply(&Action::Disassemble(pair)).await;
                    return Some((record, is_done(uuid, &unmapped)));
                }
                Step::LeavePlain => {
                    record = self.record_use(&record, &pair, seen.facts).await?;
                    Ok(())
                }
                Step::LetGo if pair.ssd.is_memory() => {
                    self.beside(Step::LetGo, &pair, None);
                    break;
                }
                Step::LetGo => {
                    tracing::error!(uuid, "the SSD is lost: the disk is used alone");
                    // An SSD that has failed is not tried again until it was plugged in again, which may be the case already.
                    let is_back = is_back(&pair, seen);
                    self.inner().attempts.lost(&pair, is_back);
                    let gone = self.host.apply(&Action::Detach(pair)).await;
                    if gone.is_ok() {
                        self.again.notify_one();
                    }
                    return Some((record, is_done(uuid, &gone)));
                }
                Step::RecordCold => {
                    record = self.change(&record, lifecycle::made_cold).await?;
                    Ok(())
                }
                Step::EndDoubt => {
                    record = self.change(&record, lifecycle::without_doubt).await?;
                    Ok(())
                }
                Step::RecordBegin => {
                    record = self.change(&record, lifecycle::begun).await?;
                    Ok(())
                }
                Step::Forget => {
                    // A detached cache ends when its mapping is gone.
                    if let Err(e) = self.store.drop_cache(uuid) {
                        tracing::error!("cannot forget a cache: {e}");
                    }
                    return None;
                }
                step @ (Step::Assemble | Step::Rejoin | Step::UnmapAndHold | Step::PutAway) => {
                    self.beside(step, &pair, seen.facts.same_hardware(&pair.origin));
                    break;
                }
                Step::Wait(_) | Step::Ask(_) if keeps_memory(&pair, &now, seen) => {
                    self.beside(Step::LetGo, &pair, None);
                    break;
                }
                Step::Wait(_) | Step::Ask(_) => break,
            };
            if !is_done(uuid, &protected) {
                return Some((record, false));
            }
        }
        Some((record, true))
    }

    /// Takes a step beside everything else. Assembles a cache whose devices are both there, or puts an SSD that is back into its
    /// mapping: each time that both devices are there again, or the disk is used otherwise, there is one attempt. Or stops the
    /// cache of a disk that can be unplugged, or gives the memory of a cache back.
    fn beside(self: &Arc<Self>, step: Step, pair: &Pair, disk: Option<&Device>) {
        {
            let mut inner = self.inner();
            let devices = [pair.origin.clone(), pair.ssd.clone()];
            // While this runs, no job may use the devices.
            if inner.jobs.reserve(&pair.uuid, &devices, false).is_err() {
                return;
            }
            match step {
                Step::PutAway | Step::LetGo => inner.attempts.forget(&pair.uuid),
                _ => inner.attempts.begin(pair),
            }
        }
        let (this, pair, disk) = (self.clone(), pair.clone(), disk.cloned());
        tokio::spawn(async move {
            if step != Step::LetGo {
                tracing::info!(uuid = pair.uuid, ?step, "both devices are there");
            }
            let assembled = match step {
                Step::Rejoin => this.rejoin(&pair).await,
                Step::UnmapAndHold => this.unmap_and_hold(&pair).await,
                Step::PutAway => this.put_away(&pair).await,
                Step::LetGo => this.give_way(&pair).await,
                _ => this.assemble_now(&pair, disk.as_ref()).await,
            };
            if let Err(e) = &assembled {
                match step {
                    Step::PutAway => tracing::error!(uuid = pair.uuid, "cannot put it away: {e}"),
                    Step::LetGo => tracing::error!(uuid = pair.uuid, "the memory is not free: {e}"),
                    _ => tracing::error!(uuid = pair.uuid, ?step, "cannot assemble: {e}"),
                }
                match e.kind {
                    // The mapping is as before.
                    _ if [Step::PutAway, Step::LetGo].contains(&step) => {}
                    Kind::WrongDisk => this.refuse(&pair, Reason::DiskChanged),
                    Kind::SsdDamaged => this.refuse(&pair, Reason::SsdDamaged),
                    Kind::SsdBlocks => this.refuse(&pair, Reason::SsdBlocks),
                    // Each attempt suspends the mapping, which is in use.
                    _ if step == Step::Rejoin && pair.target == Target::DmCache => {}
                    _ if step == Step::Rejoin && pair.ssd.is_memory() => {}
                    // The content of the SSD does not go away by itself, so no further attempt is made.
                    Kind::SsdHoldsData | Kind::SsdTooSmall => {}
                    _ => this
                        .clone()
                        .try_again(pair.clone(), DiskUse::of(disk.as_ref())),
                }
            }
            if step == Step::Rejoin && pair.ssd.is_memory() {
                this.has_returned(&pair, assembled.is_ok());
            }
            this.inner().jobs.end_reservation(&pair.uuid);
            // Memory that is still in use is tried again at the next look at the memory.
            if step != Step::LetGo || assembled.is_ok() {
                this.again.notify_one();
            }
            // No caller waits for this task, and its result is on record.
            if step == Step::Assemble && assembled.is_ok() {
                this.host.mount_left_out(&pair).await;
            }
        });
    }

    fn refuse(&self, pair: &Pair, why: Reason) {
        self.inner().attempts.refuse(&pair.uuid, why);
    }

    /// The reason why a cache is not assembled may pass without an event. The mounts of a user are moved only once,
    /// not repeatedly. `used`: what used the disk when the attempt began.
    fn try_again(self: Arc<Self>, pair: Pair, used: DiskUse) {
        let failed = self.inner().attempts.fail(&pair.uuid, used);
        tokio::spawn(async move {
            let facts = loop {
                tokio::time::sleep(RETRY).await;
                if let Ok(facts) = self.host.facts().await {
                    break facts;
                }
            };
            let mounted = |disk: &Device| !disk.mounts.is_empty();
            if !facts.same_hardware(&pair.origin).is_some_and(mounted) {
                let mut inner = self.inner();
                if inner.attempts.forget_failed(&pair.uuid, Some(failed)) {
                    self.again.notify_one();
                }
            }
        });
    }

    /// Assembles a cache. A disk that is mounted without it is moved to the cache if no program uses it.
    async fn assemble_now(&self, pair: &Pair, disk: Option<&Device>) -> Result<(), Failure> {
        let mounts = disk.map(|d| d.mounts.clone()).unwrap_or_default();
        if let Some(disk) = disk.filter(|d| !d.mounts.is_empty()) {
            plan::mounts_come_back(disk)?;
            let users = self.host.users(disk).await;
            if !users.is_empty() {
                return Err(Failure::new(Kind::FilesystemBusy)
                    .device(&disk.ident.text)
                    .users(users));
            }
        }
        let plan = plan::assemble(pair, &mounts);
        apply::run(self.host(), &self.store, &plan, 0, &Unwatched).await?;
        self.assembled(pair).await
    }

    /// Puts an SSD that is back into its mapping. After a failure everything is as before, so there is no undo.
    async fn rejoin(&self, pair: &Pair) -> Result<(), Failure> {
        self.host.apply(&Action::Assemble(pair.clone())).await?;
        self.assembled(pair).await
    }

    async fn unmap_and_hold(&self, pair: &Pair) -> Result<(), Failure> {
        self.host.apply(&Action::Disassemble(pair.clone())).await?;
        self.inner().attempts.forget(&pair.uuid);
        Ok(())
    }
}

/// Whether a change that protects the disk was made.
fn is_done(uuid: &str, change: &Result<(), Failure>) -> bool {
    if let Err(e) = change {
        tracing::error!(uuid, "the disk is not protected: {e}");
    }
    change.is_ok()
}

/// Whether a cache that does not use its memory has it. The disk was put away or pulled out, or a killed service did not give
/// the memory back.
fn keeps_memory(pair: &Pair, now: &Situation, seen: &Seen<'_>) -> bool {
    let unused = match now.link {
        Link::None | Link::LeadsNowhere | Link::PassesThrough => true,
        Link::LeadsNowhereInUse => seen.live.is_some_and(|live| !live.attached),
        _ => false,
    };
    pair.ssd.is_memory()
        && unused
        && now.job == Job::None
        && seen.facts.same_hardware(&pair.ssd).is_some()
}

/// Whether the SSD was plugged in again since the mapping has it. The kernel gives it another number as long as the mapping
/// holds the old one.
fn is_back(pair: &Pair, seen: &Seen<'_>) -> bool {
    let ssd = seen.facts.same_hardware(&pair.ssd);
    let mapped = seen.live.map(|live| &live.ssd);
    ssd.is_some_and(|ssd| mapped != Some(&ssd.number))
}

/// Whether programs can use the disk, or a device that may be the disk.
fn access(record: &CacheRecord, pair: &Pair, facts: &Facts) -> Access {
    let possible = facts.possible(&pair.origin);
    let new = |device: &&Device| !lifecycle::is_on_record(record, &device.ident);
    // If no device agrees with the whole record, every device that may be the disk counts.
    let in_use = match facts.same_hardware(&pair.origin) {
        Some(disk) => disk.used_by_others(),
        None => possible
            .iter()
            .copied()
            .filter(new)
            .any(Device::used_by_others),
    };
    match in_use {
        true => Access::InUse,
        false if !possible.iter().any(new) => Access::OnRecord,
        false
            if facts
                .to_be_held(&pair.origin)
                .filter(new)
                .any(Device::unused) =>
        {
            Access::Free
        }
        false => Access::Held,
    }
}

/// Two facts about a mapping that passes through.
struct Passing {
    /// The mapping may use its SSD again.
    may_return: bool,
    /// The loss of its SSD is on record, and nobody removes the cache. So a mapping that leads to a disk of before ends.
    ends_without_disk: bool,
}

fn link(
    pair: &Pair,
    seen: &Seen<'_>,
    ssd: Option<&Device>,
    status: Option<&Status>,
    passing: &Passing,
) -> Link {
    let device = mapped(seen.facts, pair);
    let Some(live) = seen.live else {
        return Link::None;
    };
    let leads = leads_to(live, pair, seen.facts);
    if !live.attached && (leads || !passing.ends_without_disk) {
        return match leads && passing.may_return {
            true => Link::PassesThroughBeside,
            false => Link::PassesThrough,
        };
    }
    if !leads {
        return match device.is_some_and(Device::unused) {
            true => Link::LeadsNowhere,
            false => Link::LeadsNowhereInUse,
        };
    }
    let failed = |status: &Status| status.known_state() == CacheState::Bypass;
    let failed = live.ssd.is_empty() || status.is_some_and(failed);
    // Memory that the kernel did not get fails as an SSD does.
    if failed && (pair.target == Target::DmCache || pair.ssd.is_memory()) {
        return Link::SsdLost;
    }
    let unused = device.is_some_and(|d| d.mounts.is_empty() && d.holders.is_empty());
    let is_back = ssd.is_some_and(|ssd| ssd.number != live.ssd);
    match status.map(|status| (status.known_state(), status.reason.as_str())) {
        Some((CacheState::Bypass, "ssd-error")) if is_back => Link::SsdBackClean,
        Some((CacheState::Bypass, "ssd-gone-dirty")) if is_back && unused => Link::SsdBackDirty,
        _ => Link::Works,
    }
}
