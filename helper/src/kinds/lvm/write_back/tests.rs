// SPDX-License-Identifier: GPL-3.0-or-later
//! What is done with a cache of LVM while no program of LVM runs.

use super::*;
use crate::kinds::tests::removal;
use tandem_api::{Kind, OtherKind};

const SUCCEEDED: State = State::Ended(Some(0));
/// LVM was interrupted.
const ABORTED: State = State::Ended(Some(5));
/// LVM was killed.
const KILLED: State = State::Ended(None);
const BEFORE: Before = Before {
    mode: CacheMode::Writeback,
    pool: Some([b'p'; 32]),
    drained: false,
};
const DRAINED: Before = Before {
    drained: true,
    ..BEFORE
};

fn note(stopped: bool) -> Note {
    Note {
        removal: removal(OtherKind::LvmCache),
        stopped,
        pausing: false,
        before: serde_json::to_value(BEFORE).unwrap(),
    }
}

fn kernel(mode: OtherMode) -> Kernel {
    Kernel {
        mode,
        cleans: false,
        unwritten: 0,
    }
}

/// A cache in this mode, for LVM and the kernel.
fn seen(mode: CacheMode, programs: Programs) -> Seen {
    Seen {
        programs,
        volume: Shown::Cache(mode, BEFORE.pool),
        kernel: Some(kernel(mode.shown())),
        said: "  Flushing of vg2/m aborted.\n".into(),
    }
}

/// A cache that a killed program of LVM has left writing back.
fn left_cleaning(programs: Programs) -> Seen {
    Seen {
        kernel: Some(Kernel {
            cleans: true,
            unwritten: 1,
            ..kernel(OtherMode::Writethrough)
        }),
        ..seen(CacheMode::Writeback, programs)
    }
}

/// The end: the kind of failure, and what became of the data.
fn ended(next: Next) -> Result<(), (Kind, DataState)> {
    match next {
        Next::End(end) => end.map_err(|failure| (failure.kind, failure.data)),
        next => panic!("{next:?}"),
    }
}

fn left(next: Next) -> DataState {
    match next {
        Next::Left(failure) => failure.data,
        next => panic!("{next:?}"),
    }
}

#[test]
fn a_mode_that_was_changed_is_put_back_whatever_came_of_the_write_back() {
    for stopped in [false, true] {
        for flush in [SUCCEEDED, ABORTED, KILLED, State::Unknown] {
            let programs = [flush, State::Unknown, State::Unknown];
            let active = seen(CacheMode::Writethrough, programs);
            let inactive = Seen {
                kernel: None,
                ..seen(CacheMode::Writethrough, programs)
            };
            for seen in [active, inactive] {
                let mode = Next::Start(Task::Mode, flush == SUCCEEDED);
                assert_eq!(next(&note(stopped), BEFORE, &seen), mode, "{flush:?}");
            }
        }
    }
    // The kernel may have another mode than LVM.
    let programs = [ABORTED, State::Unknown, State::Unknown];
    let other = Seen {
        kernel: Some(kernel(OtherMode::Writethrough)),
        ..seen(CacheMode::Writeback, programs)
    };
    let mode = Next::Start(Task::Mode, false);
    assert_eq!(next(&note(true), BEFORE, &other), mode);
}

#[test]
fn the_mode_of_another_cache_of_the_volume_is_left_alone() {
    let other = |pool| Seen {
        volume: Shown::Cache(CacheMode::Writethrough, pool),
        ..seen(CacheMode::Writethrough, [State::Unknown; 3])
    };
    for pool in [None, Some([b'q'; 32])] {
        let end = ended(next(&note(false), BEFORE, &other(pool)));
        assert_eq!(end, Err((Kind::StepFailed, DataState::Unwritten)));
    }
    // A new write-back of the other cache begins anew, too.
    let mode = |pool| Before::of(CacheMode::Writethrough, pool, Some(&note(false))).mode;
    assert_eq!(mode(BEFORE.pool), CacheMode::Writeback);
    assert_eq!(mode(Some([b'q'; 32])), CacheMode::Writethrough);
}

#[test]
fn a_success_needs_the_exit_status_and_the_changed_mode() {
    let end = |flush, before, stopped| {
        let programs = [flush, State::Unknown, State::Unknown];
        let seen = seen(CacheMode::Writeback, programs);
        ended(next(&note(stopped), before, &seen))
    };
    for stopped in [false, true] {
        // The request to stop came too late.
        assert_eq!(end(SUCCEEDED, DRAINED, stopped), Ok(()));
        // An earlier process has seen the end.
        assert_eq!(end(State::Unknown, DRAINED, stopped), Ok(()));
    }
    let failed = Err((Kind::StepFailed, DataState::Unwritten));
    for flush in [SUCCEEDED, ABORTED, KILLED, State::Unknown] {
        assert_eq!(end(flush, BEFORE, false), failed, "{flush:?}");
    }
    let cancelled = Err((Kind::Cancelled, DataState::Unwritten));
    assert_eq!(end(ABORTED, BEFORE, true), cancelled);
    // LVM says it has changed the mode, and the kernel still writes back.
    let programs = [SUCCEEDED, State::Unknown, State::Unknown];
    for kernel in [
        kernel(OtherMode::Writeback),
        Kernel {
            cleans: true,
            ..kernel(OtherMode::Writethrough)
        },
    ] {
        let early = Seen {
            kernel: Some(kernel),
            ..seen(CacheMode::Writethrough, programs)
        };
        let mode = Next::Start(Task::Mode, false);
        assert_eq!(next(&note(false), BEFORE, &early), mode);
    }
}

#[test]
fn what_a_killed_program_leaves_is_written_back_again_and_then_the_mode_is_put_back() {
    for stopped in [false, true] {
        let first = left_cleaning([KILLED, State::Unknown, State::Unknown]);
        let again = Next::Start(Task::Again, false);
        assert_eq!(next(&note(stopped), BEFORE, &first), again);
        let programs = [KILLED, SUCCEEDED, State::Unknown];
        let second = seen(CacheMode::Writethrough, programs);
        let mode = Next::Start(Task::Mode, true);
        assert_eq!(next(&note(stopped), BEFORE, &second), mode);
        let third = seen(CacheMode::Writeback, [KILLED, SUCCEEDED, SUCCEEDED]);
        assert_eq!(ended(next(&note(stopped), DRAINED, &third)), Ok(()));
    }
}

#[test]
fn what_cannot_be_put_back_is_left_to_the_next_process() {
    let mode = |before| {
        let seen = seen(
            CacheMode::Writethrough,
            [ABORTED, State::Unknown, State::Ended(Some(5))],
        );
        left(next(&note(false), before, &seen))
    };
    assert_eq!(mode(BEFORE), DataState::Unwritten);
    assert_eq!(mode(DRAINED), DataState::Incomplete);
    let again = left_cleaning([KILLED, ABORTED, State::Unknown]);
    assert_eq!(
        left(next(&note(true), BEFORE, &again)),
        DataState::Unwritten
    );
}

#[test]
fn a_cache_that_was_removed_meanwhile_is_left_alone() {
    for kernel in [None, Some(kernel(OtherMode::Unknown))] {
        let plain = Seen {
            volume: Shown::Plain,
            kernel,
            ..seen(CacheMode::Writeback, [SUCCEEDED; 3])
        };
        let failed = Err((Kind::StepFailed, DataState::OnDisk));
        assert_eq!(ended(next(&note(false), DRAINED, &plain)), failed);
    }
}

#[test]
fn a_mode_that_another_program_has_chosen_meanwhile_stays() {
    let chosen = seen(CacheMode::Passthrough, [SUCCEEDED; 3]);
    assert_eq!(ended(next(&note(false), DRAINED, &chosen)), Ok(()));
    let before = [SUCCEEDED, State::Unknown, State::Unknown];
    let chosen = seen(CacheMode::Passthrough, before);
    assert_eq!(ended(next(&note(false), DRAINED, &chosen)), Ok(()));
}

#[test]
fn the_mode_before_is_that_before_the_first_of_all_changes() {
    let mode = |mode, earlier: Option<&Note>| Before::of(mode, BEFORE.pool, earlier).mode;
    let earlier = note(false);
    for now in CacheMode::ALL {
        assert_eq!(mode(now, None), now);
    }
    // A write-back was not ended.
    let through = CacheMode::Writethrough;
    assert_eq!(mode(through, Some(&earlier)), CacheMode::Writeback);
    // Somebody has changed the mode since.
    let passes = CacheMode::Passthrough;
    assert_eq!(mode(passes, Some(&earlier)), passes);
    // The note of a removal says nothing of a mode.
    let removal = Note {
        before: serde_json::Value::Null,
        ..earlier
    };
    assert_eq!(mode(through, Some(&removal)), through);
}

#[test]
fn a_cache_that_is_not_in_write_back_is_not_changed() {
    let wait = |unwritten, stopped| {
        let kernel = Kernel {
            unwritten,
            ..kernel(OtherMode::Writethrough)
        };
        wait(&note(stopped), Some(kernel))
    };
    assert_eq!(wait(0, false), OtherProgress::Ended(Ok(())));
    assert_eq!(wait(0, true), OtherProgress::Ended(Ok(())));
    assert_eq!(wait(7, false), OtherProgress::Drains(Some(7)));
    let OtherProgress::Ended(Err(failure)) = wait(7, true) else {
        panic!("goes on");
    };
    assert_eq!(failure.kind, Kind::Cancelled);
}

#[test]
fn each_program_has_a_unit_of_its_own_beside_that_of_a_removal() {
    let removal = removal(OtherKind::LvmCache);
    let mut units: Vec<_> = Task::ALL.iter().map(|task| task.unit(&removal)).collect();
    units.push(unit("lvm", &removal));
    assert!(units.iter().all(|unit| unit.starts_with("tandem-lvm-")));
    units.sort_unstable();
    units.dedup();
    assert_eq!(units.len(), 4);
    let runs = |at: usize| {
        let mut programs = [SUCCEEDED, State::Unknown, ABORTED];
        programs[at] = State::Running;
        running(programs)
    };
    assert_eq!([0, 1, 2].map(runs), Task::ALL.map(Some));
    assert_eq!(running([SUCCEEDED, KILLED, State::Unknown]), None);
}
