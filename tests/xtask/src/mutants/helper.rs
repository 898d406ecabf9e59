// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into the helper. Each is built in a copy of the work tree, and its test must fail. The copy has a target
//! directory of its own: in a shared one, cargo takes files of the copy for files of the work tree.

use std::fs;
use std::path::Path;
use std::time::Instant;
use tandem_harness::deps::Need;

use anyhow::{Context, Result, bail};

use super::{Failure, Mutant, hunt_all};
use tandem_harness::layer::{Bench, Layer, When};
use tandem_harness::run;

/// The seeded bugs.
pub const DIR: &str = "helper/mutants";
/// How many bugs are hunted without `--all`.
const ORDINARY: usize = 8;

/// The layer.
pub fn layer() -> Layer {
    Layer {
        name: "helper-mutants",
        about: "each bug seeded into the helper is found by its tests",
        needs: &[Need::Helper, Need::Services],
        when: When::Sampled(4),
        run: hunt,
    }
}

fn hunt(bench: &mut Bench) -> Result<()> {
    let tree = bench.cx.target.join("helper-mutants");
    copy(&bench.cx.root, &tree)?;
    hunt_all(bench, DIR, ORDINARY, |bench, mutant| {
        fails(bench, &tree, mutant)
    })
}

/// Copies the files under version control. All copies are newer than results that were built from an earlier copy.
fn copy(root: &Path, tree: &Path) -> Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    fs::create_dir_all(tree)?;
    let script = "git ls-files -z | tar --create --null --files-from=- | tar --extract --touch --directory=\"$1\"";
    let mut command = run::cmd("bash", ["-o", "pipefail", "-c", script, "copy"]);
    run::output(command.arg(tree).current_dir(root)).map(drop)
}

/// Builds the helper with the bug and runs the test that must fail.
fn fails(bench: &mut Bench, tree: &Path, mutant: &Mutant) -> Result<Failure> {
    let (program, test) = mutant
        .test
        .split_once("::")
        .with_context(|| format!("{:?} is not PROGRAM::TEST", mutant.test))?;
    let file = tree.join(&mutant.file);
    let right = fs::read_to_string(&file)?;
    mutant.seed(tree)?;
    let start = Instant::now();
    let mut command = run::cmd("cargo", ["test", "--package"]);
    match program {
        "tandem_helper" => command.args(["tandem-helper", "--lib"]),
        "rescue" => command.args(["tandem-rescue", "--test", program]),
        _ => command.args(["tandem-simulated", "--test", program]),
    };
    command.args(["--", "--exact", test]).current_dir(tree);
    let built = bench.cx.target.join("helper-mutants-built");
    // Each program is linked once for each bug: without line numbers that takes less than half of the time.
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    // From one bug to the next a file changes; .ci/run builds without incremental files.
    command.env("CARGO_INCREMENTAL", "1");
    let ran = bench.said(command.env("CARGO_TARGET_DIR", built));
    fs::write(&file, right)?;
    let (said, _) = ran?;
    if said.contains(&format!("test {test} ... ok")) {
        bail!("not found by {:?}", mutant.test)
    } else if !said.contains(&format!("test {test} ... FAILED")) {
        bail!("the test {:?} did not come to an end", mutant.test)
    }
    // cargo's output comes before the test's output, and its warnings quote words of the sources.
    let (_, said) = said.split_once("failures:").unwrap_or(("", &said));
    Ok(Failure {
        test: match program {
            "rescue" => format!("rescue/{}", mutant.test),
            _ => format!("programs/{}", mutant.test),
        },
        said: said.to_owned(),
        time: start.elapsed(),
    })
}
