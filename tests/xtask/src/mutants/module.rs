// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into the kernel module. The module is built once with all of them, and of each a case of the suite in
//! User-mode Linux must fail.

use std::path::Path;
use std::time::{Duration, Instant};
use tandem_harness::{deps, kbuild};

use anyhow::{Result, bail};
use tandem_mutants::Bug;

use super::{Failure, build_all, copy, errors, taken};
use crate::{suite, uml};
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::results::Outcome;

/// The seeded bugs.
pub const DIR: &str = "tests/module/mutants";
/// Time after which a case with a bug counts as hanging. The slowest case, which swaps, takes less than half of it.
const HANGS: Duration = Duration::from_secs(120);
/// Time that a guest takes besides its case, on a busy machine.
const BEYOND: Duration = Duration::from_secs(60);
/// Time to power off. A guest with a bug may not be able to do that.
const POWER_OFF: Duration = Duration::from_secs(5);
/// How many bugs are hunted without `--all`.
const ORDINARY: usize = 5;

/// The layer.
pub fn layer() -> Layer {
    Layer {
        name: "uml-mutants",
        about: "each bug seeded into the kernel module is found in User-mode Linux",
        needs: deps::KERNEL,
        when: When::Sampled(2),
        run: hunt,
    }
}

fn hunt(run: &mut Run) -> Result<()> {
    let kernel = uml::kernel(run.cx, "plain")?;
    let bugs = taken(run, DIR, ORDINARY)?;
    let mut copy = copy(run, "kmod", &kbuild::KMOD, "uml-mutants/module", &bugs)?;
    let dir = copy.dir().to_owned();
    build_all(run, &mut copy, |run| build(run, &kernel, &dir))?;
    // The workers share these modules, which are built here.
    for set in ["", "time"] {
        kernel.modules_of_set(run, set, &dir)?;
    }
    let build = |run: &mut Run| build(run, &kernel, &dir);
    super::hunt(run, &copy, &bugs, build, |run, bug, chosen| {
        let module = chosen.module(&dir)?;
        fails(run, &kernel, &module, bug)
    })
}

/// Builds the module in a copy of its sources.
pub fn build(run: &mut Run, kernel: &uml::Kernel, dir: &Path) -> Result<Option<String>> {
    let mut make = kernel.make(dir);
    Ok(errors(run.said(&mut make)?))
}

/// Runs the case that must fail.
fn fails(run: &Run, kernel: &uml::Kernel, module: &Path, bug: &Bug) -> Result<Failure> {
    let set = uml::set_of(&bug.case);
    let modules = kernel.modules_of_set(run, set, module)?;
    // A word on a kernel's command line has no spaces.
    let only = bug.case.replace(' ', "_");
    let limit = bug.limit.unwrap_or(HANGS);
    let seconds = limit.as_secs().to_string();
    let variables = [
        ("SUITE_MODULES", modules.as_str()),
        ("SUITE_ONLY", &only),
        ("SUITE_LIMIT", &seconds),
    ];
    let mut guest = kernel.guest_of_set(run.cx, set, &variables)?;
    let mut said = String::new();
    let mut outcome = None;
    let start = Instant::now();
    suite::follow_until(&mut guest, limit + BEYOND, POWER_OFF, &run.log, |line| {
        if let Some(test) = suite::case(line)
            && test.name.starts_with(&bug.case)
            // If several cases have that name, one failure is enough.
            && outcome != Some(Outcome::Failed)
        {
            outcome = Some(test.outcome);
            said = test.words;
        }
    })?;
    match outcome {
        Some(Outcome::Failed) => {}
        Some(Outcome::Passed) => bail!("not found by {:?}", bug.case),
        Some(Outcome::Skipped) => bail!("{:?} was skipped {said}", bug.case),
        None => bail!("the case {:?} did not come to an end", bug.case),
    }
    Ok(Failure {
        test: format!("{}/{}", uml::layer_of(set), bug.case),
        said,
        time: start.elapsed(),
    })
}
