// SPDX-License-Identifier: GPL-3.0-or-later
//! Partitions below a bcache device: the plan that makes them plain, and each refusal.

use super::*;
use crate::model::removal::OtherTask;
use crate::model::shift::{Content, Shift};
use tandem_api::{OtherCache, OtherKind, OtherState, StepKind};

const BEFORE: u64 = 8192;

/// A bcache device without a cache, over the partition `sda1`.
fn cache() -> OtherCache {
    OtherCache {
        mapped: object("bcache0"),
        disks: vec![device("sda", 1000 * GIB).ident.text],
        state: OtherState::WithoutSsd,
        ..OtherCache::empty(OtherKind::Bcache, "bcache0")
    }
}

fn facts() -> Facts {
    let mut disk = device("sda", 1000 * GIB);
    disk.partitioned = true;
    disk.table_type = "gpt".into();
    let mut part = device("sda1", 999 * GIB);
    part.table = Some(object("sda").to_string());
    part.ident.start = 1 << 20;
    part.ident.part_uuid = "aa-01".into();
    part.ident.text.content = "bcache".into();
    part.holders.push(Holder {
        name: "bcache0".into(),
        kind: "bcache".into(),
    });
    let mut mapped = device("bcache0", 999 * GIB - BEFORE);
    mapped.volume = Some("bcache".into());
    mapped.ident.text.content = "ext4".into();
    mapped.content_uuid = "0a1b".into();
    Facts {
        devices: vec![disk, part, mapped],
        ..Facts::default()
    }
}

fn planned(facts: &Facts) -> Result<(Plan, Shift), Failure> {
    let planned = super::super::end_other(&cache(), facts, OtherTask::Remove, 1000);
    let (plan, removal) = planned?;
    assert_eq!(removal.task, OtherTask::MakePlain);
    assert_eq!(removal.devices.map(|d| d.text.name), ["sda1", "sda"]);
    Ok((plan, removal.shift.unwrap()))
}

fn why(facts: &Facts) -> (Kind, String) {
    let failure = planned(facts).unwrap_err();
    (failure.kind, failure.name)
}

#[test]
fn the_start_moves_to_the_file_system_and_the_end_stays() {
    let (plan, shift) = planned(&facts()).unwrap();
    let steps = plan
        .reply
        .steps
        .iter()
        .map(|s| (s.kind, s.device.name.as_str(), s.bytes));
    let expected = [
        (StepKind::StopOther, "sda1", 0),
        (StepKind::MovePartition, "sda1", BEFORE),
    ];
    assert_eq!(steps.collect::<Vec<_>>(), expected);
    assert_eq!(
        (plan.reply.origin.name.as_str(), plan.reply.ssd.is_none()),
        ("sda1", true)
    );
    let size = 999 * GIB / 512;
    let expected = Shift {
        number: 1,
        sector_bytes: 512,
        start: 2048,
        size,
        by: 16,
        content: Content {
            format: "ext4".into(),
            uuid: "0a1b".into(),
        },
    };
    assert_eq!(shift, expected);
    assert_eq!(shift.moved(), (2064, size - 16));
    assert_eq!(shift.moved().0 + shift.moved().1, 2048 + size);
    assert_eq!(shift.bytes(), BEFORE);
}

#[test]
fn sectors_of_the_disk_count() {
    let mut facts = facts();
    facts.devices[0].block_bytes = 4096;
    let (_, shift) = planned(&facts).unwrap();
    assert_eq!((shift.start, shift.by), (256, 2));
    // `make-bcache --data-offset 2044`: 2044 sectors of 512 bytes are not whole sectors of 4096.
    facts.devices[2].ident.text.size = 999 * GIB - 2044 * 512;
    assert_eq!(why(&facts), (Kind::StaysBcache, "offset".into()));
    facts.devices[0].block_bytes = 512;
    assert_eq!(planned(&facts).unwrap().1.by, 2044);
    facts.devices[0].block_bytes = 0;
    assert_eq!(why(&facts), (Kind::StaysBcache, "offset".into()));
}

#[test]
fn each_reason_is_named() {
    type Change = fn(&mut [Device]);
    let changes: [(&str, Change); 22] = [
        ("whole-disk", |d| d[1].table = None),
        ("volume", |d| d[1].volume = Some("lvm".into())),
        ("volume", |d| d[0].ident.hardware = "md-uuid".into()),
        ("volume", |d| d[0].volume = Some("luks".into())),
        ("volume", |d| d[0].drive = None),
        ("table", |d| d[0].table_type = "apm".into()),
        ("table", |d| d[0].table_type = String::new()),
        ("unknown", |d| d[1].holders.clear()),
        ("unknown", |d| d[0].holders = d[1].holders.clone()),
        ("unknown", |d| d[1].ident.text.name = "sdb1".into()),
        ("mounted", |d| {
            d[2].mounts = vec![mount("/srv", Mounter::Other)]
        }),
        ("running-system", |d| {
            d[2].mounts = vec![mount("/", Mounter::Other)]
        }),
        ("running-system", |d| {
            d[2].mounts = vec![mount("/boot", Mounter::Other)]
        }),
        ("in-use", |d| d[2].swap = true),
        ("in-use", |d| {
            d[2].holders.push(Holder {
                name: "dm-0".into(),
                kind: "luks".into(),
            });
        }),
        ("in-use", |d| d[2].claimed = true),
        ("content", |d| d[2].ident.text.content = String::new()),
        ("content", |d| d[2].content_uuid = String::new()),
        ("content", |d| d[2].partitioned = true),
        ("offset", |d| d[2].ident.text.size = d[1].ident.text.size),
        ("offset", |d| d[2].ident.text.size += 1 << 30),
        ("offset", |d| d[2].ident.text.size = 0),
    ];
    for (name, change) in changes {
        let mut facts = facts();
        change(&mut facts.devices);
        assert_eq!(why(&facts), (Kind::StaysBcache, name.into()));
    }
    let mut without = facts();
    without.devices.pop();
    assert_eq!(why(&without).1, "unknown");
    let mut locked = facts();
    locked.devices[0].read_only = true;
    assert_eq!(why(&locked).0, Kind::ReadOnly);
}

#[test]
fn of_an_mbr_only_primary_partitions_move() {
    let mut facts = facts();
    facts.devices[0].table_type = "dos".into();
    assert!(planned(&facts).is_ok());
    for (name, logical) in [("sda4", false), ("sda5", true), ("sda12", true)] {
        facts.devices[1].ident.text.name = name.into();
        let planned = super::super::end_other(&cache(), &facts, OtherTask::Remove, 1000);
        let refused = planned.err().map(|failure| failure.name);
        assert_eq!(refused, logical.then(|| "logical".to_owned()), "{name}");
    }
}

#[test]
fn the_number_is_that_of_the_kernel_name() {
    let mut facts = facts();
    for (disk, part, number) in [
        ("nvme0n1", "nvme0n1p3", Some(3)),
        ("nvme0n1", "nvme0n13", None),
    ] {
        facts.devices[0].ident.text.name = disk.into();
        facts.devices[1].ident.text.name = part.into();
        let planned = super::super::end_other(&cache(), &facts, OtherTask::Remove, 1000);
        let shift = planned.ok().and_then(|(_, removal)| removal.shift);
        assert_eq!(shift.map(|shift| shift.number), number);
    }
}

#[test]
fn an_entry_that_names_the_bcache_device_is_changed_first() {
    let mut facts = facts();
    facts.devices[2].entries = vec![entry("/srv", "UUID=0a1b")];
    assert!(planned(&facts).is_ok());
    facts.devices[2].entries = vec![entry("/srv", "/dev/bcache0")];
    assert_eq!(why(&facts), (Kind::FstabNamesDevice, "/dev/bcache0".into()));
}

#[test]
fn a_device_that_was_not_detached_in_order_is_not_made_plain() {
    let plan = |cache: &OtherCache| {
        let planned = super::super::end_other(cache, &facts(), OtherTask::Remove, 1000);
        planned.map(|(_, removal)| removal.task)
    };
    assert_eq!(plan(&cache()).unwrap(), OtherTask::MakePlain);
    type Change = fn(&mut OtherCache);
    let changes: [Change; 5] = [
        |c| c.state = OtherState::Working,
        |c| c.state = OtherState::Stopping,
        |c| c.unwritten_known = false,
        |c| c.ssds = vec![device("sdb", GIB).ident.text],
        |c| c.kind = OtherKind::DmCache,
    ];
    for change in changes {
        let mut changed = cache();
        change(&mut changed);
        assert_eq!(plan(&changed).unwrap_err().kind, Kind::OtherNotRemovable);
    }
}
