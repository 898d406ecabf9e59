// SPDX-License-Identifier: GPL-3.0-or-later
//! Counts the tests that test programs of cargo report on their output.

use anyhow::{Result, ensure};

use crate::layer::Run;
use crate::results::{Counts, Outcome, Test};

/// Counts each test that a test program reports, and returns how many failed.
///
/// # Errors
/// The lines of the tests and the closing line disagree.
pub fn count(run: &mut Run, program: &str, said: &str) -> Result<u64> {
    let tests = each(program, said);
    let counts = Counts::of(&tests);
    // A test that skips itself has passed for its test program.
    let passed = (counts.passed + counts.skipped) as u64;
    let failed = counts.failed as u64;
    tests.into_iter().for_each(|test| run.count(test));
    ensure!(
        result_agrees(said, passed, failed),
        "the tests' own lines do not add up to the closing lines"
    );
    Ok(failed)
}

/// Beginning of the line of a test that cannot run here; the reason follows.
const SKIP: &str = "SKIP: because ";

/// Each `test NAME ... ok` of a program. The output of tests that passed stands below these lines.
fn each(program: &str, log: &str) -> Vec<Test> {
    let mut output_of = String::new();
    let mut tests: Vec<Test> = Vec::new();
    for line in log.lines() {
        let line = line.trim();
        if let Some(name) = line
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

/// Whether the closing line, `test result: ok. 3 passed; 0 failed; ...`, says the same.
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

    const LOG: &str = "\n\
        running 3 tests\n\
        test words::are_plain ... ok\n\
        test words::are_short ... FAILED\n\
        test slow ... ignored\n\
        dbus-daemon[7]: test no_cut_breaks_a_promise ... ok\n\
        test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured\n";

    #[test]
    fn each_test_has_the_name_of_its_program() {
        let found: Vec<_> = each("tandem_api", LOG)
            .into_iter()
            .map(|test| (test.name, test.outcome))
            .collect();
        let expected = [
            ("tandem_api::words::are_plain", Outcome::Passed),
            ("tandem_api::words::are_short", Outcome::Failed),
            ("tandem_api::no_cut_breaks_a_promise", Outcome::Passed),
        ];
        assert_eq!(
            found,
            expected.map(|(name, outcome)| (name.to_owned(), outcome))
        );
    }

    #[test]
    fn a_test_that_prints_why_it_cannot_run_is_skipped() {
        const LOG: &str = "test one ... ok\n\
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
        let tests = each("conformance", LOG);
        assert_eq!(tests[0].outcome, Outcome::Passed);
        assert_eq!(tests[1].outcome, Outcome::Skipped);
        assert_eq!(tests[1].words, "because the disks are real");
    }

    #[test]
    fn the_closing_line_agrees() {
        assert!(result_agrees(LOG, 2, 1));
        assert!(!result_agrees(LOG, 3, 0));
    }
}
