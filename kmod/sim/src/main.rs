// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs the engine against simulated disks from the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tandem_sim::engine::Core;
use tandem_sim::random::{self, Summary};
use tandem_sim::{explore, replay};

#[derive(Parser)]
#[command(about)]
struct Arguments {
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
    },
    /// Concurrent operations on one word, under every schedule.
    Words,
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Random {
            seed,
            seeds,
            requests,
        } => random(seed, seeds, requests),
        Command::Words => words(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn random(seed: u64, seeds: u64, requests: u64) -> Outcome {
    let core = Core::linked();
    let mut total = Summary::default();
    for seed in seed..seed.saturating_add(seeds) {
        match random::run(&core, seed, requests, None) {
            Ok(summary) => total.add(&summary),
            Err(failure) => return Err(replay::explain(&core, seed, requests, &failure).into()),
        }
    }
    println!(
        "{} requests from {seeds} seeds, beginning with {seed}: no difference found",
        total.requests
    );
    for (name, value) in &total.counters {
        println!("  {name} {value}");
    }
    Ok(())
}

fn words() -> Outcome {
    for (name, extent) in explore::explore_all(&Core::linked())? {
        println!(
            "{name}: {} schedules, {} states",
            extent.schedules, extent.states
        );
    }
    Ok(())
}
