// SPDX-License-Identifier: GPL-3.0-or-later
//! The results of each layer's tests, in a file for each layer: `target/test/LAYER.json`.
//!
//! The results are of the last run, and are read by `cargo xtask promises`.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cx::Cx;

/// One test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Test {
    /// Name of the test, which no other test of the layer has.
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
    /// The test ran, and what it tests holds.
    Passed,
    /// The test ran, or could not be started, and shows a fault.
    Failed,
    /// The test could not run here. It shows nothing, and its layer stays green.
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
    /// Name of the layer.
    pub name: String,
    /// The commit that was checked out when it ran.
    pub commit: String,
    /// Files of the work tree differed from that commit.
    pub changed: bool,
    /// When it ended, in UTC.
    pub date: String,
    /// Large matrices were run whole.
    pub all: bool,
    /// How long each target was fuzzed, if the layer fuzzes.
    pub fuzz_seconds: u64,
    /// Processors of the machine.
    pub processors: usize,
    /// How long it took.
    pub seconds: f64,
    /// The tests of the layer.
    pub tests: Vec<Test>,
    /// What the layer measured, a line each.
    pub figures: Vec<String>,
}

impl Layer {
    /// The commit as people write it, with a `+` if the work tree differed from it.
    pub fn origin(&self) -> String {
        let commit = self.commit.get(..12).unwrap_or(&self.commit);
        format!("{commit}{}", if self.changed { "+" } else { "" })
    }

    /// How many of its tests passed, failed and were skipped.
    pub fn counts(&self) -> Counts {
        Counts::of(&self.tests)
    }

    /// The tests of the layer with one outcome.
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
        read(&file(cx, name))
    }
}

fn file(cx: &Cx, layer: &str) -> PathBuf {
    cx.target.join("test").join(format!("{layer}.json"))
}

fn read(path: &Path) -> Result<Option<Layer>> {
    if !path.exists() {
        return Ok(None);
    }
    // A result that an older xtask wrote in another form does not count.
    Ok(serde_json::from_str(&fs::read_to_string(path)?).ok())
}
