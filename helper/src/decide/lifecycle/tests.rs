// SPDX-License-Identifier: GPL-3.0-or-later
//! The table of a cache's life: why, record, situation, step. A row is a line, so rustfmt leaves the tables alone.

use super::*;
use crate::model::action::Pair;
use tandem_api::Mode;

/// A cache in write-through mode with nothing on the SSD only.
fn clean() -> CacheRecord {
    CacheRecord::new(Pair::nowhere(Mode::Writethrough))
}

/// A cache in write-back mode.
fn dirty() -> CacheRecord {
    CacheRecord::new(Pair::nowhere(Mode::Writeback))
}

fn cold(mut record: CacheRecord) -> CacheRecord {
    record.pair.copies_stale = true;
    record
}

fn origin_diverged() -> CacheRecord {
    CacheRecord {
        origin_diverged: true,
        ..cold(dirty())
    }
}

/// A device that may be its disk was used.
fn doubted() -> CacheRecord {
    CacheRecord {
        used_alone: vec![Ident::default()],
        ..cold(dirty())
    }
}

fn detached() -> CacheRecord {
    CacheRecord {
        detached_in: Some("boot".to_owned()),
        ..clean()
    }
}

/// A cache whose SSD was prepared for the next start.
fn prepared() -> CacheRecord {
    CacheRecord::prepared(clean().pair, "boot".to_owned(), false)
}

/// Both devices are there and free, and the machine runs.
const WHOLE: Situation = Situation {
    disk: Disk::Recorded(Access::Free),
    ssd: Ssd::There,
    link: Link::None,
    job: Job::None,
    doubt: Doubt::None,
    attempt: Attempt::None,
    phase: Phase::Running,
    restarted: false,
    left: false,
};

const STARTING: Situation = Situation {
    phase: Phase::Starting,
    ..WHOLE
};

const GOING_ON: Situation = Situation {
    phase: Phase::GoingOn,
    ..WHOLE
};

const fn disk(disk: Disk, now: Situation) -> Situation {
    Situation { disk, ..now }
}

const fn ssd(ssd: Ssd, now: Situation) -> Situation {
    Situation { ssd, ..now }
}

const fn link(link: Link, now: Situation) -> Situation {
    Situation { link, ..now }
}

const fn job(job: Job, now: Situation) -> Situation {
    Situation { job, ..now }
}

const fn doubt(doubt: Doubt, now: Situation) -> Situation {
    Situation { doubt, ..now }
}

const fn attempt(attempt: Attempt, now: Situation) -> Situation {
    Situation { attempt, ..now }
}

const HELD: Disk = Disk::Recorded(Access::Held);
const IN_USE: Disk = Disk::Recorded(Access::InUse);
const BUSY: Disk = Disk::Recorded(Access::Busy);
const NOT_WRITABLE: Disk = Disk::Recorded(Access::NotWritable);

/// Why, record, situation, step.
type Row = (&'static str, CacheRecord, Situation, Step);

fn check(rows: Vec<Row>) {
    for (why, record, now, step) in rows {
        assert_eq!(next(&record, &now), step, "{why}");
    }
}

#[test]
#[rustfmt::skip]
fn a_cache_is_assembled_when_both_devices_are_there() {
    use Reason::*;
    use Step::*;
    let away = |now| ssd(Ssd::Absent, now);
    check(vec![
        ("nothing is on the SSD only, so the disk needs no hold", clean(), WHOLE, Assemble),
        ("the same at the start", clean(), STARTING, Assemble),
        ("a held disk goes from the hold to the cache", dirty(), disk(HELD, WHOLE), Assemble),
        ("a disk that lacks data is held before an SSD is read", dirty(), WHOLE, Hold),
        ("the same at the start", dirty(), STARTING, Hold),
        ("the disk is not there", clean(), disk(Disk::Absent, WHOLE), Wait(DiskMissing)),
        ("the SSD is not there", clean(), away(WHOLE), Wait(SsdMissing)),
        ("held without the SSD", dirty(), disk(HELD, away(WHOLE)), Wait(SsdMissingDirty)),
        ("to be held without the SSD", dirty(), away(WHOLE), Hold),
        ("a failure may pass", clean(), attempt(Attempt::Failed, WHOLE), Wait(NotAssembled)),
        (
            "a refusal of the module does not pass",
            clean(),
            attempt(Attempt::Refused(SsdDamaged), WHOLE),
            Ask(SsdDamaged),
        ),
        ("after a failed attempt the disk is held again", dirty(), attempt(Attempt::Failed, WHOLE), Hold),
        ("its creation is finished or undone first", clean(), job(Job::Creates, WHOLE), Wait(HasJob)),
        ("the disk is held until then", dirty(), job(Job::Creates, WHOLE), Hold),
        ("a job works on it", dirty(), job(Job::Running, WHOLE), Wait(HasJob)),
        ("it is given up", dirty(), job(Job::Abandons, WHOLE), Wait(IsRemoved)),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_disk_that_is_used_without_its_cache_is_recorded_as_such() {
    use Reason::*;
    use Step::*;
    let similar = |access, now| disk(Disk::Similar(access), now);
    check(vec![
        ("the dirty data does not fit the disk any more", dirty(), disk(IN_USE, WHOLE), LeavePlain),
        ("once", origin_diverged(), disk(IN_USE, WHOLE), Ask(DiskChanged)),
        ("the copies do not fit the disk any more", clean(), disk(IN_USE, WHOLE), LeavePlain),
        ("then the service moves the disk to the cache", cold(clean()), disk(IN_USE, WHOLE), Assemble),
        ("a job knows better", dirty(), job(Job::Running, disk(IN_USE, WHOLE)), Wait(HasJob)),
        ("a use may end at once", dirty(), disk(BUSY, STARTING), Wait(DiskInUse)),
        ("it did not end", dirty(), disk(BUSY, GOING_ON), LeavePlain),
        ("the start needs the disk, and it is not held", dirty(), GOING_ON, LeavePlain),
        ("the same without dirty data", clean(), GOING_ON, LeavePlain),
        ("without dirty data, once", cold(clean()), ssd(Ssd::Absent, GOING_ON), Wait(SsdMissing)),
        ("a held disk is not used", dirty(), ssd(Ssd::Absent, disk(HELD, GOING_ON)), Wait(SsdMissingDirty)),
        ("no program can write to the disk", dirty(), disk(NOT_WRITABLE, GOING_ON), Wait(DiskInUse)),
        ("a disk that is not there is not used", dirty(), disk(Disk::Absent, GOING_ON), Wait(DiskMissing)),
        (
            "the disk was used beside a mapping that leads nowhere",
            dirty(),
            link(Link::LeadsNowhereInUse, disk(IN_USE, WHOLE)),
            LeavePlain,
        ),
        (
            "the mapping covers the disk; other uses are volumes of the mapping",
            dirty(),
            link(Link::Works, disk(IN_USE, WHOLE)),
            Wait(Works),
        ),
        (
            "an SSD in write-back mode came back and could not be used: the disk lacked nothing then",
            dirty(),
            link(Link::PassesThrough, disk(IN_USE, WHOLE)),
            RecordCold,
        ),
        ("the same in write-through mode", clean(), link(Link::PassesThrough, disk(HELD, WHOLE)), RecordCold),
        ("once", cold(clean()), link(Link::PassesThrough, disk(HELD, WHOLE)), Wait(PassesThrough)),
        ("a similar disk may be the disk", dirty(), similar(Access::InUse, WHOLE), LeavePlain),
        ("a similar disk is used at the start", dirty(), similar(Access::Free, GOING_ON), LeavePlain),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_disk_in_another_enclosure_is_held_and_nothing_is_assembled_over_it() {
    use Reason::*;
    use Step::*;
    let similar = |access, now| disk(Disk::Similar(access), now);
    check(vec![
        ("it may be the disk", dirty(), similar(Access::Free, WHOLE), Hold),
        ("it may be a copy of the disk", dirty(), similar(Access::Held, WHOLE), Wait(DiskElsewhere)),
        ("the same at the start", dirty(), similar(Access::Held, STARTING), Wait(DiskElsewhere)),
        ("nothing is lost without dirty data", clean(), similar(Access::Free, WHOLE), Wait(DiskMissing)),
    ]);
}

#[test]
#[rustfmt::skip]
fn only_a_use_of_the_disk_itself_gives_up_the_data_on_the_ssd() {
    use Reason::*;
    use Step::*;
    let held = disk(HELD, WHOLE);
    check(vec![
        ("it may be that the disk was used elsewhere", doubted(), doubt(Doubt::Open, held), Ask(DiskInDoubt)),
        ("the disk is held in doubt too", doubted(), doubt(Doubt::Open, WHOLE), Hold),
        ("the used device is a copy: it is there beside the disk", doubted(), doubt(Doubt::Refuted, held), EndDoubt),
        (
            "the device in doubt is there alone",
            doubted(),
            doubt(Doubt::Open, disk(Disk::Similar(Access::Held), WHOLE)),
            Wait(DiskInDoubt),
        ),
        ("the disk was used itself", origin_diverged(), disk(HELD, WHOLE), Ask(DiskChanged)),
    ]);
    let device = Ident::default();
    let doubt = used_alone(dirty(), std::slice::from_ref(&device), false);
    assert_eq!((doubt.origin_diverged, doubt.pair.copies_stale), (false, true));
    assert_eq!(doubt.used_alone, std::slice::from_ref(&device));
    assert!(without_doubt(doubt).used_alone.is_empty());
    let fork = used_alone(dirty(), std::slice::from_ref(&device), true);
    assert!(fork.origin_diverged && fork.pair.copies_stale);
    assert_eq!(
        without_doubt(fork.clone()),
        fork,
        "the record says which device it was"
    );
    assert_eq!(used_alone(fork.clone(), &[device], true), fork);
    let clean = used_alone(clean(), &[Ident::default()], true);
    assert!(clean.pair.copies_stale && !clean.origin_diverged && clean.used_alone.is_empty());
}

/// A partition on a drive with this identity, at this place in the order of plugging.
fn device(hardware: &str, diskseq: u64, boot: &str) -> Ident {
    let mut ident = Ident {
        hardware: hardware.to_owned(),
        part_uuid: "uuid".to_owned(),
        boot: boot.to_owned(),
        diskseq,
        ..Ident::default()
    };
    ident.text.name = format!("sd{diskseq}");
    ident
}

#[test]
#[rustfmt::skip]
fn a_doubt_ends_only_beside_the_very_device_that_was_used() {
    let disk = device("wwn/disk", 1, "now");
    let used = |hardware, boot| used_alone(dirty(), &[device(hardware, 2, boot)], false);
    for (why, record, beside, doubt) in [
        ("no device was used", dirty(), vec![], Doubt::None),
        ("the device is gone", used("/box", "now"), vec![], Doubt::Open),
        ("it is there beside the disk", used("/box", "now"), vec![device("/box", 2, "now")], Doubt::Refuted),
        ("the enclosure may have another drive", used("/box", "now"), vec![device("/box", 3, "now")], Doubt::Open),
        ("the same after a restart", used("/box", "old"), vec![device("/box", 2, "now")], Doubt::Open),
        ("the drive is known by its WWN", used("wwn/copy", "old"), vec![device("wwn/copy", 3, "now")], Doubt::Refuted),
        ("the disk is not beside itself", used("wwn/disk", "old"), vec![], Doubt::Open),
    ] {
        let possible = || std::iter::once(&disk).chain(&beside);
        assert_eq!(
            super::doubt(&record, Some(&disk), possible()),
            doubt,
            "{why}"
        );
        let alone = super::doubt(&record, None, possible());
        assert_eq!(alone == Doubt::None, doubt == Doubt::None, "{why}");
    }
    // A device that is used at each start takes the room of one device.
    let mut record = dirty();
    for boot in ["1", "2", "3", "4"] {
        record = used_alone(record, &[device("/box", 2, boot)], false);
        record = used_alone(record, &[device("wwn/copy", 3, boot)], false);
    }
    assert_eq!(record.used_alone.len(), 3);
}

#[test]
#[rustfmt::skip]
fn a_mapping_follows_its_devices() {
    use Reason::*;
    use Step::*;
    let leads_nowhere = link(Link::LeadsNowhere, WHOLE);
    let back = |how| link(how, WHOLE);
    check(vec![
        ("all is well", dirty(), link(Link::Works, disk(HELD, WHOLE)), Wait(Works)),
        ("the disk is back as another device", dirty(), leads_nowhere, UnmapAndHold),
        ("the same whatever is on record", origin_diverged(), leads_nowhere, UnmapAndHold),
        ("the disk is away", dirty(), disk(Disk::Absent, leads_nowhere), Wait(DiskMissing)),
        ("a program uses the mapping", dirty(), link(Link::LeadsNowhereInUse, WHOLE), Hold),
        ("so the disk is held beside it", dirty(), link(Link::LeadsNowhereInUse, disk(HELD, WHOLE)), Wait(DiskMissing)),
        ("a disk that lacks nothing is not", clean(), link(Link::LeadsNowhereInUse, WHOLE), Wait(DiskMissing)),
        ("nor one that goes on without it", origin_diverged(), link(Link::LeadsNowhereInUse, WHOLE), Wait(DiskMissing)),
        ("the SSD had no dirty data", clean(), back(Link::SsdBackClean), Rejoin),
        ("the file system lost its newest writes", dirty(), back(Link::SsdBackDirty), UnmapAndHold),
        ("the SSD was tried", clean(), attempt(Attempt::Failed, back(Link::SsdBackClean)), Wait(Works)),
        ("the data on the SSD was given up", origin_diverged(), back(Link::SsdBackClean), Wait(Works)),
        ("a removal is not disturbed", dirty(), job(Job::Abandons, back(Link::SsdBackClean)), Wait(IsRemoved)),
        ("dm-cache has lost its SSD: programs get errors", clean(), link(Link::SsdLost, WHOLE), LetGo),
        ("also beside an earlier attempt", clean(), attempt(Attempt::Failed, link(Link::SsdLost, WHOLE)), LetGo),
        ("a job on the cache ends first", clean(), job(Job::Running, link(Link::SsdLost, WHOLE)), Wait(HasJob)),
        ("its loss is on record before it is used again", clean(), link(Link::PassesThroughBeside, WHOLE), RecordCold),
        ("dm-cache gets the SSD that is back", cold(clean()), link(Link::PassesThroughBeside, WHOLE), Rejoin),
        ("once: an SSD that fails again is left alone", cold(clean()), attempt(Attempt::Failed, link(Link::PassesThroughBeside, WHOLE)), Wait(PassesThrough)),
        ("not if the cache is being removed", cold(clean()), job(Job::Abandons, link(Link::PassesThroughBeside, WHOLE)), Wait(IsRemoved)),
        ("not if the cache was removed", detached(), link(Link::PassesThroughBeside, WHOLE), Wait(IsRemoved)),
        ("the cache ended with its mapping", detached(), WHOLE, Forget),
        ("until then it passes through", detached(), link(Link::PassesThrough, WHOLE), Wait(IsRemoved)),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_disk_that_can_be_unplugged_is_put_away_when_it_is_left() {
    use Reason::*;
    use Step::*;
    let left = |now| Situation { left: true, ..now };
    let works = link(Link::Works, disk(HELD, WHOLE));
    let away = attempt(Attempt::PutAway, WHOLE);
    check(vec![
        ("its last use ended", clean(), left(works), PutAway),
        ("the attempt to assemble it was long ago", clean(), left(attempt(Attempt::Failed, works)), PutAway),
        ("the disk lacks data", dirty(), left(works), Wait(Works)),
        ("a job works on it", clean(), left(job(Job::Running, works)), Wait(HasJob)),
        ("its creation is finished first", clean(), left(job(Job::Creates, works)), Wait(Works)),
        ("it stays stopped", clean(), away, Wait(DiskPutAway)),
        ("without its SSD", clean(), ssd(Ssd::Absent, away), Wait(SsdMissing)),
        ("the disk is used without it", clean(), disk(IN_USE, away), LeavePlain),
        ("what lacks data is held", dirty(), away, Hold),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_prepared_cache_waits_for_the_next_start_and_is_any_other_cache_then() {
    use Reason::*;
    use Step::*;
    let restarted = Situation {
        restarted: true,
        ..WHOLE
    };
    let used = disk(IN_USE, WHOLE);
    check(vec![
        ("the machine was not started yet", prepared(), WHOLE, Wait(Prepared)),
        ("its disk is in use until then", prepared(), used, Wait(Prepared)),
        ("the SSD may be away until then", prepared(), ssd(Ssd::Absent, used), Wait(Prepared)),
        ("the start assembles it", prepared(), Situation { restarted: true, ..STARTING }, Assemble),
        ("the start was in the initial file system", prepared(), link(Link::Works, restarted), RecordBegin),
        ("the start did not find the SSD", prepared(), ssd(Ssd::Absent, restarted), Wait(SsdMissing)),
        ("the service assembles it later", prepared(), restarted, Assemble),
        ("its removal goes on", prepared(), job(Job::Abandons, restarted), Wait(IsRemoved)),
    ]);
    assert_eq!(begun(prepared()), cold(clean()));
    assert_eq!(assembled(prepared()), clean());
}

#[test]
fn the_start_waits_as_long_as_a_device_is_worth() {
    assert_eq!(wait_limit(&clean(), false, || false), WAIT_FOR_UDEV);
    assert_eq!(wait_limit(&clean(), true, || false), WAIT_CLEAN);
    assert_eq!(wait_limit(&clean(), false, || true), WAIT_CLEAN);
    assert_eq!(wait_limit(&clean(), true, || true), WAIT_DIRTY);
    assert_eq!(wait_limit(&dirty(), false, || false), WAIT_DIRTY);
}
