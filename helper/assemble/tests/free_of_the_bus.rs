// SPDX-License-Identifier: GPL-3.0-or-later
//! The programs of the start hold neither the bus nor an asynchronous runtime. This reads what cargo would build them of;
//! what was built is looked at where it is packed.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::process::Command;

/// Names of the crates that a package is built of, without those that only run while it is built.
fn crates(package: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = [
        "tree",
        "--locked",
        "--offline",
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--package",
        package,
    ];
    let ended = Command::new(cargo).args(words).output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let text = String::from_utf8(ended.stdout).unwrap();
    let name = |line: &str| Some(line.split_whitespace().next()?.to_owned());
    text.lines().filter_map(name).collect()
}

#[test]
fn neither_the_bus_nor_a_runtime_is_in_the_programs_of_the_start() {
    let (start, service) = (crates("tandem-assemble"), crates("tandem-helper"));
    for unwanted in [
        "zbus",
        "zruntime",
        "tokio",
        "mio",
        "async-trait",
        "futures-core",
    ] {
        assert!(!start.contains(unwanted), "{unwanted}");
    }
    // A name that the service does not have either would always be missing.
    for wanted in [
        "zbus",
        "zruntime",
        "tokio",
        "mio",
        "futures-core",
        "tandem-api",
    ] {
        assert!(service.contains(wanted), "{wanted}");
    }
    assert!(start.contains("tandem-helper") && start.contains("tandem-api"));
}
