// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that cargo runs, each counted by the closing lines of its test programs.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::layer::{Bench, Layer};
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
            about: "the cache engine against a trivial model",
            run: engine,
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
    ];
    cargo_test(bench, &packages, None)
}

fn engine(bench: &mut Bench) -> Result<()> {
    cargo_test(bench, &["tandem-sim"], None)?;
    let seconds = if bench.all { "600" } else { "30" };
    let runs: [(&str, &[&str]); 5] = [
        (
            "a million power cuts",
            &["crash", "--cuts", "1000000", "--brief"],
        ),
        (
            "random requests under ASan and UBSan",
            &["random", "--seeds", "20", "--sanitize"],
        ),
        (
            "operations of the word by threads under TSan",
            &["threads", "--rounds", "5000"],
        ),
        ("fuzzing", &["fuzz", "--seconds", seconds]),
        ("every seeded bug is found", &["mutants"]),
    ];
    for (name, words) in runs {
        let mut command = run::cmd("cargo", ["run", "--quiet", "--package", "tandem-sim", "--"]);
        command.args(words).current_dir(&bench.cx.root);
        bench.command(name, &mut command);
    }
    Ok(())
}

fn app(bench: &mut Bench) -> Result<()> {
    // The whole window is tried against the service on a simulated machine.
    let mut service = run::cmd("cargo", ["build", "--quiet", "--package", "tandem-helper"]);
    run::logged(service.current_dir(&bench.cx.root), &bench.log)?;
    cargo_test(bench, &["tandem"], Some("xvfb-run"))
}

/// Runs the tests of some packages, through `wrapper` if there is one, and counts each test.
pub fn cargo_test(bench: &mut Bench, packages: &[&str], wrapper: Option<&str>) -> Result<()> {
    let mut words: Vec<&str> = Vec::new();
    if let Some(wrapper) = wrapper {
        words.extend([wrapper, "--auto-servernum"]);
    }
    words.extend(["cargo", "test", "--quiet", "--no-fail-fast"]);
    for package in packages {
        words.extend(["--package", package]);
    }
    let mut command: Command = run::cmd(words[0], &words[1..]);
    command.current_dir(&bench.cx.root);
    let result = run::logged(&mut command, &bench.log);
    let (passed, failed) = counted(&fs::read_to_string(&bench.log)?);
    bench.passed += passed;
    if let Err(error) = result {
        // A test program that crashed has no closing line: count it all the same.
        for _ in 1..failed {
            bench.failed.push(format!("one of {}", packages.join(", ")));
        }
        bench.check(&packages.join(", "), Err(error));
    } else if failed > 0 {
        bail!("cargo test succeeded with {failed} failed tests");
    }
    Ok(())
}

/// Sums of all lines `test result: ok. 3 passed; 0 failed; ...`.
fn counted(log: &str) -> (u64, u64) {
    let number = |line: &str, word: &str| -> u64 {
        line.split([';', '.'])
            .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
            .unwrap_or(0)
    };
    log.lines()
        .filter(|line| line.starts_with("test result:"))
        .fold((0, 0), |(passed, failed), line| {
            (
                passed + number(line, "passed"),
                failed + number(line, "failed"),
            )
        })
}

#[cfg(test)]
mod tests {
    #[test]
    fn closing_lines_are_summed() {
        let log = "x\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n\
                   test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured\n";
        assert_eq!(super::counted(log), (13, 2));
    }
}
