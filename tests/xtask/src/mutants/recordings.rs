// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into what the kernel module writes. The module with each bug is recorded, and cuts of the recording must
//! break a promise.

use std::time::Instant;
use tandem_harness::{deps, kbuild};

use anyhow::{Context, Result};

use super::{Failure, build_all, copy, module, taken};
use crate::record::{Recorder, Recording, TORN};
use crate::uml;
use tandem_harness::layer::{Bench, Layer, When};

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
        when: When::Sampled(1),
        run: hunt,
    }
}

fn hunt(bench: &mut Bench) -> Result<()> {
    let kernel = uml::kernel(bench.cx, "record")?;
    let bugs = taken(bench, DIR, ORDINARY)?;
    let mut copy = copy(bench, "kmod", &kbuild::KMOD, "record-mutants/module", &bugs)?;
    let dir = copy.dir().to_owned();
    build_all(bench, &mut copy, |bench| {
        module::build(bench, &kernel, &dir)
    })?;
    let recordings = Recording::all();
    let build = |bench: &mut Bench| module::build(bench, &kernel, &dir);
    super::hunt(bench, &copy, &bugs, build, |bench, bug, chosen| {
        let (name, boots) = match bug.case.strip_suffix(TORN) {
            Some(name) => (name, true),
            None => (bug.case.as_str(), false),
        };
        let recording = recordings.iter().find(|known| known.name == name);
        let recording = recording.with_context(|| format!("no recording {name}"))?;
        let place = format!("record-mutants/run-{}", chosen.worker);
        let recorder = Recorder::new(bench, &kernel, chosen.module(&dir)?, &place)?;
        let start = Instant::now();
        let said = recorder.broken(bench, recording, boots)?;
        Ok(Failure {
            test: format!("record/{}: cut", bug.case),
            said,
            time: start.elapsed(),
        })
    })
}
