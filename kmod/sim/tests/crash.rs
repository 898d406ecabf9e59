// SPDX-License-Identifier: GPL-3.0-or-later
//! Power cuts in small worlds, after each kind of event (promises 1-4, 6-14, 23, 28, 30, 31). A million of them is the
//! command `crash --cuts 1000000`.

use tandem_sim::crash;
use tandem_sim::engine::Core;

const CUTS: u64 = 60_000;

/// What cuts must have followed or hit, or they exercise too little.
const HAPPENS: [&str; 34] = [
    "submit",
    "rest read",
    "begin",
    "start",
    "answer",
    "end",
    "work",
    "tick",
    "clean",
    "mode",
    "recovery",
    "preflush",
    "group done",
    "marks done",
    "pages done",
    "head done",
    "SSD flush done",
    "disk flush done",
    "SSD stores",
    "SSD stores metadata",
    "disk stores",
    "disk write done",
    "SSD write done",
    "before a request was served",
    "beside a sweep",
    "beside a checkpoint",
    "with marks set",
    "with all dirty",
    "with a full journal",
    "at the journal's begin",
    "at the journal's end",
    "bypassed or stranded",
    "in a stream of writes",
    "in a stream of writes beside dirty data",
];

// promise 1, 7, 8, 11, 12, 30: engine/crash::no_cut_breaks_a_promise
#[test]
fn no_cut_breaks_a_promise() {
    let (coverage, failed) =
        crash::run_many(&|| Ok(Core::linked()), 1, CUTS, 2, None, false, None).unwrap();
    if let Some((seed, words)) = failed {
        panic!("seed {seed}: {words}");
    }
    assert!(coverage.total() >= CUTS);
    for name in HAPPENS {
        assert!(
            coverage.cuts.get(name).is_some_and(|&count| count > 0),
            "no cut {name}: {coverage:#?}"
        );
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let core = Core::linked();
    let run = || crash::run(&core, 5, 100, None, false).map_err(|failure| failure.fault);
    let (first, second) = (run().unwrap(), run().unwrap());
    assert_eq!(first.acts, second.acts);
    assert_eq!(first.counters, second.counters);
}
