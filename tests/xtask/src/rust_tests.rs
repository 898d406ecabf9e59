// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that cargo runs; each test is counted by its own line.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::layer::{Bench, Layer};
use crate::results::Test;
use crate::run;

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "programs",
            about: "helper, command line, contract and test tools",
            run: programs,
        },
        Layer {
            name: "engine",
            about: "the cache engine against a trivial model, and a million power cuts",
            run: engine,
        },
        Layer {
            name: "fuzz",
            about: "hostile metadata, arguments and messages",
            run: fuzz,
        },
        Layer {
            name: "app",
            about: "words, axes and widgets, on a virtual display",
            run: app,
        },
    ]
}

fn programs(bench: &mut Bench) -> Result<()> {
    let packages = [
        "tandem-api",
        "tandem-helper",
        "tandemctl",
        "xtask",
        "tandem-tray",
        "tandem-record-log",
        "tandem-record-check",
    ];
    cargo_test(bench, &packages, None)
}

fn engine(bench: &mut Bench) -> Result<()> {
    cargo_test(bench, &["tandem-sim"], None)?;
    // All of three requests take some minutes.
    let every = if bench.all { "1" } else { "16" };
    let runs: [(&str, &[&str], &str); 3] = [
        (
            "a million power cuts",
            &["crash", "--cuts", "1000000", "--brief"],
            " cuts, ",
        ),
        (
            "small cases whole",
            &["exhaust", "--requests", "3", "--every", every],
            " states, ",
        ),
        (
            "branches of journal and recovery",
            &["coverage"],
            "journal and recovery: ",
        ),
    ];
    for (name, words, figure) in runs {
        let (said, result) = bench.said(&mut simulator(bench, words))?;
        figures(bench, &said, |line| line.contains(figure));
        bench.check(name, result);
    }
    Ok(())
}

fn fuzz(bench: &mut Bench) -> Result<()> {
    let seconds = bench.fuzz_seconds.to_string();
    for target in ["superblock", "load", "arguments", "messages"] {
        let words = ["fuzz", "--target", target, "--seconds", &seconds];
        let (said, result) = bench.said(&mut simulator(bench, &words))?;
        figures(bench, &said, |line| line.starts_with(target));
        bench.check(target, result);
    }
    Ok(())
}

/// The simulator with these arguments.
pub fn simulator(bench: &Bench, words: &[&str]) -> Command {
    let mut command = run::cmd("cargo", ["run", "--quiet", "--package", "tandem-sim", "--"]);
    command.args(words).current_dir(&bench.cx.root);
    command
}

fn figures(bench: &mut Bench, said: &str, wanted: impl Fn(&str) -> bool) {
    let lines = said.lines().filter(|line| wanted(line)).map(str::to_owned);
    bench.figures.extend(lines);
}

fn app(bench: &mut Bench) -> Result<()> {
    // The whole window is tried against the service on a simulated machine.
    let mut service = run::cmd("cargo", ["build", "--quiet", "--package", "tandem-helper"]);
    run::logged(service.current_dir(&bench.cx.root), &bench.log)?;
    cargo_test(bench, &["tandem"], Some("xvfb-run"))
}

/// Runs the tests of some packages, through `wrapper` if there is one, and counts each test.
fn cargo_test(bench: &mut Bench, packages: &[&str], wrapper: Option<&str>) -> Result<()> {
    let mut words: Vec<&str> = Vec::new();
    if let Some(wrapper) = wrapper {
        words.extend([wrapper, "--auto-servernum"]);
    }
    words.extend(["cargo", "test", "--no-fail-fast"]);
    for package in packages {
        words.extend(["--package", package]);
    }
    let mut command: Command = run::cmd(words[0], &words[1..]);
    let (said, result) = bench.said(command.current_dir(&bench.cx.root))?;
    // A program that crashed, or did not build, has no line for it.
    if count(bench, &said)? == 0 && result.is_err() {
        bench.check(&packages.join(", "), result);
    }
    Ok(())
}

/// Counts each test of which cargo's test programs told, and returns how many failed.
pub fn count(bench: &mut Bench, said: &str) -> Result<u64> {
    let tests = each(said);
    let passed = tests.iter().filter(|test| test.passed).count() as u64;
    let failed = tests.len() as u64 - passed;
    tests.into_iter().for_each(|test| bench.count(test));
    ensure!(
        result_agrees(said, passed, failed),
        "the tests' own lines do not add up to the closing lines"
    );
    Ok(failed)
}

/// Each `test NAME ... ok` with the program that it is in.
fn each(log: &str) -> Vec<Test> {
    let mut program = "";
    let mut tests = Vec::new();
    for line in log.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("Running ") {
            let file = rest.rsplit('/').next().unwrap_or(rest);
            program = file.rsplit_once('-').map_or(file, |(name, _)| name);
        } else if let Some(name) = line.strip_prefix("Doc-tests ") {
            program = name;
        } else if let Some((begun, end)) = line.rsplit_once(" ... ")
            // A program that the test has started may have left the beginning of a line of its own.
            && let Some((_, name)) = begun.split_once("test ")
            && (end == "ok" || end == "FAILED")
        {
            tests.push(Test {
                name: format!("{program}::{name}"),
                passed: end == "ok",
                seconds: None,
                words: String::new(),
            });
        }
    }
    tests
}

/// Sums of all lines `test result: ok. 3 passed; 0 failed; ...`.
fn result_agrees(log: &str, passed: u64, failed: u64) -> bool {
    let number = |line: &str, word: &str| -> u64 {
        line.split([';', '.'])
            .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
            .unwrap_or(0)
    };
    let sums = log
        .lines()
        .filter(|line| line.starts_with("test result:"))
        .fold((0, 0), |(passed, failed), line| {
            (
                passed + number(line, "passed"),
                failed + number(line, "failed"),
            )
        });
    sums == (passed, failed)
}

#[cfg(test)]
mod tests {
    use super::{each, result_agrees};

    const LOG: &str = "     Running unittests src/lib.rs (target/debug/deps/tandem_api-0c9b8d0e5b0d4d5c)\n\
        \n\
        running 2 tests\n\
        test words::are_plain ... ok\n\
        test words::are_short ... FAILED\n\
        test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n\
        \x20    Running tests/crash.rs (target/debug/deps/crash-5b0d4d5c0c9b8d0e)\n\
        test slow ... ignored\n\
        dbus-daemon[7]: test no_cut_breaks_a_promise ... ok\n\
        test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured\n";

    #[test]
    fn each_test_has_the_name_of_its_program() {
        let found: Vec<_> = each(LOG)
            .into_iter()
            .map(|test| (test.name, test.passed))
            .collect();
        let expected = [
            ("tandem_api::words::are_plain", true),
            ("tandem_api::words::are_short", false),
            ("crash::no_cut_breaks_a_promise", true),
        ];
        assert_eq!(found, expected.map(|(name, ok)| (name.to_owned(), ok)));
    }

    #[test]
    fn closing_lines_are_summed() {
        assert!(result_agrees(LOG, 2, 1));
        assert!(!result_agrees(LOG, 3, 0));
    }
}
