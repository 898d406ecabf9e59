// SPDX-License-Identifier: GPL-3.0-or-later
//! Plans that give the plain disk back.

use super::*;

/// An assembled cache with no data on its SSD only, whose file system no program uses.
fn attached<'a>(pair: &'a Pair, mounts: &'a [Mount]) -> RemoveInput<'a> {
    RemoveInput {
        pair,
        attached: true,
        mapped: true,
        orphaned: false,
        ssd_present: true,
        mounts,
        users: Vec::new(),
        pinned: false,
        unwritten: Unwritten::default(),
        pending: false,
        in_initramfs: false,
        discard: false,
    }
}

fn kinds(plan: &Plan) -> Vec<StepKind> {
    plan.reply.steps.iter().map(|s| s.kind).collect()
}

#[test]
fn removing_lets_the_ssd_go_first_and_ends_on_the_plain_disk() {
    let plan = Scene::new().plan().unwrap();
    let Some(Action::Map(pair)) = plan.actions.iter().find(|a| matches!(a, Action::Map(_))) else {
        panic!("no mapping");
    };
    let mounts = [mount("/media/anna/Data", Mounter::Udisks(1000))];
    let input = |users: Vec<FileUser>| RemoveInput {
        users,
        ..attached(pair, &mounts)
    };
    let remove = |input| remove(input).unwrap();
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
    // What holds its disk back since the start goes as well.
    let freed = [StepKind::FreeSsd, StepKind::Unmap];
    assert_eq!(kinds(&remove(stopped)), freed);
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

#[test]
fn what_is_on_the_ssd_only_is_written_first_or_given_up_by_name() {
    let plan = Scene::new().plan().unwrap();
    let pair = plan.actions.iter().find_map(Action::pair).unwrap();
    let input = |unwritten: Unwritten, discard| RemoveInput {
        unwritten,
        discard,
        ..attached(pair, &[])
    };
    let dirty = |stuck: Option<&str>| Unwritten {
        possible: true,
        bytes: 4096,
        stuck: stuck.map(str::to_owned),
        refused: false,
    };
    let drains = remove(input(dirty(None), false)).unwrap();
    let first = &drains.reply.steps[0];
    assert_eq!((first.kind, first.bytes), (StepKind::Drain, 4096));
    let lost = |plan: &Plan| plan.reply.lost_bytes();
    assert_eq!(lost(&drains), 0, "what is written first is not lost");
    assert!(!drains.discards);

    let refused = remove(input(dirty(Some("ssd-missing")), false)).unwrap_err();
    assert_eq!(
        (refused.kind, refused.name.as_str(), refused.needed),
        (Kind::UnwrittenData, "ssd-missing", 4096)
    );
    let given_up = remove(input(dirty(Some("ssd-missing")), true)).unwrap();
    assert!(given_up.discards);
    assert!(
        given_up
            .reply
            .steps
            .iter()
            .all(|s| s.kind != StepKind::Drain)
    );
    let kinds: Vec<_> = given_up.reply.warnings.iter().map(|w| w.kind).collect();
    assert!(kinds.contains(&WarningKind::LosesUnwritten));
    // This is another plan, although the SSD is gone and the steps are those of a clean one.
    let gone = |discard| RemoveInput {
        ssd_present: false,
        ..input(dirty(Some("ssd-missing")), discard)
    };
    let clean = RemoveInput {
        ssd_present: false,
        ..input(Unwritten::default(), false)
    };
    assert!(
        !remove(clean)
            .unwrap()
            .does_the_same(&remove(gone(true)).unwrap())
    );

    // What the disk has refused is tried again, or given up.
    let refused = || Unwritten {
        refused: true,
        ..dirty(None)
    };
    let kind = |plan: &Plan| plan.reply.steps[0].kind;
    assert_eq!(
        kind(&remove(input(refused(), false)).unwrap()),
        StepKind::Drain
    );
    let given_up = remove(input(refused(), true)).unwrap();
    assert_eq!(kind(&given_up), StepKind::Unmap);
    assert!(given_up.discards);
    assert_eq!(lost(&given_up), 4096, "the question can say how much");

    // What can be written, or is not there, cannot be given up.
    for unwritten in [dirty(None), Unwritten::default()] {
        let refused = remove(input(unwritten, true)).unwrap_err();
        assert_eq!(refused.kind, Kind::WrongState);
    }
}

#[test]
fn what_is_given_up_is_not_taken_from_under_a_mounted_file_system_unless_it_is_in_use() {
    let plan = Scene::new().plan().unwrap();
    let pair = plan.actions.iter().find_map(Action::pair).unwrap();
    let mounts = [mount("/media/anna/Data", Mounter::Udisks(1000))];
    let input = |users: Vec<FileUser>, pinned| RemoveInput {
        users,
        pinned,
        unwritten: Unwritten {
            possible: true,
            bytes: 4096,
            stuck: None,
            refused: true,
        },
        discard: true,
        ..attached(pair, &mounts)
    };
    let warned = |plan: &Plan| {
        plan.reply
            .warnings
            .iter()
            .map(|w| w.kind)
            .collect::<Vec<_>>()
    };
    // The file system is not mounted again either: the file system has to be checked.
    let idle = remove(input(Vec::new(), false)).unwrap();
    assert_eq!(
        kinds(&idle),
        [StepKind::Unmount, StepKind::Unmap, StepKind::FreeSsd]
    );
    assert_eq!(idle.reply.lost_bytes(), 4096);
    let losing = WarningKind::LosesUnwritten;
    assert_eq!(warned(&idle), [losing, WarningKind::StaysUnmounted]);
    // A user whose session uses the file system can remove the cache nevertheless.
    let user = FileUser {
        pid: 7,
        command: "bash".into(),
        uid: 1,
        user: "anna".into(),
    };
    for (users, pinned) in [(vec![user], false), (Vec::new(), true)] {
        let busy = remove(input(users.clone(), pinned)).unwrap();
        assert_eq!(kinds(&busy), [StepKind::Detach, StepKind::FreeSsd]);
        assert_eq!(busy.reply.lost_bytes(), 4096);
        assert_eq!(warned(&busy), [losing, WarningKind::LosesInUse]);
        assert_eq!(busy.reply.warnings[1].users, users);
    }
}
