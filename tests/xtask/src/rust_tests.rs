// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that cargo runs; each test is counted by its own line.

use std::process::Command;
use tandem_harness::deps::Need;
use tandem_harness::sample;

use anyhow::Result;

use crate::cargo_tests::{self, Again};

use tandem_harness::layer::{Layer, Run, When};

use tandem_harness::{programs, run, seed};

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "programs",
            about: "the service, the command line, the indicator and their words",
            needs: &[Need::Helper, Need::Services, Need::Display],
            when: When::Always,
            run: programs,
        },
        Layer {
            name: "rescue",
            about: "dirty caches saved without the module, cut at each write",
            needs: &[Need::Helper, Need::Rescue],
            when: When::Sampled(3),
            run: |run| cargo_tests::run(run, &[RESCUE], false, &[]),
        },
        Layer {
            name: "tools",
            about: "the test tools, the lists of seeded bugs and of promises",
            needs: &[Need::Helper],
            when: When::Always,
            run: tools,
        },
        Layer {
            name: "engine",
            about: "the cache engine against a trivial model, and power cuts: 100,000, whole a million",
            needs: &[Need::Helper, Need::Module],
            when: When::Always,
            run: engine,
        },
        Layer {
            name: "fuzz",
            about: "hostile metadata, arguments and messages",
            needs: &[Need::Helper, Need::Module],
            when: When::Sampled(2),
            run: fuzz,
        },
        Layer {
            name: "app",
            about: "words, axes and widgets, on a virtual display",
            needs: &[Need::App, Need::Helper, Need::Display, Need::Services],
            when: When::Always,
            run: app,
        },
    ]
}

const PROGRAMS: [&str; 8] = [
    "tandem-advisor",
    "tandem-api",
    "tandem-assemble",
    "tandem-helper",
    "tandem-simulated",
    "tandemctl",
    "tandem-tray",
    "tandem-words",
];
const RESCUE: &str = "tandem-rescue";
const TOOLS: [&str; 6] = [
    "tandem-harness",
    "tandem-guest",
    "tandem-scenarios",
    "xtask",
    "tandem-record-log",
    "tandem-record-check",
];
/// The simulator, and the benchmarks whose tests hold the policy against others.
const ENGINE: [&str; 2] = ["tandem-sim", "tandem-engine-bench"];
const APP: &str = "tandem";
/// Tests of the app that open every page, which takes minutes.
const WALKS: [&str; 2] = [
    "every_page_is_named_and_readable_in_normal_contrast",
    "every_page_is_named_and_readable_in_high_contrast",
];
// promise 10, 27: fuzz/load
// promise 27: fuzz/superblock
// promise 27: fuzz/arguments
// promise 27: fuzz/messages
const FUZZED: [&str; 4] = ["superblock", "load", "arguments", "messages"];
/// Runs of the simulator besides its own tests.
const RUNS: [&str; 3] = [
    // promise 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 18, 19, 20, 23, 28, 30, 31, 33: engine/power cuts
    "power cuts",
    // promise 7, 8, 9, 11, 12: engine/small cases whole
    "small cases whole",
    COVERAGE,
];
const COVERAGE: &str = "branches of journal and recovery";
/// Runs of the simulator with the seed of this run.
const FRESH: [(&str, &[&str]); 4] = [
    ("fresh random requests", &["random", "--seeds", "30"]),
    ("fresh power cuts", &["crash", "--cuts", "40000"]),
    ("fresh cuts of the format", &["format", "--seeds", "100"]),
    ("fresh cuts of the index", &["torn", "--seeds", "2"]),
];

/// The packages whose targets are all built in each run.
pub fn built() -> impl Iterator<Item = &'static str> {
    let several = PROGRAMS.into_iter().chain(TOOLS).chain(ENGINE);
    several.chain([APP])
}

fn programs(run: &mut Run) -> Result<()> {
    cargo_tests::run_again(run, &PROGRAMS, false, &[], &WITH_DM_CACHE)
}

/// Has the suites of the service use dm-cache in the place of our module.
const DM_CACHE: (&str, &str) = ("TANDEM_TEST_TARGET", "dm-cache");
/// The suites that run with dm-cache too, without the tests of what dm-cache does not have: write-back, and its settings.
static WITH_DM_CACHE: [Again; 2] = [
    Again {
        name: "dm-cache-conformance",
        program: "conformance",
        setting: DM_CACHE,
        without: &["simulated::", "settings::", "writeback::"],
    },
    Again {
        name: "dm-cache-recovery",
        program: "recovery",
        setting: DM_CACHE,
        without: &[
            "drain::",
            "giving_up::",
            "in_place::",
            "reboot::",
            "undo::",
            "writeback::",
            "a_cut_before_the_ssd_is_withdrawn_",
            "a_mapping_that_a_failed_resize_leaves_",
            "a_resize_that_is_",
            "an_old_plan_without_a_drain_",
        ],
    },
];

fn tools(run: &mut Run) -> Result<()> {
    cargo_tests::run(run, &TOOLS, false, &[])
}

fn engine(run: &mut Run) -> Result<()> {
    let is_run =
        |case: &String| RUNS.contains(&case.as_str()) || FRESH.iter().any(|(name, _)| name == case);
    if !run.case.as_ref().is_some_and(is_run) {
        cargo_tests::run(run, &ENGINE, false, &[])?;
    }
    // All sequences of three requests take some minutes.
    let (every, cuts) = match run.all {
        true => ("1", "1000000"),
        false => ("96", "100000"),
    };
    let runs: [(&[&str], &str); 3] = [
        (&["crash", "--cuts", cuts, "--brief"], " cuts, "),
        (
            &["exhaust", "--requests", "3", "--every", every],
            " states, ",
        ),
        (&["coverage"], "journal and recovery: "),
    ];
    for (name, (words, figure)) in RUNS.into_iter().zip(runs) {
        // The coverage needs another build, which takes two minutes.
        let is_left_out = name == COVERAGE && !run.is_whole();
        if is_left_out || !run.wants(name) {
            continue;
        }
        let (said, result) = run.said(&mut simulator(run, words)?)?;
        figures(run, &said, |line| line.contains(figure));
        run.check(name, result);
    }
    fresh(run)
}

/// Runs the simulator with seeds that no earlier run had.
fn fresh(run: &mut Run) -> Result<()> {
    for (name, words) in FRESH {
        if !run.wants(name) {
            continue;
        }
        let seed = seed::of_this_run()?.to_string();
        let result = run::logged(simulator(run, words)?.args(["--seed", &seed]), &run.log);
        run.check(name, result);
    }
    Ok(())
}

fn fuzz(run: &mut Run) -> Result<()> {
    let seconds = run.fuzz_seconds.to_string();
    for target in FUZZED {
        if !run.wants(target) {
            continue;
        }
        let words = ["fuzz", "--target", target, "--seconds", &seconds];
        let (said, result) = run.said(&mut simulator(run, &words)?)?;
        figures(run, &said, |line| line.starts_with(target));
        run.check(target, result);
    }
    Ok(())
}

/// The simulator with these arguments.
fn simulator(run: &Run, words: &[&str]) -> Result<Command> {
    let mut command = Command::new(programs::simulator(run.cx)?);
    command.args(words).current_dir(&run.cx.root);
    Ok(command)
}

fn figures(run: &mut Run, said: &str, wanted: impl Fn(&str) -> bool) {
    let lines = said.lines().filter(|line| wanted(line)).map(str::to_owned);
    run.figures.extend(lines);
}

fn app(run: &mut Run) -> Result<()> {
    let taken = sample::of(run, "the walk over all pages", WALKS, 1)?;
    let waiting: Vec<_> = WALKS
        .into_iter()
        .filter(|walk| !taken.contains(walk))
        .collect();
    cargo_tests::run(run, &[APP], true, &waiting)
}
