// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs the engine against simulated disks from the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tandem_sim::checks::Checks;
use tandem_sim::coverage::{self, Branches};
use tandem_sim::engine::{Core, LoadError};
use tandem_sim::flaw::Flaw;
use tandem_sim::native::{self, Sources};
use tandem_sim::random::{self, Summary};
use tandem_sim::{cases, crash, exhaust, explore, fuzz, replay, sanitize};

#[derive(Parser)]
#[command(about)]
struct Arguments {
    /// Use a core built by another run of this program.
    #[arg(long, global = true, hide = true)]
    core: Option<PathBuf>,
    /// Build from the C sources here.
    #[arg(long, global = true, hide = true)]
    sources: Option<PathBuf>,
    /// For random and crash: pass over failures that do not say this.
    #[arg(long, global = true, hide = true)]
    says: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Random requests; a failing seed is played again with a trace.
    Random {
        /// First seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many seeds, from the first on.
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        /// Requests of each seed.
        #[arg(long, default_value_t = 20_000)]
        requests: u64,
        /// Only say what was wrong.
        #[arg(long)]
        brief: bool,
        /// With core under the address and undefined behaviour sanitizers.
        #[arg(long)]
        sanitize: bool,
    },
    /// Small worlds that are cut again and again; a failing seed is made shorter and played again with a trace.
    Crash {
        /// First seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many cuts at least; more than 100 are spread over the seeds from the first on.
        #[arg(long, default_value_t = crash::CUTS)]
        cuts: u64,
        /// Threads.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// A bug in carrying out what core wants, such as group-early; `mutants` names them.
        #[arg(long, value_parser = |name: &str| Flaw::named(name).ok_or("there is no such flaw"))]
        flaw: Option<Flaw>,
        /// Only say what was wrong.
        #[arg(long)]
        brief: bool,
        /// With core under the address and undefined behaviour sanitizers.
        #[arg(long)]
        sanitize: bool,
    },
    /// Small cases whole: some requests over two slots, I/O completed in every order, cuts in every state.
    Exhaust {
        /// How many requests.
        #[arg(long, default_value_t = 3)]
        requests: u32,
        /// Of so many cases one.
        #[arg(long, default_value_t = 1)]
        every: u64,
        /// Threads.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// As for crash.
        #[arg(long, value_parser = |name: &str| Flaw::named(name).ok_or("there is no such flaw"))]
        flaw: Option<Flaw>,
    },
    /// Single cases, each I/O completed in a certain order.
    Cases,
    /// Each write of superblocks and samples cut at each sector; and the disk exchanged.
    Format {
        /// First seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many seeds, from the first on.
        #[arg(long, default_value_t = 200)]
        seeds: u64,
    },
    /// Each write of the index cut at each sector. A seed takes seconds.
    Torn {
        /// First seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many seeds, from the first on.
        #[arg(long, default_value_t = 12)]
        seeds: u64,
    },
    /// Concurrent operations on one word, under every schedule.
    Words,
    /// The same by threads under the race detector.
    Threads {
        /// How often each scenario runs.
        #[arg(long, default_value_t = 3000)]
        rounds: u64,
    },
    /// Any bytes as superblocks, any words as arguments and messages.
    Fuzz {
        /// For each target.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// Fuzz this target alone.
        #[arg(long, value_parser = fuzz::TARGETS)]
        target: Option<String>,
    },
    /// Which branches of journal and recovery are taken; fewer than 95 of 100 are a failure.
    Coverage,
    /// Names the flaws that crash takes, each with the words by which it must be found.
    Flaws,
}

impl Command {
    /// Whether the command runs core as a library. The others build what they run themselves.
    fn takes_a_core(&self) -> bool {
        !matches!(
            self,
            Command::Random { sanitize: true, .. }
                | Command::Crash { sanitize: true, .. }
                | Command::Threads { .. }
                | Command::Fuzz { .. }
                | Command::Coverage
                | Command::Flaws
        )
    }
}

/// The exit code when what is to run cannot be built.
const NOT_BUILT: u8 = 3;

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let tool = matches!(error.downcast_ref(), Some(native::Error::Tool { .. }));
            if tool || error.is::<LoadError>() {
                ExitCode::from(NOT_BUILT)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn run(arguments: Arguments) -> Done {
    let sources = arguments
        .sources
        .as_deref()
        .map_or_else(Sources::tree, Sources::in_dir);
    let built = match (&arguments.core, &arguments.sources) {
        (None, Some(dir)) if arguments.command.takes_a_core() => {
            Some(native::library(&sources, dir, &["-w"])?)
        }
        (core, _) => core.clone(),
    };
    let core = || match &built {
        Some(path) => Core::load(path),
        None => Ok(Core::linked()),
    };
    let dir = |name: &str| match &arguments.sources {
        Some(dir) => Ok(dir.clone()),
        None => native::build_dir(name),
    };
    match arguments.command {
        Command::Random { sanitize: true, .. } | Command::Crash { sanitize: true, .. } => {
            Ok(sanitize::again(&sources, &dir("sanitized")?)?)
        }
        Command::Crash {
            seed,
            cuts,
            threads,
            flaw,
            brief,
            ..
        } => {
            let bug = (flaw, arguments.says.as_deref());
            crashes(&core, seed, cuts, threads, bug, brief)
        }
        Command::Random {
            seed,
            seeds,
            requests,
            brief,
            ..
        } => {
            let says = arguments.says.as_deref();
            random(
                &core()?,
                seed..seed.saturating_add(seeds),
                requests,
                brief,
                says,
            )
        }
        Command::Exhaust {
            requests,
            every,
            threads,
            flaw,
        } => exhausted(&core, requests, every, threads, flaw),
        Command::Cases => {
            cases::play_all(&core()?)?;
            println!("{} cases hold", cases::CASES.len());
            Ok(())
        }
        Command::Format { seed, seeds } => {
            formats(&core()?, seed, seeds);
            Ok(())
        }
        Command::Torn { seed, seeds } => {
            torn(&core()?, seed, seeds);
            Ok(())
        }
        Command::Words => words(&core()?),
        Command::Threads { rounds } => Ok(sanitize::threads(&sources, &dir("threads")?, rounds)?),
        Command::Fuzz { seconds, target } => {
            let wanted = |name: &&str| target.as_ref().is_none_or(|target| target == name);
            for name in fuzz::TARGETS.into_iter().filter(wanted) {
                let dir = dir(name)?;
                fuzz::run(name, &sources, &dir, seconds)?;
                println!("{}", fuzz::reach(name, &sources, &dir)?);
            }
            Ok(())
        }
        Command::Coverage => covered(&sources),
        Command::Flaws => {
            for flaw in Flaw::all() {
                println!("{}: {}", flaw.name(), flaw.says());
            }
            Ok(())
        }
    }
}

fn random(
    core: &Core,
    seeds: std::ops::Range<u64>,
    requests: u64,
    brief: bool,
    says: Option<&str>,
) -> Done {
    let mut total = Summary::default();
    for seed in seeds.clone() {
        match random::run(core, seed, requests, false) {
            Ok(summary) => total.add(&summary),
            Err(failure) if says.is_some_and(|says| !failure.fault.to_string().contains(says)) => {}
            Err(failure) if brief => return Err(format!("seed {seed}: {}", failure.fault).into()),
            Err(failure) => {
                let script = match random::run(core, seed, requests, true) {
                    Ok(_) => failure.script,
                    Err(again) => again.script,
                };
                let again = format!(
                    "cargo run -p tandem-sim -- random --seed {seed} --requests {requests}"
                );
                let words = replay::explain(core, &failure.fault, script, &again);
                return Err(format!("seed {seed}: {words}").into());
            }
        }
    }
    println!(
        "{} requests from the seeds {seeds:?}: no difference found",
        total.requests
    );
    for (name, value) in &total.counters {
        println!("  {name} {value}");
    }
    Ok(())
}

/// Loads a core for each thread, as one cannot be shared.
fn crashes(
    core: &(impl Fn() -> Result<Core, LoadError> + Sync),
    first: u64,
    cuts: u64,
    threads: usize,
    (flaw, says): (Option<Flaw>, Option<&str>),
    brief: bool,
) -> Done {
    let start = std::time::Instant::now();
    let (coverage, failed) = crash::run_many(core, first, cuts, threads, flaw, brief, says)?;
    if let Some((seed, words)) = failed {
        return Err(format!(
            "seed {seed}: after {} cuts, {:.2} s: {words}",
            coverage.total(),
            start.elapsed().as_secs_f64()
        )
        .into());
    }
    println!(
        "{} cuts, {} acts, {:.1} s: no promise broken",
        coverage.total(),
        coverage.acts,
        start.elapsed().as_secs_f64()
    );
    for (name, count) in &coverage.cuts {
        println!("  cuts {name}: {count}");
    }
    for (name, value) in &coverage.counters {
        println!("  {name} {value}");
    }
    Ok(())
}

fn exhausted(
    core: &(impl Fn() -> Result<Core, LoadError> + Sync),
    requests: u32,
    every: u64,
    threads: usize,
    flaw: Option<Flaw>,
) -> Done {
    let start = std::time::Instant::now();
    let extent = exhaust::explore_all(core, requests, every, threads, flaw)?;
    println!(
        "{} cases, most of {requests} requests, {} states, {} cuts, {:.1} s: no promise broken",
        extent.cases,
        extent.states,
        extent.cuts,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn covered(sources: &Sources) -> Done {
    let mut sum = Branches::default();
    for (file, branches) in coverage::run(sources)? {
        println!("{file}: {branches}");
        sum.taken += branches.taken;
        sum.all += branches.all;
    }
    println!("journal and recovery: {sum}");
    if sum.percent() < 95.0 {
        return Err("fewer than 95 of 100 branches are taken".into());
    }
    Ok(())
}

fn formats(core: &Core, first: u64, seeds: u64) {
    let checks = Checks::of(core);
    let (mut lives, mut samples, mut sizes) = (0, 0, 0);
    for number in 0..seeds {
        let seed = first.wrapping_add(number);
        samples += checks.identity(seed);
        lives += checks.lives(seed);
        sizes += checks.resized(seed);
    }
    println!("{lives} cuts of superblocks and samples, {sizes} of other sizes; {samples} samples");
}

fn torn(core: &Core, first: u64, seeds: u64) {
    let checks = Checks::of(core);
    let cuts: u64 = (0..seeds)
        .map(|number| checks.torn(first.wrapping_add(number)))
        .sum();
    println!("{cuts} cuts of the index");
}

fn words(core: &Core) -> Done {
    for (name, extent) in explore::explore_all(core)? {
        println!(
            "{name}: {} schedules, {} states",
            extent.schedules, extent.states
        );
    }
    Ok(())
}
