// SPDX-License-Identifier: GPL-3.0-or-later
//! Tables that are loaded in place of the kernel.

use super::hold::{beside, hold_each};
use super::map::load_checked;
use super::*;
use std::cell::RefCell;

fn disk(device: &str) -> Linear {
    Linear {
        device: device.to_owned(),
        sectors: 8,
    }
}

/// The disks that are held in the end, and whether that is enough; `busy` can never be held.
fn held(disks: &[&str], needed: usize, before: &[&str], busy: &str) -> (Vec<String>, bool) {
    let before: Vec<_> = before.iter().map(|&d| d.to_owned()).collect();
    let holding = RefCell::new(before.clone());
    let load = |table: &[Linear]| {
        let now: Vec<_> = table.iter().map(|d| d.device.clone()).collect();
        if now.iter().any(|d| d == busy) {
            return Err(other("load the table", "busy"));
        }
        let kept = before
            .iter()
            .all(|d| now.contains(d) || !disks.contains(&d.as_str()));
        assert!(kept, "a held disk is let go for a moment: {now:?}");
        *holding.borrow_mut() = now;
        Ok(())
    };
    let wanted: Vec<_> = disks.iter().map(|d| disk(d)).collect();
    let enough = hold_each(&wanted, needed, &before, load).is_ok();
    (holding.into_inner(), enough)
}

// promise 32: programs/tandem_helper::machine::dm::control::tests::a_disk_is_held_beside_its_clone_and_neither_is_let_go_for_the_other
#[test]
fn a_disk_is_held_beside_its_clone_and_neither_is_let_go_for_the_other() {
    let both = |enough| (vec!["8:1".to_owned(), "8:33".to_owned()], enough);
    let one = |disk: &str, enough| (vec![disk.to_owned()], enough);
    assert_eq!(held(&["8:1", "8:33"], 1, &[], ""), both(true));
    assert_eq!(held(&["8:1", "8:33"], 1, &["8:1"], ""), both(true));
    assert_eq!(held(&["8:1", "8:33"], 2, &["8:1", "8:33"], ""), both(true));
    // A copy in use keeps no disk from being held; one of two that may both be the disk does not suffice.
    assert_eq!(
        held(&["8:1", "8:33"], 1, &["8:1"], "8:33"),
        one("8:1", true)
    );
    assert_eq!(held(&["8:1", "8:33"], 2, &[], "8:33"), one("8:1", false));
    assert_eq!(
        held(&["8:1", "8:33"], 1, &["8:33"], "8:1"),
        one("8:33", false)
    );
    let three = ["8:1", "8:33", "8:49"];
    assert_eq!(held(&three, 1, &["8:1"], "8:49"), both(true));
    // The disk that was held is gone.
    assert_eq!(held(&["8:49"], 1, &["8:1"], ""), one("8:49", true));
}

#[test]
fn the_devices_of_a_table_are_checked_after_its_load_and_a_wrong_table_is_cleared() {
    let done = RefCell::new(Vec::new());
    let note = |what: &'static str| done.borrow_mut().push(what);
    let load = |works: bool| {
        note("load");
        works.then_some(()).ok_or_else(|| other("load", "busy"))
    };
    let check = |right: bool| {
        note("check");
        right.then_some(()).ok_or_else(|| "another disk".to_owned())
    };
    for (loads, right, steps) in [
        (true, true, &["load", "check"][..]),
        (true, false, &["load", "check", "clear"]),
        (false, true, &["load"]),
    ] {
        let result = load_checked(|| load(loads), || check(right), || note("clear"));
        assert_eq!(result.is_ok(), loads && right);
        assert_eq!(done.take(), steps);
    }
}

/// The kernel refuses a table.
fn refused(errno: Errno) -> DmFailure {
    DmFailure {
        errno: Some(errno),
        ..other("load the table", errno)
    }
}

#[test]
fn a_module_without_limits_gets_every_other_word_of_the_table() {
    let table = Tandem {
        origin: "8:1".into(),
        ssd: "8:32".into(),
        mode: Mode::Writeback,
        uuid: "0123456789abcdef0123456789abcdef".into(),
        origin_id: "00ff".into(),
        new: false,
        start_cold: true,
        lost_generation: 7,
        dirty_limit: DirtyLimit {
            seconds: 5,
            bytes: 0,
            rest: 0,
        },
    };
    let taken = RefCell::new(Vec::new());
    let old = |table: &Tandem| {
        let line = table.to_string();
        if line.contains("dirty_") {
            return Err(refused(Errno::INVAL));
        }
        taken.borrow_mut().push(line);
        Ok(())
    };
    assert!(load_known(&table, old).is_ok());
    let taken = taken.into_inner();
    assert!(
        taken.len() == 1 && taken[0].ends_with(" start cold lost 7"),
        "{taken:?}"
    );
    // A refusal for another reason is no reason to try again.
    let tried = RefCell::new(0);
    let busy = |_: &Tandem| {
        *tried.borrow_mut() += 1;
        Err(refused(Errno::BUSY))
    };
    assert!(load_known(&table, busy).is_err() && *tried.borrow() == 1);
}

// promise 32: programs/tandem_helper::machine::dm::control::tests::a_hold_beside_a_dead_mapping_serves_no_request
#[test]
fn a_hold_beside_a_dead_mapping_serves_no_request() {
    let lines = beside(&[disk("8:49"), disk("8:65")]);
    let text: Vec<_> = lines
        .iter()
        .map(|(start, sectors, target, words)| format!("{start} {sectors} {target} {words}"))
        .collect();
    assert_eq!(
        text,
        ["0 8 error ", "8 8 linear 8:49 0", "16 8 linear 8:65 0"]
    );
    let words = lines
        .iter()
        .map(|(.., target, words)| (target.as_str(), words.as_str()));
    assert_eq!(Table::of(words).devices, ["8:49", "8:65"]);
}
