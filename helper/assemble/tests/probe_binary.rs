// SPDX-License-Identifier: GPL-3.0-or-later
//! The forms in which other programs call `tandem-probe`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use tandem_helper::machine::hibernation;

fn probe(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_tandem-probe");
    Command::new(program).args(arguments).output().unwrap()
}

#[test]
fn systemd_gets_an_answer_before_a_hibernation() {
    // The answer depends on the machine that runs the test.
    let expected = i32::from(hibernation::obstacle(Path::new("/")).is_some());
    let ended = probe(&["--hibernation"]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(expected), "{said}");
}

#[test]
fn a_form_that_is_not_known_is_refused() {
    let ended = probe(&["--hibernate"]);
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("usage: tandem-probe"), "{said}");
}
