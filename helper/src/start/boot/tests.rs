// SPDX-License-Identifier: GPL-3.0-or-later
//! Starts of a simulated machine.

use super::environment::HoldError;
use super::environment::fake::Fake;
use super::*;
use crate::machine::blocks::{BlockDevice, Found};
use crate::machine::dm::mapping::Mapping;
use crate::model::action::{Action, Pair};
use crate::model::record::Intent;
use std::path::{Path, PathBuf};
use tandem_api::{JobKind, Mode};

/// A disk that agrees with the whole record.
fn found() -> Found {
    let mut disk = BlockDevice::default();
    disk.ident.text.name = "sdx".to_owned();
    disk.number = "8:0".to_owned();
    Found {
        recorded: Some(disk.clone()),
        possible: vec![disk],
    }
}

/// A cache in this mode, with its disk or without.
fn cache(mode: Mode, disk: bool) -> Cache {
    Cache {
        disk: if disk { found() } else { Found::default() },
        ..Cache::new(CacheRecord::new(Pair::nowhere(mode)))
    }
}

/// The record of this cache after the machine has started without the cache.
fn record_without(mut cache: Cache, name: &str) -> CacheRecord {
    let name = format!("tandem-boot-{}-{name}", std::process::id());
    let root = std::env::temp_dir().join(name);
    let store = Store::open(&root).unwrap();
    store.save_cache(&cache.record).unwrap();
    cache.start_without(&store);
    let left = store.caches().pop().unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    left
}

#[test]
fn without_device_mapper_the_disk_counts_as_used_alone_if_the_cache_is_dirty() {
    for (mode, origin_diverged) in [(Mode::Writeback, true), (Mode::Writethrough, false)] {
        let mut cache = cache(mode, true);
        let without = Fake {
            there: vec![""],
            without_device_mapper: true,
            ..Fake::default()
        };
        cache.find_and_hold(&without);
        assert!(cache.disk.recorded.is_some() && without.done.take().is_empty());
        assert_eq!(cache.wait_limit(true, true), Duration::ZERO);
        let left = record_without(cache, &format!("none-{mode}"));
        assert_eq!(
            (left.origin_diverged, left.pair.copies_stale),
            (origin_diverged, true)
        );
        assert_eq!(left.may_be_dirty, origin_diverged);
    }
}

#[test]
fn the_start_does_not_wait_for_what_it_unlocks_or_connects_afterwards() {
    for (disk, limit) in [
        (false, lifecycle::WAIT_FOR_UDEV),
        (true, lifecycle::WAIT_DIRTY),
    ] {
        let mut cache = cache(Mode::Writeback, disk);
        cache.record.pair.origin.hardware = "CRYPT-LUKS2-0a-safe".into();
        assert_eq!(cache.wait_limit(true, true), limit);
        cache.record.pair.origin.hardware = "/safe".into();
        cache.record.pair.origin.network = true;
        assert_eq!(cache.wait_limit(true, true), limit);
    }
}

#[test]
fn all_disks_are_held_before_the_first_ssd_is_read() {
    let root = std::env::temp_dir().join(format!("tandem-boot-{}-order", std::process::id()));
    let store = Store::open(&root).unwrap();
    let mut caches = vec![
        dirty_cache("a", "fast"),
        dirty_cache("b", "away"),
        dirty_cache("c", "fast"),
    ];
    let mut machine = Fake {
        there: vec!["a", "b", "fast"],
        ..Fake::default()
    };
    step(&mut caches, &machine, &store, &Marks::default());
    let first = [
        "hold disk-a",
        "leave out disk-a",
        "hold disk-b",
        "leave out disk-b",
        "map disk-a",
    ];
    assert_eq!(machine.done.take(), first);
    // The disks that are held already are not held and left out again.
    machine.there.push("c");
    step(&mut caches, &machine, &store, &Marks::default());
    let then = ["hold disk-c", "leave out disk-c", "map disk-c"];
    assert_eq!(machine.done.take(), then);
    assert_eq!(caches.len(), 1);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_device_that_udev_handles_during_a_look_is_found_by_the_next_look() {
    let root = std::env::temp_dir().join(format!("tandem-boot-{}-look", std::process::id()));
    let store = Store::open(&root).unwrap();
    let mut caches = vec![cache(Mode::Writethrough, false)];
    caches[0].record.pair.ssd.text.serial = "fast".to_owned();
    let machine = Fake {
        there: vec!["", "fast"],
        unhandled: vec!["", "fast"].into(),
        ..Fake::default()
    };
    let limit = look(&mut caches, &machine, &store, &Marks::default());
    assert_eq!(limit, Some(lifecycle::WAIT_DIRTY));
    let limit = look(&mut caches, &machine, &store, &Marks::default());
    assert_eq!(
        (limit, machine.done.take()),
        (None, vec!["map disk-".to_owned()])
    );
    std::fs::remove_dir_all(&root).unwrap();
}

/// A cache with these serial numbers and with data on its SSD only.
fn dirty_cache(disk: &str, ssd: &str) -> Cache {
    let mut cache = cache(Mode::Writeback, false);
    cache.record.pair.origin.text.serial = disk.to_owned();
    cache.record.pair.ssd.text.serial = ssd.to_owned();
    cache
}

#[test]
fn a_disk_that_is_not_held_or_no_longer_held_counts_as_used() {
    let taken = || Some(HoldError::InUse("taken".to_owned()));
    for first in [None, taken()] {
        let mut cache = cache(Mode::Writeback, true);
        let name = format!("hold-{}", first.is_none());
        let machine = Fake::default();
        for error in [first, taken()] {
            *machine.hold_errors.borrow_mut() = error.into_iter().collect();
            cache.hold(&machine, None);
        }
        let left = record_without(cache, &name);
        assert!(left.origin_diverged && left.pair.copies_stale);
    }
}

#[test]
fn the_record_of_a_held_or_absent_disk_does_not_change() {
    let mut held = cache(Mode::Writeback, true);
    held.hold(&Fake::default(), None);
    held.failed = Some("the SSD does not hold this cache any more".to_owned());
    let whole = CacheRecord::new(Pair::nowhere(Mode::Writeback));
    assert_eq!(record_without(held, "held"), whole);
    assert_eq!(record_without(cache(Mode::Writeback, false), "away"), whole);
}

// promise 32: programs/tandem_helper::start::boot::tests::a_disk_that_comes_back_through_another_controller_is_held_and_never_mapped
#[test]
fn a_disk_that_comes_back_through_another_controller_is_held_and_never_mapped() {
    let (root, store, marks) = one_dirty_cache("elsewhere");
    let before = store.caches();
    let mut caches = wanted(&store);
    let machine = Fake {
        there: vec!["fast"],
        elsewhere: vec![""],
        ..Fake::default()
    };
    set_marks(&caches, &marks);
    step(&mut caches, &machine, &store, &marks);
    start_without_all(&mut caches, &machine, &store, &marks);
    let done = [
        "hold copy-",
        "leave out copy-",
        "read what is left out",
        "start the service",
    ];
    assert_eq!(machine.done.take(), done);
    assert_eq!(store.caches(), before);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_used_copy_puts_the_disk_in_doubt_until_both_are_there() {
    for copy_stays in [true, false] {
        let (root, store, marks) = one_dirty_cache(&format!("copy-{copy_stays}"));
        let mut caches = wanted(&store);
        let mut machine = Fake {
            there: vec!["fast"],
            elsewhere: vec![""],
            taken: Some("copy-"),
            ..Fake::default()
        };
        set_marks(&caches, &marks);
        step(&mut caches, &machine, &store, &marks);
        start_without_all(&mut caches, &machine, &store, &marks);
        let done = ["pause", "read what is left out", "start the service"];
        assert_eq!(machine.done.take(), done);
        let record = store.caches().remove(0);
        assert!(!record.origin_diverged && record.used_alone.len() == 1);
        // The disk appears. The copy may have been the disk, unless the copy is there at the same time.
        machine.there.push("");
        if !copy_stays {
            machine.elsewhere.clear();
        }
        let mut caches = wanted(&store);
        step(&mut caches, &machine, &store, &marks);
        let done = machine.done.take();
        let mut expected = vec!["hold disk-", "leave out disk-"];
        if copy_stays {
            expected.extend(["hold disk- copy-", "map disk-"]);
        }
        assert_eq!(done, expected);
        let doubts = store.caches().remove(0).used_alone.len();
        assert_eq!(doubts, usize::from(!copy_stays));
        std::fs::remove_dir_all(&root).unwrap();
    }
}

#[test]
fn a_cache_that_was_prepared_for_this_start_works_from_now_on() {
    for in_initramfs in [false, true] {
        let (root, store, marks) = one_dirty_cache(&format!("prepared-{in_initramfs}"));
        let mut pair = store.caches().remove(0).pair;
        pair.mode = Mode::Writethrough;
        let record = CacheRecord::prepared(pair.clone(), "before".to_owned(), in_initramfs);
        store.save_cache(&record).unwrap();
        let machine = Fake {
            there: vec!["", "fast"],
            ..Fake::default()
        };
        if in_initramfs {
            *machine.mapping.borrow_mut() = Some(Mapping::Works {
                origin: "0:0".to_owned(),
                ssd: String::new(),
            });
        }
        let mut caches = wanted(&store);
        step(&mut caches, &machine, &store, &marks);
        assert!(caches.is_empty());
        let done = if in_initramfs {
            vec![]
        } else {
            vec!["map disk-"]
        };
        assert_eq!(machine.done.take(), done);
        let expected = CacheRecord {
            in_initramfs,
            ..CacheRecord::new(pair)
        };
        assert_eq!(store.caches(), [expected]);
        std::fs::remove_dir_all(&root).unwrap();
    }
}

#[test]
fn a_disk_that_a_program_has_for_a_moment_is_held_and_mapped() {
    let (root, store, marks) = one_dirty_cache("moment");
    let mut caches = wanted(&store);
    let moment = vec![HoldError::InUse("taken".to_owned()); 2];
    let machine = Fake {
        there: vec!["", "fast"],
        hold_errors: moment.into(),
        ..Fake::default()
    };
    set_marks(&caches, &marks);
    step(&mut caches, &machine, &store, &marks);
    assert_eq!(
        machine.done.take(),
        ["pause", "hold disk-", "leave out disk-", "map disk-"]
    );
    // The disk may come back as another device.
    assert!(caches.is_empty() && marks.has(&"ab".repeat(16)));
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_disk_that_does_not_answer_keeps_its_record_and_its_mark() {
    let (root, store, marks) = one_dirty_cache("closed");
    let before = store.caches();
    let mut caches = wanted(&store);
    let machine = Fake {
        there: vec![""],
        hold_errors: vec![HoldError::NotWritable("no such device".to_owned()); 100].into(),
        ..Fake::default()
    };
    set_marks(&caches, &marks);
    step(&mut caches, &machine, &store, &marks);
    start_without_all(&mut caches, &machine, &store, &marks);
    let done = ["pause", "read what is left out", "start the service"];
    assert_eq!(machine.done.take(), done);
    assert!(marks.has(&before[0].pair.uuid));
    assert_eq!(store.caches(), before);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn the_start_does_not_stop_at_a_held_disk_because_another_is_in_use() {
    let (root, store, marks) = one_dirty_cache("sick");
    let mut caches = vec![dirty_cache("a", "away"), dirty_cache("b", "fast")];
    for (cache, uuid) in caches.iter_mut().zip(["ab", "cd"]) {
        cache.record.pair.uuid = uuid.repeat(16);
        store.save_cache(&cache.record).unwrap();
    }
    let machine = Fake {
        there: vec!["a", "b", "fast"],
        taken: Some("b"),
        ..Fake::default()
    };
    hold_disks(&mut caches, &machine, &store, &marks);
    let done = ["hold disk-a", "leave out disk-a", "pause"];
    assert_eq!(machine.done.take(), done);
    // Disk b is in use for longer than a moment. The record says so before the next step, and the start does not wait
    // for disk b again.
    if let Some((_, since)) = &mut caches[1].hold_error {
        *since = since.checked_sub(SHORT_USE).unwrap();
    }
    step(&mut caches, &machine, &store, &marks);
    assert!(machine.done.take().is_empty());
    let origin_diverged: Vec<_> = store.caches().iter().map(|r| r.origin_diverged).collect();
    assert_eq!(origin_diverged, [false, true]);
    std::fs::remove_dir_all(&root).unwrap();
}

// promise 32: programs/tandem_helper::start::boot::tests::a_disk_that_comes_back_as_another_device_is_held_again
#[test]
fn a_disk_that_comes_back_as_another_device_is_held_again() {
    // The SSD is away, or the cache could not be assembled.
    for (name, there) in [("reset-away", vec![""]), ("reset-failed", vec!["", "fast"])] {
        let (root, store, marks) = one_dirty_cache(name);
        let before = store.caches();
        let mut caches = wanted(&store);
        let mut machine = Fake {
            map_fails: true,
            there,
            ..Fake::default()
        };
        set_marks(&caches, &marks);
        step(&mut caches, &machine, &store, &marks);
        let done = machine.done.take();
        assert_eq!(done[..2], ["hold disk-", "leave out disk-"], "{name}");
        step(&mut caches, &machine, &store, &marks);
        assert!(machine.done.take().is_empty(), "{name}: it is held");
        machine.renumbered = Some("8:16");
        step(&mut caches, &machine, &store, &marks);
        let done = machine.done.take();
        assert_eq!(done, ["hold disk-", "leave out disk-"], "{name}");
        // The disk may come back again after the last look of the start.
        start_without_all(&mut caches, &machine, &store, &marks);
        assert!(marks.has(&before[0].pair.uuid), "{name}");
        assert_eq!(store.caches(), before, "{name}");
        std::fs::remove_dir_all(&root).unwrap();
    }
}

#[test]
fn a_mount_is_left_out_as_soon_as_a_link_leads_to_the_held_disk() {
    let (root, store, marks) = one_dirty_cache("links");
    let mut caches = wanted(&store);
    // The kernel shows an array before udev has read what is on it.
    let mut machine = Fake {
        there: vec![""],
        without_links: true,
        ..Fake::default()
    };
    set_marks(&caches, &marks);
    step(&mut caches, &machine, &store, &marks);
    assert_eq!(machine.done.take(), ["hold disk-"]);
    machine.without_links = false;
    step(&mut caches, &machine, &store, &marks);
    assert_eq!(machine.done.take(), ["leave out disk-"]);
    start_without_all(&mut caches, &machine, &store, &marks);
    let done = ["read what is left out", "start the service"];
    assert_eq!(machine.done.take(), done);
    std::fs::remove_dir_all(&root).unwrap();
}

/// One cache with data on its SSD only.
pub(super) fn one_dirty_cache(name: &str) -> (PathBuf, Store, Marks) {
    let root = std::env::temp_dir().join(format!("tandem-boot-{}-{name}", std::process::id()));
    let store = Store::open(&root).unwrap();
    std::fs::create_dir(root.join("marks")).unwrap();
    let marks = Marks::within(&root.join("marks"));
    let mut record = CacheRecord::new(Pair::nowhere(Mode::Writeback));
    record.pair.ssd.text.serial = "fast".to_owned();
    store.save_cache(&record).unwrap();
    (root, store, marks)
}

#[test]
fn a_removal_abandons_the_cache_only_after_the_drain() {
    let pair = Pair::nowhere(Mode::Writeback);
    let record = CacheRecord::new(pair.clone());
    let job = |kind, done| Intent {
        kind,
        uuid: pair.uuid.clone(),
        actions: vec![Action::Drain(pair.clone()), Action::FreeSsd(pair.clone())],
        done,
        boot_id: String::new(),
        discard: false,
        paused: false,
        owner: 0,
    };
    assert!(job(JobKind::Remove, 1).abandons_cache(&record.pair.uuid));
    assert!(!job(JobKind::Remove, 0).abandons_cache(&record.pair.uuid));
    // A creation that has enabled write-back is not finished.
    assert!(!job(JobKind::Create, 1).abandons_cache(&record.pair.uuid));
    // While a removal unmounts the file system, it has not given up the data yet.
    let discard = |done| Intent {
        discard: true,
        actions: vec![
            Action::LoadModule,
            Action::Unmap(pair.clone()),
            Action::FreeSsd(pair.clone()),
        ],
        ..job(JobKind::Remove, done)
    };
    assert!(!discard(0).abandons_cache(&record.pair.uuid));
    assert!(
        discard(1).abandons_cache(&record.pair.uuid)
            && discard(2).abandons_cache(&record.pair.uuid)
    );
    let another = Intent {
        uuid: "cd".repeat(16),
        ..job(JobKind::Remove, 1)
    };
    assert!(!another.abandons_cache(&record.pair.uuid));
}

#[test]
fn the_mark_of_a_start_ends_with_the_units() {
    let unit = |name: &str| {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/systemd");
        std::fs::read_to_string(data.join(format!("tandem-{name}.service"))).unwrap()
    };
    let (assemble, started) = (unit("assemble"), unit("started"));
    let has = |text: &str, line: &str| text.lines().any(|other| other == line);
    let value = |text: &str, key: &str| {
        let found: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(key))
            .collect();
        assert_eq!(found.len(), 1, "{key}");
        found[0].to_owned()
    };
    let mark = value(&assemble, "ConditionPathExists=!/run/");
    // systemd removes this folder when the unit ends, and each shutdown and soft-reboot ends it.
    assert_eq!(value(&started, "RuntimeDirectory="), mark);
    assert!(!started.contains("RuntimeDirectoryPreserve"));
    for line in [
        "RemainAfterExit=yes",
        "Conflicts=shutdown.target",
        "After=local-fs.target tandem-assemble.service",
    ] {
        assert!(has(&started, line), "{line}");
    }
    // The program that the mark keeps away would be started by what is started after this target.
    assert!(has(&started, "Before=sysinit.target"));
}
