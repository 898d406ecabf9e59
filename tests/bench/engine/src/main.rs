// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line of the engine's benchmarks.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use tandem_engine_bench::hitrate::core::Writes;
use tandem_engine_bench::hitrate::report::{self, Wish};
use tandem_engine_bench::{load, scale, writes};
use tandem_sim::engine::Core;

#[derive(Parser)]
#[command(about)]
enum Command {
    /// Hit rates for recorded requests: core's own policy beside well-known ones.
    Replay {
        /// A recording: CSV of `t_us,op,dev,offset,size` with a header, or such a file compressed by zstd.
        trace: PathBuf,
        /// Sizes of the cache, in hundredths of all blocks that the recording touches.
        #[arg(long, value_delimiter = ',', default_values_t = [1.0, 5.0, 10.0, 20.0])]
        percent: Vec<f64>,
        /// Size of a block in KiB. Every block plays a frame of core.
        #[arg(long, default_value_t = 16)]
        block: u64,
        /// Core serves the writes as writes, in write-through; only reads are counted, for all policies.
        #[arg(long)]
        writes_through: bool,
        /// log2 of the frames in a run, instead of the value that suits the size.
        #[arg(long)]
        run_shift: Option<u32>,
    },
    /// What becomes of the recorded writes in write-back: how much the SSD takes, and what the disk has to do.
    Writes {
        /// A recording, as for `replay`.
        trace: PathBuf,
        /// Sizes of the SSD in MiB.
        #[arg(long, value_delimiter = ',', default_values_t = [128, 256, 512, 1024, 4096])]
        mib: Vec<u64>,
        /// Long writes in order, too, go to the SSD: what is left is what cannot go there.
        #[arg(long)]
        no_streams: bool,
    },
    /// How long a start takes to load the index of a full cache, beside the reading of the index alone.
    Index {
        /// Size of the SSD.
        #[arg(long, default_value_t = 1000)]
        gigabytes: u64,
        /// The directory for a temporary copy of the index, whose size is 1/1800 of the SSD's.
        #[arg(long, default_value = ".")]
        dir: PathBuf,
    },
    /// How long the engine's lock is held, and how much metadata is written, for a full cache on large SSDs.
    Scale {
        /// Sizes of the SSD. The index of 4000 GB takes 3 GB of memory.
        #[arg(long, value_delimiter = ',', default_values_t = [1000, 2000, 4000])]
        gigabytes: Vec<u64>,
        /// Runs, of which the shortest time of each hold counts.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    match Command::parse() {
        Command::Replay {
            trace,
            percent,
            block,
            writes_through,
            run_shift,
        } => {
            let wish = Wish {
                percents: percent,
                block_bytes: block << 10,
                writes: if writes_through {
                    Writes::Through
                } else {
                    Writes::LikeReads
                },
                run_shift,
            };
            print!("{}", report::table(&Core::linked(), &trace, &wish)?);
            Ok(())
        }
        Command::Writes {
            trace,
            mib,
            no_streams,
        } => {
            print!(
                "{}",
                writes::table(&Core::linked(), &trace, &mib, !no_streams)?
            );
            Ok(())
        }
        Command::Index { gigabytes, dir } => measure_load(gigabytes, &dir),
        Command::Scale { gigabytes, runs } => {
            let core = scale::core_of_the_module()?;
            for gigabytes in gigabytes {
                println!("{}", scale::table(&core, gigabytes, runs)?);
            }
            Ok(())
        }
    }
}

fn measure_load(gigabytes: u64, dir: &Path) -> Result<(), Box<dyn Error>> {
    let speed = load::measure(&Core::linked(), gigabytes, dir)?;
    let rate = |time: Duration| speed.bytes as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{} slots, {} MB\nread alone: {:.2} s, {:.0} MB/s\ncore alone: {:.2} s, {:.0} MB/s\nboth: {:.2} s, {:.2} times the reading",
        speed.slots,
        speed.bytes / 1_000_000,
        speed.read.as_secs_f64(),
        rate(speed.read),
        speed.core.as_secs_f64(),
        rate(speed.core),
        speed.both.as_secs_f64(),
        speed.both.as_secs_f64() / speed.read.as_secs_f64(),
    );
    Ok(())
}
