// SPDX-License-Identifier: GPL-3.0-or-later
//! One cache while the machine starts: its devices as the last search found them, and its steps.

use super::SHORT_USE;
use super::environment::{BootEnvironment, HoldError};
use crate::decide::lifecycle::{
    self, Access, Attempt, Disk, Link, Phase, Reason, Situation, Ssd, Step,
};
use crate::machine::blocks::{BlockDevice, Found};
use crate::machine::dm::mapping::Mapping;
use crate::machine::store::Store;
use crate::machine::wipe;
use crate::model::facts::Ident;
use crate::model::record::CacheRecord;
use std::time::{Duration, Instant};

/// Model and serial number.
fn name_of(device: &Ident) -> String {
    let text = &device.text;
    format!("{} {}", text.model, text.serial).trim().to_owned()
}

/// A cache that is to be assembled.
pub(super) struct Cache {
    pub(super) record: CacheRecord,
    /// The disk, as the last search found it.
    pub(super) disk: Found,
    /// The SSD, as the last search found it.
    pub(super) ssd: Option<BlockDevice>,
    /// The mapping, as the last search found it.
    pub(super) link: Link,
    /// The disks that are held. A disk that is plugged in again is another device to the kernel, and is not held.
    pub(super) held: Vec<BlockDevice>,
    /// Why the last attempt to hold the disk failed, and since when.
    pub(super) hold_error: Option<(HoldError, Instant)>,
    /// There is no device-mapper, so the disk cannot be held.
    pub(super) cannot_hold: bool,
    /// A failure after which the cache is not tried again.
    pub(super) failed: Option<String>,
}

impl Cache {
    pub(super) fn new(record: CacheRecord) -> Self {
        Self {
            record,
            disk: Found::default(),
            ssd: None,
            link: Link::None,
            held: Vec::new(),
            hold_error: None,
            cannot_hold: false,
            failed: None,
        }
    }

    /// What is to be done with this cache, by what the last search has found.
    pub(super) fn next(&self, phase: Phase) -> Step {
        lifecycle::next(&self.record, &self.situation(phase))
    }

    fn situation(&self, phase: Phase) -> Situation {
        let disk = match (&self.disk.recorded, self.disk.possible.is_empty()) {
            (_, true) => Disk::Absent,
            (Some(_), _) => Disk::Recorded(self.access()),
            (None, _) => Disk::Similar(self.access()),
        };
        let recorded = self.disk.recorded.as_ref().map(|disk| &disk.ident);
        let possible = self.disk.possible.iter().map(|disk| &disk.ident);
        Situation {
            disk,
            ssd: self.ssd.as_ref().map_or(Ssd::Absent, |_| Ssd::There),
            link: self.link,
            doubt: lifecycle::doubt(&self.record, recorded, possible),
            attempt: match &self.failed {
                Some(_) => Attempt::Failed,
                None => Attempt::None,
            },
            ..Situation::nothing(phase)
        }
    }

    fn access(&self) -> Access {
        let mut to_hold = self.to_hold();
        match &self.hold_error {
            _ if to_hold.next().is_none() => Access::OnRecord,
            Some((HoldError::NotWritable(_), _)) => Access::NotWritable,
            Some(_) if self.may_pass() => Access::Busy,
            Some(_) => Access::InUse,
            None if self.to_hold().all(|disk| self.held.contains(disk)) => Access::Held,
            None if self.cannot_hold => Access::InUse,
            None => Access::Free,
        }
    }

    /// The devices that may be the disk and are not on record as used.
    fn to_hold(&self) -> impl Iterator<Item = &BlockDevice> {
        let all = self.disk.possible.iter();
        all.filter(|disk| !lifecycle::is_on_record(&self.record, &disk.ident))
    }

    /// Reads what another program has recorded about the cache meanwhile.
    pub(super) fn read_record(&mut self, store: &Store) {
        let ours = |now: &CacheRecord| now.pair.uuid == self.record.pair.uuid;
        if let Some(now) = store.caches().into_iter().find(ours) {
            if now.origin_diverged {
                self.hold_error = None;
            }
            self.record = now;
        }
    }

    /// Looks for the devices, and holds the disk if it lacks data. It is held also if the cache could not be made, for
    /// the disk may have come back as another device since. Copies of the disk are held with it.
    pub(super) fn find_and_hold(&mut self, machine: &impl BootEnvironment) {
        let pair = &self.record.pair;
        let disk = machine.find(&pair.origin);
        if self.disk != disk {
            // This is another device, and the time for it begins anew.
            self.hold_error = None;
        }
        self.disk = disk;
        if self.disk.possible.is_empty() {
            return;
        }
        self.ssd = machine.find_ssd(pair);
        self.link = match (machine.mapping(pair), &self.disk.recorded) {
            (Mapping::Works { origin, .. }, Some(disk)) if origin == disk.number => Link::Works,
            (Mapping::PassesThrough(_), _) => Link::PassesThrough,
            (Mapping::LeadsNowhere(_), _) => Link::LeadsNowhereInUse,
            _ => Link::None,
        };
        if let Err(e) = machine.device_mapper() {
            self.failed = Some(e);
            self.cannot_hold = true;
        }
        // A hold that failed is tried again.
        let before = self.hold_error.take();
        match self.next(Phase::Starting) {
            Step::Hold => self.hold(machine, before),
            _ => self.hold_error = before,
        }
    }

    /// Puts the cache in force if both devices are there. True: nothing is left to do for this cache.
    pub(super) fn assemble(&mut self, machine: &impl BootEnvironment, store: &Store) -> bool {
        loop {
            match self.next(Phase::Starting) {
                Step::Assemble => {}
                // The initial file system has assembled it.
                Step::RecordBegin => return self.change(store, lifecycle::assembled),
                Step::EndDoubt if self.change(store, lifecycle::without_doubt) => continue,
                // The devices that were in doubt are copies, which are held beside the disk.
                Step::Hold => {
                    self.hold(machine, None);
                    continue;
                }
                Step::Wait(Reason::Works) => return true,
                _ => return false,
            }
            let (Some(disk), Some(ssd)) = (self.disk.recorded.clone(), self.ssd.clone()) else {
                return false;
            };
            match machine.map(&self.record.pair, &disk, &ssd) {
                Ok(()) => {
                    self.done(store, &disk, &ssd);
                    return true;
                }
                Err(e) => self.failed = Some(e),
            }
            if self.record.may_be_dirty {
                // The attempt released the disk.
                self.hold(machine, None);
            }
        }
    }

    /// Holds all devices that may be the disk and are not in use by now. If that fails, a disk that was held may not be
    /// held any more. `before`: why the last attempt failed.
    pub(super) fn hold(
        &mut self,
        machine: &impl BootEnvironment,
        before: Option<(HoldError, Instant)>,
    ) {
        let disks: Vec<_> = self.to_hold().cloned().collect();
        // If no device agrees with the whole record, each of them may be the disk.
        let needed = self.disk.recorded.as_ref().map_or(disks.len(), |_| 1);
        let result = machine.hold(&self.record.pair, &disks, needed);
        self.held.clear();
        self.hold_error = result.err().map(|why| {
            let same = before.filter(|(before, _)| before.kind() == why.kind());
            let since = same.map_or_else(Instant::now, |(_, since)| since);
            (why, since)
        });
        if self.hold_error.is_none() {
            self.held = disks;
        }
    }

    /// Whether the reason why the disk cannot be held may pass after a moment.
    pub(super) fn may_pass(&self) -> bool {
        let error = self.hold_error.as_ref();
        error.is_some_and(|(_, since)| since.elapsed() < SHORT_USE)
    }

    pub(super) fn is_in_use(&self) -> bool {
        matches!(self.hold_error, Some((HoldError::InUse(_), _)))
    }

    /// Whether both devices are there and no attempt to make the cache has failed.
    pub(super) fn is_whole(&self) -> bool {
        self.failed.is_none() && self.disk.recorded.is_some() && self.ssd.is_some()
    }

    fn done(&mut self, store: &Store, disk: &BlockDevice, ssd: &BlockDevice) {
        tracing::info!("{} works with its cache on {}", disk.name(), ssd.name());
        // udev's rules depend on the mappings above a device.
        for device in [disk, ssd] {
            if let Err(e) = wipe::trigger_udev(&device.ident.node()) {
                tracing::warn!("cannot have {} looked at again: {e}", device.name());
            }
        }
        self.change(store, lifecycle::assembled);
    }

    /// Changes the record on the disk, and the record of this program in any case. False: the change is not durable.
    fn change(&mut self, store: &Store, change: impl Fn(CacheRecord) -> CacheRecord) -> bool {
        let changed = store.change_cache(&self.record.pair.uuid, &change);
        if let Err(e) = &changed {
            tracing::error!("the record of the cache cannot be changed: {e}");
        }
        let is_durable = changed.is_ok();
        let now = changed.ok().flatten();
        self.record = now.unwrap_or_else(|| change(self.record.clone()));
        is_durable
    }

    /// The disk as a person knows it.
    pub(super) fn disk_name(&self) -> String {
        name_of(&self.record.pair.origin)
    }

    /// The SSD as a person knows it.
    pub(super) fn ssd_name(&self) -> String {
        name_of(&self.record.pair.ssd)
    }

    /// How long the start waits for the devices that are missing. `busy`: udev was busy before the last look.
    /// `awaits`: the start of the machine waited for a device then.
    pub(super) fn wait_limit(&self, busy: bool, awaits: bool) -> Duration {
        if self.failed.is_some() {
            return Duration::ZERO;
        }
        // The start unlocks its disks, and the network is up, after the wait.
        let origin = &self.record.pair.origin;
        if self.disk.possible.is_empty() && (origin.is_clear_text() || origin.network) {
            return lifecycle::WAIT_FOR_UDEV;
        }
        let needed = || awaits || self.disk.recorded.is_some();
        lifecycle::wait_limit(&self.record, busy, needed)
    }

    /// Lets the machine start without this cache. True if the mark of the cache is not needed any more: the record
    /// says that the disk itself was used.
    pub(super) fn start_without(&mut self, store: &Store) -> bool {
        let (disk, ssd) = (self.disk_name(), self.ssd_name());
        let reason = self.failed.as_deref().unwrap_or("a device is missing");
        match (
            self.next(Phase::GoingOn),
            self.situation(Phase::GoingOn).disk,
        ) {
            (Step::LeavePlain, _) => {
                tracing::warn!("{disk} is used without its cache on {ssd}: {reason}");
            }
            (_, Disk::Absent) => {
                tracing::info!("{disk} is not there");
                return false;
            }
            (_, Disk::Recorded(Access::Held) | Disk::Similar(Access::Held)) => {
                tracing::error!(
                    "{disk} is held back, because what was written to it last may be on {ssd} only: {reason}"
                );
                return false;
            }
            (_, Disk::Recorded(Access::NotWritable) | Disk::Similar(Access::NotWritable)) => {
                // A record that the disk is used would give up the data on the SSD. The next event tries again to hold
                // the disk.
                tracing::error!("{disk} should be held back, is not, and cannot be written");
                return false;
            }
            _ => return false,
        }
        let is_disk = self.disk.recorded.is_some();
        let used: Vec<Ident> = match &self.disk.recorded {
            Some(disk) => vec![disk.ident.clone()],
            None => self.to_hold().map(|disk| disk.ident.clone()).collect(),
        };
        // The record is written before a program can write to the disk.
        let is_durable = self.change(store, |record| {
            lifecycle::used_alone(record, &used, is_disk)
        });
        // The cache is not put in force any more, even if the record could not be written.
        self.failed.get_or_insert("the disk is in use".to_owned());
        if is_durable {
            self.hold_error = None;
        }
        is_durable && self.next(Phase::GoingOn) == Step::Ask(Reason::DiskChanged)
    }
}
