// SPDX-License-Identifier: GPL-3.0-or-later
//! The word's operations: all schedules, and threads under the race detector.

use std::process::Command;

use tandem_sim::engine::Core;
use tandem_sim::explore;

// promise 16: engine/words::no_schedule_breaks_the_word
#[test]
fn no_schedule_breaks_the_word() {
    let scenarios = explore::explore_all(&Core::linked()).unwrap();
    assert!(scenarios.len() >= 16);
    for (name, extent) in scenarios {
        println!(
            "{name}: {} schedules, {} states",
            extent.schedules, extent.states
        );
        assert!(
            extent.schedules >= 10,
            "{name} has too few schedules to be what it says"
        );
    }
}

#[test]
fn no_race_between_threads() {
    let arguments = ["threads", "--rounds", "5000"];
    let status = Command::new(env!("CARGO_BIN_EXE_tandem-sim"))
        .args(arguments)
        .status()
        .unwrap();
    assert!(status.success());
}
