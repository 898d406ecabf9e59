// SPDX-License-Identifier: GPL-3.0-or-later
//! Every refusal of a creation.

use super::*;

#[test]
fn the_same_device_twice_is_refused() {
    refuses(Kind::SameDevice, "sda1", |s| s.spec.ssd = object("sda1"));
    refuses(Kind::SameDevice, "sda", |s| s.spec.ssd = object("sda"));
    refuses(Kind::SameDevice, "sda1", |s| {
        s.spec.ssd = object("sda1");
        s.spec.origin = object("sda");
    });
}

#[test]
fn an_ssd_in_use_is_refused_even_with_erase() {
    for erase in [false, true] {
        refuses(Kind::SsdMounted, "sdb", |s| {
            s.spec.erase_ssd = erase;
            s.at("sdb").mounts = vec![mount("/mnt", Mounter::Other)];
        });
        // A mounted partition of it counts as well.
        refuses(Kind::SsdMounted, "sdb", |s| {
            s.spec.erase_ssd = erase;
            let mut part = device("sdb1", GIB);
            part.table = Some(object("sdb").to_string());
            part.mounts = vec![mount("/mnt", Mounter::Other)];
            s.at("sdb").partitioned = true;
            s.facts.devices.push(part);
        });
        refuses(Kind::SsdInUse, "sdb", |s| {
            s.spec.erase_ssd = erase;
            s.at("sdb").swap = true;
        });
        refuses(Kind::SsdInUse, "sdb", |s| {
            s.spec.erase_ssd = erase;
            s.at("sdb").holders = vec![Holder {
                name: "md0".into(),
                kind: "md".into(),
            }];
        });
    }
}

#[test]
fn a_partition_from_which_a_system_starts_is_no_ssd_even_with_erase() {
    for (kind, part_type) in [
        (Kind::OriginEfi, "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"),
        (Kind::OriginEfi, "0xef"),
        (Kind::OriginBoot, "bc13c2ff-59e6-4262-a352-b275fd6f7172"),
        (Kind::OriginBoot, "21686148-6449-6e6f-744e-656564454649"),
    ] {
        refuses(kind, "sdb1", |s| {
            s.spec.erase_ssd = true;
            let mut part = device("sdb1", GIB);
            part.table = Some(object("sdb").to_string());
            part.part_type = part_type.into();
            s.at("sdb").partitioned = true;
            s.facts.devices.push(part);
            s.facts.devices.last_mut().unwrap().ident.part_uuid = "bb-01".into();
            s.spec.ssd = object("sdb1");
        });
    }
}

#[test]
fn an_ssd_with_data_is_used_only_when_that_was_agreed_to() {
    let with_data = |s: &mut Scene| {
        s.at("sdb").usage = "filesystem".into();
        s.at("sdb").ident.text.content = "ext4".into();
    };
    let with_partitions = |s: &mut Scene| s.at("sdb").partitioned = true;
    let unknown = |s: &mut Scene| s.at("sdb").blank = false;
    refuses(Kind::SsdHoldsData, "sdb", with_data);
    refuses(Kind::SsdHoldsData, "sdb", with_partitions);
    refuses(Kind::SsdUnknownContent, "sdb", unknown);
    let agreed = |change: fn(&mut Scene)| {
        let plan = Scene::new()
            .with(change)
            .with(|s| s.spec.erase_ssd = true)
            .plan()
            .unwrap();
        assert!(plan.erases());
        plan.reply
            .warnings
            .iter()
            .map(|w| w.kind)
            .collect::<Vec<_>>()
    };
    assert!(agreed(with_data).contains(&WarningKind::ErasesSsd));
    assert!(agreed(with_partitions).contains(&WarningKind::ErasesSsd));
    assert!(agreed(unknown).contains(&WarningKind::ErasesUnknown));
    let of_another = |s: &mut Scene| s.at("sdb").ident.text.content = "dm-writecache".into();
    refuses(Kind::SsdHoldsData, "sdb", of_another);
    assert!(agreed(of_another).contains(&WarningKind::ErasesOtherCache));
    // Agreeing does not erase what is empty.
    assert!(
        !Scene::new()
            .with(|s| s.spec.erase_ssd = true)
            .plan()
            .unwrap()
            .erases()
    );
}

#[test]
fn devices_that_are_too_small_or_read_only_are_refused() {
    let scene = Scene::new().with(|s| s.at("sdb").ident.text.size = MINIMUM_SSD_BYTES - 1);
    let failure = scene.plan().unwrap_err();
    assert_eq!(failure.kind, Kind::SsdTooSmall);
    assert_eq!(
        (failure.needed, failure.actual),
        (MINIMUM_SSD_BYTES, MINIMUM_SSD_BYTES - 1)
    );
    assert!(
        Scene::new()
            .with(|s| s.at("sdb").ident.text.size = MINIMUM_SSD_BYTES)
            .plan()
            .is_ok()
    );
    refuses(Kind::OriginTooSmall, "sda1", |s| {
        s.at("sda1").ident.text.size = MINIMUM_ORIGIN_BYTES - 1
    });
    refuses(Kind::ReadOnly, "sda1", |s| s.at("sda1").read_only = true);
    refuses(Kind::ReadOnly, "sdb", |s| s.at("sdb").read_only = true);
}

#[test]
fn parts_of_the_system_are_refused() {
    for point in ["/", "/usr", "/var"] {
        refuses(Kind::OriginRoot, "sda1", |s| {
            s.at("sda1").mounts = vec![mount(point, Mounter::Fstab("UUID=a".into()))];
        });
    }
    refuses(Kind::OriginBoot, "sda1", |s| {
        s.at("sda1").mounts = vec![mount("/boot", Mounter::Fstab("UUID=a".into()))];
    });
    refuses(Kind::OriginEfi, "sda1", |s| {
        s.at("sda1").mounts = vec![mount("/boot/efi", Mounter::Fstab("UUID=a".into()))];
    });
    for (kind, types) in [
        (
            Kind::OriginEfi,
            ["c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "0xef"],
        ),
        (
            Kind::OriginSwap,
            ["0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "0x82"],
        ),
        (
            Kind::OriginBoot,
            ["bc13c2ff-59e6-4262-a352-b275fd6f7172", "0xea"],
        ),
    ] {
        for part_type in types {
            refuses(kind, "sda1", |s| s.at("sda1").part_type = part_type.into());
        }
    }
    refuses(Kind::OriginSwap, "sda1", |s| {
        s.at("sda1").ident.text.content = "swap".into()
    });
    refuses(Kind::OriginSwap, "sda1", |s| s.at("sda1").swap = true);
}

#[test]
fn a_device_that_cannot_be_told_from_another_is_refused() {
    let twin = |s: &mut Scene| {
        let mut twin = device("sdc", 200 * GIB);
        twin.ident.hardware = "/serial-of-sdb".into();
        s.facts.devices.push(twin);
    };
    refuses(Kind::Indistinguishable, "sdb", twin);
    assert_eq!(Scene::new().with(twin).plan().unwrap_err().name, "sdc");
    // Another size is another device.
    let other = |s: &mut Scene| {
        twin(s);
        s.at("sdc").ident.text.size -= 512;
    };
    assert!(Scene::new().with(other).plan().is_ok());
    let unknown = |s: &mut Scene| s.at("sdb").ident.hardware.clear();
    refuses(Kind::Indistinguishable, "sdb", unknown);
    assert_eq!(Scene::new().with(unknown).plan().unwrap_err().name, "");
}

#[test]
fn a_partitioned_disk_is_offered_as_its_partitions() {
    refuses(Kind::OriginPartitioned, "sda", |s| {
        s.spec.origin = object("sda")
    });
}

#[test]
fn volumes_above_and_members_of_arrays_are_refused() {
    refuses(Kind::OriginInUse, "sda1", |s| {
        s.at("sda1").holders = vec![Holder {
            name: "dm-0".into(),
            kind: "luks".into(),
        }];
    });
    refuses(Kind::AlreadyCached, "sda1", |s| {
        s.at("sda1").holders = vec![Holder {
            name: "dm-0".into(),
            kind: "tandem".into(),
        }];
    });
    for content in ["LVM2_member", "linux_raid_member", "zfs_member", "bcache"] {
        refuses(Kind::PartOfVolume, "sda1", |s| {
            s.at("sda1").ident.text.content = content.into()
        });
    }
}

#[test]
fn a_part_of_a_file_system_on_several_devices_is_refused() {
    let btrfs = |s: &mut Scene, name: &str, uuid: &str| {
        s.at(name).ident.text.content = "btrfs".into();
        s.at(name).usage = "filesystem".into();
        s.at(name).content_uuid = uuid.into();
    };
    let other = |s: &mut Scene, uuid: &str| {
        s.facts.devices.push(device("sdc", 500 * GIB));
        btrfs(s, "sdc", uuid);
    };
    refuses(Kind::PartOfVolume, "sda1", |s| {
        btrfs(s, "sda1", "aa");
        other(s, "aa");
    });
    // This also applies to the SSD, even if it may be erased: the other device would lose its data, too.
    refuses(Kind::PartOfVolume, "sdb", |s| {
        s.spec.erase_ssd = true;
        btrfs(s, "sdb", "aa");
        other(s, "aa");
    });
    // One device alone, and another file system beside it, are none.
    let single = |s: &mut Scene| {
        btrfs(s, "sda1", "aa");
        other(s, "bb");
    };
    assert!(Scene::new().with(single).plan().is_ok());
    // What is left of an array on an SSD that may be erased is content like any.
    let stale = |s: &mut Scene| {
        s.spec.erase_ssd = true;
        s.at("sdb").ident.text.content = "linux_raid_member".into();
        s.at("sdb").usage = "raid".into();
    };
    assert!(Scene::new().with(stale).plan().unwrap().erases());
}

#[test]
fn a_device_that_somebody_keeps_for_himself_is_refused() {
    refuses(Kind::OriginInUse, "sda1", |s| s.at("sda1").claimed = true);
    refuses(Kind::SsdInUse, "sdb", |s| {
        s.spec.erase_ssd = true;
        s.at("sdb").ident.text.content = "zfs_member".into();
        s.at("sdb").claimed = true;
    });
}

#[test]
fn an_ssd_that_is_not_found_at_the_start_is_refused() {
    refuses(Kind::SsdIsVolume, "sdb", |s| {
        s.at("sdb").volume = Some("luks".into())
    });
    // A disk may be a volume.
    let disk = |s: &mut Scene| s.at("sda1").volume = Some("lvm".into());
    assert!(Scene::new().with(disk).plan().is_ok());
}

#[test]
fn parts_of_a_cache_are_refused() {
    refuses(Kind::AlreadyCached, "sda1", |s| {
        s.caches = vec![object("sda1").to_string()]
    });
    for erase in [false, true] {
        refuses(Kind::AlreadyCached, "sdb", |s| {
            s.spec.erase_ssd = erase;
            s.caches = vec![object("sdb").to_string()];
        });
    }
    // The mapped device of a cache is no disk for another.
    refuses(Kind::AlreadyCached, "sda1", |s| {
        s.at("sda1").ident.hardware = "TANDEM-00".into()
    });
    // A format that no cache claims is no obstacle after the user has agreed to erase it.
    let left_over = |s: &mut Scene| {
        s.at("sdb").ident.text.content = "tandem".into();
        s.at("sdb").usage = "other".into();
    };
    refuses(Kind::AlreadyCached, "sdb", left_over);
    assert!(
        Scene::new()
            .with(left_over)
            .with(|s| s.spec.erase_ssd = true)
            .plan()
            .unwrap()
            .erases()
    );
}

#[test]
fn a_device_that_is_gone_is_named_by_its_object() {
    let scene = Scene::new().with(|s| s.facts.devices.retain(|d| d.ident.text.name != "sdb"));
    let failure = scene.plan().unwrap_err();
    assert_eq!(
        (failure.kind, failure.device.object),
        (Kind::DeviceGone, object("sdb"))
    );
}

#[test]
fn mounts_that_cannot_be_made_again_are_refused() {
    refuses(Kind::FilesystemBusy, "sda1", |s| {
        s.at("sda1").submounts = vec!["/media/anna/Data/x".into()]
    });
    refuses(Kind::FilesystemBusy, "sda1", |s| {
        s.at("sda1").mounts[0].root = "/part".into()
    });
    for spec in [
        "/dev/sda1",
        "/dev/disk/by-id/ata-x-part1",
        "/dev/disk/by-path/y",
    ] {
        refuses(Kind::FstabNamesDevice, "sda1", |s| {
            s.at("sda1").entries = vec![entry("/srv", "UUID=a"), entry("/srv/part", spec)];
        });
        // The entry is in use at the next start, also if nothing is mounted or unlocked now.
        refuses(Kind::FstabNamesDevice, "sda1", |s| {
            s.at("sda1").mounts.clear();
            s.at("sda1").entries = vec![entry("/srv", spec)];
        });
        refuses(Kind::CrypttabNamesDevice, "sda1", |s| {
            s.at("sda1").mounts.clear();
            s.at("sda1").entries = vec![StartEntry {
                table: StartTable::Crypttab,
                ..entry("secret", spec)
            }];
        });
    }
    for (table, kind, target, spec, name) in [
        (
            StartTable::Grub,
            Kind::GrubNamesDevice,
            "GRUB_DISABLE_LINUX_UUID",
            "true",
            "true",
        ),
        (
            StartTable::CommandLine,
            Kind::BootNamesDevice,
            "/boot/grub/grub.cfg",
            "root=/dev/sda1",
            "root=UUID=5eed",
        ),
        (
            StartTable::MountUnit,
            Kind::UnitNamesDevice,
            "/run/systemd/generator.late/home.mount",
            "/dev/sda1",
            "/dev/sda1",
        ),
    ] {
        let scene = Scene::new().with(|s| {
            s.at("sda1").content_uuid = "5eed".into();
            s.at("sda1").entries = vec![StartEntry {
                table,
                ..entry(target, spec)
            }];
        });
        let failure = scene.plan().unwrap_err();
        assert_eq!((failure.kind, failure.name.as_str()), (kind, name));
        assert_eq!(failure.mount_points, [target]);
    }
    for spec in ["UUID=a", "LABEL=Data", "PARTUUID=b", "/dev/disk/by-uuid/a"] {
        let unit = Scene::new().with(|s| {
            s.at("sda1").entries = vec![StartEntry {
                table: StartTable::MountUnit,
                ..entry("/etc/systemd/system/srv.mount", spec)
            }];
        });
        assert!(unit.plan().is_ok());
        assert!(
            Scene::new()
                .with(|s| s.at("sda1").entries = vec![entry("/srv", spec)])
                .plan()
                .is_ok()
        );
    }
    let subvolume = |s: &mut Scene| {
        s.at("sda1").mounts[0].root = "/@home".into();
        s.at("sda1").mounts[0].fstype = "btrfs".into();
    };
    assert!(Scene::new().with(subvolume).plan().is_ok());
}

/// After the SSD is erased, the next start would wait for its file system and end in the emergency shell.
#[test]
fn an_ssd_that_the_next_start_uses_is_not_erased() {
    let old = || {
        Scene::new().with(|s| {
            s.spec.erase_ssd = true;
            let ssd = s.at("sdb");
            ssd.partitioned = true;
            let mut part = device("sdb1", 100 * GIB);
            part.table = Some(object("sdb").to_string());
            part.entries = vec![entry("/mnt/fast", "UUID=c")];
            s.facts.devices.push(part);
        })
    };
    let failure = old().plan().unwrap_err();
    assert_eq!(failure.kind, Kind::SsdUsedAtStart);
    assert_eq!(failure.mount_points, ["/mnt/fast"]);
    let late = old().with(|s| s.at("sdb1").entries[0].at_start = false);
    assert!(late.plan().is_ok());
}
