// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask promises`: each promise of the crash contract with the tests that keep it and the seeded bugs that those
//! tests were seen to find, from the results of these very sources. `tests/promises.toml` says which they are.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cx::Cx;
use crate::inputs::Tree;
use crate::results::{Layer, Outcome};
use crate::test;

/// Promises of the contract.
const PROMISES: usize = 34;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    promise: Vec<Promise>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    number: usize,
    /// The promise in short.
    words: String,
    /// Tests as LAYER/NAME.
    tests: Vec<String>,
    /// Seeded bugs as LAYER/NAME; the test passes when the bug is found.
    bugs: Vec<String>,
}

/// A layer's result, and whether it counts for the commit that is checked out.
struct Known {
    result: Layer,
    counts: bool,
}

/// What is known of one promise.
pub struct Line {
    /// It has tests and seeded bugs, all ran on these sources, all passed.
    pub kept: bool,
    /// Number, words, tests, bugs.
    pub text: String,
}

/// Prints one line a promise; fails unless each is kept.
pub fn command(cx: &Cx) -> Result<ExitCode> {
    let lines = lines(cx)?;
    for line in &lines {
        println!("{}", line.text);
    }
    let kept = lines.iter().filter(|line| line.kept).count();
    println!("{kept} of {} promises kept", lines.len());
    Ok(if kept == lines.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Each promise by the results that are there.
pub fn lines(cx: &Cx) -> Result<Vec<Line>> {
    let file = read(cx)?;
    let head = Tree::of_head(cx)?;
    let mut layers = BTreeMap::new();
    for layer in test::layers() {
        let key = layer.inputs.key(cx, &head)?;
        let fresh = Layer::of_inputs(cx, layer.name, &key)?;
        let counts = fresh.is_some();
        if let Some(result) =
            fresh.map_or_else(|| Layer::load(cx, layer.name), |fresh| Ok(Some(fresh)))?
        {
            layers.insert(result.name.clone(), Known { result, counts });
        }
    }
    let lines = file.promise.iter().map(|promise| line(promise, &layers));
    Ok(lines.collect())
}

fn read(cx: &Cx) -> Result<File> {
    let text = std::fs::read_to_string(cx.path("tests/promises.toml"))?;
    let file: File = toml::from_str(&text).context("tests/promises.toml")?;
    let numbers: Vec<_> = file.promise.iter().map(|promise| promise.number).collect();
    let expected: Vec<_> = (1..=PROMISES).collect();
    ensure!(
        numbers == expected,
        "tests/promises.toml does not have the promises 1 to {PROMISES} in order: {numbers:?}"
    );
    Ok(file)
}

fn line(promise: &Promise, layers: &BTreeMap<String, Known>) -> Line {
    let mut kept = true;
    let mut told = |names: &[String], none: &str| {
        if names.is_empty() {
            kept = false;
            return none.to_owned();
        }
        let each = names.iter().map(|name| {
            let (passed, words) = found(name, layers);
            kept &= passed;
            format!("{name}{words}")
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let tests = told(&promise.tests, "TEST MISSING");
    let bugs = told(&promise.bugs, "SEEDED BUG MISSING");
    Line {
        kept,
        text: format!(
            "{:>2} {} {}: {tests}; found {bugs}",
            promise.number,
            if kept { "kept" } else { "OPEN" },
            promise.words
        ),
    }
}

/// Whether a test passed, and what there is to say of it beyond that.
fn found(name: &str, layers: &BTreeMap<String, Known>) -> (bool, String) {
    let (layer, test) = name.split_once('/').unwrap_or((name, ""));
    let Some(Known { result, counts }) = layers.get(layer) else {
        return (false, " (NOT RUN)".to_owned());
    };
    if !counts {
        return (
            false,
            format!(" (STALE, of other inputs, {})", result.origin()),
        );
    }
    match result.test(test) {
        None => (false, " (NO SUCH TEST)".to_owned()),
        Some(test) if test.outcome == Outcome::Failed => (false, " (FAILED)".to_owned()),
        Some(test) if test.outcome == Outcome::Skipped => {
            (false, format!(" (SKIPPED, {})", test.words))
        }
        // Of a seeded bug: what found it, and when.
        Some(test) if !test.words.is_empty() => {
            let seconds = test.seconds.unwrap_or_default();
            (true, format!(" ({}, {seconds:.1} s)", test.words))
        }
        Some(_) => (true, " (passed)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::results::Test;

    fn layers(counts: bool, cuts: Outcome) -> BTreeMap<String, Known> {
        let test = |name: &str, outcome, words: &str| Test {
            name: name.to_owned(),
            outcome,
            seconds: Some(0.5),
            words: words.to_owned(),
        };
        let layer = |name: &str, tests| Layer {
            name: name.to_owned(),
            commit: "c".repeat(40),
            changed: false,
            inputs: Some("key".to_owned()),
            date: String::new(),
            all: false,
            fuzz_seconds: 15,
            processors: 2,
            seconds: 1.0,
            tests,
            figures: Vec::new(),
        };
        let all = [
            layer("engine", vec![test("cuts", cuts, "")]),
            layer("mutants", vec![test("bug", Outcome::Passed, "power cuts")]),
        ];
        all.map(|result| (result.name.clone(), Known { result, counts }))
            .into()
    }

    fn promise(tests: &[&str], bugs: &[&str]) -> Promise {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Promise {
            number: 7,
            words: "a slot is freed first".into(),
            tests: owned(tests),
            bugs: owned(bugs),
        }
    }

    #[test]
    fn a_promise_is_kept_by_a_test_that_passed_and_a_bug_that_was_found() {
        let line = line(
            &promise(&["engine/cuts"], &["mutants/bug"]),
            &layers(true, Outcome::Passed),
        );
        assert!(line.kept);
        assert_eq!(
            line.text,
            " 7 kept a slot is freed first: engine/cuts (passed); found mutants/bug (power cuts, 0.5 s)"
        );
    }

    #[test]
    fn whatever_lacks_is_named() {
        let cases = [
            (
                promise(&[], &["mutants/bug"]),
                Outcome::Passed,
                true,
                "TEST MISSING",
            ),
            (
                promise(&["engine/cuts"], &[]),
                Outcome::Passed,
                true,
                "SEEDED BUG MISSING",
            ),
            (
                promise(&["engine/cuts"], &["mutants/bug"]),
                Outcome::Failed,
                true,
                "FAILED",
            ),
            (
                promise(&["engine/cuts"], &["mutants/bug"]),
                Outcome::Skipped,
                true,
                "SKIPPED",
            ),
            (
                promise(&["engine/cuts"], &["mutants/bug"]),
                Outcome::Passed,
                false,
                "STALE",
            ),
            (
                promise(&["engine/gone"], &["mutants/bug"]),
                Outcome::Passed,
                true,
                "NO SUCH TEST",
            ),
            (
                promise(&["vm-kill/x"], &["mutants/bug"]),
                Outcome::Passed,
                true,
                "NOT RUN",
            ),
        ];
        for (promise, cuts, counts, word) in cases {
            let line = line(&promise, &layers(counts, cuts));
            assert!(!line.kept && line.text.contains(word), "{}", line.text);
        }
    }

    /// What can be told without running anything: the names of cases and of seeded bugs.
    #[test]
    fn the_list_names_what_is_there() {
        let cx = Cx::new().unwrap();
        let all: BTreeSet<_> = test::layers().iter().map(|layer| layer.name).collect();
        let dir = cx.path("tests/uml/suite/src/cases");
        let cases: String = fs::read_dir(dir)
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        let flaws = [
            "anew-left",
            "flushdisk-",
            "flushssd-",
            "group-n",
            "head-",
            "marks-",
            "write-nofua",
            "writeback-",
        ];
        for promise in read(&cx).unwrap().promise {
            for name in promise.tests.iter().chain(&promise.bugs) {
                let (layer, test) = name.split_once('/').unwrap();
                assert!(all.contains(layer), "{}: no layer {layer}", promise.number);
                let there = match layer {
                    // Others are made by the simulator, which names them itself.
                    "mutants" if flaws.iter().any(|site| test.starts_with(site)) => true,
                    "mutants" => cx.path(&format!("kmod/sim/mutants/{test}.mutant")).exists(),
                    "uml-mutants" => cx
                        .path(&format!("tests/uml/mutants/{test}.mutant"))
                        .exists(),
                    "helper-mutants" => cx.path(&format!("helper/mutants/{test}.mutant")).exists(),
                    name if name.starts_with("uml-") || name.starts_with("kernel-") => {
                        cases.contains(&format!("\"{test}\""))
                    }
                    _ => true,
                };
                assert!(there, "{}: there is no {name}", promise.number);
            }
        }
    }
}
