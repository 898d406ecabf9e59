// SPDX-License-Identifier: GPL-3.0-or-later
//! The service that runs as root holds nothing of the simulated machine, whose polkit allows everything.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::Command;

const ROOT_BINARY: &str = env!("CARGO_BIN_EXE_tandem-helper");

/// Texts of the simulated machine that stay in a program which it is linked into.
const TEXTS: [&str; 3] = [
    "6.1.0-simulated",
    "simulated failure",
    "org.tandemcache.Tandem1.Simulation",
];

#[test]
fn the_root_binary_refuses_to_simulate() {
    let ended = Command::new(ROOT_BINARY)
        .arg("--simulated")
        .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent")
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("unexpected argument"), "{said}");
}

#[test]
fn the_root_binary_holds_no_text_of_the_simulated_machine() {
    let program = std::fs::read(ROOT_BINARY).unwrap();
    let program = String::from_utf8_lossy(&program);
    let sources = [
        include_str!("../sim/src/module.rs"),
        include_str!("../sim/src/mappings.rs"),
        include_str!("../sim/src/levers.rs"),
    ];
    for text in TEXTS {
        // A text that the simulated machine no longer has would always be missing.
        assert!(sources.iter().any(|source| source.contains(text)), "{text}");
        assert!(!program.contains(text), "{text} is in {ROOT_BINARY}");
    }
}
