// SPDX-License-Identifier: GPL-3.0-or-later
//! Millions of random requests: core and the model must not differ (promises 2, 15, 16, 17, 23, 28, 31).

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tandem_sim::engine::Core;
use tandem_sim::random::{self, Summary};

const SEEDS: u64 = 120;
const REQUESTS: u64 = 20_000;

/// What must have happened in so many requests, or they exercise too little.
const HAPPENS: [&str; 32] = [
    "write_back",
    "merges",
    "drained",
    "trimmed",
    "sweeps",
    "groups",
    "checkpoints",
    "marks_set",
    "marks_cleared",
    "read_hit",
    "read_missed",
    "read_bypassed_promotion",
    "read_bypassed_busy",
    "read_bypassed_memory",
    "read_bypassed_unaligned",
    "read_bypassed_failed",
    "write_hit",
    "write_missed",
    "write_bypassed_sequential",
    "write_bypassed_memory",
    "write_bypassed_failed",
    "write_bypassed_discard",
    "write_bypassed_mode",
    "fills",
    "evictions",
    "invalidated",
    "cancelled",
    "streams",
    "waits",
    "drains",
    "ssd_errors",
    "disk_errors",
];

// promise 2, 14, 15, 16, 17, 31: engine/random::core_and_model_agree
#[test]
fn core_and_model_agree() {
    let next = AtomicU64::new(1);
    let total = Mutex::new(Summary::default());
    println!("seeds 1 to {SEEDS}, {REQUESTS} requests each");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let core = Core::linked();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > SEEDS {
                        break;
                    }
                    match random::run(&core, seed, REQUESTS, false) {
                        Ok(summary) => total.lock().unwrap().add(&summary),
                        Err(failure) => panic!("seed {seed}: {}", failure.fault),
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    assert_eq!(total.requests, SEEDS * REQUESTS);
    for name in HAPPENS {
        assert!(
            total.counters.get(name).is_some_and(|&count| count > 0),
            "{name} never happened: {total:#?}"
        );
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let core = Core::linked();
    let run = || random::run(&core, 7, REQUESTS, false).map_err(|failure| failure.fault);
    let (first, second) = (run().unwrap(), run().unwrap());
    assert_eq!(first.counters, second.counters);
}

#[test]
fn nothing_for_the_sanitizers() {
    let arguments = ["random", "--sanitize", "--seed", "1000", "--seeds", "20"];
    let status = Command::new(env!("CARGO_BIN_EXE_tandem-sim"))
        .args(arguments)
        .status()
        .unwrap();
    assert!(status.success());
}
