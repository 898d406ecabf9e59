// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks that come, go and are in use, on a machine that records each call.

use super::super::environment::HoldError;
use super::super::environment::fake::Fake;
use super::super::tests::one_dirty_cache;
use super::super::wanted;
use super::*;
use crate::decide::lifecycle;
use crate::model::facts::Ident;
use crate::model::record::CacheRecord;
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::path::PathBuf;

fn open() -> HoldError {
    HoldError::InUse("taken".to_owned())
}

#[test]
fn a_disk_that_the_start_did_not_find_is_held_when_it_comes_or_counts_as_used() {
    for busy in [false, true] {
        let (root, store, marks) = one_dirty_cache(&format!("late-{busy}"));
        let record = store.caches().remove(0);
        let uuid = &record.pair.uuid;

        // The start waits for the disk in vain.
        let others = if busy { 100 } else { 0 };
        let mut machine = Fake {
            hold_errors: vec![open(); others].into(),
            ..Fake::default()
        };
        let mut caches = wanted(&store);
        super::super::set_marks(&caches, &marks);
        super::super::step(&mut caches, &machine, &store, &marks);
        super::super::start_without_all(&mut caches, &machine, &store, &marks);
        handle_marked(&marks, &machine, &store);
        assert!(marks.has(uuid));
        let done = ["read what is left out", "start the service"];
        assert_eq!(machine.done.take(), done);
        assert_eq!(store.caches(), std::slice::from_ref(&record));

        machine.there.push("");
        handle_marked(&marks, &machine, &store);
        let done = machine.done.take();
        let held = ["hold disk-", "leave out disk-"];
        assert_eq!(done, if busy { &["pause"][..] } else { &held });
        // The mark of a held disk stays: the disk may come back as another device.
        assert_eq!(marks.has(uuid), !busy);
        let left = store.caches().remove(0);
        assert_eq!((left.origin_diverged, left.may_be_dirty), (busy, true));

        // A second event does not hold the disk again.
        handle_marked(&marks, &machine, &store);
        assert!(machine.done.take().is_empty());
        fs::remove_dir_all(&root).unwrap();
    }
}

// promise 32: programs/tandem_helper::start::boot::late::tests::what_passes_does_not_give_up_what_is_on_the_ssd
#[test]
fn what_passes_does_not_give_up_what_is_on_the_ssd() {
    let closed = || HoldError::NotWritable("no such device".to_owned());
    let held = ["hold disk-", "leave out disk-"];
    let moment = ["pause", "hold disk-", "leave out disk-"];
    // First case: a program has the disk open for a moment. The other cases: the cable is loose, and stays so
    // until the disk comes back.
    for (name, unheld, first, then) in [
        ("moment", vec![open(); 3], &moment[..], &[][..]),
        ("flaky", vec![closed(); 3], &moment, &[]),
        ("closed", vec![closed(); 21], &["pause"], &held),
    ] {
        let (root, store, marks, record) = waited_in_vain(name);
        let machine = Fake {
            there: vec![""],
            hold_errors: unheld.into(),
            ..Fake::default()
        };
        for done in [first, then] {
            handle_marked(&marks, &machine, &store);
            assert_eq!(machine.done.take(), done, "{name}");
            assert_eq!(store.caches(), std::slice::from_ref(&record), "{name}");
            assert!(marks.has(&record.pair.uuid), "{name}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}

#[test]
fn the_event_of_another_device_waits_for_no_disk_and_says_what_became_of_it_when_its_own_is_over() {
    let (root, store, marks, record) = waited_in_vain("other");
    let machine = Fake {
        there: vec![""],
        hold_errors: vec![open(); 2].into(),
        other_event: true,
        ..Fake::default()
    };
    for without_device_mapper in [false, true] {
        let machine = Fake {
            there: vec![""],
            without_device_mapper,
            taken: Some(""),
            other_event: true,
            ..Fake::default()
        };
        handle_marked(&marks, &machine, &store);
        assert!(machine.done.take().is_empty());
        assert_eq!(store.caches(), std::slice::from_ref(&record));
    }
    let mark = root.join("marks").join(&record.pair.uuid);
    fs::write(&mark, "0:0 in-use\n0").unwrap();
    let others = || fs::File::open(root.join("marks")).unwrap();
    // Another program works on the cache.
    let alone = others();
    flock(&alone, FlockOperation::LockExclusive).unwrap();
    handle_marked(&marks, &machine, &store);
    assert_eq!(store.caches(), [record]);
    drop(alone);
    handle_marked(&marks, &machine, &store);
    assert!(machine.done.take().is_empty());
    assert!(store.caches().remove(0).origin_diverged && !mark.exists());
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn what_was_said_of_a_disk_that_has_gone_since_does_not_count_for_the_one_in_its_place() {
    let (root, store, marks, record) = waited_in_vain("replaced");
    let mark = root.join("marks").join(&record.pair.uuid);
    fs::write(&mark, "0:0 in-use\n0").unwrap();
    let now = mark.clone();
    let machine = Fake {
        there: vec![""],
        hold_errors: vec![open()].into(),
        meanwhile: Some(Box::new(move || {
            let said = fs::read_to_string(&now).unwrap();
            assert!(said.starts_with("0:0 in-use\n") && !said.ends_with("\n0"));
        })),
        ..Fake::default()
    };
    handle_marked(&marks, &machine, &store);
    let held = ["pause", "hold disk-", "leave out disk-"];
    assert_eq!(machine.done.take(), held);
    assert_eq!(fs::read_to_string(&mark).unwrap(), "");
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn what_is_on_record_by_then_counts_and_not_what_was_before_the_wait() {
    for removed in [false, true] {
        let (root, store, marks, record) = waited_in_vain(&format!("meanwhile-{removed}"));
        let mut lost = record.clone();
        lost.pair.lost_generation = 7;
        let (there, now) = (store.clone(), lost.clone());
        let machine = Fake {
            there: vec![""],
            hold_errors: vec![open(); 100].into(),
            meanwhile: Some(Box::new(move || match removed {
                true => there.drop_cache(&now.pair.uuid).unwrap(),
                false => there.save_cache(&now).unwrap(),
            })),
            ..Fake::default()
        };
        handle_marked(&marks, &machine, &store);
        let disk = machine.find(&lost.pair.origin).recorded.unwrap();
        lost = lifecycle::used_alone(lost, &[disk.ident], true);
        let then = if removed { vec![] } else { vec![lost] };
        assert_eq!(store.caches(), then);
        fs::remove_dir_all(&root).unwrap();
    }
}

// promise 32: programs/tandem_helper::start::boot::late::tests::a_held_disk_that_comes_back_is_held_again_until_its_cache_works
#[test]
fn a_held_disk_that_comes_back_is_held_again_until_its_cache_works() {
    let (root, store, marks, record) = waited_in_vain("reset");
    let mut machine = Fake {
        there: vec![""],
        ..Fake::default()
    };
    let done = |machine: &Fake| {
        handle_marked(&marks, machine, &store);
        !machine.done.take().is_empty()
    };
    assert!(done(&machine) && !done(&machine));
    machine.renumbered = Some("8:16");
    assert!(done(&machine) && !done(&machine));
    // Another process is about to assemble the cache.
    machine.renumbered = Some("8:32");
    *machine.mapping.borrow_mut() = Some(Mapping::Starting("8:32".to_owned()));
    handle_marked(&marks, &machine, &store);
    assert_eq!(machine.done.take(), ["leave out disk-"]);
    assert!(!done(&machine) && marks.has(&record.pair.uuid));
    *machine.mapping.borrow_mut() = Some(works());
    assert!(!done(&machine) && marks.has(&record.pair.uuid));
    // The disk's link is reset while programs use the mapping.
    machine.renumbered = Some("8:48");
    *machine.mapping.borrow_mut() = Some(Mapping::LeadsNowhere(vec![]));
    handle_marked(&marks, &machine, &store);
    assert_eq!(machine.done.take(), ["hold disk-", "leave out disk-"]);
    *machine.mapping.borrow_mut() = Some(Mapping::LeadsNowhere(vec!["8:48".to_owned()]));
    assert!(!done(&machine));
    assert_eq!(store.caches(), std::slice::from_ref(&record));
    let clean = CacheRecord {
        may_be_dirty: false,
        ..record.clone()
    };
    store.save_cache(&clean).unwrap();
    assert!(!done(&machine) && !marks.has(&record.pair.uuid));
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_mount_is_left_out_when_its_link_comes_after_the_hold() {
    let (root, store, marks, record) = waited_in_vain("links");
    let mut machine = Fake {
        there: vec![""],
        without_links: true,
        ..Fake::default()
    };
    handle_marked(&marks, &machine, &store);
    assert_eq!(machine.done.take(), ["hold disk-"]);
    machine.without_links = false;
    // Another program makes systemd leave out mounts. Only the event of the disk has to see that.
    machine.other_event = true;
    let other = fs::File::open(root.join("marks")).unwrap();
    flock(&other, FlockOperation::LockExclusive).unwrap();
    handle_marked(&marks, &machine, &store);
    assert!(machine.done.take().is_empty());
    drop(other);
    machine.other_event = false;
    for done in [&["leave out disk-"][..], &[]] {
        handle_marked(&marks, &machine, &store);
        assert_eq!(machine.done.take(), done);
    }
    // The mapping is in force.
    machine.left_out.take();
    *machine.mapping.borrow_mut() = Some(works());
    handle_marked(&marks, &machine, &store);
    assert!(machine.done.take().is_empty());
    assert_eq!(store.caches(), [record]);
    fs::remove_dir_all(&root).unwrap();
}

/// When systemd reads its units anew, it mounts what it has waited for from any disk that udev has handled.
#[test]
fn all_disks_are_held_before_the_mounts_of_one_are_left_out() {
    let (root, store, marks, record) = waited_in_vain("two");
    let mut other = record;
    other.pair.uuid = "0c".to_owned();
    other.pair.origin.text.serial = "two".to_owned();
    store.save_cache(&other).unwrap();
    marks.set(&other.pair.uuid).unwrap();
    let machine = Fake {
        there: vec!["", "two"],
        ..Fake::default()
    };
    handle_marked(&marks, &machine, &store);
    let done = machine.done.take();
    let last_hold = done.iter().rposition(|what| what.starts_with("hold"));
    let first_left = done.iter().position(|what| what.starts_with("leave out"));
    let holds = done.iter().filter(|what| what.starts_with("hold")).count();
    assert!(holds == 2 && last_hold < first_left, "{done:?}");
    fs::remove_dir_all(&root).unwrap();
}

fn works() -> Mapping {
    Mapping::Works {
        origin: "8:32".to_owned(),
        ssd: String::new(),
    }
}

#[test]
fn a_disk_that_comes_through_another_controller_is_held_and_stays_so() {
    let (root, store, marks, record) = waited_in_vain("elsewhere");
    let machine = Fake {
        elsewhere: vec![""],
        ..Fake::default()
    };
    for done in [&["hold copy-", "leave out copy-"][..], &[]] {
        handle_marked(&marks, &machine, &store);
        assert_eq!(machine.done.take(), done);
        assert_eq!(store.caches(), std::slice::from_ref(&record));
    }
    // The device stays in use. The device may be a copy, so the data on the SSD is not given up, and the disk is held
    // if it comes.
    let mut busy = Fake {
        elsewhere: vec![""],
        taken: Some("copy-"),
        ..Fake::default()
    };
    for done in [&["pause"][..], &[]] {
        handle_marked(&marks, &busy, &store);
        assert_eq!(busy.done.take(), done);
        let now = store.caches().remove(0);
        assert!(!now.origin_diverged && marks.has(&record.pair.uuid));
        let names: Vec<_> = now.used_alone.iter().map(Ident::node).collect();
        assert_eq!(names, ["/dev/copy-"]);
    }
    busy.there.push("");
    handle_marked(&marks, &busy, &store);
    assert_eq!(busy.done.take(), ["hold disk-", "leave out disk-"]);
    fs::remove_dir_all(&root).unwrap();
}

/// A cache whose disk the start did not find.
fn waited_in_vain(name: &str) -> (PathBuf, Store, Marks, CacheRecord) {
    let (root, store, marks) = one_dirty_cache(&format!("late-{name}"));
    let record = store.caches().remove(0);
    marks.set(&record.pair.uuid).unwrap();
    (root, store, marks, record)
}

#[test]
fn udev_runs_the_program_for_every_device_that_can_be_the_disk_of_a_cache() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/udev/56-tandem.rules");
    let rules = fs::read_to_string(rules).unwrap();
    let at = |what: &str| rules.find(what).unwrap();
    // This rule comes before the rules that skip the devices that cannot be an SSD of a cache.
    let run = at("RUN+=\"/usr/libexec/tandem-assemble late\"");
    assert!(run < at("ENV{TANDEM_PROBE}") && run < at("ENV{DM_UUID}==\"?*\""));
}

#[test]
fn a_start_that_still_looks_takes_a_disk_as_the_event_of_udev_has_left_it() {
    let (root, store, marks) = one_dirty_cache("late-both");
    let mut caches = wanted(&store);
    super::super::set_marks(&caches, &marks);
    let machine = Fake {
        there: vec!["", "fast"],
        hold_errors: vec![open(); 100].into(),
        ..Fake::default()
    };
    handle_marked(&marks, &machine, &store);
    assert!(store.caches().remove(0).origin_diverged);
    machine.done.take();
    machine.hold_errors.take();
    super::super::step(&mut caches, &machine, &store, &marks);
    assert!(machine.done.take().is_empty(), "neither held nor mapped");
    fs::remove_dir_all(&root).unwrap();
}
