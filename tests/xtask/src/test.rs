// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask test`: every layer in order, a log and a file of results for each, and one line of figures at the end.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::cx::{Cx, say};
use crate::inputs::Tree;
use crate::layer::{Bench, Layer};
use crate::results;
use crate::{
    c_style, case, deps, host, kernels, meson_install, mutants, record, run, rust_tests, stage,
    test_log, turns, uml, vm_tests,
};

/// Space that all layers need below the target directory, with the disks of the virtual machines.
const SPACE_GB: u64 = 25;

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Run large matrices whole instead of pairwise, and all layers instead of one of each group that takes turns.
    #[arg(long)]
    all: bool,
    /// Run only this layer; may be given several times.
    #[arg(long, value_name = "LAYER", value_parser = layer_names())]
    only: Vec<String>,
    /// Run only the test of this name, in the first layer that has it, or in the layer that `--only` names. Its result
    /// is printed and not kept.
    #[arg(long, value_name = "NAME", conflicts_with = "log")]
    case: Option<String>,
    /// How long each target is fuzzed.
    #[arg(long, value_name = "N", default_value_t = 15)]
    fuzz_seconds: u64,
    /// Run layers again whose inputs have not changed since they passed. So it is wherever CI is set in the environment.
    #[arg(long)]
    again: bool,
    /// Name the layers and stop.
    #[arg(long)]
    list: bool,
    /// Run nothing: write the results of all layers, whose inputs must be those of this commit, to tests/logs.
    #[arg(long, conflicts_with_all = ["all", "only", "list", "again"])]
    log: bool,
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
    layers.extend(vm_tests::layers());
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
    if args.log {
        return test_log::command(cx);
    }
    let is_chosen =
        |layer: &Layer| args.only.is_empty() || args.only.iter().any(|name| layer.name == name);
    let chosen: Vec<_> = layers().into_iter().filter(is_chosen).collect();
    if args.list {
        for layer in &chosen {
            println!("{:<22} {}", layer.name, layer.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begin = Instant::now();
    deps::ensure()?;
    if let Some(name) = &args.case {
        let layer = case::layer_with(cx, &chosen, name)?;
        let result = run(cx, layer, args, begin)?;
        println!("\n{}", test_log::table(std::slice::from_ref(&result)));
        return Ok(test_log::verdict(&[result]));
    }
    if args.only.is_empty() {
        ensure_space(cx)?;
    }
    let results = lanes(cx, &chosen, args, begin)?;
    println!("\n{}", test_log::table(&results));
    Ok(test_log::verdict(&results))
}

/// Fails if the disk is too full for all layers: they would fail one by one, for reasons that name no space.
fn ensure_space(cx: &Cx) -> Result<()> {
    // The layers of the virtual machine build there, and have run before.
    if cx.target.join(stage::PROFILE).exists() {
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
    let done = |(place, layer)| Ok((place, run(cx, layer, args, begin)?));
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

/// An earlier result with the same inputs and without a failure, unless the layer must run again.
fn earlier(cx: &Cx, layer: &Layer, args: &Args, inputs: &str) -> Result<Option<results::Layer>> {
    if args.again || args.case.is_some() || std::env::var_os("CI").is_some() {
        return Ok(None);
    }
    Ok(results::Layer::load(cx, layer.name)?.filter(|result| {
        result.is_of(inputs)
            && result.counts().failed == 0
            && result.all >= args.all
            && result.fuzz_seconds >= args.fuzz_seconds
    }))
}

/// Runs a layer; `begin` is when the first layer began.
fn run(cx: &Cx, layer: &Layer, args: &Args, begin: Instant) -> Result<results::Layer> {
    let logs = cx.target.join("test");
    fs::create_dir_all(&logs)?;
    let log = logs.join(format!("{}.log", layer.name));
    let before = layer.inputs.key(cx, &Tree::of_work_tree(cx)?)?;
    if let Some(result) = earlier(cx, layer, args, &before)? {
        say(format!(
            "{}: {}, from {} of {} UTC",
            layer.name,
            result.counts(),
            result.origin(),
            result.date
        ));
        return Ok(result);
    }
    say(format!("{}: {}", layer.name, layer.about));
    let start = Instant::now();
    let mut bench = Bench::new(cx, &log)?;
    let waits = match args.all || !args.only.is_empty() || args.case.is_some() {
        true => None,
        false => turns::instead_of(layer.name)?,
    };
    bench.all = args.all;
    bench.fuzz_seconds = args.fuzz_seconds;
    bench.case.clone_from(&args.case);
    let ran = match waits {
        None => (layer.run)(&mut bench),
        Some(other) => {
            let why = format!("{other} has its turn in this run; --all and --only run both");
            bench.skip("the layer itself", &why);
            Ok(())
        }
    };
    if let Err(error) = ran {
        bench.check("the layer itself", Err(error));
    } else if bench.tests.is_empty() {
        bench.check("the layer itself", Err(anyhow!("it ran no test")));
    }
    let mut names = BTreeSet::new();
    let twice = bench.tests.iter().find(|test| !names.insert(&test.name));
    if let Some(name) = twice.map(|test| test.name.clone()) {
        bench.check(
            "the layer itself",
            Err(anyhow!("two tests are called {name}")),
        );
    }
    let after = layer.inputs.key(cx, &Tree::of_work_tree(cx)?)?;
    let of_commit = layer.inputs.key(cx, &Tree::of_head(cx)?)?;
    let commit = run::output(run::cmd("git", ["rev-parse", "HEAD"]).current_dir(&cx.root))?;
    let result = results::Layer {
        name: layer.name.to_owned(),
        commit: commit.trim().to_owned(),
        changed: after != of_commit,
        // If inputs changed during the test, the result holds for neither state.
        inputs: (before == after).then_some(after),
        date: run::output(&mut run::cmd("date", ["--utc", "+%F %T"]))?
            .trim()
            .to_owned(),
        all: args.all,
        fuzz_seconds: args.fuzz_seconds,
        processors: std::thread::available_parallelism()?.get(),
        seconds: start.elapsed().as_secs_f64(),
        tests: bench.tests,
        figures: bench.figures,
    };
    if args.case.is_none() && waits.is_none() {
        result.save(cx)?;
    }
    let counts = result.counts();
    println!(
        "    {}: {counts}, {:.0} s; minute {}{}",
        layer.name,
        result.seconds,
        begin.elapsed().as_secs() / 60,
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
