// SPDX-License-Identifier: GPL-3.0-or-later
//! How far the advisor's predictions are from what core itself does for the same requests.

mod measure;
mod report;
mod workload;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use measure::{Result, measure};
use tandem_sim::engine::Core;
use workload::Workload;

/// Compares the advisor's predictions with core's hit rates for the same requests, and prints the tables.
#[derive(Parser)]
struct Args {
    /// The directory of the recordings.
    traces: PathBuf,
    /// Play only the workloads whose names contain this.
    #[arg(long)]
    only: Option<String>,
    /// Writes the tables to this file.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only));
    let mut results: Vec<Result> = Vec::new();
    let core = Core::linked();
    let mut add = |workload: Workload| {
        eprintln!("{}", workload.name);
        results.push(measure(&core, &workload)?);
        Ok::<(), tandem_advisor::Impossible>(())
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&args.traces)? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in &paths {
        let name = path.to_string_lossy();
        if (name.ends_with(".csv.zst") || name.ends_with(".csv")) && wanted(&name) {
            add(Workload::recorded(path)?)?;
        }
    }
    if wanted("files") {
        add(Workload::files())?;
    }
    if wanted("places") {
        add(Workload::places())?;
    }
    let text = report::text(&results);
    print!("{text}");
    if let Some(out) = &args.out {
        std::fs::write(out, text)?;
    }
    Ok(())
}
