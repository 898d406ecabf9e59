// SPDX-License-Identifier: GPL-3.0-or-later
//! Plans that give the plain disk back.

use super::*;

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
