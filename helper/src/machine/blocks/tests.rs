// SPDX-License-Identifier: GPL-3.0-or-later
//! Devices as sysfs and udev describe them, and records of machines that had them before.

use super::*;
use crate::model::record::CacheRecord;

/// What the service recorded on Debian 12, where UDisks 2.9 gave the WWN of NVMe drives too.
fn record() -> CacheRecord {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records/debian-12.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn properties(all: &[(&str, &str)]) -> Properties {
    Properties::new(all.iter().copied())
}

/// The recorded partition on a drive of which udev says this.
fn disk(name: &str, drive: &[(&str, &str)]) -> BlockDevice {
    let recorded = record().pair.origin;
    let sysfs = Sysfs {
        name: name.to_owned(),
        sectors: recorded.text.size / SECTOR_BYTES,
        start: recorded.start / SECTOR_BYTES,
        ..Sysfs::default()
    };
    let part_uuid = recorded.part_uuid.to_uppercase();
    let content = [
        ("MAJOR", "8"),
        ("MINOR", name.get(2..3).unwrap()),
        ("ID_PART_ENTRY_UUID", part_uuid.as_str()),
        ("ID_FS_UUID", "0d15c0de-0002-4000-8000-7a0de5a10002"),
    ];
    BlockDevice::of(sysfs, properties(&content), &properties(drive), "now")
}

/// As udev describes the disk at its SATA port.
const SATA: [(&str, &str); 4] = [
    ("ID_WWN", "0x50014ee2b9a1c3d5"),
    ("ID_WWN_WITH_EXTENSION", "0x50014ee2b9a1c3d5"),
    ("ID_SERIAL_SHORT", "WD-WCC7K1234567"),
    ("ID_SERIAL", "WDC_WD40EZRZ-00GXCB0_WD-WCC7K1234567"),
];
/// The same disk in a USB enclosure, which speaks for itself.
const USB: [(&str, &str); 2] = [
    ("ID_SERIAL_SHORT", "000000001A2B"),
    ("ID_SERIAL", "JMicron_Generic_000000001A2B-0:0"),
];

fn names(devices: &[BlockDevice]) -> Vec<&str> {
    devices.iter().map(BlockDevice::name).collect()
}

#[test]
fn devices_recorded_on_debian_12_are_recognized_on_debian_13() {
    let pair = record().pair;
    let drive = properties(&[
        ("ID_WWN", "eui.0025385b71b0d2c4"),
        ("ID_SERIAL_SHORT", "S4EVNX0R123456A"),
        // Since systemd 254 the number of the namespace is at the end.
        (
            "ID_SERIAL",
            "Samsung_SSD_970_EVO_Plus_500GB_S4EVNX0R123456A_1",
        ),
    ]);
    let sysfs = Sysfs {
        name: "nvme0n1".to_owned(),
        sectors: pair.ssd.text.size / SECTOR_BYTES,
        ..Sysfs::default()
    };
    let ssd = BlockDevice::of(sysfs, properties(&[]), &drive, "now");
    let all = [ssd, disk("sda1", &SATA)];
    for (recorded, name) in [(&pair.origin, "sda1"), (&pair.ssd, "nvme0n1")] {
        let found = Found::among(&all, recorded).recorded;
        assert_eq!(found.as_ref().map(BlockDevice::name), Some(name));
    }
    // UDisks 2.10 gives the serial number only.
    let mut later = pair.ssd.clone();
    later.hardware = "/S4EVNX0R123456A".to_owned();
    assert!(Found::among(&all, &later).recorded.is_some());
    // Of a SCSI disk, UDisks2 gives another of the serial numbers than udev's short one.
    let mut scsi = pair.origin.clone();
    scsi.hardware = "0x5000c500a1b2c3d4/ZC1ABCDE".to_owned();
    let says = [
        ("ID_WWN", "0x5000c500a1b2c3d4"),
        ("ID_SERIAL_SHORT", "35000c500a1b2c3d4"),
        ("ID_SCSI_SERIAL", "ZC1ABCDE"),
    ];
    assert!(disk("sdc1", &says).ident.same_hardware(&scsi));
    // What is recorded from now on is recognized as well, and its other names too.
    let [ssd, disk] = all;
    assert!(ssd.ident.same_hardware(&ssd.ident) && disk.ident.same_hardware(&disk.ident));
    assert!(
        disk.ident
            .names
            .contains(&"WDC_WD40EZRZ-00GXCB0_WD-WCC7K1234567".to_owned())
    );
}

// promise 21: programs/tandem_helper::machine::blocks::tests::a_disk_in_another_enclosure_is_held_and_not_assembled
#[test]
fn a_disk_in_another_enclosure_is_held_and_not_assembled() {
    let found = Found::among(&[disk("sdb1", &USB)], &record().pair.origin);
    assert_eq!(found.recorded, None);
    assert_eq!(names(&found.possible), ["sdb1"]);
}

// promise 21: programs/tandem_helper::machine::blocks::tests::a_disk_is_assembled_beside_its_clone_only_if_it_can_be_told_from_it
#[test]
fn a_disk_is_assembled_beside_its_clone_only_if_it_can_be_told_from_it() {
    let mut recorded = record().pair.origin;
    let all = [disk("sdb1", &USB), disk("sda1", &SATA)];
    let found = Found::among(&all, &recorded);
    assert_eq!(found.recorded.as_ref(), Some(&all[1]));
    assert_eq!(names(&found.possible), ["sda1", "sdb1"]);
    // Nothing is recorded of the drive: either may be the disk.
    recorded.hardware.clear();
    let found = Found::among(&all, &recorded);
    assert_eq!(found.recorded, None);
    assert_eq!(found.possible.len(), 2);
}

/// A newer kernel names an NVMe drive anew; Windows writes a new signature to the partition table.
// promise 21: programs/tandem_helper::machine::blocks::tests::a_disk_with_one_new_name_is_the_disk_and_with_two_new_ones_may_be
#[test]
fn a_disk_with_one_new_name_is_the_disk_and_with_two_new_ones_may_be() {
    let now = disk("sda1", &SATA);
    let mut before = record().pair.origin;
    before.content_uuid.clone_from(&now.ident.content_uuid);
    let finds = |all: &[BlockDevice], change: &dyn Fn(&mut Ident)| {
        let mut recorded = before.clone();
        change(&mut recorded);
        let found = Found::among(all, &recorded);
        assert_eq!(found.possible.len(), all.len(), "all are held");
        found.recorded.is_some()
    };
    let serial = before.hardware.split_once('/').unwrap().1.to_owned();
    let new_wwn = |r: &mut Ident| r.hardware = format!("eui.0025385/{serial}");
    let new_table = |r: &mut Ident| r.part_uuid = "deadbeef-01".into();
    let new_content = |r: &mut Ident| r.content_uuid = "other".into();
    let new_serial = |r: &mut Ident| {
        let (wwn, _) = before.hardware.split_once('/').unwrap();
        r.hardware = format!("{wwn}/other");
    };
    let one = std::slice::from_ref(&now);
    assert!(finds(one, &new_wwn));
    assert!(finds(one, &new_table));
    // The newest superblock of the file system may be on the SSD only.
    assert!(finds(one, &|r| {
        new_content(r);
        new_wwn(r);
    }));
    // An enclosure gives each of its drives the same serial number, and no WWN.
    assert!(!finds(one, &new_serial));
    let enclosure = |r: &mut Ident| {
        new_wwn(r);
        new_table(r);
    };
    assert!(finds(one, &enclosure), "the content is the same");
    let mut other = now.clone();
    other.ident.content_uuid = "other".to_owned();
    let mut recorded = before.clone();
    enclosure(&mut recorded);
    assert_eq!(
        Found::among(std::slice::from_ref(&other), &recorded).recorded,
        None
    );
    // The same enclosure, without a WWN, with another drive of this size.
    recorded.hardware = format!("/{serial}");
    let found = Found::among(&[other], &recorded);
    assert_eq!(found.possible.len(), 1, "it is held");
    assert_eq!(found.recorded, None, "another drive in the enclosure");
    // A copy beside it: either may be the disk.
    let mut copy = disk("sdb1", &USB);
    copy.ident.content_uuid.clone_from(&now.ident.content_uuid);
    assert!(!finds(&[now.clone(), copy], &new_wwn));
    // The number is another partition's, or the partition has another size.
    for place in [(1 << 20, 0), (0, 512)] {
        let moved = |r: &mut Ident| {
            new_wwn(r);
            r.start += place.0;
            r.text.size += place.1;
        };
        assert!(!finds(one, &moved));
    }
}

#[test]
fn an_ssd_under_another_name_is_known_by_its_superblock() {
    let mut pair = record().pair;
    pair.ssd.hardware = "0x5/other".to_owned();
    let carrying = |name: &str, uuid: &str| {
        let mut ssd = disk(name, &USB);
        ssd.carried = Some(Carried {
            uuid: uuid.to_owned(),
            ..Carried::default()
        });
        ssd
    };
    let found = |all: &[BlockDevice]| {
        let ssd = ssd_among(all, &pair);
        ssd.map(|ssd| ssd.name().to_owned())
    };
    let (ours, other) = (carrying("sdb", &pair.uuid), carrying("sdc", "cd"));
    let named = Some("sdb".to_owned());
    assert_eq!(found(&[ours.clone(), other.clone()]), named);
    assert_eq!(found(std::slice::from_ref(&other)), None);
    // Nobody but the user knows which of two copies is the newer one; an image is never the SSD.
    let copy = carrying("sdd", &pair.uuid);
    assert_eq!(found(&[ours.clone(), copy]), None);
    let image = carrying("loop0", &pair.uuid);
    assert_eq!(found(&[ours, image.clone()]), named);
    assert_eq!(found(&[image]), None);
}

#[test]
fn an_image_of_a_disk_is_not_the_disk() {
    let mut recorded = record().pair.origin;
    // A virtual disk without a serial number, whose image has all that is recorded.
    recorded.hardware.clear();
    for name in ["loop0p1", "dm-3"] {
        let image = disk(name, &[]);
        let mut found = Found::among(std::slice::from_ref(&image), &recorded);
        assert!(found.possible.is_empty(), "{name}");
        // A cache over such a device finds it again.
        let mut recorded = recorded.clone();
        recorded.text.name = name.replace('3', "7").replace('0', "1");
        found = Found::among(std::slice::from_ref(&image), &recorded);
        assert_eq!(found.recorded.as_ref(), Some(&image), "{name}");
    }
    assert!(
        Found::among(&[disk("sdb1", &[])], &recorded)
            .recorded
            .is_some()
    );
}

#[test]
fn one_strong_mark_is_enough_to_hold_and_all_marks_have_to_agree_to_assemble() {
    let now = disk("sda1", &SATA).ident;
    let mut before = record().pair.origin;
    before.content_uuid.clone_from(&now.content_uuid);
    let held = |change: &dyn Fn(&mut Ident)| {
        let mut recorded = before.clone();
        change(&mut recorded);
        (now.may_be(&recorded), now.same_hardware(&recorded))
    };
    assert_eq!(held(&|_| {}), (true, true));
    // The newest superblock may be on the SSD only.
    assert_eq!(held(&|r| r.content_uuid = "other".into()), (true, true));
    let no_partition = |r: &mut Ident| r.part_uuid = "other".into();
    let no_content = |r: &mut Ident| r.content_uuid.clear();
    let no_drive = |r: &mut Ident| r.hardware = "0x5/other".into();
    assert_eq!(held(&no_drive), (true, false));
    assert_eq!(held(&no_partition), (true, false));
    for (marks, is_held) in [
        ([&no_drive as &dyn Fn(&mut Ident), &no_content], true),
        ([&no_drive, &no_partition], true),
        ([&no_partition, &no_content], true),
    ] {
        let change = |r: &mut Ident| marks.iter().for_each(|mark| mark(r));
        assert_eq!(held(&change), (is_held, false));
    }
    // A file system of another size, or a drive in another place, is no mark.
    let none = |r: &mut Ident| {
        no_partition(r);
        r.text.size += 512;
    };
    assert_eq!(held(&none), (false, false));
    let nothing = |r: &mut Ident| {
        no_drive(r);
        no_partition(r);
        no_content(r);
    };
    assert_eq!(held(&nothing), (false, false));
    // A partition can grow, and nothing shrinks. A larger drive is another drive.
    let was_smaller = |r: &mut Ident| r.text.size -= 512;
    assert_eq!(held(&was_smaller), (true, true));
    assert!(!held(&|r| r.text.size += 512).1);
    let drives = |now: &mut Ident, recorded: &mut Ident| {
        was_smaller(recorded);
        now.part_uuid.clear();
        recorded.part_uuid.clear();
    };
    let (mut larger, mut recorded) = (now.clone(), before.clone());
    drives(&mut larger, &mut recorded);
    assert!(!larger.same_hardware(&recorded));
    // A volume is recognised by its name alone, and can grow.
    for ident in [&mut larger, &mut recorded] {
        ident.hardware = "LVM-x".into();
    }
    assert!(larger.same_hardware(&recorded));
    assert_eq!(held(&|r| r.hardware = "LVM-x".into()), (true, false));
    assert!(!now.same_hardware(&Ident::default()) && !now.may_be(&Ident::default()));
}

#[test]
fn the_mapping_of_a_cache_is_not_taken_for_its_disk() {
    let recorded = disk("sda1", &SATA).ident;
    let mut mapping = disk("sda1", &SATA);
    mapping.ident.hardware = "TANDEM-ab".to_owned();
    assert!(Found::among(&[mapping], &recorded).possible.is_empty());
}

#[test]
fn in_an_event_the_device_is_the_one_whose_variables_are_given() {
    let variables = [("MAJOR", "8"), ("MINOR", "a"), ("ID_FS_UUID", "x")];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let machine = Machine::in_event(variables.into_iter());
    assert!(machine.is_about(&disk("sda1", &SATA)));
    assert!(!machine.is_about(&disk("sdb1", &USB)));
    assert!(Machine::default().is_about(&disk("sdb1", &USB)));
}

#[test]
fn a_device_can_be_written_if_it_opens_and_is_not_protected() {
    let root = std::env::temp_dir().join(format!("tandem-writable-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    let node = root.join("node");
    fs::write(&node, "").unwrap();
    assert!(!writable(&root.join("none"), &root));
    for (ro, open) in [("0\n", true), ("1\n", false)] {
        fs::write(root.join("ro"), ro).unwrap();
        assert_eq!(writable(&node, &root), open);
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn names_of_drives_are_compared_as_udev_writes_them() {
    for text in ["S4 EV", " S4  EV ", "S4_EV"] {
        assert_eq!(drive_name(text), "S4_EV");
    }
}

#[test]
fn each_name_of_a_drive_is_tried() {
    let ident = Ident {
        hardware: "0x5000/A_1".to_owned(),
        names: vec!["0x5000".to_owned(), "A_1".to_owned(), "B".to_owned()],
        start: 1 << 20,
        ..Ident::default()
    };
    let recorded = |hardware: &str| {
        Ident {
            hardware: hardware.to_owned(),
            ..ident.clone()
        }
        .origin_id()
    };
    let all = ident.origin_ids();
    for hardware in ["0x5000/A_1", "0x5000/A 1", "/B", "0x5000/B", "0x5000/"] {
        assert!(all.contains(&recorded(hardware)), "{hardware}");
    }
    for hardware in ["/", "0x5001/A_1", "0x5000/C"] {
        assert!(!all.contains(&recorded(hardware)), "{hardware}");
    }
    let elsewhere = Ident {
        start: 2 << 20,
        ..ident.clone()
    };
    assert!(!all.contains(&elsewhere.origin_id()));
}

#[test]
fn a_device_has_left_when_the_kernel_has_none_or_another_of_its_name() {
    let of_boot = |name: &str, boot: String| {
        let mut ident = record().pair.origin;
        (ident.text.name, ident.boot, ident.diskseq) = (name.to_owned(), boot, u64::MAX);
        ident
    };
    assert!(has_left(&of_boot("no-such-device", boot_id())));
    assert!(!has_left(&of_boot("no-such-device", "before".to_owned())));
    // Any disk of the machine that runs the test.
    let names = std::fs::read_dir("/sys/class/block").into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for now in names.filter_map(|name| Sysfs::read(&name)).take(1) {
        let mut ident = of_boot(&now.name, boot_id());
        assert!(has_left(&ident));
        ident.diskseq = now.diskseq;
        assert!(!has_left(&ident));
    }
}
