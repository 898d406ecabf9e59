// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into what the kernel module writes. The module with each bug is recorded, and cuts of the recording must
//! break a promise.

use std::time::Instant;
use tandem_harness::{deps, kbuild};

use anyhow::{Context, Result};

use super::{Failure, build_all, copy, module, taken};
use crate::record::{Recorder, Recording, TORN};
use crate::uml;
use tandem_harness::layer::{Layer, Run, When};

/// The seeded bugs.
pub const DIR: &str = "tests/record/mutants";
/// How many bugs are hunted without `--all`.
const ORDINARY: usize = 2;

/// The layer.
pub fn layer() -> Layer {
    Layer {
        name: "record-mutants",
        about: "bugs seeded into the module's I/O are found by cuts of recordings",
        needs: deps::KERNEL,
        when: When::Whole,
        run: hunt,
    }
}

fn hunt(run: &mut Run) -> Result<()> {
    let kernel = uml::kernel(run.cx, "record")?;
    let bugs = taken(run, DIR, ORDINARY)?;
    let mut copy = copy(run, "kmod", &kbuild::KMOD, "record-mutants/module", &bugs)?;
    let dir = copy.dir().to_owned();
    build_all(run, &mut copy, |run| module::build(run, &kernel, &dir))?;
    let recordings = Recording::all();
    let build = |run: &mut Run| module::build(run, &kernel, &dir);
    super::hunt(run, &copy, &bugs, build, |run, bug, chosen| {
        let (name, boots) = match bug.case.strip_suffix(TORN) {
            Some(name) => (name, true),
            None => (bug.case.as_str(), false),
        };
        let recording = recordings.iter().find(|known| known.name == name);
        let recording = recording.with_context(|| format!("no recording {name}"))?;
        let place = format!("record-mutants/run-{}", chosen.worker);
        let recorder = Recorder::new(run, &kernel, chosen.module(&dir)?, &place)?;
        let start = Instant::now();
        let said = recorder.broken(run, recording, boots)?;
        Ok(Failure {
            test: format!("record/{}: cut", bug.case),
            said,
            time: start.elapsed(),
        })
    })
}
