// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that dm-cache of the kernel serves.

use super::*;
use crate::model::action::{Action, Pair};
use tandem_api::OwnedObjectPath;

fn scene() -> Scene {
    Scene::new().with(|s| s.spec.target = Target::DmCache)
}

#[test]
fn the_module_is_not_needed_and_only_one_mode_is_offered() {
    let plan = scene().plan().unwrap();
    let kinds =
        |plan: &Plan| -> Vec<StepKind> { plan.reply.steps.iter().map(|s| s.kind).collect() };
    let own = Scene::new().plan().unwrap();
    assert!(kinds(&own).contains(&StepKind::LoadModule));
    let without: Vec<_> = kinds(&own)
        .into_iter()
        .filter(|k| *k != StepKind::LoadModule)
        .collect();
    assert_eq!(kinds(&plan), without);
    let refused = plan.reply.refused_modes;
    assert!(refused.iter().all(|r| r.reason == ModeRefusal::Target));
    let modes: Vec<_> = refused.iter().map(|r| r.mode).collect();
    assert_eq!(modes, [Mode::Writeback, Mode::Writearound]);
    for mode in modes {
        let failure = scene().with(|s| s.spec.mode = mode).plan().unwrap_err();
        assert_eq!(failure.kind, Kind::ModeRefused);
        assert_eq!(failure.name, ModeRefusal::Target.as_str());
    }
}

#[test]
fn what_dm_cache_cannot_do_is_refused_with_its_reason() {
    let refused = |change: fn(&mut Scene)| {
        let failure = scene().with(change).plan().unwrap_err();
        (failure.kind, failure.name)
    };
    let unable = |name: &str| (Kind::TargetUnable, name.to_owned());
    assert_eq!(
        refused(|s| s.at("sdb").block_bytes = 4096),
        unable("block-size")
    );
    // The running system has to wait for the next start.
    let system = |s: &mut Scene| s.at("sda1").mounts = vec![mount("/", Mounter::Other)];
    assert!(scene().with(system).plan().is_err());
}

#[test]
fn a_disk_that_stays_in_use_gets_its_cache_at_the_next_start() {
    let at = |point| later::in_use_at(point).with(|s| s.spec.target = Target::DmCache);
    for (point, steps) in [
        ("/home", &[StepKind::Prepare][..]),
        ("/", &[StepKind::Prepare, StepKind::UpdateInitramfs]),
    ] {
        let plan = at(point).plan().unwrap();
        let kinds: Vec<_> = plan.reply.steps.iter().map(|s| s.kind).collect();
        assert_eq!(kinds, steps, "{point}");
        assert!(plan.reply.at_next_start);
        let of_kernel = |action: &Action| match action {
            Action::Prepare(pair) => pair.target == Target::DmCache,
            _ => true,
        };
        assert!(plan.actions.iter().all(of_kernel));
        for mode in [Mode::Writeback, Mode::Writearound] {
            let failure = at(point).with(|s| s.spec.mode = mode).plan().unwrap_err();
            assert_eq!(failure.name, ModeRefusal::Target.as_str(), "{mode}");
        }
        let blocks = at(point).with(|s| s.at("sdb").block_bytes = 4096);
        assert_eq!(blocks.plan().unwrap_err().kind, Kind::TargetUnable);
    }
}

#[test]
fn what_starts_the_machine_is_refused_whatever_serves_the_cache() {
    let refused = |point, change: fn(&mut Scene)| {
        let scene = later::in_use_at(point).with(|s| s.spec.target = Target::DmCache);
        scene.with(change).plan().unwrap_err().kind
    };
    let grub = |s: &mut Scene| {
        s.at("sda1").number = "8:1".into();
        s.facts.grub_disks = ["8:1".to_owned()].into();
    };
    assert_eq!(refused("/", grub), Kind::OriginGrub);
    assert_eq!(refused("/boot", |_| ()), Kind::OriginBoot);
    let no_tool = |s: &mut Scene| s.facts.initramfs = false;
    assert_eq!(refused("/", no_tool), Kind::NotFoundAtStart);
    let volume = |s: &mut Scene| s.at("sda1").ident.hardware = "LVM-0b".into();
    assert_eq!(refused("/", volume), Kind::NotFoundAtStart);
    let memory = |s: &mut Scene| {
        s.spec.memory_bytes = 1 << 30;
        s.spec.ssd = OwnedObjectPath::default();
    };
    assert_eq!(refused("/", memory), Kind::MemoryUnable);
}

#[test]
fn a_start_of_dm_cache_loads_no_module() {
    let own = Pair::nowhere(Mode::Writethrough);
    let of_kernel = Pair {
        target: Target::DmCache,
        ..own.clone()
    };
    assert_eq!(plan_of_start(&own), 1);
    assert_eq!(plan_of_start(&of_kernel), 0);
    // Records of earlier versions do not name the target.
    let text = serde_json::to_string(&own).unwrap();
    assert!(!text.contains("target"), "{text}");
    assert_eq!(serde_json::from_str::<Pair>(&text).unwrap(), own);
    let text = serde_json::to_string(&of_kernel).unwrap();
    assert_eq!(serde_json::from_str::<Pair>(&text).unwrap(), of_kernel);
}

/// Steps of a start that load the module.
fn plan_of_start(pair: &Pair) -> usize {
    let steps = crate::decide::plan::assemble(pair, &[]).reply.steps;
    steps
        .iter()
        .filter(|s| s.kind == StepKind::LoadModule)
        .count()
}
