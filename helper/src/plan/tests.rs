// SPDX-License-Identifier: GPL-3.0-or-later
//! Every refusal, one fact changed at a time on a machine on which a plan is possible.

use super::*;
use crate::action::Face;
use crate::facts::{Device, Facts, Holder, Ident, Mount, Mounter};
use tandem_api::{Failure, FileUser, Kind, Mode, PlanSpec, StepKind, WarningKind};

const GIB: u64 = 1 << 30;
const UUID: &str = "0123456789abcdef0123456789abcdef";

fn object(name: &str) -> zbus::OwnedObjectPath {
    format!("/org/freedesktop/UDisks2/block_devices/{name}")
        .try_into()
        .unwrap()
}

fn device(name: &str, size: u64) -> Device {
    let text = DeviceText {
        object: object(name),
        name: name.into(),
        size,
        ..DeviceText::none()
    };
    Device {
        ident: Ident {
            text,
            diskseq: 1,
            boot: "boot".into(),
            hardware: format!("serial-of-{}", &name[..3]),
            start: 0,
            part_uuid: String::new(),
        },
        number: String::new(),
        table: None,
        drive: Some(format!("/drives/{}", &name[..3])),
        partitioned: false,
        part_type: String::new(),
        usage: String::new(),
        blank: true,
        read_only: false,
        removable: false,
        rotates: Some(name.starts_with("sda")),
        swap: false,
        holders: Vec::new(),
        mounts: Vec::new(),
        submounts: Vec::new(),
    }
}

fn mount(point: &str, mounter: Mounter) -> Mount {
    Mount {
        point: point.into(),
        root: "/".into(),
        fstype: "ext4".into(),
        options: "rw".into(),
        mounter,
    }
}

/// A disk `sda` with an ext4 partition `sda1` that is mounted, and an empty SSD `sdb`.
struct Scene {
    facts: Facts,
    spec: PlanSpec,
    caches: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let mut disk = device("sda", 1000 * GIB);
        disk.partitioned = true;
        disk.ident.text.content = "partition-table".into();
        let mut part = device("sda1", 999 * GIB);
        part.table = Some(object("sda").to_string());
        part.ident.start = 1 << 20;
        part.ident.part_uuid = "aa-01".into();
        part.ident.text.content = "ext4".into();
        part.usage = "filesystem".into();
        part.mounts = vec![mount("/media/anna/Data", Mounter::Udisks(1000))];
        let spec = PlanSpec {
            origin: object("sda1"),
            ssd: object("sdb"),
            mode: Mode::Writethrough,
            erase_ssd: false,
        };
        Self {
            facts: Facts {
                devices: vec![disk, part, device("sdb", 200 * GIB)],
            },
            spec,
            caches: vec![],
        }
    }

    fn at(&mut self, name: &str) -> &mut Device {
        self.facts
            .devices
            .iter_mut()
            .find(|d| d.ident.text.name == name)
            .unwrap()
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn plan(&self) -> Result<Plan, Failure> {
        create(&self.spec, UUID, &self.facts, &self.caches, Vec::new())
    }

    /// Kind of the refusal and kernel name of the device that it names.
    fn refused(&self) -> (Kind, String) {
        let failure = self.plan().expect_err("must be refused");
        assert_eq!(failure.data, tandem_api::DataState::Unchanged);
        (failure.kind, failure.device.name)
    }
}

#[track_caller]
fn refuses(kind: Kind, device: &str, change: impl FnOnce(&mut Scene)) {
    assert_eq!(
        Scene::new().with(change).refused(),
        (kind, device.to_owned())
    );
}

#[test]
fn a_plan_names_every_step_and_nothing_else() {
    let plan = Scene::new().plan().unwrap();
    let kinds: Vec<_> = plan.reply.steps.iter().map(|s| s.kind).collect();
    assert_eq!(
        kinds,
        [
            StepKind::LoadModule,
            StepKind::Unmount,
            StepKind::Map,
            StepKind::Mount
        ]
    );
    assert_eq!(plan.reply.steps[1].target, "/media/anna/Data");
    assert_eq!(plan.reply.steps[2].bytes, plan.reply.cache_bytes);
    assert!(!plan.erases());
    let warnings: Vec<_> = plan.reply.warnings.iter().map(|w| w.kind).collect();
    assert_eq!(warnings, [WarningKind::Unavailable]);
    // It is mounted again through the mapping, not past it.
    assert!(
        matches!(plan.actions.last(), Some(Action::Mount(Face::Mapped(pair), _)) if pair.uuid == UUID)
    );
}

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
        twin.ident.hardware = "serial-of-sdb".into();
        s.facts.devices.push(twin);
    };
    refuses(Kind::InvalidArgument, "sdb", twin);
    // Another size is another device.
    let other = |s: &mut Scene| {
        twin(s);
        s.at("sdc").ident.text.size -= 512;
    };
    assert!(Scene::new().with(other).plan().is_ok());
    refuses(Kind::InvalidArgument, "sdb", |s| {
        s.at("sdb").ident.hardware.clear()
    });
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
    for content in ["LVM2_member", "linux_raid_member", "bcache"] {
        refuses(Kind::OriginInUse, "sda1", |s| {
            s.at("sda1").ident.text.content = content.into()
        });
    }
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
    // A format that no cache claims is in nobody's way once erasing was agreed to.
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
            s.at("sda1").mounts[0].mounter = Mounter::Fstab(spec.into());
        });
    }
    for spec in ["UUID=a", "LABEL=Data", "PARTUUID=b", "/dev/disk/by-uuid/a"] {
        assert!(
            Scene::new()
                .with(|s| s.at("sda1").mounts[0].mounter = Mounter::Fstab(spec.into()))
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

#[test]
fn several_mounts_come_back_in_their_order() {
    let scene = Scene::new().with(|s| s.at("sda1").mounts.push(mount("/second", Mounter::Other)));
    let targets: Vec<_> = scene
        .plan()
        .unwrap()
        .reply
        .steps
        .iter()
        .map(|s| s.target.clone())
        .collect();
    assert_eq!(
        targets,
        [
            "",
            "/second",
            "/media/anna/Data",
            "",
            "/media/anna/Data",
            "/second"
        ]
    );
}

#[test]
fn who_uses_the_disk_is_said_in_the_plan() {
    let scene = Scene::new();
    let user = FileUser {
        pid: 7,
        command: "bash".into(),
        uid: 1,
        user: "anna".into(),
    };
    let plan = create(&scene.spec, UUID, &scene.facts, &[], vec![user.clone()]).unwrap();
    let warning = plan
        .reply
        .warnings
        .iter()
        .find(|w| w.kind == WarningKind::InUse)
        .unwrap();
    assert_eq!(warning.users, [user]);
    // Who uses it does not make it another plan.
    assert!(plan.does_the_same(&scene.plan().unwrap()));
}

#[test]
fn a_replaced_device_makes_another_plan() {
    let plan = Scene::new().plan().unwrap();
    for change in [
        (|s: &mut Scene| s.at("sdb").ident.diskseq = 9) as fn(&mut Scene),
        |s| s.at("sdb").ident.hardware = "other".into(),
        |s| s.at("sda1").ident.text.size -= 512,
        |s| s.at("sda1").mounts[0].point = "/elsewhere".into(),
        |s| s.at("sda1").ident.text.content = "xfs".into(),
        |s| s.spec.mode = Mode::Writearound,
    ] {
        let other = Scene::new().with(change).plan().unwrap();
        assert!(!plan.does_the_same(&other));
        assert_ne!(plan.reply.digest, other.reply.digest);
    }
    assert_eq!(plan.reply.digest, Scene::new().plan().unwrap().reply.digest);
}

#[test]
fn removing_lets_the_ssd_go_first_and_ends_on_the_plain_disk() {
    let plan = Scene::new().plan().unwrap();
    let Some(Action::Map(pair)) = plan.actions.iter().find(|a| matches!(a, Action::Map(_))) else {
        panic!("no mapping");
    };
    let mounts = [mount("/media/anna/Data", Mounter::Udisks(1000))];
    let input = |users: Vec<FileUser>| RemoveInput {
        pair,
        attached: true,
        mapped: true,
        orphaned: false,
        ssd_present: true,
        mounts: &mounts,
        users,
        pinned: false,
    };
    let kinds = |plan: &Plan| plan.reply.steps.iter().map(|s| s.kind).collect::<Vec<_>>();
    assert_eq!(
        kinds(&remove(input(Vec::new()))),
        [
            StepKind::Detach,
            StepKind::FreeSsd,
            StepKind::Unmount,
            StepKind::Unmap,
            StepKind::Mount
        ]
    );
    let user = FileUser {
        pid: 7,
        command: "bash".into(),
        uid: 1,
        user: "anna".into(),
    };
    let busy = remove(input(vec![user]));
    assert_eq!(kinds(&busy), [StepKind::Detach, StepKind::FreeSsd]);
    assert_eq!(busy.reply.warnings[0].kind, WarningKind::StaysMapped);
    // A lost SSD is no obstacle, and neither is a cache that is not assembled.
    let lost = RemoveInput {
        ssd_present: false,
        ..input(Vec::new())
    };
    assert!(!kinds(&remove(lost)).contains(&StepKind::FreeSsd));
    let stopped = RemoveInput {
        attached: false,
        mapped: false,
        mounts: &[],
        ..input(Vec::new())
    };
    assert_eq!(kinds(&remove(stopped)), [StepKind::FreeSsd]);
    // Neither is one of which nothing is left.
    let nothing = RemoveInput {
        attached: false,
        mapped: false,
        ssd_present: false,
        mounts: &[],
        ..input(Vec::new())
    };
    assert_eq!(kinds(&remove(nothing)), [StepKind::Unmap]);
    // Whose disk was pulled: the mapping leads nowhere, and its SSD is free only afterwards.
    let orphaned = RemoveInput {
        attached: false,
        orphaned: true,
        ..input(Vec::new())
    };
    assert_eq!(
        kinds(&remove(orphaned)),
        [StepKind::Unmount, StepKind::Unmap, StepKind::FreeSsd]
    );
}
