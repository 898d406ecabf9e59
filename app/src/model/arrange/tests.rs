// SPDX-License-Identifier: GPL-3.0-or-later
//! Whole machines, as a person sees them.

use super::*;
use crate::model::inventory::{Obstacle, Partition, VirtualKind};
use tandem_api::{DeviceText, Kind, Objection};

fn block(name: &str, size: u64) -> Block {
    Block {
        path: format!("/b/{name}"),
        device: format!("/dev/{name}"),
        size,
        ..Block::default()
    }
}

fn drive(name: &str, rotation_rate: i32) -> Drive {
    Drive {
        path: format!("/d/{name}"),
        vendor: "ATA".into(),
        model: format!("Model {name}"),
        rotation_rate: Some(rotation_rate),
        ..Drive::default()
    }
}

fn on(mut block: Block, drive: &Drive) -> Block {
    block.drive = Some(drive.path.clone());
    block
}

fn part(mut block: Block, table: &Block, number: u32) -> Block {
    block.partition = Some(Partition {
        table: table.path.clone(),
        number,
        ..Partition::default()
    });
    block.drive.clone_from(&table.drive);
    block
}

fn fs(mut block: Block, mount: &str) -> Block {
    block.usage = "filesystem".into();
    block.kind = "ext4".into();
    block.mount_points = if mount.is_empty() {
        vec![]
    } else {
        vec![mount.into()]
    };
    block
}

fn snapshot(blocks: Vec<Block>, drives: Vec<Drive>) -> Snapshot {
    Snapshot {
        blocks: blocks
            .into_iter()
            .map(|block| (block.path.clone(), block))
            .collect(),
        drives: drives
            .into_iter()
            .map(|drive| (drive.path.clone(), drive))
            .collect(),
    }
}

/// The disks, where the service has no objection to any block but these.
fn arrange_but(
    snapshot: &Snapshot,
    caches: &[CacheParts],
    against: &[(&str, Kind)],
) -> Vec<Device> {
    let of = |path: &String| {
        let objections = against.iter().filter(|(refused, _)| refused == path);
        let objections: Vec<_> = objections
            .map(|(_, kind)| Objection {
                kind: *kind,
                name: String::new(),
                mount_points: vec![],
            })
            .collect();
        JudgedDevice {
            device: DeviceText::none(),
            against_disk: objections.clone(),
            against_disk_later: objections.clone(),
            against_ssd: objections,
        }
    };
    let judged = snapshot.blocks.keys().map(|path| (path.clone(), of(path)));
    arrange(snapshot, caches, &judged.collect())
}

const GB: u64 = 1_000_000_000;

#[test]
fn a_partitioned_disk_is_offered_as_its_partitions() {
    let hdd = drive("hdd", 7200);
    let mut disk = on(block("sda", 2000 * GB), &hdd);
    disk.has_table = true;
    let mut frame = part(block("sda2", 1024), &disk, 2);
    frame.partition.as_mut().unwrap().container = true;
    let data = fs(part(block("sda1", 1900 * GB), &disk, 1), "/home");
    let tenth = fs(part(block("sda10", 90 * GB), &disk, 10), "");
    let fifth = fs(part(block("sda5", 90 * GB), &disk, 5), "");
    let devices = arrange_but(
        &snapshot(vec![tenth, fifth, disk, data, frame], vec![hdd]),
        &[],
        &[],
    );
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].model, "Model hdd");
    let names: Vec<_> = devices[0]
        .volumes
        .iter()
        .map(|volume| volume.device.as_str())
        .collect();
    assert_eq!(names, ["/dev/sda1", "/dev/sda5", "/dev/sda10"]);
    assert_eq!(devices[0].volumes[0].as_origin, Ok(()));
    assert_eq!(devices[0].volumes[0].as_ssd, Err(Obstacle::NotFast));
}

#[test]
fn arrays_and_unlocked_volumes_without_a_drive_are_shown() {
    let mut array = fs(block("md0", 4000 * GB), "");
    array.md_array = true;
    let mut opened = fs(block("dm-0", 400 * GB), "");
    opened.crypto_backing = Some("/b/sdb1".into());
    let mut logical = fs(block("dm-1", 400 * GB), "");
    logical.symlinks = vec!["/dev/disk/by-id/dm-uuid-LVM-abc".into()];
    let devices = arrange_but(&snapshot(vec![array, opened, logical], vec![]), &[], &[]);
    let kinds: Vec<_> = devices.iter().map(|device| device.medium).collect();
    assert_eq!(
        kinds,
        [
            VirtualKind::Array,
            VirtualKind::Unlocked,
            VirtualKind::Logical
        ]
        .map(Medium::Virtual)
    );
    assert!(
        devices
            .iter()
            .all(|device| device.volumes[0].as_origin.is_ok())
    );
}

#[test]
fn a_disk_of_unknown_speed_is_a_hard_disk() {
    let hdd = drive("hdd", -1);
    let devices = arrange_but(
        &snapshot(vec![on(block("sda", GB), &hdd)], vec![hdd]),
        &[],
        &[],
    );
    assert_eq!(devices[0].medium, Medium::HardDisk);
}

#[test]
fn what_nobody_would_call_a_disk_is_hidden() {
    let mut snap = block("loop3", GB);
    snap.is_loop = true;
    snap.kind = "squashfs".into();
    let mut ignored = block("sdz", GB);
    ignored.hint_ignore = true;
    let mut dvd = drive("dvd", -1);
    dvd.optical = true;
    let disc = on(block("sr1x", GB), &dvd);
    let all = vec![
        snap,
        ignored,
        disc,
        block("nbd0", 0),
        block("zram0", GB),
        block("ram0", GB),
    ];
    assert_eq!(arrange_but(&snapshot(all, vec![dvd]), &[], &[]), vec![]);
}

#[test]
fn a_disk_on_the_network_has_the_name_of_its_target() {
    let films = fs(block("nbd0", GB), "");
    let judged = JudgedDevice {
        device: DeviceText {
            model: "NBD films@nas".into(),
            ..DeviceText::none()
        },
        against_disk: vec![],
        against_disk_later: vec![],
        against_ssd: vec![],
    };
    let judged = HashMap::from([(films.path.clone(), judged)]);
    let devices = arrange(&snapshot(vec![films], vec![]), &[], &judged);
    assert_eq!(devices[0].model, "NBD films@nas");
    assert_eq!(devices[0].volumes[0].as_origin, Ok(()));
    assert_eq!(devices[0].whole_as_ssd, Err(Obstacle::NotFast));
}

#[test]
fn a_block_is_offered_as_the_service_says() {
    let (hdd, fast) = (drive("hdd", 5400), drive("ssd", 0));
    let disk = fs(on(block("sda", 1000 * GB), &hdd), "/srv");
    let ssd = fs(on(block("sdb", 120 * GB), &fast), "/mnt");
    let all = snapshot(vec![disk, ssd], vec![hdd, fast]);
    let told = |kind| {
        let devices = arrange_but(&all, &[], &[("/b/sda", kind), ("/b/sdb", kind)]);
        (devices[0].volumes[0].as_origin, devices[1].whole_as_ssd)
    };
    let refused = |obstacle| (Err(obstacle), Err(obstacle));
    assert_eq!(told(Kind::OriginRoot), refused(Obstacle::System));
    assert_eq!(told(Kind::OriginEfi), refused(Obstacle::Boot));
    assert_eq!(told(Kind::SsdMounted), refused(Obstacle::InUse));
    assert_eq!(told(Kind::Internal), refused(Obstacle::Refused));
    for kind in Kind::ALL.iter().copied() {
        let (disk, ssd) = told(kind);
        // The wizard tells which name has to be changed.
        let named = kind.to_string().ends_with("-names-device");
        assert_eq!((disk.is_ok(), ssd.is_ok()), (named, false), "{kind}");
    }
    let open = arrange_but(&all, &[], &[]);
    assert_eq!(open[0].volumes[0].as_origin, Ok(()));
    assert_eq!(open[1].whole_as_ssd, Ok(()));
    assert_eq!(open[1].volumes[0].as_origin, Err(Obstacle::AlreadyFast));
    let cached = vec![Objection {
        kind: Kind::AlreadyCached,
        name: "other".into(),
        mount_points: vec![],
    }];
    let other = JudgedDevice {
        device: DeviceText::none(),
        against_disk: cached.clone(),
        against_disk_later: cached,
        against_ssd: vec![],
    };
    let cached = arrange(&all, &[], &HashMap::from([("/b/sda".to_owned(), other)]));
    assert!(
        !cached[0].volumes[0].is_listed(),
        "another system's cache has a row"
    );
    let unjudged = arrange(&all, &[], &HashMap::new());
    assert_eq!(unjudged[0].volumes[0].as_origin, Err(Obstacle::NotJudged));
    assert_eq!(unjudged[1].whole_as_ssd, Err(Obstacle::NotJudged));
}

#[test]
fn a_cached_disk_shows_what_its_cache_shows_and_the_mapping_is_not_listed_twice() {
    let (hdd, fast) = (drive("hdd", 7200), drive("ssd", 0));
    let mut origin = on(block("sda", 1000 * GB), &hdd);
    origin.hint_ignore = true;
    let ssd = on(block("sdb", 120 * GB), &fast);
    let mut mapped = fs(block("dm-3", 1000 * GB), "/srv/films");
    mapped.label = "Films".into();
    let parts = CacheParts {
        origin: origin.path.clone(),
        ssd: ssd.path.clone(),
        mapped: mapped.path.clone(),
    };
    let devices = arrange_but(
        &snapshot(vec![origin, ssd, mapped], vec![hdd, fast]),
        &[parts],
        &[],
    );
    assert_eq!(devices.len(), 2);
    let volume = &devices[0].volumes[0];
    assert_eq!(
        (volume.name.as_str(), volume.mount_points[0].as_str()),
        ("Films", "/srv/films")
    );
    assert_eq!(volume.as_origin, Err(Obstacle::Cached));
    assert_eq!(devices[1].volumes[0].as_ssd, Err(Obstacle::CacheSsd));
}

#[test]
fn unknown_content_is_never_called_empty() {
    let fast = drive("ssd", 0);
    let strange = on(block("sdc", 120 * GB), &fast);
    let devices = arrange_but(&snapshot(vec![strange], vec![fast]), &[], &[]);
    assert_eq!(devices[0].volumes[0].as_ssd, Ok(()));
    assert_eq!(devices[0].volumes[0].content, Content::Unknown);
}

#[test]
fn a_disk_that_is_refused_only_now_waits_for_the_next_start() {
    let objection = |kind| Objection {
        kind,
        name: String::new(),
        mount_points: vec![],
    };
    let judged = |now: &[Kind], later: &[Kind]| JudgedDevice {
        device: DeviceText::none(),
        against_disk: now.iter().copied().map(objection).collect(),
        against_disk_later: later.iter().copied().map(objection).collect(),
        against_ssd: vec![],
    };
    let (root, name) = (Kind::OriginRoot, Kind::FstabNamesDevice);
    for (now, later, waits) in [
        (&[][..], &[][..], false),
        (&[root], &[], true),
        (&[root], &[name], true),
        (&[name], &[], false),
        (&[root], &[root], false),
    ] {
        assert_eq!(
            is_only_later(&judged(now, later)),
            waits,
            "{now:?} {later:?}"
        );
    }
}
