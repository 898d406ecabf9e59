// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask test`: every layer in order, a log for each, and one line of figures at the end.

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cx::{Cx, say};
use crate::layer::{Bench, Layer};
use crate::{c_style, deps, host, kernels, uml, vm_tests};

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Run large matrices whole instead of pairwise.
    #[arg(long)]
    all: bool,
    /// Run only the layers whose names begin so; may be given several times.
    #[arg(long, value_name = "LAYER")]
    only: Vec<String>,
    /// Name the layers and stop.
    #[arg(long)]
    list: bool,
}

/// What became of one layer.
struct Outcome {
    name: &'static str,
    passed: u64,
    failed: Vec<String>,
    time: Duration,
}

/// The layers in the order in which they run: what fails fastest comes first.
fn layers() -> Vec<Layer> {
    let mut layers = host::layers();
    layers.extend(c_style::layers());
    layers.extend(uml::layers());
    layers.extend(kernels::layers());
    layers.extend(vm_tests::layers());
    layers
}

/// Runs the layers; fails when a test failed or nothing was tested.
pub fn command(cx: &Cx, args: &Args) -> Result<ExitCode> {
    let chosen: Vec<_> = layers()
        .into_iter()
        .filter(|layer| {
            args.only.is_empty() || args.only.iter().any(|name| layer.name.starts_with(name))
        })
        .collect();
    if let Some(name) = args.only.iter().find(|name| {
        !chosen
            .iter()
            .any(|layer| layer.name.starts_with(name.as_str()))
    }) {
        bail!("there is no layer {name}; `cargo xtask test --list` names them");
    }
    if args.list {
        for layer in &chosen {
            println!("{:<18} {}", layer.name, layer.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    deps::ensure()?;
    let outcomes = chosen
        .iter()
        .map(|layer| run(cx, layer, args.all))
        .collect::<Result<Vec<_>>>()?;
    Ok(summary(&outcomes))
}

fn run(cx: &Cx, layer: &Layer, all: bool) -> Result<Outcome> {
    let logs = cx.target.join("test");
    fs::create_dir_all(&logs)?;
    let log = logs.join(format!("{}.log", layer.name));
    say(format!("{}: {}", layer.name, layer.about));
    let start = Instant::now();
    let mut bench = Bench::new(cx, all, &log)?;
    let ran = (layer.run)(&mut bench);
    if let Err(error) = ran {
        bench.check("the layer itself", Err(error));
    } else if bench.passed == 0 && bench.failed.is_empty() {
        bench.check("the layer itself", Err(anyhow::anyhow!("it ran no test")));
    }
    let outcome = Outcome {
        name: layer.name,
        passed: bench.passed,
        failed: bench.failed,
        time: start.elapsed(),
    };
    println!(
        "    {} passed, {} failed, {} s{}",
        outcome.passed,
        outcome.failed.len(),
        outcome.time.as_secs(),
        if outcome.failed.is_empty() {
            String::new()
        } else {
            format!("; see {}", log.display())
        }
    );
    Ok(outcome)
}

fn summary(outcomes: &[Outcome]) -> ExitCode {
    println!(
        "\n{:<18} {:>7} {:>7} {:>7}",
        "layer", "passed", "failed", "seconds"
    );
    for outcome in outcomes {
        println!(
            "{:<18} {:>7} {:>7} {:>7}",
            outcome.name,
            outcome.passed,
            outcome.failed.len(),
            outcome.time.as_secs()
        );
        for name in &outcome.failed {
            println!("    failed: {name}");
        }
    }
    let passed: u64 = outcomes.iter().map(|outcome| outcome.passed).sum();
    let failed: usize = outcomes.iter().map(|outcome| outcome.failed.len()).sum();
    println!("\n{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
