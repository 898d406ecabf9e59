// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into the helper: each is built in a copy of the work tree, and its test must fail. What is built of them
//! is kept apart: cargo takes files of a copy for those of the work tree if both are built into one folder.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Mutant, all};
use crate::layer::Bench;
use crate::results::Test;
use crate::run;

/// Runs the layer.
pub fn run(bench: &mut Bench) -> Result<()> {
    let tree = bench.cx.target.join("helper-mutants");
    copy(&bench.cx.root, &tree)?;
    for mutant in all(&bench.cx.path("helper/mutants"))? {
        if !bench.wants(&mutant.name) {
            continue;
        }
        let result = hunt(bench, &tree, &mutant);
        bench.note(&format!("{}: {}: {result:?}", mutant.name, mutant.why));
        bench.count(Test::hunted(&mutant, "programs", result));
    }
    Ok(())
}

/// Copies what is under version control. All of it is newer than what was built of an earlier copy.
fn copy(root: &Path, tree: &Path) -> Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    fs::create_dir_all(tree)?;
    let script = "git ls-files -z | tar --create --null --files-from=- | tar --extract --touch --directory=\"$1\"";
    let mut command = run::cmd("bash", ["-o", "pipefail", "-c", script, "copy"]);
    run::output(command.arg(tree).current_dir(root)).map(drop)
}

/// Runs the bug's test; returns how long it took to build and fail.
fn hunt(bench: &mut Bench, tree: &Path, mutant: &Mutant) -> Result<Duration> {
    let (program, test) = mutant
        .case
        .split_once("::")
        .with_context(|| format!("{:?} is not PROGRAM::TEST", mutant.case))?;
    let file = tree.join(&mutant.file);
    let right = fs::read_to_string(&file)?;
    mutant.seed(tree)?;
    let start = Instant::now();
    let mut command = run::cmd("cargo", ["test", "--package"]);
    match program {
        "tandem_helper" => command.args(["tandem-helper", "--lib"]),
        _ => command.args(["tandem-simulated", "--test", program]),
    };
    command.args(["--", "--exact", test]).current_dir(tree);
    let built = bench.cx.target.join("helper-mutants-built");
    let ran = bench.said(command.env("CARGO_TARGET_DIR", built));
    fs::write(&file, right)?;
    let (said, _) = ran?;
    if said.contains(&format!("test {test} ... FAILED")) {
        Ok(start.elapsed())
    } else if said.contains(&format!("test {test} ... ok")) {
        bail!("not found by {:?}", mutant.case)
    } else {
        bail!("the test {:?} did not come to an end", mutant.case)
    }
}
