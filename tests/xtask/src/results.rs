// SPDX-License-Identifier: GPL-3.0-or-later
//! What became of each layer's tests, in a file of its own: `target/test/LAYER.json`.
//!
//! A result counts for the sources that it was made from, and for no others: that is the tree of the commit without
//! `tests/logs`, where the results of that very tree are written down later.

use std::path::PathBuf;
use std::{fmt, fs};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cx::Cx;
use crate::{hash, run};

/// Files in here tell of tests, and change nothing that is tested.
pub const LOGS: &str = "tests/logs";

/// The sources that a test ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// The commit that was checked out.
    pub commit: String,
    /// Checksum over all of its files but the logs.
    pub tree: String,
    /// No file differed from the commit.
    pub clean: bool,
}

impl Sources {
    /// As they lie in the work tree now.
    pub fn now(cx: &Cx) -> Result<Self> {
        let git = |words: &[&str]| run::output(run::cmd("git", words).current_dir(&cx.root));
        let files = git(&["ls-tree", "-r", "--full-tree", "HEAD"])?;
        let tested = files.lines().filter(|line| {
            let path = line.split('\t').nth(1).unwrap_or_default();
            !path.starts_with(&format!("{LOGS}/"))
        });
        let logs = format!(":(exclude){LOGS}");
        Ok(Self {
            commit: git(&["rev-parse", "HEAD"])?.trim().to_owned(),
            tree: hash::key(tested),
            clean: git(&["status", "--porcelain", "--", ".", &logs])?.is_empty(),
        })
    }

    /// Why a result of these sources does not count for the sources `now`; nothing if it does.
    pub fn stale(&self, now: &Sources) -> Option<String> {
        if self.tree != now.tree {
            Some(format!("of other sources, {}", self.short()))
        } else if !self.clean {
            Some(format!("of changed sources, not quite {}", self.short()))
        } else {
            None
        }
    }

    /// The commit as people write it.
    pub fn short(&self) -> &str {
        self.commit.get(..12).unwrap_or(&self.commit)
    }
}

/// One test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Test {
    /// Its name, which no other of the layer has.
    pub name: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How long it took, if it was measured.
    pub seconds: Option<f64>,
    /// Why it failed or was skipped; of a seeded bug, which test found it.
    pub words: String,
}

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It ran, and what it tests holds.
    Passed,
    /// It ran, or could not be started, and shows a fault.
    Failed,
    /// It could not run here. It shows nothing, and its layer stays green.
    Skipped,
}

impl Outcome {
    /// The outcome of a test that ran.
    pub fn of(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }
}

/// How many tests passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that were skipped.
    pub skipped: usize,
}

impl Counts {
    /// Counts tests.
    pub fn of<'a>(tests: impl IntoIterator<Item = &'a Test>) -> Self {
        let mut counts = Self::default();
        for test in tests {
            match test.outcome {
                Outcome::Passed => counts.passed += 1,
                Outcome::Failed => counts.failed += 1,
                Outcome::Skipped => counts.skipped += 1,
            }
        }
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(text, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// One layer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Layer {
    /// Its name.
    pub name: String,
    /// What it ran on.
    pub sources: Sources,
    /// When it ended, in UTC.
    pub date: String,
    /// Large matrices were run whole.
    pub all: bool,
    /// Processors of the machine.
    pub processors: usize,
    /// How long it took.
    pub seconds: f64,
    /// Its tests.
    pub tests: Vec<Test>,
    /// What it measured, a line each.
    pub figures: Vec<String>,
}

impl Layer {
    /// How many of its tests passed, failed and were skipped.
    pub fn counts(&self) -> Counts {
        Counts::of(&self.tests)
    }

    /// Its tests with one outcome.
    pub fn tests_that(&self, outcome: Outcome) -> impl Iterator<Item = &Test> {
        self.tests
            .iter()
            .filter(move |test| test.outcome == outcome)
    }

    /// The test of that name.
    pub fn test(&self, name: &str) -> Option<&Test> {
        self.tests.iter().find(|test| test.name == name)
    }

    /// Writes the layer's file.
    pub fn save(&self, cx: &Cx) -> Result<()> {
        let path = file(cx, &self.name);
        fs::write(&path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads a layer's file, if it was ever run.
    pub fn load(cx: &Cx, name: &str) -> Result<Option<Self>> {
        let path = file(cx, name);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path)?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is no result of a layer", path.display()))
            .map(Some)
    }
}

fn file(cx: &Cx, layer: &str) -> PathBuf {
    cx.target.join("test").join(format!("{layer}.json"))
}

#[cfg(test)]
mod tests {
    use super::Sources;

    fn sources(tree: &str, clean: bool) -> Sources {
        Sources {
            commit: "c".repeat(40),
            tree: tree.to_owned(),
            clean,
        }
    }

    #[test]
    fn only_results_of_the_same_clean_tree_count() {
        let now = sources("a", false);
        assert_eq!(sources("a", true).stale(&now), None);
        assert!(sources("a", false).stale(&now).is_some());
        assert!(sources("b", true).stale(&now).is_some());
    }
}
