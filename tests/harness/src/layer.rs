// SPDX-License-Identifier: GPL-3.0-or-later
//! One layer of tests: a name, what it checks, and a function that runs it and counts its tests.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::cx::Cx;
use crate::deps::Need;
use crate::results::{Outcome, Test};
use crate::run;

/// One layer of `cargo xtask test`.
pub struct Layer {
    /// Name for `--only` and for the log file.
    pub name: &'static str,
    /// What the layer shows, in half a line.
    pub about: &'static str,
    /// The Debian packages that the layer needs.
    pub needs: &'static [Need],
    /// When the layer runs.
    pub when: When,
    /// Runs the layer. An error counts as one failed test, so that a layer which cannot start is never green.
    pub run: fn(&mut Run) -> Result<()>,
}

/// When a layer runs, unless `--only` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In every run.
    Always,
    /// In every run with `--all`. Without it, the commit decides which of these layers run; this one takes about so many
    /// minutes then.
    Sampled(u64),
    /// The layer runs only with `--all`.
    Whole,
}

/// The settings of a layer's run, and the place where it counts its results.
pub struct Run<'a> {
    /// The work tree and the cache.
    pub cx: &'a Cx,
    /// The whole matrix instead of the pairwise subset.
    pub all: bool,
    /// How long each target is fuzzed.
    pub fuzz_seconds: u64,
    /// Name of the one test to run; `None` runs all tests.
    pub case: Option<String>,
    /// The layer's log, which takes all output of its programs.
    pub log: PathBuf,
    /// The tests counted so far.
    pub tests: Vec<Test>,
    /// The measured figures, a line each.
    pub figures: Vec<String>,
    /// When the last test ended.
    since: Instant,
}

impl<'a> Run<'a> {
    /// Starts an empty log for a layer.
    pub fn new(cx: &'a Cx, log: &Path) -> Result<Self> {
        File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
        Ok(Self {
            cx,
            all: false,
            fuzz_seconds: 0,
            case: None,
            log: log.to_owned(),
            tests: Vec::new(),
            figures: Vec::new(),
            since: Instant::now(),
        })
    }

    /// Whether the layer looks at all of its tests: with `--all`, and to find the one selected test.
    pub fn is_whole(&self) -> bool {
        self.all || self.case.is_some()
    }

    /// Whether the test of this name is to run.
    pub fn wants(&self, name: &str) -> bool {
        self.case.as_deref().is_none_or(|case| case == name)
    }

    /// Whether the one selected test has run.
    pub fn is_done(&self) -> bool {
        let case = self.case.as_deref();
        case.is_some_and(|case| self.tests.iter().any(|test| test.name == case))
    }

    /// Writes a line to the log.
    pub fn note(&self, text: &str) {
        if let Ok(mut log) = File::options().append(true).open(&self.log) {
            let _ = writeln!(log, "{text}");
        }
    }

    /// Counts one named test by its result; the test ran since the last counted one. A failure goes to the log, and the
    /// layer goes on.
    pub fn check(&mut self, name: &str, result: Result<()>) {
        match &result {
            Ok(()) => self.note(&format!("ok     {name}")),
            Err(error) => self.note(&format!("FAILED {name}: {error:#}")),
        }
        let seconds = self.since.elapsed().as_secs_f64();
        self.since = Instant::now();
        self.count(Test {
            name: name.to_owned(),
            outcome: Outcome::of(result.is_ok()),
            seconds: Some(seconds),
            words: result
                .err()
                .map_or(String::new(), |error| format!("{error:#}")),
        });
    }

    /// Runs tests, each from the state that the test before it has left: until a test fails, as nobody knows the state then,
    /// or until the one test that is wanted is done.
    pub fn in_turn<T>(
        &mut self,
        state: &mut T,
        tests: impl IntoIterator<Item = (&'static str, fn(&mut T, &Run) -> Result<()>)>,
    ) {
        for (name, test) in tests {
            let result = test(state, self);
            let failed = result.is_err();
            self.check(name, result);
            if failed || self.is_done() {
                break;
            }
        }
    }

    /// Counts a test that cannot run here.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.note(&format!("skip   {name}: because {why}"));
        self.count(Test {
            name: name.to_owned(),
            outcome: Outcome::Skipped,
            seconds: None,
            words: format!("because {why}"),
        });
    }

    /// Counts a test that is already in the log.
    pub fn count(&mut self, test: Test) {
        match test.outcome {
            Outcome::Passed => {}
            Outcome::Failed => eprintln!("\n    failed: {}: {}", test.name, test.words),
            Outcome::Skipped => println!("    skipped: {}: {}", test.name, test.words),
        }
        self.tests.push(test);
    }

    /// Whether a test failed so far.
    pub fn has_failed(&self) -> bool {
        self.tests
            .iter()
            .any(|test| test.outcome == Outcome::Failed)
    }

    /// Runs a command into the log and counts it as one test.
    pub fn command(&mut self, name: &str, command: &mut Command) {
        self.note(&format!("--- {name}"));
        let result = run::logged(command, &self.log);
        self.check(name, result);
    }

    /// Runs a command into the log and returns its output.
    pub fn said(&mut self, command: &mut Command) -> Result<(String, Result<()>)> {
        let before = fs::metadata(&self.log)?.len();
        let result = run::logged(command, &self.log);
        let all = fs::read(&self.log)?;
        let new = all.get(usize::try_from(before)?..).unwrap_or_default();
        Ok((String::from_utf8_lossy(new).into_owned(), result))
    }
}
