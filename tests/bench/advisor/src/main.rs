// SPDX-License-Identifier: GPL-3.0-or-later
//! How far the advisor's predictions are from what core itself does for the same requests, and what they are worth for
//! disks that share an SSD.

mod measure;
mod report;
mod shares;
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
    /// Compares ways to share one SSD between two disks instead, for each pair of recordings.
    #[arg(long)]
    shares: bool,
    /// Writes the tables to this file.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only));
    let core = Core::linked();
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&args.traces)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| {
        let name = path.to_string_lossy();
        (name.ends_with(".csv.zst") || name.ends_with(".csv")) && wanted(&name)
    });
    paths.sort();
    let recorded = paths.iter().map(|path| Workload::recorded(path));
    let text = if args.shares {
        let workloads = recorded.collect::<std::result::Result<Vec<_>, _>>()?;
        shares::report::text(&core, &workloads)?
    } else {
        let mut results: Vec<Result> = Vec::new();
        let mut add = |workload: Workload| {
            eprintln!("{}", workload.name);
            results.push(measure(&core, &workload)?);
            Ok::<(), tandem_advisor::Impossible>(())
        };
        for workload in recorded {
            add(workload?)?;
        }
        if wanted("files") {
            add(Workload::files())?;
        }
        if wanted("places") {
            add(Workload::places())?;
        }
        report::text(&results)
    };
    print!("{text}");
    if let Some(out) = &args.out {
        std::fs::write(out, text)?;
    }
    Ok(())
}
