// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into the helper. All are built in one copy of the work tree, and of each the test that it names must
//! fail. The copy has a target directory of its own: in a shared one, cargo takes files of the copy for files of the work
//! tree.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tandem_harness::cx::Cx;
use tandem_harness::deps::Need;
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::run;
use tandem_mutants::{Bug, SWITCH};

use super::{Chosen, Failure, build_all, copy, errors, limited, taken};

/// The seeded bugs.
pub const DIR: &str = "helper/mutants";
/// How many bugs are hunted without `--all`.
const ORDINARY: usize = 8;
/// Longest time of one test.
const LIMIT: Duration = Duration::from_secs(240);
/// The copy of the work tree, and what is built from it, below cargo's target directory.
pub const COPY: &str = "helper-mutants";
const BUILT: &str = "helper-mutants-built";
/// The packages whose tests find the bugs, with their directories.
const PACKAGES: [(&str, &str); 4] = [
    ("tandem-assemble", "helper/assemble"),
    ("tandem-helper", "helper"),
    ("tandem-simulated", "helper/sim"),
    ("tandem-rescue", "helper/rescue"),
];

/// The layer.
pub fn layer() -> Layer {
    Layer {
        name: "helper-mutants",
        about: "each bug seeded into the helper is found by its tests",
        needs: &[Need::Helper, Need::Services],
        when: When::Sampled(8),
        run: hunt,
    }
}

/// Waits until no other layer builds a copy of the work tree, and keeps the others waiting. One directory for all is
/// built in less time, and test programs of several copies would have the same names.
pub fn locked(cx: &Cx) -> Result<File> {
    let lock = File::create(cx.target.join(COPY).with_extension("lock"))?;
    lock.lock()
        .context("cannot lock the copy of the work tree")?;
    Ok(lock)
}

fn hunt(run: &mut Run) -> Result<()> {
    let _lock = locked(run.cx)?;
    let bugs = taken(run, DIR, ORDINARY)?;
    let mut copy = copy(run, ".", &["."], COPY, &bugs)?;
    let dir = copy.dir().to_owned();
    build_all(run, &mut copy, |run| build(run, &dir))?;
    let programs = programs(run, &dir)?;
    let build = |run: &mut Run| build(run, &dir);
    super::hunt(run, &copy, &bugs, build, |run, bug, chosen| {
        fails(run, &programs, &dir, bug, chosen)
    })
}

/// The command that builds the test programs of the helper in a copy of the work tree.
fn cargo(run: &Run, tree: &Path) -> Command {
    let mut command = run::cmd("cargo", ["test", "--no-run", "--message-format", "short"]);
    for (package, _) in PACKAGES {
        command.args(["--package", package]);
    }
    // Programs without line numbers are linked in less than half of the time.
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    command.env("CARGO_INCREMENTAL", "1");
    command.env("CARGO_TARGET_DIR", run.cx.target.join(BUILT));
    command.current_dir(tree);
    command
}

pub fn build(run: &mut Run, tree: &Path) -> Result<Option<String>> {
    Ok(errors(run.said(&mut cargo(run, tree))?))
}

/// The test programs by their names: of several with one name, as of a library and its main program, the library's.
pub fn programs(run: &mut Run, tree: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let (said, result) = run.said(&mut cargo(run, tree))?;
    result?;
    let mut programs = BTreeMap::new();
    for line in said.lines() {
        let Some(rest) = line.trim().strip_prefix("Executable ") else {
            continue;
        };
        let file = rest
            .rsplit_once('(')
            .and_then(|(_, end)| end.strip_suffix(')'));
        let path = tree.join(file.with_context(|| format!("no file in {line:?}"))?);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
        programs.entry(name.to_owned()).or_insert(path);
    }
    Ok(programs)
}

/// Runs the test that must fail.
fn fails(
    run: &mut Run,
    programs: &BTreeMap<String, PathBuf>,
    tree: &Path,
    bug: &Bug,
    chosen: Chosen,
) -> Result<Failure> {
    let (program, test) = bug
        .case
        .split_once("::")
        .with_context(|| format!("{:?} is not PROGRAM::TEST", bug.case))?;
    let path = programs
        .get(program)
        .with_context(|| format!("no test program {program}"))?;
    let dir = match program {
        "tandem_helper" => "helper",
        "rescue" => "helper/rescue",
        _ => "helper/sim",
    };
    let mut command = Command::new(path);
    command.args(["--exact", test]).current_dir(tree.join(dir));
    command.env(SWITCH, chosen.number.to_string());
    let ran = limited(run, &mut command, bug.limit.unwrap_or(LIMIT))?;
    if ran.said.contains(&format!("test {test} ... ok")) {
        bail!("not found by {:?}", bug.case)
    } else if !ran.said.contains(&format!("test {test} ... FAILED")) {
        bail!("the test {:?} did not come to an end", bug.case)
    }
    let layer = if program == "rescue" {
        "rescue"
    } else {
        "programs"
    };
    Ok(Failure {
        test: format!("{layer}/{}", bug.case),
        said: ran.said,
        time: ran.time,
    })
}
