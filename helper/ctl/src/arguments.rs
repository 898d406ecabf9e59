// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line. `tandemctl-pages` makes the manual pages and the completions of shells from it.
#![allow(missing_docs, reason = "help.rs says what each of them is")]

mod help;

pub use help::{command, command_with_headings};

use clap::{Parser, Subcommand};
use gettextrs::gettext;
use std::path::PathBuf;
use tandem_api::{Mode, Span, Target};

#[derive(Parser)]
#[command(version)]
pub struct Arguments {
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(clap::Args)]
pub struct Choice {
    pub disk: String,
    #[arg(required_unless_present = "memory")]
    pub ssd: Option<String>,
    #[arg(long, value_name = "SIZE", value_parser = tandem_api::parse_size,
          conflicts_with_all = ["ssd", "partition", "erase_ssd", "at_next_start", "kernel_cache"])]
    pub memory: Option<u64>,
    #[arg(long, value_name = "SIZE", value_parser = tandem_api::parse_size)]
    pub partition: Option<u64>,
    #[arg(long, default_value = "writethrough", value_parser = mode)]
    pub mode: Mode,
    #[arg(long)]
    pub erase_ssd: bool,
    #[arg(long)]
    pub at_next_start: bool,
    #[arg(long)]
    pub kernel_cache: bool,
}

impl Choice {
    /// The target that is to serve the cache.
    pub fn target(&self) -> Target {
        match self.kernel_cache {
            true => Target::DmCache,
            false => Target::Tandem,
        }
    }
}

#[derive(Subcommand)]
pub enum Command {
    #[command(flatten)]
    Service(Request),
    Rescue {
        #[command(subcommand)]
        what: Rescue,
    },
}

#[derive(Subcommand)]
pub enum Request {
    List,
    Plan(Choice),
    Create {
        #[command(flatten)]
        choice: Choice,
        #[arg(long)]
        yes: bool,
    },
    Names {
        disk: String,
        #[arg(long)]
        yes: bool,
    },
    Cancel {
        cache: Option<String>,
        #[arg(long)]
        yes: bool,
    },
    Report,
    Found,
    TakeOver {
        ssd: String,
        #[arg(long)]
        yes: bool,
    },
    DiscardFound {
        ssd: String,
        #[arg(long)]
        yes: bool,
    },
    ConfirmDisk {
        disk: String,
        cache: Option<String>,
        #[arg(long)]
        yes: bool,
    },
    Status {
        cache: Option<String>,
    },
    History {
        cache: Option<String>,
        #[arg(long, default_value = "hour", value_parser = span)]
        span: Span,
    },
    Watch {
        cache: Option<String>,
        #[arg(long)]
        count: Option<u32>,
    },
    WatchDisk {
        disk: String,
        #[arg(long)]
        stop: bool,
    },
    Advice {
        disk: Option<String>,
    },
    SpeedTest {
        cache: Option<String>,
        #[arg(long, value_name = "DISK", conflicts_with = "cache")]
        disk: Option<String>,
        #[arg(long, conflicts_with = "disk")]
        last: bool,
    },
    Mode {
        #[arg(value_parser = mode)]
        mode: Mode,
        cache: Option<String>,
        #[arg(long)]
        yes: bool,
    },
    Pause {
        cache: Option<String>,
    },
    Start {
        cache: Option<String>,
    },
    Resume {
        cache: Option<String>,
    },
    DirtyLimit {
        cache: Option<String>,
        #[arg(long, value_name = "N", default_value_t = tandem_api::DirtyLimit::default().seconds,
              value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
        #[arg(long, value_name = "SIZE", value_parser = tandem_api::parse_size)]
        size: Option<u64>,
        #[arg(long, value_name = "MINUTES", default_value_t = 0,
              value_parser = clap::value_parser!(u32).range(..=1440))]
        rest: u32,
    },
    Rename {
        name: String,
        cache: Option<String>,
    },
    ResetStatistics {
        cache: Option<String>,
        #[arg(long)]
        undo: bool,
    },
    BeforeOff {
        #[arg(value_parser = clap::value_parser!(u32).range(0..=25))]
        minutes: u32,
        cache: Option<String>,
    },
    Flush {
        cache: Option<String>,
        #[arg(long, conflicts_with = "resume")]
        pause: bool,
        #[arg(long)]
        resume: bool,
    },
    Resize {
        cache: String,
        #[arg(value_parser = tandem_api::parse_size)]
        size: u64,
        #[arg(long)]
        yes: bool,
    },
    Remove {
        cache: Option<String>,
        #[arg(long)]
        discard_unwritten: bool,
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Subcommand)]
pub enum Rescue {
    Show {
        ssd: PathBuf,
        #[command(flatten)]
        image: SsdImage,
        #[arg(long, default_value = RECORDS, value_name = "FOLDER")]
        records: PathBuf,
    },
    Verify {
        ssd: PathBuf,
        disk: Option<PathBuf>,
        #[command(flatten)]
        image: SsdImage,
        #[arg(long)]
        whole: bool,
    },
    WriteBack {
        #[command(flatten)]
        pair: RescuePair,
        #[arg(long)]
        over_newer_data: bool,
        #[arg(long)]
        dry_run: bool,
        #[arg(long)]
        yes: bool,
    },
    View {
        #[command(flatten)]
        pair: RescuePair,
        #[arg(long, value_name = "PATH", required_unless_present = "port")]
        socket: Option<PathBuf>,
        #[arg(long, conflicts_with = "socket")]
        port: Option<u16>,
    },
}

#[derive(clap::Args)]
pub struct RescuePair {
    pub ssd: PathBuf,
    pub disk: PathBuf,
    #[command(flatten)]
    pub image: SsdImage,
    #[arg(long, value_name = "SERIAL")]
    pub disk_serial: Option<String>,
    #[arg(long, default_value = RECORDS, value_name = "FOLDER")]
    pub records: PathBuf,
}

/// What an image of the SSD has of it.
#[derive(clap::Args)]
pub struct SsdImage {
    #[arg(long, value_name = "FILE")]
    pub ssd_map: Option<PathBuf>,
    #[arg(long, conflicts_with = "ssd_map")]
    pub ssd_complete: bool,
}

impl SsdImage {
    pub fn says_what_it_lacks(&self) -> bool {
        self.ssd_map.is_some() || self.ssd_complete
    }
}

/// Where the service keeps its records.
const RECORDS: &str = "/var/lib/tandem";

fn mode(word: &str) -> Result<Mode, String> {
    word.parse()
        .map_err(|_| gettext("must be writethrough, writearound or writeback"))
}

fn span(word: &str) -> Result<Span, String> {
    word.parse()
        .map_err(|_| gettext("must be hour, day or month"))
}
