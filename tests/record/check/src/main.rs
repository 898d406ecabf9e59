// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads a recording of all requests to and from the module, and cuts the power at thousands of moments of it.
//!
//! At a cut each disk keeps a random part of what is not durable, down to single sectors. The same core as in the module
//! then starts the cache. Every sector of the cached device must show a value that the recorded requests allow.

mod contents;
mod cuts;
mod history;
mod recovered;
mod replay;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

use crate::cuts::Options;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    /// The recording.
    log: PathBuf,
    /// How many states after a cut to check, at least.
    #[arg(long, default_value_t = 1000)]
    cuts: usize,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for states that the caller boots afterwards.
    #[arg(long)]
    states: Option<PathBuf>,
    /// How many states to put there.
    #[arg(long, default_value_t = 4)]
    count: usize,
}

fn main() -> Result<()> {
    let Arguments {
        log,
        cuts,
        seed,
        states,
        count,
    } = Arguments::parse();
    let bytes = std::fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let (head, events) = tandem_record_log::read(&bytes)?;
    let options = Options {
        cuts,
        seed,
        states: states.map(|directory| (directory, count)),
    };
    let summary = cuts::run(head, &events, &options)?;
    println!("{summary}; {} events", events.len());
    Ok(())
}
