// SPDX-License-Identifier: GPL-3.0-or-later
//! Cuts a recording of what the real module sent to its disks, at thousands of moments, and checks what is left each time.
//!
//! Of what was not flushed at a cut each disk keeps any part, down to single sectors. Core, the same as in the module,
//! recovers; then every sector has to show what the history of the requests above the cache allows.

mod contents;
mod cuts;
mod history;
mod recovered;
mod replay;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

use crate::cuts::Wish;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    /// The recording.
    log: PathBuf,
    /// States to check at least.
    #[arg(long, default_value_t = 1000)]
    cuts: usize,
    /// Of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory to put states into that are to be booted.
    #[arg(long)]
    states: Option<PathBuf>,
    /// How many of them.
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
    let wish = Wish {
        cuts,
        seed,
        states: states.map(|directory| (directory, count)),
    };
    let seen = cuts::run(head, &events, &wish)?;
    println!("{seen}; {} events", events.len());
    Ok(())
}
