// SPDX-License-Identifier: GPL-3.0-or-later
//! Partitions for caches on an SSD that is shared.

use super::*;
use tandem_api::{PartUse, SsdPart};

const MIB: u64 = 1 << 20;

/// The SSD `sdb` with a partition table, a mounted partition `sdb1` at its beginning and free space behind it.
fn shared() -> Scene {
    Scene::new().with(|s| {
        let ssd = s.at("sdb");
        ssd.partitioned = true;
        ssd.table_type = "gpt".into();
        ssd.blank = false;
        ssd.ident.text.content = "partition-table".into();
        let mut part = device("sdb1", 100 * GIB);
        part.table = Some(object("sdb").to_string());
        part.ident.start = MIB;
        part.ident.part_uuid = "bb-01".into();
        part.mounts = vec![mount("/", Mounter::Fstab("UUID=r".into()))];
        s.facts.devices.push(part);
        s.spec.ssd = object("sdb");
        s.spec.partition_bytes = 40 * GIB;
    })
}

fn kinds(plan: &Plan) -> Vec<StepKind> {
    plan.reply.steps.iter().map(|s| s.kind).collect()
}

#[test]
fn free_space_of_an_ssd_in_use_becomes_a_partition_and_nothing_is_erased() {
    let plan = shared().plan().unwrap();
    assert_eq!(
        kinds(&plan),
        [
            StepKind::LoadModule,
            StepKind::Unmount,
            StepKind::CreatePartition,
            StepKind::Map,
            StepKind::Mount
        ]
    );
    assert!(!plan.erases());
    let made = &plan.reply.steps[2];
    assert_eq!((made.bytes, made.device.name.as_str()), (40 * GIB, "sdb"));
    let Action::CreatePartition(pair) = &plan.actions[2] else {
        panic!("{:?}", plan.actions[2]);
    };
    let partition = pair.partition.as_ref().unwrap();
    assert_eq!(
        (partition.start, partition.new_table),
        (100 * GIB + MIB, false)
    );
    assert_eq!(plan.reply.ssd.size, 40 * GIB);
    // Until it is made, no device is the SSD of the pair.
    let facts = shared().facts;
    assert_eq!(facts.same_hardware(&pair.ssd), None);
    // Deleting the partition is its undo.
    assert!(matches!(
        plan.actions[2].undo()[..],
        [Action::DeletePartition(_)]
    ));
}

#[test]
fn a_partition_takes_the_smallest_space_that_is_large_enough_and_none_that_is_used() {
    let at = |bytes: u64| {
        let scene = shared().with(|s| {
            // Free: 20 GiB in front of it, 29 GiB behind it.
            let mut part = device("sdb2", 50 * GIB);
            part.table = Some(object("sdb").to_string());
            part.ident.start = 120 * GIB + MIB;
            part.ident.part_uuid = "bb-02".into();
            s.facts.devices.push(part);
            s.spec.partition_bytes = bytes;
        });
        scene.plan().map(|plan| {
            let Action::CreatePartition(pair) = &plan.actions[2] else {
                panic!("{:?}", plan.actions[2]);
            };
            pair.partition.as_ref().unwrap().start
        })
    };
    assert_eq!(at(20 * GIB), Ok(100 * GIB + MIB));
    assert_eq!(at(20 * GIB + MIB), Ok(170 * GIB + MIB));
    let refused = at(31 * GIB).unwrap_err();
    assert_eq!(refused.kind, Kind::SsdNoFreeSpace);
    // The last MiB is that of the table's copy.
    assert_eq!(
        (refused.needed, refused.actual),
        (31 * GIB, 30 * GIB - 2 * MIB)
    );
}

#[test]
fn an_empty_ssd_gets_a_partition_table_and_one_with_content_only_if_it_may_be_erased() {
    let empty = Scene::new().with(|s| s.spec.partition_bytes = 50 * GIB);
    let plan = empty.plan().unwrap();
    assert!(!plan.erases());
    let Action::CreatePartition(pair) = &plan.actions[2] else {
        panic!("{:?}", plan.actions[2]);
    };
    assert!(pair.partition.as_ref().unwrap().new_table);

    let full = || {
        Scene::new().with(|s| {
            s.spec.partition_bytes = 50 * GIB;
            s.at("sdb").usage = "filesystem".into();
            s.at("sdb").ident.text.content = "ext4".into();
        })
    };
    assert_eq!(full().refused().0, Kind::SsdHoldsData);
    let plan = full().with(|s| s.spec.erase_ssd = true).plan().unwrap();
    assert!(plan.erases());
    assert_eq!(
        kinds(&plan)[2..4],
        [StepKind::EraseSsd, StepKind::CreatePartition]
    );
}

#[test]
fn consent_to_erase_never_reaches_the_partitions_that_are_there() {
    let plan = shared().with(|s| s.spec.erase_ssd = true).plan().unwrap();
    assert!(!plan.erases());
    let warned = |w: &tandem_api::Warning| w.kind == WarningKind::ErasesSsd;
    assert!(!plan.reply.warnings.iter().any(warned));
}

#[test]
fn where_no_partition_can_be_made_is_refused() {
    let refuses = |kind, change: fn(&mut Scene)| {
        assert_eq!(shared().with(change).refused().0, kind);
    };
    refuses(Kind::SsdTable, |s| s.at("sdb").table_type = "dos".into());
    refuses(Kind::ReadOnly, |s| s.at("sdb").read_only = true);
    refuses(Kind::InvalidArgument, |s| s.spec.ssd = object("sdb1"));
    refuses(Kind::SsdTooSmall, |s| s.spec.partition_bytes = 1);
    refuses(Kind::SsdTooSmall, |s| {
        s.spec.partition_bytes = MINIMUM_SSD_BYTES - 1
    });
    refuses(Kind::SsdNoFreeSpace, |s| s.spec.partition_bytes = u64::MAX);
    refuses(Kind::SsdIsVolume, |s| {
        s.at("sdb").volume = Some("lvm".into())
    });
    refuses(Kind::SsdInUse, |s| {
        s.at("sdb").holders = vec![Holder {
            name: "md0".into(),
            kind: "md".into(),
        }];
    });
    // A partition of the same SSD gains nothing from the rest of that SSD.
    refuses(Kind::SameDevice, |s| {
        s.spec.origin = object("sdb1");
        s.at("sdb1").mounts.clear();
    });
}

#[test]
fn an_ssd_is_shown_with_its_shares_and_its_free_space() {
    let scene = shared().with(|s| {
        let mut part = device("sdb2", 50 * GIB);
        part.table = Some(object("sdb").to_string());
        part.ident.start = 120 * GIB + MIB;
        s.facts.devices.push(part);
    });
    let caches = [(object("sdb2").to_string(), UUID.to_owned())];
    let shown = |scene: &Scene| {
        let ssd = scene.facts.device(object("sdb").as_str()).unwrap();
        layout(ssd, &scene.facts, &caches).unwrap()
    };
    let brief = |part: &SsdPart| (part.start, part.bytes, part.used_for, part.cache.clone());
    let none = String::new;
    assert_eq!(
        shown(&scene).iter().map(brief).collect::<Vec<_>>(),
        [
            (MIB, 100 * GIB, PartUse::Other, none()),
            (100 * GIB + MIB, 20 * GIB, PartUse::Free, none()),
            (120 * GIB + MIB, 50 * GIB, PartUse::Cache, UUID.to_owned()),
            (170 * GIB + MIB, 30 * GIB - 2 * MIB, PartUse::Free, none()),
        ]
    );
    // No partition is made in another table, so no free space is offered there.
    let old = scene.with(|s| s.at("sdb").table_type = "dos".into());
    assert!(
        shown(&old)
            .iter()
            .all(|part| part.used_for != PartUse::Free)
    );
    let empty = Scene::new();
    assert_eq!(shown(&empty)[0].used_for, PartUse::Free);
    let part = scene_part();
    assert_eq!(
        layout(&part, &empty.facts, &[]).unwrap_err().kind,
        Kind::InvalidArgument
    );
}

fn scene_part() -> Device {
    let mut part = device("sdb1", GIB);
    part.table = Some(object("sdb").to_string());
    part
}

#[test]
fn a_logical_volume_can_be_the_ssd() {
    let scene = Scene::new().with(|s| s.at("sdb").volume = Some("lvm".into()));
    assert!(scene.plan().is_ok());
}

#[test]
fn the_partition_goes_with_its_cache() {
    let Action::CreatePartition(pair) = shared().plan().unwrap().actions[2].clone() else {
        panic!("no partition");
    };
    let input = |pair| RemoveInput {
        pair,
        attached: true,
        orphaned: false,
        mapped: true,
        ssd_present: true,
        mounts: &[],
        users: Vec::new(),
        pinned: false,
        unwritten: Unwritten::default(),
        discard: false,
        in_initramfs: false,
        pending: false,
    };
    let plan = remove(input(&pair)).unwrap();
    let freed = [
        StepKind::Detach,
        StepKind::FreeSsd,
        StepKind::DeletePartition,
    ];
    assert_eq!(kinds(&plan)[..3], freed);
    // A partition that was there before stays.
    let own = Pair {
        partition: None,
        ..pair.clone()
    };
    assert!(!kinds(&remove(input(&own)).unwrap()).contains(&StepKind::DeletePartition));
}

/// A USB box with 512-byte sectors that says that 33,553,920 bytes are best: UDisks2 2.9.4 makes a partition where it was
/// asked for, and as large, only on multiples of 524,280 sectors (measured).
#[test]
fn a_partition_is_planned_where_udisks_makes_it_on_a_drive_with_a_strange_best_size() {
    const UNIT: u64 = 524_280 * 512;
    let place = |optimal, bytes| {
        let shared = shared().with(|s| {
            s.at("sdb").optimal_bytes = optimal;
            s.spec.partition_bytes = bytes;
        });
        let plan = shared.plan()?;
        let Action::CreatePartition(pair) = &plan.actions[2] else {
            panic!("{:?}", plan.actions[2]);
        };
        let made = pair.partition.as_ref().unwrap();
        Ok((made.start, made.size, plan.reply.ssd.size))
    };
    let (start, size, shown) = place(33_553_920, 40 * GIB).unwrap();
    assert!(start.is_multiple_of(UNIT) && size.is_multiple_of(UNIT));
    assert!(start >= 100 * GIB + MIB && size > 39 * GIB && size <= 40 * GIB);
    assert_eq!(shown, size, "the plan shows the size that it gets");
    // All of the free space, and less than a partition can have.
    let free = 100 * GIB - 2 * MIB;
    let (start, size, _) = place(33_553_920, free / UNIT * UNIT - UNIT).unwrap();
    assert!(start + size <= 200 * GIB - MIB);
    let refused: Failure = place(33_553_920, UNIT - 1).unwrap_err();
    assert_eq!((refused.kind, refused.needed), (Kind::SsdTooSmall, UNIT));
    // Sizes that 1 MiB is a multiple of, a usual one, and nonsense.
    for optimal in [512, 131_072, MIB, u64::from(u32::MAX) / 512 * 512] {
        let expected = (100 * GIB + MIB, 40 * GIB, 40 * GIB);
        assert_eq!(place(optimal, 40 * GIB).unwrap(), expected, "{optimal}");
    }
    let (start, ..) = place(4 * MIB, 40 * GIB).unwrap();
    assert_eq!(start, 100 * GIB + 4 * MIB);
}
