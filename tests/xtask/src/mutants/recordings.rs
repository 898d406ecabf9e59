// SPDX-License-Identifier: GPL-3.0-or-later
//! Bugs seeded into what the kernel module writes. The module with each bug is recorded, and cuts of the recording must
//! break a promise.

use std::time::Instant;
use tandem_harness::deps;
use tandem_harness::kbuild;

use anyhow::{Context, Result};

use super::{Failure, hunt_all};
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
    let source = bench.cx.target.join("record-mutants/source");
    let build = bench.cx.target.join("record-mutants/build");
    let recordings = Recording::all();
    hunt_all(bench, DIR, ORDINARY, |bench, mutant| {
        let (name, boots) = match mutant.test.strip_suffix(TORN) {
            Some(name) => (name, true),
            None => (mutant.test.as_str(), false),
        };
        let recording = recordings.iter().find(|known| known.name == name);
        let recording = recording.with_context(|| format!("no recording {name}"))?;
        mutant.plant(&bench.cx.path("kmod"), &source)?;
        kbuild::module(&source, &kernel.build, &build, &["ARCH=um"], &bench.log)?;
        let module = build.join("dm-tandem.ko");
        let recorder = Recorder::new(bench, &kernel, module, "record-mutants/run")?;
        let start = Instant::now();
        let said = recorder.broken(bench, recording, boots)?;
        Ok(Failure {
            test: format!("record/{}: cut", mutant.test),
            said,
            time: start.elapsed(),
        })
    })
}
