// SPDX-License-Identifier: GPL-3.0-or-later
//! Another share of an SSD for a cache.

use super::*;
use crate::model::action::{PARTITION_TYPE, Pair, Partition};

const MIB: u64 = 1 << 20;
/// The last MiB of the SSD is that of the table's copy.
const END: u64 = 200 * GIB - MIB;

/// The SSD `sdb` with partitions at these places: start and end in bytes, and whether a cache of ours is there. The
/// first one that is ours is the SSD of the pair.
fn shared(parts: &[(u64, u64, bool)]) -> (Scene, Pair) {
    let mut scene = Scene::new();
    let ssd = scene.at("sdb");
    ssd.partitioned = true;
    ssd.table_type = "gpt".into();
    let disk = ssd.ident.clone();
    for (number, (start, end, is_cache)) in parts.iter().enumerate() {
        let mut part = device(&format!("sdb{number}"), end - start);
        part.table = Some(object("sdb").to_string());
        part.ident.start = *start;
        part.ident.part_uuid = format!("bb-{number:02}");
        if *is_cache {
            part.part_type = PARTITION_TYPE.into();
        }
        scene.facts.devices.push(part);
    }
    let own = parts.iter().position(|part| part.2).unwrap();
    let ssd = scene.at(&format!("sdb{own}")).ident.clone();
    let partition = Partition {
        disk,
        start: ssd.start,
        size: ssd.text.size,
        new_table: true,
    };
    let pair = Pair {
        origin: scene.at("sda1").ident.clone(),
        ssd,
        partition: Some(Box::new(partition)),
        ..Pair::nowhere(Mode::Writethrough)
    };
    (scene, pair)
}

fn input(pair: &Pair, bytes: u64) -> ResizeInput<'_> {
    ResizeInput {
        pair,
        bytes,
        mount_points: vec!["/media/anna/Data".into()],
        unwritten: Unwritten::default(),
        in_initramfs: false,
        keeps: true,
    }
}

/// Start and size of the new partition.
fn place(parts: &[(u64, u64, bool)], bytes: u64) -> Result<(u64, u64), Failure> {
    let (scene, pair) = shared(parts);
    resize(input(&pair, bytes), &scene.facts).map(|plan| {
        let new = plan.actions.iter().find_map(|action| match action {
            Action::CreatePartition(pair) | Action::ResizePartition(pair) => {
                pair.partition.as_deref()
            }
            _ => None,
        });
        let new = new.unwrap();
        (new.start, new.size)
    })
}

/// A share that cannot grow in its place.
fn enclosed() -> (Scene, Pair) {
    shared(&[
        (MIB, 50 * GIB, true),
        (50 * GIB, 60 * GIB, true),
        (199 * GIB, END, false),
    ])
}

#[test]
fn a_new_place_is_a_new_partition_under_a_disk_that_stays_in_use() {
    let (scene, pair) = enclosed();
    let plan = resize(input(&pair, 80 * GIB + 1), &scene.facts).unwrap();
    let steps: Vec<_> = plan.reply.steps.iter().map(|s| (s.kind, s.bytes)).collect();
    assert_eq!(
        steps,
        [
            (StepKind::Detach, 0),
            (StepKind::FreeSsd, 0),
            (StepKind::DeletePartition, 50 * GIB - MIB),
            (StepKind::CreatePartition, 80 * GIB),
            (StepKind::Map, plan.reply.cache_bytes),
        ]
    );
    assert_eq!(plan.reply.ssd.size, 80 * GIB);
    assert_eq!(plan.reply.mount_points, ["/media/anna/Data"]);
    let warnings: Vec<_> = plan.reply.warnings.iter().map(|w| w.kind).collect();
    assert_eq!(warnings, [WarningKind::StartsEmpty]);
    // The table stays until the cache is removed for good.
    for action in &plan.actions {
        let table = action.pair().unwrap().partition.as_ref().unwrap().new_table;
        let is_new = matches!(action, Action::CreatePartition(_) | Action::Map(_));
        assert_eq!(table, is_new, "{action:?}");
    }
}

/// The steps of a plan, and the size that each step gives a device.
fn steps(plan: &Plan) -> Vec<(StepKind, u64)> {
    let size = |action: &Action| action.pair().map_or(0, |pair| pair.ssd.text.size);
    let steps = plan.actions.iter();
    steps.map(|action| (action.kind(), size(action))).collect()
}

#[test]
fn a_share_that_stays_in_its_place_keeps_its_cache() {
    use StepKind::{Drain, ResizeCache, ResizePartition};
    let (scene, mut pair) = shared(&[(MIB, 50 * GIB, true)]);
    let now = pair.ssd.text.size;
    // The partition is never smaller than the cache on it.
    let larger = resize(input(&pair, 80 * GIB + 1), &scene.facts).unwrap();
    let size = 80 * GIB;
    assert_eq!(
        steps(&larger),
        [(ResizePartition, size), (ResizeCache, size)]
    );
    let smaller = resize(input(&pair, 20 * GIB), &scene.facts).unwrap();
    let size = 20 * GIB;
    assert_eq!(
        steps(&smaller),
        [(ResizeCache, size), (ResizePartition, size)]
    );
    for plan in [&larger, &smaller] {
        assert!(plan.reply.warnings.is_empty());
        for action in &plan.actions {
            let to = action.pair().unwrap();
            assert_eq!(to.ssd.part_uuid, pair.ssd.part_uuid, "the same partition");
            assert_eq!(to.ssd.start, MIB);
            let made = to.partition.as_ref().unwrap();
            assert_eq!(
                (made.start, made.size, made.new_table),
                (MIB, to.ssd.text.size, true)
            );
        }
    }
    pair.mode = Mode::Writeback;
    let mut dirty = input(&pair, 20 * GIB);
    dirty.unwritten.possible = true;
    let plan = resize(dirty, &scene.facts).unwrap();
    assert_eq!(steps(&plan)[0], (Drain, now));
    assert_eq!(steps(&plan)[1..], steps(&smaller));
    // An older module knows no such thing, nor does dm-cache.
    pair.mode = Mode::Writethrough;
    let mut old = input(&pair, 20 * GIB);
    old.keeps = false;
    let plan = resize(old, &scene.facts).unwrap();
    assert_eq!(plan.reply.steps[0].kind, StepKind::Detach);
}

#[test]
fn a_dirty_cache_is_drained_first_and_gets_its_mode_last() {
    let (scene, mut pair) = enclosed();
    pair.mode = Mode::Writeback;
    let mut dirty = input(&pair, 80 * GIB);
    dirty.unwritten = Unwritten {
        possible: true,
        bytes: 4096,
        ..Unwritten::default()
    };
    let plan = resize(dirty, &scene.facts).unwrap();
    let steps = &plan.reply.steps;
    assert_eq!((steps[0].kind, steps[0].bytes), (StepKind::Drain, 4096));
    assert_eq!(steps.last().unwrap().kind, StepKind::EnableWriteback);
    let mut stuck = input(&pair, 80 * GIB);
    stuck.unwritten = Unwritten {
        possible: true,
        stuck: Some("ssd-gone-dirty".into()),
        ..Unwritten::default()
    };
    let refused = resize(stuck, &scene.facts).unwrap_err();
    assert_eq!(
        (refused.kind, refused.name.as_str()),
        (Kind::UnwrittenData, "ssd-gone-dirty")
    );
}

#[test]
fn the_new_partition_leaves_the_rest_where_caches_can_use_it() {
    let own = (50 * GIB, 100 * GIB, true);
    // Alone: where it is, so that its copies stay; at the beginning of its space, if it does not fit there.
    assert_eq!(place(&[own], 20 * GIB), Ok((50 * GIB, 20 * GIB)));
    assert_eq!(place(&[own], 149 * GIB), Ok((50 * GIB, 149 * GIB)));
    assert_eq!(place(&[own], END - MIB), Ok((MIB, END - MIB)));
    // Behind a cache: at the end, so that both can use the rest.
    let parts = [own, (MIB, 50 * GIB, true)];
    assert_eq!(place(&parts, 20 * GIB), Ok((END - 20 * GIB, 20 * GIB)));
    // Behind another partition, and between two caches: at the beginning.
    let parts = [own, (MIB, 50 * GIB, false)];
    assert_eq!(place(&parts, 20 * GIB), Ok((50 * GIB, 20 * GIB)));
    let parts = [own, (MIB, 50 * GIB, true), (100 * GIB, 120 * GIB, true)];
    assert_eq!(place(&parts, 20 * GIB), Ok((50 * GIB, 20 * GIB)));
    // The part moves only if it does not fit: 50 GiB here, 80 GiB behind the other cache.
    assert_eq!(place(&parts, 60 * GIB), Ok((END - 60 * GIB, 60 * GIB)));
    let refused = place(&parts, 100 * GIB).unwrap_err();
    assert_eq!(
        (refused.kind, refused.needed, refused.actual),
        (Kind::SsdNoFreeSpace, 100 * GIB, 80 * GIB - MIB)
    );
}

#[test]
fn other_partitions_and_other_sizes_are_refused() {
    let (scene, pair) = shared(&[(MIB, 50 * GIB, true)]);
    let refused = |pair: &Pair, bytes: u64| {
        let failure = resize(input(pair, bytes), &scene.facts).unwrap_err();
        (failure.kind, failure.name)
    };
    let of_user = Pair {
        partition: None,
        ..pair.clone()
    };
    let own = "own-partition".to_owned();
    assert_eq!(refused(&of_user, GIB), (Kind::NotResizable, own));
    assert_eq!(refused(&pair, MINIMUM_SSD_BYTES - 1).0, Kind::SsdTooSmall);
    assert_eq!(refused(&pair, u64::MAX).0, Kind::SsdNoFreeSpace);
    let same = pair.ssd.text.size + 5;
    assert_eq!(refused(&pair, same).0, Kind::InvalidArgument);
    let mut gone = pair.clone();
    gone.ssd.part_uuid = "cc-01".into();
    assert_eq!(refused(&gone, GIB).0, Kind::DeviceGone);
    let mut system = input(&pair, GIB);
    system.in_initramfs = true;
    let failure = resize(system, &scene.facts).unwrap_err();
    assert_eq!(
        (failure.kind, failure.name.as_str()),
        (Kind::NotResizable, "system")
    );
    let old = scene.with(|s| s.at("sdb").table_type = "dos".into());
    let failure = resize(input(&pair, GIB), &old.facts).unwrap_err();
    assert_eq!(failure.kind, Kind::SsdTable);
}
