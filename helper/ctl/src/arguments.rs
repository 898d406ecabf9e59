// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line. `tandemctl-pages` makes the manual pages and the completions of shells from it.

use clap::{Parser, Subcommand};
use tandem_api::Mode;

/// Makes an SSD a cache for a disk that holds data, and gives the plain disk back.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed or cancelled, 2 wrong usage, \
                          3 refused and nothing changed, 4 not allowed, 5 service not there, \
                          6 service gone in the middle of a job.";

/// Which disk, which SSD, and how.
#[derive(clap::Args)]
pub struct Choice {
    /// Disk or partition with the data, such as sda1 or /dev/sda1
    pub disk: String,
    /// SSD or partition that becomes the cache
    pub ssd: String,
    /// writethrough: writes go to both; writearound: to the disk only; writeback: to the SSD first
    #[arg(long, default_value = "writethrough", value_parser = mode)]
    pub mode: Mode,
    /// Agree that whatever is on the SSD may be erased
    #[arg(long)]
    pub erase_ssd: bool,
    /// Prepare the SSD now, and use it from the next start of the computer on: for disks that are always in use
    #[arg(long)]
    pub at_next_start: bool,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// List caches and disks
    List,
    /// Say exactly what creating a cache would do, and change nothing
    Plan(Choice),
    /// Create a cache
    Create {
        /// Disk, SSD and mode
        #[command(flatten)]
        choice: Choice,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Cancel a cache that waits for the next start of the computer
    Cancel {
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Show one cache, or all
    Status {
        /// Cache: its uuid, its name, or the beginning of one of them
        cache: Option<String>,
    },
    /// Show a cache's counters each second until interrupted
    Watch {
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// End after this many samples
        #[arg(long)]
        count: Option<u32>,
    },
    /// Treat writes another way from now on
    Mode {
        /// writethrough, writearound or writeback
        #[arg(value_parser = mode)]
        mode: Mode,
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Write everything to the disk that is only on the SSD, and keep the cache
    Flush {
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// Have the flush or removal that is under way wait
        #[arg(long, conflicts_with = "resume")]
        pause: bool,
        /// Have it go on
        #[arg(long)]
        resume: bool,
    },
    /// Write everything to the disk, free the SSD, and give the plain disk back
    Remove {
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// Give up what is only on the SSD and cannot be written to the disk
        #[arg(long)]
        discard_unwritten: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

fn mode(word: &str) -> Result<Mode, String> {
    word.parse()
        .map_err(|_| "must be writethrough, writearound or writeback".to_owned())
}
