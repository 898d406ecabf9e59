// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches that dm-cache of the kernel serves.

use super::*;
use crate::model::action::Pair;

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
        refused(|s| s.spec.at_next_start = true),
        unable("at-next-start")
    );
    assert_eq!(
        refused(|s| s.at("sdb").block_bytes = 4096),
        unable("block-size")
    );
    // The running system has to wait for the next start.
    let system = |s: &mut Scene| s.at("sda1").mounts = vec![mount("/", Mounter::Other)];
    assert!(scene().with(system).plan().is_err());
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
