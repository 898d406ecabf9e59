// SPDX-License-Identifier: GPL-3.0-or-later
//! From a request to a plan. This code gathers the facts; [`crate::decide::plan`] decides.

use super::Service;
use super::reading::Question;
use crate::decide::lifecycle::Reason;
use crate::decide::plan::{self, Plan, RemoveInput, ResizeInput, Unwritten};
use crate::machine::mounts::users;
use crate::model::action::Pair;
use crate::model::facts::{Device, Facts, Ident};
use crate::model::live::{LiveMapping, Status};
use crate::model::other_format::FORMATS;
use crate::model::record::CacheRecord;
use tandem_api::{
    CacheState, Failure, Kind, Mode, PlanReply, PlanSpec, SECTOR_BYTES, SsdPart, Target,
};
use zbus::OwnedObjectPath;
use zbus::message::Header;

/// The rights of the caller of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    /// The caller has no right yet: the service opens no device exclusively for the plan.
    None,
    /// The caller is authorised to execute this plan.
    Authorised,
}

impl Service {
    /// `Manager.Plan`.
    pub(crate) async fn plan_create(
        &self,
        header: &Header<'_>,
        spec: PlanSpec,
    ) -> Result<PlanReply, Failure> {
        let _call = self.call();
        let slot = self.queue_slot(header).await?;
        let uuid = uuid::Uuid::new_v4().simple().to_string();
        // Boxed, so that a call that waits for its turn takes little memory.
        let plan = Box::pin(self.creation(&spec, &uuid, slot.uid(), Rights::None)).await?;
        Ok(self.inner().offers.keep(plan, Some(spec), slot.uid()))
    }

    /// `Cache.PlanRemove`, or with `discard` `Cache.PlanDiscard`.
    pub(crate) async fn plan_remove(
        &self,
        header: &Header<'_>,
        uuid: &str,
        discard: bool,
    ) -> Result<PlanReply, Failure> {
        let _call = self.call();
        let slot = self.queue_slot(header).await?;
        let plan = Box::pin(self.removal(uuid, discard, slot.uid())).await?;
        Ok(self.inner().offers.keep(plan, None, slot.uid()))
    }

    /// `Cache.PlanResize`.
    pub(crate) async fn plan_resize(
        &self,
        header: &Header<'_>,
        uuid: &str,
        bytes: u64,
    ) -> Result<PlanReply, Failure> {
        let _call = self.call();
        let slot = self.queue_slot(header).await?;
        let plan = Box::pin(self.resizing(uuid, bytes)).await?;
        Ok(self.inner().offers.keep(plan, None, slot.uid()))
    }

    /// `Manager.SsdLayout`.
    pub(crate) async fn ssd_layout(
        &self,
        header: &Header<'_>,
        ssd: OwnedObjectPath,
    ) -> Result<Vec<SsdPart>, Failure> {
        let _call = self.call();
        let _slot = self.queue_slot(header).await?;
        let facts = self.host.facts().await?;
        let device = plan::find(&facts, &ssd)?;
        plan::layout(device, &facts, &self.parts(&facts))
    }

    /// The record of a cache.
    pub(super) fn record(&self, uuid: &str) -> Result<CacheRecord, Failure> {
        let record = self
            .store
            .caches()
            .into_iter()
            .find(|r| r.pair.uuid == uuid);
        record.ok_or_else(|| Failure::new(Kind::WrongState).name("removed"))
    }

    /// Plans a new cache. Checks that cost I/O are done last, only if the plan is otherwise possible.
    pub(super) async fn creation(
        &self,
        spec: &PlanSpec,
        uuid: &str,
        uid: u32,
        rights: Rights,
    ) -> Result<Plan, Failure> {
        if spec.target == Target::DmCache && !self.host.has_dm_cache() {
            let release = self.host.kernel();
            return Err(Failure::new(Kind::TargetUnable)
                .name("absent")
                .detail(release));
        }
        let mut facts = self.host.facts().await?;
        if spec.memory_bytes > 0 {
            facts.memory_for_cache = self.memory_for_cache()?;
        }
        let parts = self.part_objects(&facts);
        let mut users = Vec::new();
        if plan::needs_ssd_content(spec, &facts, &parts) {
            for object in [spec.ssd.as_str(), spec.origin.as_str()] {
                let devices = &mut facts.devices;
                let Some(device) = devices.iter_mut().find(|d| d.object() == object) else {
                    continue;
                };
                // The other partitions of the SSD may be in use beside the new partition.
                let shared = object == spec.ssd.as_str() && spec.partition_bytes > 0;
                let free = device.mounts.is_empty()
                    && device.holders.is_empty()
                    && !(shared && device.partitioned);
                if free && rights == Rights::Authorised {
                    device.claimed = self.read(Question::Claimed, rights, device).await?;
                }
                // A hard disk may sleep, so it is not read: its content counts as unknown, and is erased only if the
                // user confirmed that.
                let unknown = device.usage.is_empty() && !device.partitioned;
                if object == spec.ssd.as_str() && unknown && device.rotates != Some(true) {
                    device.blank = self.read(Question::Blank, rights, device).await?;
                    if !device.blank {
                        self.name_content(rights, device).await?;
                    }
                }
            }
            if spec.partition_bytes == 0 {
                self.name_partitions(rights, spec, &mut facts).await?;
            }
            if let Some(device) = facts.device(spec.origin.as_str())
                && !device.mounts.is_empty()
            {
                users = self.host.users(device).await;
            }
        }
        let users = users::visible_to(Some(uid), users);
        plan::create(spec, uuid, &facts, &parts, users)
    }

    /// The same for the partitions of an SSD that is taken as a whole.
    async fn name_partitions(
        &self,
        rights: Rights,
        spec: &PlanSpec,
        facts: &mut Facts,
    ) -> Result<(), Failure> {
        let is_part = |d: &&mut Device| {
            d.table.as_deref() == Some(spec.ssd.as_str())
                && d.usage.is_empty()
                && d.rotates != Some(true)
        };
        for part in facts.devices.iter_mut().filter(is_part) {
            self.name_content(rights, part).await?;
        }
        Ok(())
    }

    /// Names the cache of another system that is on an SSD without a signature.
    async fn name_content(&self, rights: Rights, device: &mut Device) -> Result<(), Failure> {
        for format in FORMATS {
            if self.read(Question::Carries(format), rights, device).await? {
                device.ident.text.content = format.word.to_owned();
                break;
            }
        }
        Ok(())
    }

    pub(super) async fn removal(
        &self,
        uuid: &str,
        discard: bool,
        uid: u32,
    ) -> Result<Plan, Failure> {
        let record = self.record(uuid)?;
        let facts = self.host.facts().await?;
        let live = self
            .host
            .live_mappings()
            .await?
            .into_iter()
            .find(|l| l.uuid == uuid);
        let pair = current(&record.pair, &facts);
        let device = mapped(&facts, &pair);
        let users = match device {
            Some(device) if !device.mounts.is_empty() => self.host.users(device).await,
            _ => Vec::new(),
        };
        let users = users::visible_to(Some(uid), users);
        let attached = live.as_ref().is_some_and(|l| l.attached);
        let intact = live.as_ref().is_some_and(|l| leads_to(l, &pair, &facts));
        let unwritten = self.unwritten(&record, attached && intact, &facts).await;
        plan::remove(RemoveInput {
            pair: &pair,
            attached: attached && intact,
            orphaned: attached && !intact,
            mapped: live.is_some(),
            ssd_present: record.detached_in.is_none() && facts.same_hardware(&pair.ssd).is_some(),
            mounts: device.map_or(&[], |d| &d.mounts),
            users,
            pinned: device.is_some_and(|d| !d.submounts.is_empty() || !d.holders.is_empty()),
            unwritten,
            pending: record.setup.waits_in(&self.host.boot_id()),
            in_initramfs: record.in_initramfs,
            discard,
        })
    }

    /// Plans another size of a cache that works.
    pub(super) async fn resizing(&self, uuid: &str, bytes: u64) -> Result<Plan, Failure> {
        let (record, _) = self.working(uuid).await?;
        let facts = self.host.facts().await?;
        let device = mapped(&facts, &record.pair);
        let input = ResizeInput {
            pair: &record.pair,
            bytes,
            mount_points: device.map(Device::mount_points).unwrap_or_default(),
            unwritten: self.unwritten(&record, true, &facts).await,
            in_initramfs: record.in_initramfs,
            keeps: self.host.status(uuid).await?.sample.event("ssd_sectors") > 0,
        };
        plan::resize(input, &facts)
    }

    /// The data that may be on the SSD of a cache only. `works`: the cache is assembled over the disk of its record.
    async fn unwritten(&self, record: &CacheRecord, works: bool, facts: &Facts) -> Unwritten {
        let pair = &record.pair;
        let status = match works {
            true => self
                .host
                .status(&pair.uuid)
                .await
                .ok()
                .filter(Status::counters_valid),
            false => None,
        };
        let bytes = status
            .as_ref()
            .map_or(0, |s| s.sample.dirty_sectors.saturating_mul(SECTOR_BYTES));
        let writes = status.as_ref().is_some_and(|s| s.mode == Mode::Writeback);
        // The module bypasses an SSD only while the SSD is clean, and no data gets there any more. That settles
        // `may_be_dirty` of the record, too. A lost SSD with dirty data is stranded, and has another reason.
        let bypassed = status.as_ref().is_some_and(|s| {
            s.state == CacheState::Bypass.as_str() && s.reason == "ssd-error" && bytes == 0
        });
        let stuck = match &status {
            Some(_) if bypassed => None,
            Some(status) if status.reason.starts_with("ssd-") => Some(status.reason.clone()),
            Some(_) => None,
            // No device that comes back can repair these faults.
            None if record.origin_diverged => Some(Reason::DiskChanged.word().to_owned()),
            // One of the devices in doubt may be the disk, which only the user can know.
            None if !record.used_alone.is_empty() => Some(Reason::DiskInDoubt.word().to_owned()),
            None if facts.ssd(pair).is_none() => Some("ssd-missing".to_owned()),
            None if facts.disk(pair).is_none() => Some("disk-missing".to_owned()),
            None => {
                let refused = self.inner().attempts.refusal(&pair.uuid);
                Some(refused.unwrap_or(Reason::NotAssembled).word().to_owned())
            }
        };
        let refused = status.as_ref().is_some_and(|s| s.reason == "disk-error");
        let recorded = record.may_be_dirty && record.detached_in.is_none();
        Unwritten {
            possible: !bypassed && (recorded || writes || bytes > 0),
            bytes,
            stuck,
            refused: refused && bytes > 0,
        }
    }

    /// Object paths of all devices that are part of a cache.
    pub(super) fn part_objects(&self, facts: &Facts) -> Vec<String> {
        self.parts(facts)
            .into_iter()
            .map(|(object, _)| object)
            .collect()
    }

    /// The same with the uuid of that cache.
    fn parts(&self, facts: &Facts) -> Vec<(String, String)> {
        let mut parts = Vec::new();
        for record in self.store.caches() {
            let pair = &record.pair;
            let ssd = facts.ssd(pair).filter(|_| record.detached_in.is_none());
            let devices = facts.disk(pair).into_iter().chain(ssd);
            parts.extend(devices.map(|d| (d.object().to_owned(), pair.uuid.clone())));
        }
        parts
    }
}

/// The pair with its devices under their present names.
pub(super) fn current(pair: &Pair, facts: &Facts) -> Pair {
    let now = |device: Option<&Device>, recorded: &Ident| {
        device.map_or_else(|| recorded.clone(), |d| d.ident.clone())
    };
    Pair {
        origin: now(facts.disk(pair), &pair.origin),
        ssd: now(facts.ssd(pair), &pair.ssd),
        ..pair.clone()
    }
}

/// The mapped device of a pair.
pub(super) fn mapped<'a>(facts: &'a Facts, pair: &Pair) -> Option<&'a Device> {
    let dm_uuid = pair.dm_uuid();
    facts.devices.iter().find(|d| d.ident.hardware == dm_uuid)
}

/// Whether a mapping still leads to the disk of its pair. A disk that was pulled and plugged in again is another
/// device to the kernel, and the mapping still uses the device that is gone.
pub(super) fn leads_to(live: &LiveMapping, pair: &Pair, facts: &Facts) -> bool {
    let disk = |d: &Device| d.number == live.origin && d.ident.same_hardware(&pair.origin);
    facts.devices.iter().any(disk)
}
