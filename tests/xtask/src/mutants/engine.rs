// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into the engine. The simulator is built with each bug, and one kind of its tests must fail. The
//! simulator makes further bugs itself (`kmod/sim/src/flaw.rs`): those change how the engine's actions are carried out.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use tandem_harness::deps;

use anyhow::{Context, Result, bail};

use super::{Failure, Mutant, count, hunt_all};
use tandem_harness::layer::{Bench, Layer, When};
use tandem_harness::run;

/// The seeded bugs.
pub const DIR: &str = "kmod/sim/mutants";
/// How many bugs are hunted without `--all`.
const ORDINARY: usize = 40;
/// Longest time until a bug is found.
const LIMIT: Duration = Duration::from_secs(600);
/// The exit code of the simulator when the sources do not build.
const NOT_BUILT: i32 = 3;

/// Tests of the simulator: the word in a bug's file, the test's name, and the arguments that run the test.
const TESTS: [(&str, &str, &[&str]); 12] = [
    (
        "random",
        "random requests",
        &["random", "--seeds", "500", "--requests", "6000", "--brief"],
    ),
    (
        "crash",
        "power cuts",
        &["crash", "--cuts", "600000", "--threads", "1", "--brief"],
    ),
    (
        "whole",
        "small cases whole",
        &["exhaust", "--requests", "2"],
    ),
    ("cases", "single cases", &["cases"]),
    ("format", "cuts of the format", &["format"]),
    ("words", "all schedules", &["words"]),
    (
        "sanitized",
        "random requests, sanitized",
        &[
            "random",
            "--sanitize",
            "--seeds",
            "50",
            "--requests",
            "6000",
            "--brief",
        ],
    ),
    ("threads", "threads", &["threads", "--rounds", "20000"]),
    (
        "superblock",
        "fuzzing",
        &["fuzz", "--target", "superblock", "--seconds", "40"],
    ),
    (
        "load",
        "fuzzing",
        &["fuzz", "--target", "load", "--seconds", "40"],
    ),
    (
        "arguments",
        "fuzzing",
        &["fuzz", "--target", "arguments", "--seconds", "40"],
    ),
    (
        "messages",
        "fuzzing",
        &["fuzz", "--target", "messages", "--seconds", "40"],
    ),
];

/// Tests of many seeds. With `--says` these tests pass over failures that lack certain words.
const TAKE_WORDS: [&str; 2] = ["random", "crash"];

/// The layer.
pub fn layer() -> Layer {
    Layer {
        name: "mutants",
        about: "each bug seeded into the engine is found by the simulator",
        needs: deps::KERNEL,
        when: When::Sampled(2),
        run: hunt,
    }
}

fn hunt(bench: &mut Bench) -> Result<()> {
    let simulator = tandem_harness::programs::simulator(bench.cx)?;
    let dir = bench.cx.target.join("mutants");
    let source = bench.cx.path("kmod");
    if bench.case.is_none() {
        // If these tests fail without a bug, their failures prove nothing about the seeded bugs.
        let (_, _, arguments) = TESTS[0];
        let mut sound = Command::new(&simulator);
        let result = run::logged(sound.args(arguments), &bench.log);
        result.context("random requests fail without a seeded bug")?;
        for flaw in run::output(Command::new(&simulator).arg("flaws"))?.lines() {
            let (name, says) = flaw.split_once(": ").unwrap_or((flaw, ""));
            let mutant = Mutant::of_flaw(name, says);
            let (_, test, arguments) = TESTS[1];
            let mut command = Command::new(&simulator);
            command.args(arguments).args(["--flaw", name]);
            if !says.is_empty() {
                command.args(["--says", says]);
            }
            let failure = fails(bench, &mut command, test, LIMIT);
            count(bench, &mutant, failure);
        }
    }
    hunt_all(bench, DIR, ORDINARY, |bench, mutant| {
        let planted = dir.join(&mutant.name);
        mutant.plant(&source, &planted)?;
        let known = TESTS.iter().find(|(word, _, _)| *word == mutant.test);
        let (_, test, arguments) = known.with_context(|| format!("no tests {:?}", mutant.test))?;
        let mut command = Command::new(&simulator);
        command.args(*arguments).arg("--sources").arg(&planted);
        // A bug may break several rules; further seeds are tried until one fails with the words in the bug's file.
        if !mutant.says.is_empty() && TAKE_WORDS.contains(&mutant.test.as_str()) {
            command.args(["--says", &mutant.says]);
        }
        let failure = fails(bench, &mut command, test, mutant.limit.unwrap_or(LIMIT));
        fs::remove_dir_all(&planted)?;
        failure
    })
}

/// Runs tests that must fail, in a process of their own, because the bug may crash the process.
fn fails(bench: &Bench, command: &mut Command, test: &str, limit: Duration) -> Result<Failure> {
    let log = bench.cx.target.join("test/mutant.log");
    let start = Instant::now();
    let code = run::limited(command, &log, limit)?;
    let time = start.elapsed();
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    bench.note(&said);
    match code {
        Some(0) => bail!("not found by {test}"),
        None => bail!("{test} came to no end within {} s", limit.as_secs()),
        Some(NOT_BUILT) => bail!("the sources do not build with it: {}", run::tail(&said)),
        Some(_) => Ok(Failure {
            test: test.to_owned(),
            said,
            time,
        }),
    }
}
