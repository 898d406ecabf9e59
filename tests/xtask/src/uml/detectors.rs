// SPDX-License-Identifier: GPL-3.0-or-later
//! Each detector of the User-mode Linux kernels finds an injected bug, and nothing without one.

use std::time::Duration;

use anyhow::Result;
use tandem_harness::layer::Run;

use super::{Kernel, kernel};
use crate::suite;

/// Long enough for a debug kernel to boot on a busy machine.
const INJECTED: Duration = Duration::from_secs(900);

/// Which kernel must find which bug, and a word of its report.
const BUGS: &[(&str, &str, &str)] = &[
    ("kasan", "out-of-bounds", "KASAN: slab-out-of-bounds"),
    ("kasan", "use-after-free", "KASAN: slab-use-after-free"),
    ("kasan", "shift", "UBSAN: shift-out-of-bounds"),
    ("kasan", "leak", "unreferenced object"),
    ("lockdep", "abba", "possible circular locking dependency"),
    ("lockdep", "sleep", "scheduling while atomic"),
    (
        "lockdep",
        "processor",
        "using smp_processor_id() in preemptible",
    ),
    ("plain", "sleep", "scheduling while atomic"),
    ("plain", "warn", "WARNING:"),
];

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    for config in ["plain", "kasan", "lockdep"] {
        let case = run.case.as_deref();
        if case.is_some_and(|case| !case.starts_with(config)) {
            continue;
        }
        let kernel = kernel(run.cx, config)?;
        let injector = kernel.module(run, "tests/module/injector", "tandem-injector.ko")?;
        let injector = injector.display().to_string();
        for (_, bug, report) in BUGS.iter().filter(|(kernel, _, _)| *kernel == config) {
            let found = inject(run, &kernel, &injector, bug)?;
            let result = match found.contains(report) {
                true => Ok(()),
                false => Err(anyhow::anyhow!("found {found:?}, not {report:?}")),
            };
            run.check(&format!("{config}: {bug}"), result);
        }
        // A detector that reports without a bug would pass all tests above.
        let found = inject(run, &kernel, &injector, "nothing")?;
        let result = match found.as_str() {
            "nothing found" => Ok(()),
            found => Err(anyhow::anyhow!("found {found:?} where no bug was injected")),
        };
        run.check(&format!("{config}: no bug"), result);
    }
    Ok(())
}

/// The detectors' report on an injected bug.
fn inject(run: &Run, kernel: &Kernel, injector: &str, bug: &str) -> Result<String> {
    let variables = [("SUITE_INJECT", bug), ("SUITE_INJECTOR", injector)];
    let mut guest = kernel.guest(run.cx, &variables)?;
    let mut found = String::new();
    let prefix = format!("suite: injected {bug}: ");
    suite::follow(&mut guest, INJECTED, &run.log, |line| {
        if let Some(text) = line.strip_prefix(&prefix) {
            found = text.to_owned();
        }
    })?;
    Ok(found)
}
