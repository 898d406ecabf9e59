// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that cargo runs; each test is counted by its own line.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::cx::Cx;
use crate::inputs::{Inputs, KMOD};
use crate::layer::{Bench, Layer};
use crate::results::{Counts, Outcome, Test};
use crate::{case, programs, rotation, run, seed};

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    vec![
        Layer {
            name: "programs",
            about: "the service, the command line and the indicator",
            cases: |cx| functions(cx, &PROGRAMS),
            inputs: Inputs {
                packages: &[
                    "tandem-advisor",
                    "tandem-api",
                    "tandem-helper",
                    "tandem-simulated",
                    "tandemctl",
                    "tandem-tray",
                ],
                programs: &[],
                paths: &[&["kmod/core", "data", "app/tests"]],
                module: module_path!(),
            },
            run: programs,
        },
        Layer {
            name: "rescue",
            about: "dirty caches saved without the module, cut at each write",
            cases: |cx| functions(cx, &[RESCUE]),
            inputs: Inputs {
                packages: &["tandem-rescue"],
                programs: &[],
                paths: &[&["kmod/core"]],
                module: module_path!(),
            },
            run: |bench| cargo_test(bench, &[RESCUE], None, &[]),
        },
        Layer {
            name: "tools",
            about: "the test tools, the lists of seeded bugs and of promises",
            cases: |cx| functions(cx, &TOOLS),
            inputs: Inputs {
                packages: &["xtask", "tandem-record-log", "tandem-record-check"],
                programs: &[],
                paths: &[&["."]],
                module: module_path!(),
            },
            run: tools,
        },
        Layer {
            name: "engine",
            about: "the cache engine against a trivial model, and a million power cuts",
            cases: engine_cases,
            inputs: Inputs {
                packages: &["tandem-sim", "tandem-engine-bench"],
                programs: &[],
                paths: &[&KMOD],
                module: module_path!(),
            },
            run: engine,
        },
        Layer {
            name: "fuzz",
            about: "hostile metadata, arguments and messages",
            cases: |_| Ok(FUZZED.map(str::to_owned).into()),
            inputs: Inputs {
                packages: &["tandem-sim"],
                programs: &[],
                paths: &[&KMOD],
                module: module_path!(),
            },
            run: fuzz,
        },
        Layer {
            name: "app",
            about: "words, axes and widgets, on a virtual display",
            cases: |cx| functions(cx, &[APP]),
            inputs: Inputs {
                packages: &["tandem"],
                programs: &["tandem-simulated"],
                paths: &[&["data", "po", "tests/e2e/src/node.rs"]],
                module: module_path!(),
            },
            run: app,
        },
    ]
}

/// A package and its directory.
type Package = (&'static str, &'static str);

const PROGRAMS: [Package; 6] = [
    ("tandem-advisor", "helper/advisor"),
    ("tandem-api", "helper/api"),
    ("tandem-helper", "helper"),
    ("tandem-simulated", "helper/sim"),
    ("tandemctl", "helper/ctl"),
    ("tandem-tray", "app/tray"),
];
const RESCUE: Package = ("tandem-rescue", "helper/rescue");
const TOOLS: [Package; 3] = [
    ("xtask", "tests/xtask"),
    ("tandem-record-log", "tests/record/log"),
    ("tandem-record-check", "tests/record/check"),
];
/// The simulator, and the benchmarks whose tests hold the policy against others.
const ENGINE: [Package; 2] = [
    ("tandem-sim", "kmod/sim"),
    ("tandem-engine-bench", "tests/bench/engine"),
];
const APP: Package = ("tandem", "app");
/// Tests of the app that open every page, which takes minutes.
const WALKS: [&str; 2] = [
    "every_page_is_named_and_readable_in_normal_contrast",
    "every_page_is_named_and_readable_in_high_contrast",
];
const FUZZED: [&str; 4] = ["superblock", "load", "arguments", "messages"];
/// Runs of the simulator besides its own tests.
const RUNS: [&str; 3] = [
    "a million power cuts",
    "small cases whole",
    "branches of journal and recovery",
];
/// Runs of the simulator with the seed of this run.
const FRESH: [(&str, &[&str]); 3] = [
    ("fresh random requests", &["random", "--seeds", "60"]),
    ("fresh power cuts", &["crash", "--cuts", "100000"]),
    ("fresh cuts of the format", &["format", "--seeds", "100"]),
];

/// The names of the test functions of packages.
fn functions(cx: &Cx, packages: &[Package]) -> Result<Vec<String>> {
    let tests = case::in_rust(cx, packages)?;
    Ok(tests.into_iter().map(|test| test.name).collect())
}

fn engine_cases(cx: &Cx) -> Result<Vec<String>> {
    let mut names = functions(cx, &ENGINE)?;
    names.extend(RUNS.map(str::to_owned));
    names.extend(FRESH.map(|(name, _)| name.to_owned()));
    Ok(names)
}

fn programs(bench: &mut Bench) -> Result<()> {
    cargo_test(bench, &PROGRAMS, None, &[])
}

fn tools(bench: &mut Bench) -> Result<()> {
    cargo_test(bench, &TOOLS, None, &[])
}

fn engine(bench: &mut Bench) -> Result<()> {
    let is_run =
        |case: &String| RUNS.contains(&case.as_str()) || FRESH.iter().any(|(name, _)| name == case);
    if !bench.case.as_ref().is_some_and(is_run) {
        cargo_test(bench, &ENGINE, None, &[])?;
    }
    // All sequences of three requests take some minutes.
    let every = if bench.all { "1" } else { "16" };
    let runs: [(&[&str], &str); 3] = [
        (&["crash", "--cuts", "1000000", "--brief"], " cuts, "),
        (
            &["exhaust", "--requests", "3", "--every", every],
            " states, ",
        ),
        (&["coverage"], "journal and recovery: "),
    ];
    for (name, (words, figure)) in RUNS.into_iter().zip(runs) {
        if !bench.wants(name) {
            continue;
        }
        let (said, result) = bench.said(&mut simulator(bench, words)?)?;
        figures(bench, &said, |line| line.contains(figure));
        bench.check(name, result);
    }
    fresh(bench)
}

/// Runs the simulator with seeds that no earlier run had.
fn fresh(bench: &mut Bench) -> Result<()> {
    for (name, words) in FRESH {
        if !bench.wants(name) {
            continue;
        }
        let seed = seed::of_this_run()?.to_string();
        let result = run::logged(simulator(bench, words)?.args(["--seed", &seed]), &bench.log);
        bench.check(name, result);
    }
    Ok(())
}

fn fuzz(bench: &mut Bench) -> Result<()> {
    let seconds = bench.fuzz_seconds.to_string();
    for target in FUZZED {
        if !bench.wants(target) {
            continue;
        }
        let words = ["fuzz", "--target", target, "--seconds", &seconds];
        let (said, result) = bench.said(&mut simulator(bench, &words)?)?;
        figures(bench, &said, |line| line.starts_with(target));
        bench.check(target, result);
    }
    Ok(())
}

/// The simulator with these arguments.
fn simulator(bench: &Bench, words: &[&str]) -> Result<Command> {
    let mut command = Command::new(programs::simulator(bench.cx)?);
    command.args(words).current_dir(&bench.cx.root);
    Ok(command)
}

fn figures(bench: &mut Bench, said: &str, wanted: impl Fn(&str) -> bool) {
    let lines = said.lines().filter(|line| wanted(line)).map(str::to_owned);
    bench.figures.extend(lines);
}

fn app(bench: &mut Bench) -> Result<()> {
    // The tests of the whole window use the service on a simulated machine.
    let mut service = run::cmd(
        "cargo",
        ["build", "--quiet", "--package", "tandem-simulated"],
    );
    run::logged(service.current_dir(&bench.cx.root), &bench.log)?;
    let taken = rotation::of_this_run(bench, WALKS, 1)?;
    let waiting: Vec<_> = WALKS
        .into_iter()
        .filter(|walk| !taken.contains(walk))
        .collect();
    for walk in &waiting {
        bench.skip(walk, "the other walk has its turn in this run");
    }
    cargo_test(bench, &[APP], Some("xvfb-run"), &waiting)
}

/// Runs the tests of some packages, through `wrapper` if there is one, and counts each test. `without`: parts of the
/// names of tests that do not run.
fn cargo_test(
    bench: &mut Bench,
    packages: &[Package],
    wrapper: Option<&str>,
    without: &[&str],
) -> Result<()> {
    let mut words: Vec<String> = Vec::new();
    if let Some(wrapper) = wrapper {
        words.extend([wrapper.into(), "--auto-servernum".into()]);
    }
    words.extend(["cargo", "test", "--no-fail-fast"].map(String::from));
    let mut only = Vec::new();
    match &bench.case {
        None => {
            for (package, _) in packages {
                words.extend(["--package".into(), (*package).to_owned()]);
            }
        }
        Some(case) => {
            let (options, names) = alone(bench.cx, packages, case)?;
            words.extend(options);
            only = names;
        }
    }
    // The output of passed tests says which of them skipped themselves.
    words.extend(["--".into(), "--show-output".into()]);
    for name in without {
        words.extend(["--skip".into(), (*name).to_owned()]);
    }
    if !only.is_empty() {
        words.push("--exact".into());
        words.extend(only);
    }
    let mut command: Command = run::cmd(&words[0], &words[1..]);
    let (said, result) = bench.said(command.current_dir(&bench.cx.root))?;
    // A program that crashed or did not build prints no line for its tests.
    if count(bench, &said)? == 0 && result.is_err() {
        let names: Vec<_> = packages.iter().map(|(name, _)| *name).collect();
        bench.check(&names.join(", "), result);
    }
    Ok(())
}

/// cargo's options for the programs that have a test, and the test's full names in them. `case` is a full name, with or
/// without the program before it, or the end of such a name.
fn alone(cx: &Cx, packages: &[Package], case: &str) -> Result<(Vec<String>, Vec<String>)> {
    let name = case.rsplit("::").next().unwrap_or(case);
    let tests = case::in_rust(cx, packages)?;
    let mut options = Vec::new();
    for test in tests.into_iter().filter(|test| test.name == name) {
        let of_test = [
            vec!["--package".into(), test.package.to_owned()],
            test.target,
        ]
        .concat();
        if !options.contains(&of_test) {
            options.push(of_test);
        }
    }
    let options = options.concat();
    let mut list = run::cmd("cargo", ["test", "--quiet"]);
    list.args(&options).args(["--", "--list"]);
    let listed = run::output(list.current_dir(&cx.root))?;
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let is_meant = |known: &&str| {
        let known = format!("::{known}");
        known.ends_with(&format!("::{case}")) || format!("::{case}").ends_with(&known)
    };
    let names: Vec<_> = names.filter(is_meant).map(str::to_owned).collect();
    ensure!(!names.is_empty(), "no program has a test called {case:?}");
    Ok((options, names))
}

/// Counts each test that cargo's test programs report, and returns how many failed.
pub fn count(bench: &mut Bench, said: &str) -> Result<u64> {
    let tests = each(said);
    let counts = Counts::of(&tests);
    // A test that skips itself has passed for its test program.
    let passed = (counts.passed + counts.skipped) as u64;
    let failed = counts.failed as u64;
    tests.into_iter().for_each(|test| bench.count(test));
    ensure!(
        result_agrees(said, passed, failed),
        "the tests' own lines do not add up to the closing lines"
    );
    Ok(failed)
}

/// Beginning of the line of a test that cannot run here; the reason follows.
const SKIP: &str = "SKIP: because ";

/// Each `test NAME ... ok` with the program that it is in. The output of tests that passed stands below these lines.
fn each(log: &str) -> Vec<Test> {
    let mut program = "";
    let mut output_of = String::new();
    let mut tests: Vec<Test> = Vec::new();
    for line in log.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("Running ") {
            let file = rest.rsplit('/').next().unwrap_or(rest);
            program = file.rsplit_once('-').map_or(file, |(name, _)| name);
        } else if let Some(name) = line.strip_prefix("Doc-tests ") {
            program = name;
        } else if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            output_of = format!("{program}::{name}");
        } else if let Some(why) = line.strip_prefix(SKIP) {
            if let Some(test) = tests.iter_mut().find(|test| test.name == output_of) {
                test.outcome = Outcome::Skipped;
                test.words = format!("because {why}");
            }
        } else if let Some((begun, end)) = line.rsplit_once(" ... ")
            // A program that the test started may have printed the beginning of a line before this one.
            && let Some((_, name)) = begun.split_once("test ")
            && (end == "ok" || end == "FAILED")
        {
            tests.push(Test {
                name: format!("{program}::{name}"),
                outcome: Outcome::of(end == "ok"),
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
    use crate::results::Outcome;

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
            .map(|test| (test.name, test.outcome))
            .collect();
        let expected = [
            ("tandem_api::words::are_plain", Outcome::Passed),
            ("tandem_api::words::are_short", Outcome::Failed),
            ("crash::no_cut_breaks_a_promise", Outcome::Passed),
        ];
        assert_eq!(
            found,
            expected.map(|(name, outcome)| (name.to_owned(), outcome))
        );
    }

    #[test]
    fn a_test_that_prints_why_it_cannot_run_is_skipped() {
        const LOG: &str = "     Running tests/conformance.rs (target/debug/deps/conformance-5b0d4d5c0c9b8d0e)\n\
            test one ... ok\n\
            test two ... ok\n\
            \n\
            successes:\n\
            \n\
            ---- one stdout ----\n\
            nothing of note\n\
            \n\
            ---- two stdout ----\n\
            SKIP: because the disks are real\n\
            \n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
        let tests = each(LOG);
        assert_eq!(tests[0].outcome, Outcome::Passed);
        assert_eq!(tests[1].outcome, Outcome::Skipped);
        assert_eq!(tests[1].words, "because the disks are real");
    }

    #[test]
    fn closing_lines_are_summed() {
        assert!(result_agrees(LOG, 2, 1));
        assert!(!result_agrees(LOG, 3, 0));
    }
}
