// SPDX-License-Identifier: GPL-3.0-or-later
//! What is said of a device is what a plan with it gets.

use super::*;
use crate::decide::plan::judge;
use crate::model::facts::Carried;
use tandem_api::JudgedDevice;

type Change = fn(&mut Device);

/// Each makes a device that some check looks at.
const CHANGES: [Change; 29] = [
    |_| (),
    |d| at(d, "/"),
    |d| at(d, "/etc"),
    |d| at(d, "/opt"),
    |d| at(d, "/var/lib"),
    |d| at(d, "/boot"),
    |d| d.part_type = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b".into(),
    |d| d.swap = true,
    |d| d.ident.text.content = "swap".into(),
    |d| d.partitioned = true,
    |d| {
        d.holders = vec![Holder {
            name: "dm-4".into(),
            kind: "luks".into(),
        }];
    },
    |d| d.ident.text.content = "LVM2_member".into(),
    |d| d.cached_by_other = true,
    |d| d.read_only = true,
    |d| d.ident.text.size = 1 << 20,
    |d| d.ident.text.size = 32 << 20,
    |d| {
        d.ident.hardware.clear();
        d.ident.part_uuid.clear();
    },
    |d| d.ident.hardware = "/serial-of-sdc".into(),
    |d| d.ident.text.content = "tandem".into(),
    |d| {
        d.ident.text.content = "tandem".into();
        d.carried = Some(Carried {
            may_be_dirty: true,
            ..Carried::default()
        });
    },
    |d| d.volume = Some("luks".into()),
    |d| d.entries = vec![entry("/srv", "/dev/sda1")],
    |d| {
        d.entries = vec![StartEntry {
            early: true,
            ..entry("/srv", "UUID=1")
        }];
    },
    |d| d.submounts = vec!["/srv/deep".into()],
    |d| {
        at(d, "/srv");
        d.mounts[0].root = "/folder".into();
    },
    |d| d.found_at_start = true,
    |d| d.ident.network = true,
    |d| {
        d.ident.network = true;
        d.ident.hardware.clear();
        d.ident.part_uuid.clear();
    },
    |d| {
        d.usage = "filesystem".into();
        d.ident.text.content = "ext4".into();
    },
];

fn at(device: &mut Device, point: &str) {
    device.mounts = vec![mount(point, Mounter::Other)];
}

fn of<'a>(all: &'a [JudgedDevice], name: &str) -> &'a JudgedDevice {
    all.iter().find(|j| j.device.name == name).unwrap()
}

#[test]
fn a_plan_is_refused_for_what_was_said_of_its_devices_and_for_nothing_else() {
    let (mut open, mut refused) = (0, 0);
    for (later, one, two, three) in cases() {
        let mut scene = Scene::new().with(|s| {
            s.spec.erase_ssd = true;
            s.spec.at_next_start = later;
            s.facts.devices.push(device("sdc", 200 * GIB));
        });
        for (name, change) in [("sda1", one), ("sda1", two), ("sdb", three)] {
            change(scene.at(name));
        }
        let all = judge(&scene.facts, &scene.caches);
        let (disk, ssd) = (of(&all, "sda1"), of(&all, "sdb"));
        let disk = match later {
            true => &disk.against_disk_later,
            false => &disk.against_disk,
        };
        // A member of a volume is erased if that is agreed to, and never offered.
        let ssd = ssd
            .against_ssd
            .iter()
            .filter(|o| o.kind != Kind::PartOfVolume);
        let said: Vec<_> = disk.iter().chain(ssd).map(|o| o.kind).collect();
        match scene.plan() {
            Ok(_) => {
                assert!(said.is_empty(), "{said:?}");
                open += 1;
            }
            // Both are looked at together, and so the SSD also has to be found by the next start.
            Err(failure) if said.is_empty() => {
                assert!(
                    later && failure.kind == Kind::NotFoundAtStart,
                    "{failure:?}"
                );
            }
            Err(failure) => {
                assert!(said.contains(&failure.kind), "{said:?}: {failure:?}");
                refused += 1;
            }
        }
    }
    assert!(
        open > 50 && refused > 1_000,
        "{open} open, {refused} refused"
    );
}

/// Now or later, two changes of the disk, and one of the SSD.
fn cases() -> impl Iterator<Item = (bool, Change, Change, Change)> {
    let with = |change| CHANGES.map(|other: Change| (change, other));
    let pairs = CHANGES.into_iter().flat_map(with);
    let all = pairs.flat_map(|(one, two)| CHANGES.map(|three| (one, two, three)));
    all.flat_map(|(one, two, three)| [false, true].map(|later| (later, one, two, three)))
}

#[test]
fn a_disk_is_closed_only_if_no_start_and_no_other_name_opens_it() {
    let judged = |change: Change| {
        let mut scene = Scene::new();
        scene.at("sda1").found_at_start = true;
        change(scene.at("sda1"));
        let all = judge(&scene.facts, &scene.caches);
        of(&all, "sda1").disk_obstacle().map(|o| o.kind)
    };
    assert_eq!(judged(|_| ()), None);
    assert_eq!(judged(|d| at(d, "/")), None, "at the next start");
    assert_eq!(
        judged(|d| d.submounts = vec!["/srv".into()]),
        None,
        "at the next start"
    );
    assert_eq!(
        judged(|d| d.entries = vec![entry("/srv", "/dev/sda1")]),
        None,
        "another name"
    );
    assert_eq!(judged(|d| at(d, "/etc")), Some(Kind::OriginRoot));
    assert_eq!(judged(|d| d.swap = true), Some(Kind::OriginSwap));
}
