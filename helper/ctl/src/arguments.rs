// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line. `tandemctl-pages` makes the manual pages and the completions of shells from it.

use clap::{Parser, Subcommand};
use std::path::PathBuf;
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

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed or canceled, 2 wrong usage, \
                          3 refused and nothing changed, 4 not allowed, 5 service not there, \
                          6 service gone in the middle of a job.";

/// Which disk, which SSD, and how.
#[derive(clap::Args)]
pub struct Choice {
    /// Disk or partition with the data, such as sda1 or /dev/sda1
    pub disk: String,
    /// SSD, partition or logical volume that becomes the cache; with --partition the SSD to share
    pub ssd: String,
    /// Make a partition of this size in the free space of the SSD, such as 100GB or 64GiB, and use only that
    #[arg(long, value_name = "SIZE", value_parser = tandem_api::parse_size)]
    pub partition: Option<u64>,
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
    /// What the service does
    #[command(flatten)]
    Service(Request),
    /// Save what is on the SSD of a cache without the service and the kernel module
    ///
    /// Works from a live system too, and on image files of the SSD and the disk. Neither of the two may be in use.
    Rescue {
        /// What to do
        #[command(subcommand)]
        what: Rescue,
    },
}

/// What the service is asked to do.
#[derive(Subcommand)]
pub enum Request {
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
    /// Have the start of this computer find a disk by UUID, so that it finds the disk with a cache, too
    Names {
        /// Disk or partition with the data, such as sda1 or /dev/sda1
        disk: String,
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
    /// Show the caches on SSDs that this system does not know, from another computer or an earlier installation
    Found,
    /// Use a cache that this system does not know; what is only on the SSD can be written to the disk then
    TakeOver {
        /// SSD or partition with the cache, such as sdb or /dev/sdb
        ssd: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Give up what is on the SSD of a cache that this system does not know
    DiscardFound {
        /// SSD or partition with the cache, such as sdb or /dev/sdb
        ssd: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Confirm that a disk is the disk of a cache, where that is not sure
    ///
    /// “tandemctl status” shows the disks that may be it, and what speaks for each and against it.
    ConfirmDisk {
        /// Disk or partition, such as sda1 or /dev/sda1
        disk: String,
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
    /// Have the service watch how a disk without a cache is used, to predict whether a cache helps
    ///
    /// This changes nothing on the disk. It goes on over restarts of the computer, until it is stopped or the disk gets a
    /// cache. A first answer takes a day.
    WatchDisk {
        /// Disk or partition with the data, such as sda1 or /dev/sda1
        disk: String,
        /// Stop, and forget what was seen
        #[arg(long)]
        stop: bool,
    },
    /// Say whether a cache would help the disks that are watched, and how large it should be
    Advice {
        /// Disk or partition; all that are watched without it
        disk: Option<String>,
    },
    /// Measure how fast a disk is with its SSD and without it; reads only, for 30 seconds at most
    SpeedTest {
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// Test this disk or partition without a cache instead, such as sda1 or /dev/sda1
        #[arg(long, value_name = "DISK", conflicts_with = "cache")]
        disk: Option<String>,
        /// Show the last result of the cache again, and test nothing
        #[arg(long, conflicts_with = "disk")]
        last: bool,
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
    /// Have a cache store nothing new, until it is resumed or the computer is started again
    ///
    /// What the cache holds goes on being read from the SSD. Use it for a large copy or a backup that is not to take the
    /// place of what you use every day.
    Pause {
        /// Cache; may be left out if there is one
        cache: Option<String>,
    },
    /// Start a cache again that was stopped when its disk was unmounted, to be unplugged
    Start {
        /// Cache; may be left out if there is one
        cache: Option<String>,
    },
    /// Have a paused cache store new data again
    Resume {
        /// Cache; may be left out if there is one
        cache: Option<String>,
    },
    /// Set how much data may be on the SSD only, in write-back, and how long
    ///
    /// An option that is left out gets the value of a new cache: 30 seconds, three quarters of the cache, and no rest.
    DirtyLimit {
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// Only as much as the disk can write in so many seconds
        #[arg(long, value_name = "N", default_value_t = tandem_api::DirtyLimit::default().seconds,
              value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
        /// Only so much, such as 500MB (1MiB at least)
        #[arg(long, value_name = "SIZE", value_parser = tandem_api::parse_size)]
        size: Option<u64>,
        /// Let data wait for so many minutes while no program uses the hard disk, so that the disk can rest
        #[arg(long, value_name = "MINUTES", default_value_t = 0,
              value_parser = clap::value_parser!(u32).range(..=1440))]
        rest: u32,
    },
    /// Give a cache a name of your own
    Rename {
        /// Name, of 64 characters at most; "" takes the name away
        name: String,
        /// Cache; may be left out if there is one
        cache: Option<String>,
    },
    /// Begin the figures since the setup of a cache anew
    ResetStatistics {
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// Take back the last new beginning
        #[arg(long)]
        undo: bool,
    },
    /// Write everything to the disk before the computer is switched off or restarted
    BeforeOff {
        /// How long that may take, in minutes (25 at most); 0: it is not done
        #[arg(value_parser = clap::value_parser!(u32).range(0..=25))]
        minutes: u32,
        /// Cache; may be left out if there is one
        cache: Option<String>,
    },
    /// Write everything to the disk that is not yet on it, and keep the cache
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
    /// Give a cache another share of its SSD; the cache starts empty again, and the disk stays in use
    Resize {
        /// Cache: its uuid, its name, or the beginning of one of them
        cache: String,
        /// New size of the share, such as 100GB or 64GiB
        #[arg(value_parser = tandem_api::parse_size)]
        size: u64,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Write everything to the disk, release the SSD, and restore the plain disk
    Remove {
        /// Cache; may be left out if there is one
        cache: Option<String>,
        /// Discard the data that is not yet on the hard disk and cannot be written to it
        #[arg(long)]
        discard_unwritten: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// What to do with the SSD of a cache that does not work any more.
#[derive(Subcommand)]
pub enum Rescue {
    /// Show which disk the SSD belongs to, and how much is not yet on that disk; change nothing
    Show {
        /// SSD or partition that was the cache, such as /dev/sdb or /dev/sdb2, or a file with its content
        ssd: PathBuf,
        /// Records of the system that had the cache
        #[arg(long, default_value = RECORDS, value_name = "FOLDER")]
        records: PathBuf,
    },
    /// Read everything that counts on the SSD, and compare its copies with the disk; change nothing
    Verify {
        /// SSD or partition that was the cache, or a file with its content
        ssd: PathBuf,
        /// Disk or partition that had the cache, or a file with its content
        disk: Option<PathBuf>,
        /// Compare all copies instead of some thousand
        #[arg(long)]
        whole: bool,
    },
    /// Write what is not yet on the disk to the disk; may be interrupted and repeated
    WriteBack {
        /// SSD, disk, and what is known of them
        #[command(flatten)]
        pair: RescuePair,
        /// Name what would be written, and write nothing
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Show the disk as it was with its cache, read-only, as a network block device; change nothing
    View {
        /// SSD, disk, and what is known of them
        #[command(flatten)]
        pair: RescuePair,
        /// Unix socket to make
        #[arg(long, value_name = "PATH", required_unless_present = "port")]
        socket: Option<PathBuf>,
        /// Port of 127.0.0.1 to use; every program of this computer can read it
        #[arg(long, conflicts_with = "socket")]
        port: Option<u16>,
    },
}

/// An SSD and its disk, neither of which is in use.
#[derive(clap::Args)]
pub struct RescuePair {
    /// SSD or partition that was the cache, or a file with its content
    pub ssd: PathBuf,
    /// Disk or partition that had the cache, or a file with its content
    pub disk: PathBuf,
    /// Serial number of the disk, or name of the image file: agree that this is the right one
    #[arg(long, value_name = "SERIAL")]
    pub disk_serial: Option<String>,
    /// Records of the system that had the cache
    #[arg(long, default_value = RECORDS, value_name = "FOLDER")]
    pub records: PathBuf,
}

/// Where the service keeps its records.
const RECORDS: &str = "/var/lib/tandem";

fn mode(word: &str) -> Result<Mode, String> {
    word.parse()
        .map_err(|_| "must be writethrough, writearound or writeback".to_owned())
}
