// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into the kernel module. The module is built with each bug, and a case of the suite in User-mode Linux
//! must fail.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tandem_harness::deps;
use tandem_harness::kbuild;

use anyhow::{Context, Result, bail};

use super::{Failure, Mutant, hunt_all};
use crate::{suite, uml};
use tandem_harness::layer::{Bench, Layer, When};
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
/// Arguments of make for a kernel of User-mode Linux.
const UML: [&str; 1] = ["ARCH=um"];

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

fn hunt(bench: &mut Bench) -> Result<()> {
    let kernel = uml::kernel(bench.cx, "plain")?;
    let build = bench.cx.target.join("uml-mutants/build");
    let source = bench.cx.path("kmod");
    kbuild::module(&source, &kernel.build, &build, &UML, &bench.log)?;
    hunt_all(bench, DIR, ORDINARY, |bench, mutant| {
        fails(bench, &kernel, &build, mutant)
    })
}

/// Builds the module with the bug and runs the case that must fail.
fn fails(bench: &Bench, kernel: &uml::Kernel, build: &Path, mutant: &Mutant) -> Result<Failure> {
    let (right, wrong) = (bench.cx.path("kmod"), build.with_file_name("source"));
    mutant.plant(&right, &wrong)?;
    // make compiles only this file, and compiles it again after the original file is put back.
    fs::copy(wrong.join(&mutant.file), build.join(&mutant.file))?;
    let made = kbuild::make(&kernel.build, build, &UML, &bench.log);
    fs::copy(right.join(&mutant.file), build.join(&mutant.file))?;
    made.context("it does not build")?;
    let set = uml::set_of(&mutant.test);
    let modules = kernel.modules_of_set(bench, set, &build.join("dm-tandem.ko"))?;
    // A word on a kernel's command line has no spaces.
    let only = mutant.test.replace(' ', "_");
    let limit = mutant.limit.unwrap_or(HANGS);
    let seconds = limit.as_secs().to_string();
    let variables = [
        ("SUITE_MODULES", modules.as_str()),
        ("SUITE_ONLY", &only),
        ("SUITE_LIMIT", &seconds),
    ];
    let mut guest = kernel.guest_of_set(bench.cx, set, &variables)?;
    let mut said = String::new();
    let mut outcome = None;
    let start = Instant::now();
    suite::follow_until(&mut guest, limit + BEYOND, POWER_OFF, &bench.log, |line| {
        if let Some(test) = suite::case(line)
            && test.name.starts_with(&mutant.test)
            // If several cases have that name, one failure is enough.
            && outcome != Some(Outcome::Failed)
        {
            outcome = Some(test.outcome);
            said = test.words;
        }
    })?;
    match outcome {
        Some(Outcome::Failed) => {}
        Some(Outcome::Passed) => bail!("not found by {:?}", mutant.test),
        Some(Outcome::Skipped) => bail!("{:?} was skipped {said}", mutant.test),
        None => bail!("the case {:?} did not come to an end", mutant.test),
    }
    Ok(Failure {
        test: format!("{}/{}", uml::layer_of(set), mutant.test),
        said,
        time: start.elapsed(),
    })
}
