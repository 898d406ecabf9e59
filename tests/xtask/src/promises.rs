// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask promises`: each promise of the crash contract with its tests and its seeded bugs, and which of them the
//! last run passed.
//!
//! A mark stands beside what keeps a promise. In a source it is a comment, `// promise 1, 7: LAYER/TEST`; in a file
//! `*.mutant` it is a line `promise 7`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use tandem_harness::cx::Cx;
use tandem_harness::results::{Layer, Outcome};
use tandem_harness::run;

use crate::mutants;
use crate::test::layers;

/// The promises: a line `NUMBER. WORDS` each.
const CONTRACT: &str = "kmod/PROMISES.md";
/// Beginning of a mark in a source.
const MARK: &str = "// promise ";

/// What keeps a promise.
struct Mark {
    promise: usize,
    layer: String,
    test: String,
    /// The mark stands in this file.
    file: String,
}

impl Mark {
    /// Whether the mark is of a seeded bug: its test passes when the bug is found.
    fn is_bug(&self) -> bool {
        self.layer.ends_with("mutants")
    }
}

/// Prints each promise; fails unless the last run passed all of their tests.
pub fn command(cx: &Cx) -> Result<ExitCode> {
    let marks = marks(cx)?;
    let mut results = BTreeMap::new();
    for layer in layers() {
        if let Some(result) = Layer::load(cx, layer.name)? {
            results.insert(result.name.clone(), result);
        }
    }
    let mut kept = 0;
    let promises = contract(cx)?;
    for (number, words) in &promises {
        let of_this = || marks.iter().filter(|mark| mark.promise == *number);
        let told: Vec<_> = of_this().map(|mark| told(mark, &results)).collect();
        let has_both = of_this().any(Mark::is_bug) && of_this().any(|mark| !mark.is_bug());
        let all_passed = has_both && told.iter().all(|(passed, _)| *passed);
        kept += usize::from(all_passed);
        println!(
            "{number:>2} {} {words}",
            if all_passed { "kept" } else { "OPEN" }
        );
        for (_, line) in told {
            println!("        {line}");
        }
    }
    println!("{kept} of {} promises kept by the last run", promises.len());
    Ok(if kept == promises.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether the last run passed a test, and a line about the test.
fn told(mark: &Mark, results: &BTreeMap<String, Layer>) -> (bool, String) {
    let found = results
        .get(&mark.layer)
        .and_then(|layer| Some((layer, layer.test(&mark.test)?)));
    let kind = if mark.is_bug() { "bug " } else { "test" };
    let (passed, words) = match found {
        None => (false, "not run".to_owned()),
        Some((layer, test)) => (
            test.outcome == Outcome::Passed,
            format!(
                "{} at {} {}",
                match test.outcome {
                    Outcome::Passed => "passed",
                    Outcome::Failed => "FAILED",
                    Outcome::Skipped => "skipped",
                },
                layer.origin(),
                test.words.lines().next().unwrap_or_default()
            ),
        ),
    };
    (
        passed,
        format!(
            "{kind} {}/{} ({}): {}",
            mark.layer,
            mark.test,
            mark.file,
            words.trim_end()
        ),
    )
}

/// The promises with their numbers.
fn contract(cx: &Cx) -> Result<Vec<(usize, String)>> {
    let text = fs::read_to_string(cx.path(CONTRACT)).context(CONTRACT)?;
    let promise = |line: &str| {
        let (number, words) = line.split_once(". ")?;
        Some((number.parse().ok()?, words.to_owned()))
    };
    let promises: Vec<(usize, String)> = text.lines().filter_map(promise).collect();
    let numbers = promises.iter().map(|(number, _)| *number);
    ensure!(
        numbers.eq(1..=promises.len()),
        "{CONTRACT} does not number its promises from 1 on"
    );
    Ok(promises)
}

/// All marks in the sources.
fn marks(cx: &Cx) -> Result<Vec<Mark>> {
    let mut marks = Vec::new();
    let files =
        run::output(run::cmd("git", ["ls-files", "*.rs", "*.mutant"]).current_dir(&cx.root))?;
    for file in files.lines() {
        let text = fs::read_to_string(cx.path(file)).with_context(|| file.to_owned())?;
        let of_bug = mutants::DIRS
            .iter()
            .find(|(dir, ..)| Path::new(file).parent() == Some(Path::new(dir)));
        for line in text.lines().map(str::trim) {
            let mark = match of_bug {
                Some((_, layer, _)) => line
                    .strip_prefix("promise ")
                    .map(|numbers| (numbers, format!("{layer}/{}", stem(file)))),
                None => line
                    .strip_prefix(MARK)
                    .and_then(|rest| rest.split_once(": "))
                    .map(|(numbers, name)| (numbers, name.to_owned())),
            };
            let Some((numbers, name)) = mark else {
                continue;
            };
            let (layer, test) = name
                .split_once('/')
                .with_context(|| format!("{file}: a mark without LAYER/TEST: {line}"))?;
            for number in numbers
                .split([',', ' '])
                .filter(|number| !number.is_empty())
            {
                marks.push(Mark {
                    promise: number.parse().with_context(|| format!("{file}: {line}"))?,
                    layer: layer.to_owned(),
                    test: test.to_owned(),
                    file: file.to_owned(),
                });
            }
        }
    }
    Ok(marks)
}

fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cx() -> Cx {
        Cx::new().unwrap()
    }

    /// What can be told without running anything.
    #[test]
    fn each_promise_has_a_test_and_a_bug() {
        let marks = marks(&cx()).unwrap();
        for (number, words) in contract(&cx()).unwrap() {
            let of_this = || marks.iter().filter(|mark| mark.promise == number);
            assert!(
                of_this().any(|mark| !mark.is_bug()),
                "no test: {number} {words}"
            );
            assert!(
                of_this().any(Mark::is_bug),
                "no seeded bug: {number} {words}"
            );
        }
    }

    #[test]
    fn each_mark_names_a_layer_and_stands_beside_its_test() {
        let layers = layers();
        for mark in marks(&cx()).unwrap() {
            let place = format!("{}: {}/{}", mark.file, mark.layer, mark.test);
            assert!(
                layers.iter().any(|layer| layer.name == mark.layer),
                "{place}"
            );
            if mark.file.ends_with(".mutant") {
                continue;
            }
            let text = fs::read_to_string(cx().path(&mark.file)).unwrap();
            // The name stands in the mark and beside it, unless the layer makes the name from parts.
            let name = mark.test.rsplit("::").next().unwrap();
            let made = ["at least ", ": cut", " cuts", " cut ", " killed ", "-"];
            let is_made = made.iter().any(|part| name.contains(part));
            assert!(text.matches(name).count() > 1 || is_made, "{place}");
        }
    }

    #[test]
    fn a_test_that_did_not_run_keeps_nothing() {
        let mark = Mark {
            promise: 1,
            layer: "engine".into(),
            test: "gone".into(),
            file: String::new(),
        };
        assert!(!told(&mark, &BTreeMap::new()).0);
    }
}
