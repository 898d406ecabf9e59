// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into the engine, which is built once with all of them. Of each, one kind of the simulator's tests must
//! fail. The
//! simulator makes further bugs itself (`kmod/sim/src/flaw.rs`): those change how the engine's actions are carried out.

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tandem_harness::{deps, kbuild};
use tandem_mutants::{Bug, SWITCH};

use anyhow::{Context, Result, bail};

use super::{Failure, WORKERS, build_all, copy, count, limited, side_by_side, taken};
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::run;

/// The seeded bugs.
pub const DIR: &str = "kmod/sim/mutants";
/// What must hold before bugs are hunted.
const SOUND: [&str; 6] = ["random", "--seeds", "500", "--requests", "6000", "--brief"];
/// How many bugs are hunted without `--all`.
const ORDINARY: usize = 40;
/// Longest time until a bug is found.
const LIMIT: Duration = Duration::from_secs(600);
/// The exit code of the simulator when the sources do not build.
const NOT_BUILT: i32 = 3;

/// Tests of the simulator: the word in a bug's file, the test's name, and the arguments that run the test.
const TESTS: [(&str, &str, &[&str]); 13] = [
    (
        "random",
        "random requests",
        &["random", "--seeds", "4000", "--requests", "6000", "--brief"],
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
    ("torn", "cuts of the index", &["torn", "--seeds", "40"]),
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

/// Tests that build what they run from the sources. The others load a library that is built once.
const BUILDS: [&str; 6] = [
    "sanitized",
    "threads",
    "superblock",
    "load",
    "arguments",
    "messages",
];

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

fn hunt(run: &mut Run) -> Result<()> {
    let simulator = tandem_harness::programs::simulator(run.cx)?;
    let bugs = taken(run, DIR, ORDINARY)?;
    let mut copy = copy(run, "kmod", &kbuild::KMOD, "mutants", &bugs)?;
    let dir = copy.dir().to_owned();
    // If these tests fail without a bug, their failures prove nothing about the seeded bugs.
    build_all(run, &mut copy, |run| {
        let mut sound = Command::new(&simulator);
        sound.args(SOUND).arg("--sources").arg(&dir);
        let ran = limited(run, &mut sound, LIMIT)?;
        match ran.code {
            Some(0) => Ok(None),
            Some(NOT_BUILT) => Ok(Some(ran.said)),
            _ => bail!(
                "random requests fail without a seeded bug: {}",
                run::tail(&ran.said)
            ),
        }
    })?;
    if run.case.is_none() {
        let flaws = flaws(&simulator)?;
        let failures = side_by_side(run, WORKERS, &flaws, |run, flaw, _| {
            let (_, test, arguments) = TESTS[1];
            let mut command = Command::new(&simulator);
            command.args(arguments).args(["--flaw", &flaw.name]);
            if !flaw.says.is_empty() {
                command.args(["--says", &flaw.says]);
            }
            fails(run, &mut command, test, LIMIT)
        })?;
        for (flaw, failure) in flaws.iter().zip(failures) {
            count(run, flaw, failure);
        }
    }
    let build = |_: &mut Run| Ok(None);
    super::hunt(run, &copy, &bugs, build, |run, bug, chosen| {
        let known = TESTS.iter().find(|(word, _, _)| *word == bug.case);
        let (word, test, arguments) = known.with_context(|| format!("no tests {:?}", bug.case))?;
        let mut command = Command::new(&simulator);
        command
            .args(*arguments)
            .env(SWITCH, chosen.number.to_string());
        if chosen.number == 0 || BUILDS.contains(word) {
            let own = run.log.with_extension("sources");
            kbuild::copy(&dir, &own)?;
            command.arg("--sources").arg(&own);
        } else {
            command.arg("--core").arg(dir.join("core.so"));
        }
        // A bug may break several rules; further seeds are tried until one fails with the words in the bug's file.
        if TAKE_WORDS.contains(word) {
            command.args(["--says", &bug.says]);
        }
        fails(run, &mut command, test, bug.limit.unwrap_or(LIMIT))
    })
}

/// The bugs that the simulator makes itself.
fn flaws(simulator: &Path) -> Result<Vec<Bug>> {
    let listed = run::output(Command::new(simulator).arg("flaws"))?;
    let flaws = listed
        .lines()
        .map(|flaw| flaw.split_once(": ").unwrap_or((flaw, "")));
    Ok(flaws
        .map(|(name, says)| Bug::without_source(name, says))
        .collect())
}

/// Runs tests that must fail.
fn fails(run: &Run, command: &mut Command, test: &str, limit: Duration) -> Result<Failure> {
    let ran = limited(run, command, limit)?;
    match ran.code {
        Some(0) => bail!("not found by {test}"),
        None => bail!("{test} came to no end within {} s", limit.as_secs()),
        Some(NOT_BUILT) => bail!("the sources do not build with it: {}", run::tail(&ran.said)),
        Some(_) => Ok(Failure {
            test: test.to_owned(),
            said: ran.said,
            time: ran.time,
        }),
    }
}
