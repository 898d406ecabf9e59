// SPDX-License-Identifier: GPL-3.0-or-later
//! The model itself.

use super::*;

fn value(op: OpId) -> Stamp {
    Stamp::new(op, 0, 0)
}

fn written(writes: &[(OpId, Time, Time)]) -> Oracle {
    let mut oracle = Oracle::new(1);
    for &(op, start, _) in writes {
        oracle.write_starts(op, 0, 1, start);
    }
    for &(op, _, end) in writes {
        oracle.write_ends(op, 0, 1, end).unwrap();
    }
    oracle
}

#[test]
fn a_read_beside_a_write_may_return_either_value() {
    for op in [0, 1] {
        let mut oracle = Oracle::new(1);
        oracle.write_starts(1, 0, 1, 10);
        oracle.saw(0, value(op), 11, 12).unwrap();
        oracle.write_ends(1, 0, 1, 13).unwrap();
    }
}

#[test]
fn the_old_value_after_the_acknowledgement_is_found() {
    let mut oracle = written(&[(1, 10, 12)]);
    assert!(oracle.saw(0, value(0), 13, 14).is_err());
}

#[test]
fn the_old_value_after_somebody_saw_the_new_one_is_found() {
    let mut oracle = Oracle::new(1);
    oracle.write_starts(1, 0, 1, 10);
    oracle.saw(0, value(1), 11, 12).unwrap();
    assert!(oracle.saw(0, value(0), 13, 14).is_err());
}

#[test]
fn two_writes_at_once_may_settle_either_way_but_only_once() {
    for (first, second) in [(1, 2), (2, 1)] {
        let mut oracle = written(&[(1, 10, 20), (2, 11, 21)]);
        oracle.saw(0, value(first), 30, 31).unwrap();
        assert!(oracle.saw(0, value(second), 32, 33).is_err());
    }
}

#[test]
fn a_failed_write_may_show_up_late_but_not_go_away_again() {
    let mut oracle = Oracle::new(1);
    oracle.write_starts(1, 0, 1, 10);
    oracle.saw(0, value(0), 20, 21).unwrap();
    oracle.saw(0, value(1), 30, 31).unwrap();
    assert!(oracle.saw(0, value(0), 40, 41).is_err());
}

#[test]
fn another_sectors_data_and_two_versions_are_found() {
    let mut oracle = Oracle::new(2);
    assert!(oracle.saw(0, Stamp::new(0, 1, 0), 1, 2).is_err());
    assert!(oracle.saw(0, Stamp::JUNK, 1, 2).is_err());
    oracle.write_starts(1, 0, 1, 10);
    oracle.saw(0, Stamp::new(1, 0, 1), 11, 12).unwrap();
    assert!(oracle.saw(0, Stamp::new(1, 0, 0), 13, 14).is_err());
}

#[test]
fn a_flush_keeps_the_last_value_and_what_may_be_later() {
    let mut oracle = written(&[(1, 10, 12), (2, 14, 16)]);
    oracle.write_starts(3, 0, 1, 17);
    oracle.flushed(20, 20 + 1, NEVER);
    assert!(oracle.restarted(0, value(1), 30, true).is_err());
    for op in [2, 3] {
        let mut oracle = written(&[(1, 10, 12), (2, 14, 16)]);
        oracle.write_starts(3, 0, 1, 17);
        oracle.flushed(20, 20 + 1, NEVER);
        oracle.restarted(0, value(op), 30, true).unwrap();
        assert!(oracle.restarted(0, value(5 - op), 31, true).is_err());
    }
}

#[test]
fn without_a_flush_all_may_come_back_until_it_was_found() {
    for op in [0, 1, 2] {
        let mut oracle = written(&[(1, 10, 12), (2, 14, 16)]);
        oracle.restarted(0, value(op), 30, true).unwrap();
        assert!(oracle.saw(0, value((op + 1) % 3), 31, 32).is_err());
        assert!(oracle.restarted(0, value((op + 2) % 3), 33, true).is_err());
    }
}

#[test]
fn a_flush_that_began_before_the_acknowledgement_says_nothing() {
    let mut oracle = written(&[(1, 10, 12)]);
    oracle.flushed(11, 11 + 1, NEVER);
    oracle.restarted(0, value(0), 30, true).unwrap();
}

#[test]
fn who_began_to_read_before_a_flush_may_see_the_old_value() {
    let mut oracle = Oracle::new(1);
    oracle.write_starts(1, 0, 1, 10);
    oracle.write_ends(1, 0, 1, 12).unwrap();
    oracle.flushed(13, 14, 11);
    oracle.saw(0, value(0), 11, 15).unwrap();
    oracle.flushed(16, 17, 16);
    assert!(oracle.saw(0, value(0), 18, 19).is_err());
    assert!(oracle.restarted(0, value(0), 30, true).is_err());
}

#[test]
fn a_flush_owes_nothing_to_a_write_that_was_only_seen() {
    let mut oracle = Oracle::new(1);
    oracle.write_starts(1, 0, 1, 10);
    oracle.saw(0, value(1), 11, 12).unwrap();
    oracle.flushed(13, 14, NEVER);
    oracle.restarted(0, value(0), 30, true).unwrap();
}

#[test]
fn fua_takes_out_what_came_before_it() {
    let mut oracle = written(&[(1, 10, 12), (2, 14, 16)]);
    oracle.forced(2, 0, 1, 17, NEVER);
    assert!(oracle.restarted(0, value(1), 30, true).is_err());
}

#[test]
fn of_two_writes_at_once_the_one_that_was_read_is_kept() {
    let mut oracle = written(&[(1, 10, 20), (2, 11, 21)]);
    oracle.saw(0, value(1), 22, 23).unwrap();
    oracle.flushed(24, 24 + 1, NEVER);
    assert!(oracle.restarted(0, value(2), 30, true).is_err());
}

#[test]
fn when_the_machine_dies_twice_the_value_stays() {
    let mut oracle = written(&[(1, 10, 12)]);
    oracle.restarted(0, value(0), 20, false).unwrap();
    assert!(oracle.restarted(0, value(1), 30, false).is_err());
    oracle.restarted(0, value(1), 40, true).unwrap();
}

#[test]
fn when_nothing_is_under_way_nothing_shows_up_late() {
    let mut oracle = Oracle::new(1);
    oracle.write_starts(1, 0, 1, 10);
    oracle.quiet(0, value(0), 20).unwrap();
    assert!(oracle.saw(0, value(1), 23, 24).is_err());
    oracle.restarted(0, value(1), 30, true).unwrap();
    oracle.flushed(40, 40 + 1, NEVER);
}

#[test]
fn what_did_not_happen_is_no_reason_to_forget_what_did() {
    let mut oracle = Oracle::new(1);
    oracle.write_starts(1, 0, 1, 10);
    oracle.quiet(0, value(0), 20).unwrap();
    oracle.flushed(30, 30 + 1, NEVER);
    assert!(oracle.restarted(0, value(1), 40, true).is_err());
    oracle.restarted(0, value(0), 41, true).unwrap();
}
