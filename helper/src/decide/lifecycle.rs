// SPDX-License-Identifier: GPL-3.0-or-later
//! What is to be done with a cache next: a pure function of the record of the cache and of the situation that the
//! machine shows.
//!
//! The start of the machine, udev's events and the service all ask [`next`]. The caller does the one step that it gets
//! and asks again with the new situation, until there is nothing to do. The callers decide only when they look at the
//! machine, and in which order they handle several caches.
//!
//! Two rules come before all others:
//! * While the newest data of a disk may be on an SSD only, every device that may be the disk is held, and a cache is
//!   assembled only over the one device that agrees with the whole record.
//! * A disk that any program can use alone is recorded as used before the program can write to it.

use crate::model::facts::Ident;
use crate::model::record::{CacheRecord, Setup};
use std::time::Duration;

/// Whether programs can use a disk without its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No program uses the disk, and none is kept from it.
    Free,
    /// Our mapping keeps every program from the disk.
    Held,
    /// A program uses the disk, perhaps for a moment only, as udev's probes do.
    Busy,
    /// A program uses the disk, or the disk cannot be kept from programs.
    InUse,
    /// The disk does not answer or is write-protected: no program can write to it.
    NotWritable,
    /// Each device that may be the disk is on record as used already.
    OnRecord,
}

/// The devices that may be the disk of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// There is none.
    Absent,
    /// No single device agrees with the whole record: the disk in another enclosure, or copies of the disk.
    Similar(Access),
    /// One device agrees with the whole record.
    Recorded(Access),
}

/// The SSD of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ssd {
    /// No single device agrees with the whole record.
    Absent,
    /// The recorded SSD.
    There,
}

/// The mapping of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// No table is in force.
    None,
    /// The mapping leads to the disk and uses its SSD, or waits for its SSD.
    Works,
    /// As `Works`, but the SSD was away and is back as another device. It had no dirty data: the cache can use it
    /// again under the mounted file system.
    SsdBackClean,
    /// As `SsdBackClean`, but dirty data went away with the SSD, and no file system is mounted that could go on as if
    /// nothing had happened.
    SsdBackDirty,
    /// The mapping uses its SSD, which is gone or has failed, and the target does not go on without it: programs get errors.
    SsdLost,
    /// The mapping leads to a device that is gone, and no program uses the mapping.
    LeadsNowhere,
    /// The mapping leads to a device that is gone, and a program uses the mapping.
    LeadsNowhereInUse,
    /// The mapping passes everything to the disk.
    PassesThrough,
    /// As `PassesThrough`, since the SSD was lost. The SSD is there, and the cache can use it again under the mounted file
    /// system.
    PassesThroughBeside,
}

/// A job that concerns the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// None.
    None,
    /// A job runs now, or the service assembles the cache now.
    Running,
    /// A job that creates or assembles the cache has not ended; it is finished or undone first.
    Creates,
    /// A job that gives the cache up has not ended.
    Abandons,
}

/// Whether the devices that a doubt is about are there: see [`CacheRecord::used_alone`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// There is no doubt.
    None,
    /// A device that may be the disk was used without the cache, and is not there beside the disk: it may be the disk.
    Open,
    /// Each such device is there beside the disk: none of them is the disk.
    Refuted,
}

/// When the question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The machine starts and waits for devices.
    Starting,
    /// The machine goes on with its start: programs use every disk that is not held.
    GoingOn,
    /// The machine runs.
    Running,
}

/// The result of the last attempt to assemble the cache with these devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// There was none.
    None,
    /// The attempt failed, and the reason may pass.
    Failed,
    /// The module refused the devices for good.
    Refused(Reason),
    /// The cache was stopped since, so that the disk can be unplugged.
    PutAway,
}

/// All that the machine shows of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// The cache's disk.
    pub disk: Disk,
    /// The cache's SSD.
    pub ssd: Ssd,
    /// The cache's mapping.
    pub link: Link,
    /// The cache's job.
    pub job: Job,
    /// Whether another device was used that may be its disk.
    pub doubt: Doubt,
    /// The last attempt.
    pub attempt: Attempt,
    /// The moment.
    pub phase: Phase,
    /// The machine was started since the cache was prepared for the next start.
    pub restarted: bool,
    /// The disk can be unplugged, and its last use through the mapping ended a while ago.
    pub left: bool,
}

impl Situation {
    /// Nothing is there.
    pub fn nothing(phase: Phase) -> Self {
        Self {
            disk: Disk::Absent,
            ssd: Ssd::Absent,
            link: Link::None,
            job: Job::None,
            doubt: Doubt::None,
            attempt: Attempt::None,
            phase,
            restarted: phase != Phase::Running,
            left: false,
        }
    }
}

/// Why nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The cache works.
    Works,
    /// The mapping passes through.
    PassesThrough,
    /// A job works on the cache.
    HasJob,
    /// The cache is being removed.
    IsRemoved,
    /// The disk is not there.
    DiskMissing,
    /// No device agrees with the whole record. Those that may be the disk are held.
    DiskElsewhere,
    /// A program uses the disk.
    DiskInUse,
    /// The disk was used without the cache, and the dirty data on the SSD does not fit it any more.
    DiskChanged,
    /// A device that may be the disk was used without the cache.
    DiskInDoubt,
    /// The SSD is not there.
    SsdMissing,
    /// The SSD is not there, and the newest data may be on it only.
    SsdMissingDirty,
    /// The metadata on the SSD is damaged.
    SsdDamaged,
    /// The SSD has larger blocks than the disk.
    SsdBlocks,
    /// The last attempt failed.
    NotAssembled,
    /// The next start of the machine assembles the cache.
    Prepared,
    /// The disk was left, and can be unplugged.
    DiskPutAway,
}

impl Reason {
    /// The word for `Cache.StateReason`; empty if the state says it all.
    pub fn word(self) -> &'static str {
        match self {
            Self::Works | Self::HasJob | Self::IsRemoved | Self::Prepared => "",
            Self::PassesThrough => "ssd-error",
            Self::DiskMissing => "disk-missing",
            Self::DiskElsewhere => "disk-elsewhere",
            Self::DiskInUse => "disk-in-use",
            Self::DiskChanged => "disk-changed",
            Self::DiskInDoubt => "disk-in-doubt",
            Self::SsdMissing => "ssd-missing",
            Self::SsdMissingDirty => "ssd-gone-dirty",
            Self::SsdDamaged => "ssd-damaged",
            Self::SsdBlocks => "ssd-blocks",
            Self::NotAssembled => "not-assembled",
            Self::DiskPutAway => "put-away",
        }
    }
}

/// What is to be done with a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until the situation changes.
    Wait(Reason),
    /// Nothing, until the user decides.
    Ask(Reason),
    /// Hold the devices that may be the disk and are free.
    Hold,
    /// Assemble the cache over its disk. This replaces a hold.
    Assemble,
    /// Put the SSD that is back into the mapping.
    Rejoin,
    /// Have the mapping pass everything to the disk, which lacks nothing.
    LetGo,
    /// Remove the mapping, and hold the disk if it lacks data.
    UnmapAndHold,
    /// Stop the cache in order, so that the disk can be unplugged.
    PutAway,
    /// Record that the disk is used without its cache: see [`used_alone`]. Then let programs have the disk.
    LeavePlain,
    /// Record that the copies on the SSD are old: see [`made_cold`].
    RecordCold,
    /// Record that no device in doubt is the disk: see [`without_doubt`].
    EndDoubt,
    /// Record that the prepared cache works: see [`begun`].
    RecordBegin,
    /// Remove the record.
    Forget,
}

/// What is to be done with the cache of this record.
pub fn next(record: &CacheRecord, now: &Situation) -> Step {
    if record.detached_in.is_some() {
        return match now.link {
            Link::None => Step::Forget,
            _ => Step::Wait(Reason::IsRemoved),
        };
    }
    if let Setup::Pending { .. } = record.setup {
        match now.link {
            // The start assembled the cache, perhaps before it could write to the record.
            Link::Works => return Step::RecordBegin,
            _ if !now.restarted => return Step::Wait(Reason::Prepared),
            _ => {}
        }
    }
    if now.job == Job::Running {
        return Step::Wait(Reason::HasJob);
    }
    if is_used_alone(record, now) {
        return Step::LeavePlain;
    }
    let passes = [Link::PassesThrough, Link::PassesThroughBeside].contains(&now.link);
    if passes && !record.pair.copies_stale {
        // Without a request: its SSD came back and could not be used. The disk lacked nothing then.
        return Step::RecordCold;
    }
    if now.job == Job::Abandons {
        return Step::Wait(Reason::IsRemoved);
    }
    match now.link {
        Link::None => next_without_mapping(record, now),
        Link::LeadsNowhere if now.disk != Disk::Absent => Step::UnmapAndHold,
        // No program may use the disk while the programs above the mapping still have it open.
        Link::LeadsNowhereInUse if lacks_data(record) && is_free(now) => Step::Hold,
        Link::LeadsNowhere | Link::LeadsNowhereInUse => Step::Wait(Reason::DiskMissing),
        Link::SsdLost => Step::LetGo,
        Link::PassesThrough => Step::Wait(Reason::PassesThrough),
        Link::PassesThroughBeside if now.attempt != Attempt::None => {
            Step::Wait(Reason::PassesThrough)
        }
        _ if record.origin_diverged || now.job == Job::Creates => Step::Wait(Reason::Works),
        Link::Works if now.left && !record.may_be_dirty => Step::PutAway,
        _ if now.attempt != Attempt::None => Step::Wait(Reason::Works),
        Link::SsdBackClean | Link::PassesThroughBeside => Step::Rejoin,
        Link::SsdBackDirty => Step::UnmapAndHold,
        Link::Works => Step::Wait(Reason::Works),
    }
}

fn access(now: &Situation) -> Access {
    match now.disk {
        Disk::Similar(access) | Disk::Recorded(access) => access,
        Disk::Absent => Access::NotWritable,
    }
}

fn is_free(now: &Situation) -> bool {
    access(now) == Access::Free
}

/// The newest data may be on the SSD only, and still fits the disk.
pub fn lacks_data(record: &CacheRecord) -> bool {
    record.may_be_dirty && !record.origin_diverged
}

fn next_without_mapping(record: &CacheRecord, now: &Situation) -> Step {
    let obstacle = obstacle(record, now);
    if lacks_data(record) && is_free(now) {
        return Step::Hold;
    }
    match (obstacle, now.disk) {
        (Some(why @ Reason::DiskChanged), _) => return Step::Ask(why),
        (Some(why @ Reason::DiskInDoubt), Disk::Recorded(_)) => return Step::Ask(why),
        (Some(why), _) => return Step::Wait(why),
        (None, _) => {}
    }
    match (now.doubt, now.job, now.attempt) {
        (Doubt::Refuted, ..) => Step::EndDoubt,
        (_, Job::Creates, _) => Step::Wait(Reason::HasJob),
        (.., Attempt::Refused(why)) => Step::Ask(why),
        (.., Attempt::Failed) => Step::Wait(Reason::NotAssembled),
        (.., Attempt::PutAway) => Step::Wait(Reason::DiskPutAway),
        // The attempt replaces the hold, so it needs one. An unmounted disk is moved to the cache by the service.
        _ if record.may_be_dirty && access(now) != Access::Held => Step::Wait(Reason::DiskInUse),
        _ => Step::Assemble,
    }
}

/// Why a cache without a mapping cannot be assembled, if its record or its devices are the reason. The first reason
/// counts: each later one would be taken to say that nothing is lost, or that the cache comes back by itself.
pub fn obstacle(record: &CacheRecord, now: &Situation) -> Option<Reason> {
    match (&record.setup, now.disk) {
        (Setup::Pending { .. }, _) if !now.restarted => Some(Reason::Prepared),
        _ if record.origin_diverged => Some(Reason::DiskChanged),
        (_, Disk::Absent) => Some(Reason::DiskMissing),
        (_, Disk::Similar(_)) if !record.may_be_dirty => Some(Reason::DiskMissing),
        (_, Disk::Similar(_)) if now.doubt == Doubt::None => Some(Reason::DiskElsewhere),
        (_, Disk::Similar(_)) => Some(Reason::DiskInDoubt),
        _ if now.doubt == Doubt::Open => Some(Reason::DiskInDoubt),
        _ if now.ssd == Ssd::Absent && record.may_be_dirty => Some(Reason::SsdMissingDirty),
        _ if now.ssd == Ssd::Absent => Some(Reason::SsdMissing),
        _ => None,
    }
}

/// Whether a disk that is used without its cache has to be recorded as such.
fn is_used_alone(record: &CacheRecord, now: &Situation) -> bool {
    let (Disk::Similar(access) | Disk::Recorded(access)) = now.disk else {
        return false;
    };
    let open = match access {
        Access::InUse => true,
        Access::Free | Access::Busy => now.phase == Phase::GoingOn,
        Access::Held | Access::NotWritable | Access::OnRecord => false,
    };
    let uncovered = match now.link {
        Link::None | Link::LeadsNowhere | Link::LeadsNowhereInUse => open,
        _ => false,
    };
    let is_known = record.pair.copies_stale && (record.origin_diverged || !record.may_be_dirty);
    uncovered && !is_known
}

/// Whether the record says already that this device was used without the cache.
pub fn is_on_record(record: &CacheRecord, device: &Ident) -> bool {
    record.used_alone.iter().any(|known| device.is_again(known))
}

/// Whether a device that was used without the cache may be its disk. `disk`: the device that agrees with the whole
/// record; `possible`: all devices that may be the disk.
pub fn doubt<'a>(
    record: &CacheRecord,
    disk: Option<&Ident>,
    possible: impl Iterator<Item = &'a Ident> + Clone,
) -> Doubt {
    let Some(disk) = disk.filter(|_| !record.used_alone.is_empty()) else {
        return match record.used_alone.is_empty() {
            true => Doubt::None,
            false => Doubt::Open,
        };
    };
    let others = possible.filter(|device| !device.same_device(disk));
    let is_beside = |used: &Ident| others.clone().any(|device| device.is_again(used));
    match record.used_alone.iter().all(is_beside) {
        true => Doubt::Refuted,
        false => Doubt::Open,
    }
}

/// The record of a cache after its disk was used without it. The copies on the SSD are old. Dirty data belongs to a
/// state of the disk that is gone if one of the devices in `used` agrees with the whole record; otherwise it may.
/// `is_disk`: the one device in `used` is the disk.
pub fn used_alone(mut record: CacheRecord, used: &[Ident], is_disk: bool) -> CacheRecord {
    record.pair.copies_stale = true;
    if !record.may_be_dirty {
        return record;
    }
    record.origin_diverged |= is_disk;
    for device in used {
        if !is_on_record(&record, device) {
            record.used_alone.push(device.clone());
        }
        // A device of an earlier boot without a WWN cannot be recognised, so the doubt about it stays for good. One such
        // device is enough for that.
        let mut lasting = 0;
        record.used_alone.retain(|known| {
            lasting += u32::from(known.boot != device.boot && !known.has_wwn());
            known.boot == device.boot || known.has_wwn() || lasting == 1
        });
    }
    record
}

/// The record of a cache whose mapping has used the disk alone. The disk lacked nothing before.
pub fn made_cold(mut record: CacheRecord) -> CacheRecord {
    record.pair.copies_stale = true;
    record
}

/// The record of a cache after each device that was in doubt was seen beside the disk.
pub fn without_doubt(mut record: CacheRecord) -> CacheRecord {
    if !record.origin_diverged {
        record.used_alone.clear();
    }
    record
}

/// The record of a prepared cache that works.
pub fn begun(mut record: CacheRecord) -> CacheRecord {
    record.setup = Setup::Done;
    record
}

/// The record of a cache that was assembled just now: its SSD has forgotten the old copies.
pub fn assembled(record: CacheRecord) -> CacheRecord {
    let mut record = begun(record);
    (record.pair.copies_stale, record.pair.lost_generation) = (false, 0);
    record
}

/// How long the start of the machine waits if data may be on the SSD only. A disk that has to spin up takes 10 s, and
/// several disks spin up one after the other. The same time applies if the start needs the disk and udev is still busy:
/// a slow machine must not start cold because of that.
pub const WAIT_DIRTY: Duration = Duration::from_secs(30);
/// How long the start waits if a start without the SSD only loses the cached copies, and udev is idle.
pub const WAIT_CLEAN: Duration = Duration::from_secs(10);
/// The time in which udev has at least begun to look at the devices.
pub const WAIT_FOR_UDEV: Duration = Duration::from_secs(1);

/// How long the start of the machine waits for the missing devices of a cache. `busy`: udev is busy. `needed`: the
/// start waits for the disk, or the disk is there.
pub fn wait_limit(record: &CacheRecord, busy: bool, needed: impl FnOnce() -> bool) -> Duration {
    if record.may_be_dirty {
        return WAIT_DIRTY;
    }
    match (busy, needed()) {
        (true, true) => WAIT_DIRTY,
        (true, false) | (false, true) => WAIT_CLEAN,
        // A disk that is plugged in only sometimes must not delay each start.
        (false, false) => WAIT_FOR_UDEV,
    }
}

#[cfg(test)]
mod tests;
