// SPDX-License-Identifier: GPL-3.0-or-later
//! One layer of tests: a name, what it holds to, and a function which runs it and counts.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cx::Cx;
use crate::run;

/// One layer of `cargo xtask test`.
pub struct Layer {
    /// Name for `--only` and for the log file; a common prefix such as `uml-` selects several.
    pub name: &'static str,
    /// What the layer shows, in half a line.
    pub about: &'static str,
    /// Runs the layer. An error counts as one failed test, so that a layer which cannot start is never green.
    pub run: fn(&mut Bench) -> Result<()>,
}

/// What a layer works with, and where it counts its results.
pub struct Bench<'a> {
    /// The work tree and the cache.
    pub cx: &'a Cx,
    /// The whole matrix instead of the pairwise subset.
    pub all: bool,
    /// The layer's log; everything that its programs print goes there.
    pub log: PathBuf,
    /// Tests that passed.
    pub passed: u64,
    /// Names of the tests that failed.
    pub failed: Vec<String>,
}

impl<'a> Bench<'a> {
    /// Starts an empty log for a layer.
    pub fn new(cx: &'a Cx, all: bool, log: &Path) -> Result<Self> {
        File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
        Ok(Self {
            cx,
            all,
            log: log.to_owned(),
            passed: 0,
            failed: Vec::new(),
        })
    }

    /// Writes a line to the log.
    pub fn note(&self, text: &str) {
        if let Ok(mut log) = File::options().append(true).open(&self.log) {
            let _ = writeln!(log, "{text}");
        }
    }

    /// Counts one named test by its result; a failure goes to the log, and the layer goes on.
    pub fn check(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                self.note(&format!("ok     {name}"));
                self.passed += 1;
            }
            Err(error) => {
                self.note(&format!("FAILED {name}: {error:#}"));
                eprintln!("\n    failed: {name}: {error:#}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Runs a command into the log and counts it as one test.
    pub fn command(&mut self, name: &str, command: &mut Command) {
        self.note(&format!("--- {name}"));
        let result = run::logged(command, &self.log);
        self.check(name, result);
    }
}
