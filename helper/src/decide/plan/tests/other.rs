// SPDX-License-Identifier: GPL-3.0-or-later
//! The plan for a cache of another system names its steps, or is refused with the reason.

use super::*;
use crate::model::removal::OtherTask;
use tandem_api::{OtherCache, OtherKind, OtherMode, OtherState, StepKind};

fn facts() -> Facts {
    Facts {
        devices: vec![device("sda", 1 << 40), device("sdb", 1 << 38)],
        ..Facts::default()
    }
}

fn cache() -> OtherCache {
    let text = |name: &str| device(name, 1 << 40).ident.text;
    OtherCache {
        id: format!("LVM-{}", "a1".repeat(32)),
        mapped: text("md0").object,
        mount_points: vec!["/srv".into()],
        disks: vec![text("sda")],
        ssds: vec![text("sdb")],
        cache_bytes: 1 << 30,
        used_bytes: 1 << 20,
        unwritten_bytes: 1 << 16,
        ..OtherCache::empty(OtherKind::LvmCache, "films/my-movies")
    }
}

fn planned(cache: &OtherCache) -> Result<Vec<(StepKind, u64)>, (Kind, String)> {
    let planned = super::super::end_other(cache, &facts(), OtherTask::Remove, 1000);
    let (plan, removal) = planned.map_err(|failure| (failure.kind, failure.name))?;
    assert_eq!(removal.steps, plan.reply.steps);
    assert_eq!((removal.name, removal.owner), (cache.name.clone(), 1000));
    assert_eq!((plan.uuid, plan.actions.len()), (cache.id.clone(), 0));
    Ok(plan.reply.steps.iter().map(|s| (s.kind, s.bytes)).collect())
}

#[test]
fn what_the_disk_lacks_is_written_back_first() {
    let both = [
        (StepKind::Drain, 1 << 16),
        (StepKind::Detach, 0),
        (StepKind::FreeSsd, 0),
    ];
    assert_eq!(planned(&cache()), Ok(both.to_vec()));
    let clean = OtherCache {
        unwritten_bytes: 0,
        state: OtherState::Cleaning,
        ..cache()
    };
    assert_eq!(planned(&clean), Ok(both[1..].to_vec()));
}

#[test]
fn without_its_ssd_nothing_is_removed_whatever_the_mode() {
    let missing = || Err((Kind::OtherNotRemovable, "ssd-missing".to_owned()));
    for mode in [OtherMode::Writethrough, OtherMode::Writeback] {
        let without = OtherCache {
            state: OtherState::WithoutSsd,
            mode,
            ..cache()
        };
        assert_eq!(planned(&without), missing());
        let unnamed = OtherCache {
            ssds: vec![],
            mode,
            ..cache()
        };
        assert_eq!(planned(&unnamed), missing());
    }
}

#[test]
fn only_whole_volumes_of_lvm_with_known_devices_are_removed() {
    type Change = fn(&mut OtherCache);
    let changes: [(&str, Change); 7] = [
        ("system", |c| c.kind = OtherKind::DmWriteboost),
        ("system", |c| c.kind = OtherKind::RapidDisk),
        ("failed", |c| c.state = OtherState::Failed),
        ("volume", |c| c.id.push_str("-real")),
        ("volume", |c| c.name = "films".into()),
        ("volume", |c| c.name = "-films/--force".into()),
        ("failed", |c| c.disks.clear()),
    ];
    for (name, change) in changes {
        let mut changed = cache();
        change(&mut changed);
        let refused = Err((Kind::OtherNotRemovable, name.to_owned()));
        assert_eq!(planned(&changed), refused, "{changed:?}");
    }
    let mut gone = cache();
    gone.ssds[0].object = device("sdz", 1 << 38).ident.text.object;
    assert_eq!(planned(&gone), Err((Kind::DeviceGone, String::new())));
}

#[test]
fn what_can_write_back_alone_has_one_step() {
    let planned = |kind| {
        let cache = OtherCache { kind, ..cache() };
        let planned = super::super::end_other(&cache, &facts(), OtherTask::WriteBack, 1000);
        let steps = |plan: Plan| plan.reply.steps.iter().map(|s| s.kind).collect::<Vec<_>>();
        planned
            .map(|(plan, _)| (plan.kind, steps(plan)))
            .map_err(|failure| failure.name)
    };
    let drains = Ok((JobKind::Flush, vec![StepKind::Drain]));
    for kind in OtherKind::ALL {
        let expected = match kind.can_write_back() {
            true => drains.clone(),
            false => Err("system".to_owned()),
        };
        assert_eq!(planned(*kind), expected, "{kind:?}");
    }
}

#[test]
fn a_mapping_that_the_running_system_needs_is_not_made_to_wait() {
    let mapping = |kind, points: &[&str]| OtherCache {
        kind,
        id: "slow".into(),
        name: "slow".into(),
        mapped: device("md1", 1 << 40).ident.text.object,
        mount_points: points.iter().map(|&point| point.to_owned()).collect(),
        ..cache()
    };
    let bare = [OtherKind::DmCache, OtherKind::DmWritecache];
    let refused = || Err((Kind::OtherNotRemovable, "running-system".to_owned()));
    let mut facts = facts();
    for kind in bare {
        assert!(planned(&mapping(kind, &["/srv"])).is_ok());
        assert_eq!(planned(&mapping(kind, &["/srv", "/var"])), refused());
    }
    facts.devices.push(device("md1", 1 << 40));
    // bcache and LVM make no request wait for this service.
    assert!(planned(&mapping(OtherKind::Bcache, &["/"])).is_ok());
    facts.devices[2].holders.push(Holder {
        name: "dm-4".into(),
        kind: "luks".into(),
    });
    for kind in bare {
        let above = super::super::end_other(&mapping(kind, &[]), &facts, OtherTask::Remove, 1000);
        let failure = above.unwrap_err();
        assert_eq!(failure.name, "running-system");
    }
}
