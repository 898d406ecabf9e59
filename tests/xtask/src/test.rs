// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask test`: the layers in order, a log and a file of results for each, and one line of figures at the end.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use tandem_guest::stage;
use tandem_harness::cx::{Cx, notice, say};
use tandem_harness::layer::{Layer, Run, When};
use tandem_harness::machine::Machine;
use tandem_harness::results::{self, Counts, Outcome};
use tandem_harness::{deps, run, sample};

use crate::{c_style, host, kernels, meson_install, mutants, record, rust_tests, uml};

/// Space that all layers need below the target directory, with the disks of the virtual machines.
const SPACE_GB: u64 = 25;
/// Minutes that the sampled layers of a run without `--all` may take together, each on one processor.
const SAMPLED_MINUTES: u64 = 8;

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Run large matrices whole, and all layers.
    #[arg(long)]
    all: bool,
    /// Run only this layer; may be given several times.
    #[arg(long, value_name = "LAYER", value_parser = layer_names())]
    only: Vec<String>,
    /// Run only the test of this name in the layer that `--only` names. Its result is printed and not kept.
    #[arg(long, value_name = "NAME", requires = "only")]
    case: Option<String>,
    /// The system of the virtual machine in the layers `vm-...`. Results of another than the first are printed and not kept.
    #[arg(
        long,
        value_enum,
        value_name = "SYSTEM",
        default_value_t,
        requires = "only"
    )]
    machine: Machine,
    /// How long each target is fuzzed.
    #[arg(long, value_name = "N", default_value_t = 15)]
    fuzz_seconds: u64,
    /// Name the layers and stop.
    #[arg(long)]
    list: bool,
}

/// The layers in the order in which they run: the layers that fail fastest come first.
pub fn layers() -> Vec<Layer> {
    let mut layers = host::layers();
    layers.extend(meson_install::layers());
    layers.extend(rust_tests::layers());
    layers.extend(c_style::layers());
    layers.extend(uml::layers());
    layers.extend(record::layers());
    layers.extend(kernels::layers());
    layers.extend(tandem_scenarios::layers());
    layers.extend(mutants::layers());
    layers
}

/// The values of `--only`, which `--help` lists.
fn layer_names() -> PossibleValuesParser {
    let value = |layer: Layer| PossibleValue::new(layer.name).help(layer.about);
    PossibleValuesParser::new(layers().into_iter().map(value))
}

/// Runs the layers; fails when a test failed or nothing was tested.
pub fn command(cx: &Cx, args: &Args) -> Result<ExitCode> {
    let chosen = chosen(cx, args)?;
    if args.list {
        for layer in &chosen {
            println!("{:<22} {}", layer.name, layer.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begin = Instant::now();
    let mut needs: Vec<_> = chosen
        .iter()
        .flat_map(|layer| layer.needs)
        .copied()
        .collect();
    needs.dedup();
    deps::ensure(&needs)?;
    if args.only.is_empty() {
        ensure_space(cx)?;
    }
    let cx = &Cx {
        machine: args.machine,
        ..cx.clone()
    };
    let results = lanes(cx, &chosen, args, begin)?;
    println!("\n{}", table(&results));
    Ok(verdict(&results))
}

/// The layers that this run takes.
fn chosen(cx: &Cx, args: &Args) -> Result<Vec<Layer>> {
    let all = layers();
    if !args.only.is_empty() {
        let named = |layer: &Layer| args.only.iter().any(|name| layer.name == name);
        return Ok(all.into_iter().filter(named).collect());
    }
    if args.all || args.list {
        return Ok(all);
    }
    let mut drawn = Vec::new();
    for layer in &all {
        if let When::Sampled(minutes) = layer.when {
            drawn.push((sample::chance(cx, layer.name)?, layer.name, minutes));
        }
    }
    let drawn = within(drawn, SAMPLED_MINUTES);
    let (taken, left): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|layer| layer.when == When::Always || drawn.contains(&layer.name));
    say(format!("drawn by the commit: {}", drawn.join(", ")));
    let left: Vec<_> = left.iter().map(|layer| layer.name).collect();
    notice(format!(
        "not in this run, with --all or --only: {}",
        left.join(", ")
    ));
    Ok(taken)
}

/// The names that fit into so many minutes, in the order of their chance.
fn within(mut drawn: Vec<(u64, &'static str, u64)>, minutes: u64) -> Vec<&'static str> {
    drawn.sort_unstable();
    let mut left = minutes;
    let fits = |(_, name, minutes): (u64, &'static str, u64)| {
        left = left.checked_sub(minutes)?;
        Some(name)
    };
    drawn.into_iter().filter_map(fits).collect()
}

/// Fails if the disk is too full for all layers: they would fail one by one, for reasons that name no space.
fn ensure_space(cx: &Cx) -> Result<()> {
    // The layers of the virtual machine build there, and have run before.
    if cx.target.join(stage::TAR).exists() {
        return Ok(());
    }
    let mut df = run::cmd("df", ["--block-size=1GB", "--output=avail"]);
    let told = run::output(df.arg(&cx.target))?;
    let free = told.lines().nth(1).context("df tells no free space")?;
    let free: u64 = free.trim().parse()?;
    ensure!(
        free >= SPACE_GB,
        "the tests need {SPACE_GB} GB below {}, and {free} GB are free",
        cx.target.display()
    );
    Ok(())
}

/// Runs the layers in two lanes, because most layers keep only one processor busy. Layers that run User-mode Linux
/// share its directory, so that they run one after another in the first lane. When that lane is done it takes layers
/// from the end of the second lane's queue. Results are in the order of the layers.
fn lanes(cx: &Cx, chosen: &[Layer], args: &Args, begin: Instant) -> Result<Vec<results::Layer>> {
    let (first, second): (Vec<_>, Vec<_>) = chosen
        .iter()
        .enumerate()
        .partition(|(_, layer)| in_user_mode_linux(layer));
    let second = Mutex::new(VecDeque::from(second));
    let taken = |last: bool| {
        let mut queue = second.lock().unwrap_or_else(PoisonError::into_inner);
        if last {
            queue.pop_back()
        } else {
            queue.pop_front()
        }
    };
    let left = AtomicUsize::new(chosen.len());
    let done = |(place, layer)| Ok((place, run(cx, layer, args, begin, &left)?));
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let rest = std::iter::from_fn(|| taken(true));
            first.into_iter().chain(rest).map(done).collect()
        });
        let second = std::iter::from_fn(|| taken(false)).map(done).collect();
        (first.join(), second)
    });
    let first: Result<Vec<_>> = first.map_err(|_| anyhow!("a lane of layers ended by a panic"))?;
    let second: Result<Vec<_>> = second;
    let mut results = first?;
    results.extend(second?);
    results.sort_by_key(|(place, _)| *place);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

fn in_user_mode_linux(layer: &Layer) -> bool {
    layer.name.starts_with("uml-") || layer.name.starts_with("record")
}

/// Runs a layer; `begin` is when the first layer began.
fn run(
    cx: &Cx,
    layer: &Layer,
    args: &Args,
    begin: Instant,
    left: &AtomicUsize,
) -> Result<results::Layer> {
    let logs = cx.target.join("test");
    fs::create_dir_all(&logs)?;
    let log = logs.join(format!("{}.log", layer.name));
    say(format!("{}: {}", layer.name, layer.about));
    let start = Instant::now();
    let mut run = Run::new(cx, &log)?;
    run.all = args.all;
    run.fuzz_seconds = args.fuzz_seconds;
    run.case.clone_from(&args.case);
    if let Err(error) = (layer.run)(&mut run) {
        run.check("the layer itself", Err(error));
    } else if run.tests.is_empty() {
        run.check("the layer itself", Err(anyhow!("it ran no test")));
    }
    let mut names = BTreeSet::new();
    let twice = run.tests.iter().find(|test| !names.insert(&test.name));
    if let Some(name) = twice.map(|test| test.name.clone()) {
        run.check(
            "the layer itself",
            Err(anyhow!("two tests are called {name}")),
        );
    }
    let git = |words: &[&str]| run::output(run::cmd("git", words).current_dir(&cx.root));
    let result = results::Layer {
        name: layer.name.to_owned(),
        commit: git(&["rev-parse", "HEAD"])?.trim().to_owned(),
        changed: !git(&["status", "--porcelain"])?.is_empty(),
        date: run::output(&mut run::cmd("date", ["--utc", "+%F %T"]))?
            .trim()
            .to_owned(),
        all: args.all,
        fuzz_seconds: args.fuzz_seconds,
        processors: std::thread::available_parallelism()?.get(),
        seconds: start.elapsed().as_secs_f64(),
        tests: run.tests,
        figures: run.figures,
    };
    if args.case.is_none() && args.machine == Machine::default() {
        result.save(cx)?;
    }
    let counts = result.counts();
    println!(
        "    {}: {counts}, {:.0} s; minute {}, {} layers left{}",
        layer.name,
        result.seconds,
        begin.elapsed().as_secs() / 60,
        left.fetch_sub(1, Ordering::Relaxed) - 1,
        if counts.failed == 0 {
            String::new()
        } else {
            format!("; see {}", log.display())
        }
    );
    for figure in &result.figures {
        println!("    {figure}");
    }
    Ok(result)
}

/// Results as a person reads them on a terminal, and why what failed did.
fn table(results: &[results::Layer]) -> String {
    let mut text = format!(
        "{:<22} {:>7} {:>7} {:>7} {:>7}\n",
        "layer", "passed", "failed", "skipped", "seconds"
    );
    for result in results {
        let counts = result.counts();
        let _ = writeln!(
            text,
            "{:<22} {:>7} {:>7} {:>7} {:>7.0}",
            result.name, counts.passed, counts.failed, counts.skipped, result.seconds,
        );
        for test in result.tests_that(Outcome::Skipped) {
            let _ = writeln!(text, "    skipped: {}: {}", test.name, test.words);
        }
        for test in result.tests_that(Outcome::Failed) {
            let _ = writeln!(text, "    failed: {}", test.name);
            for line in test.words.lines() {
                let _ = writeln!(text, "      {line}");
            }
        }
    }
    let _ = write!(text, "\n{}", counts(results));
    text
}

fn counts(results: &[results::Layer]) -> Counts {
    Counts::of(results.iter().flat_map(|result| &result.tests))
}

/// Green when something passed and nothing failed. A skipped test changes neither.
fn verdict(results: &[results::Layer]) -> ExitCode {
    let counts = counts(results);
    if counts.failed == 0 && counts.passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::{layers, within};

    #[test]
    fn a_sample_fits_into_its_minutes() {
        let drawn = vec![(3, "late", 2), (1, "first", 4), (2, "too long", 9)];
        assert_eq!(within(drawn, 6), ["first", "late"]);
    }

    #[test]
    fn layers_have_different_names() {
        let mut names: Vec<_> = layers().iter().map(|layer| layer.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
