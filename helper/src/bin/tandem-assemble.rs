// SPDX-License-Identifier: GPL-3.0-or-later
//! Run once while the machine starts, by `tandem-assemble.service`: see [`tandem_helper::boot`]. With `--end-start` run
//! by the same unit when it is stopped or has failed. With `--late` run by udev for each device: see
//! [`tandem_helper::boot::late`]. With `--initramfs`, `--export` and `--in-initramfs` run in the initial file system and
//! when it is made: see [`tandem_helper::initramfs`]. With `--drain` run when a shutdown begins: see
//! [`tandem_helper::shutdown`]. With `--stop` run at its end: see [`tandem_helper::stop`]. With `--change-names` run by
//! `tandem-names.service`: see [`tandem_helper::names`].

use std::path::Path;
use std::process::ExitCode;
use tandem_helper::state::{FOLDER, Store};
use tandem_helper::{boot, grub, initramfs, log, names, shutdown, stop};

/// A start ends well whatever it finds: a unit that failed is started again by all that needs the system's start.
fn main() -> ExitCode {
    log();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--late"] => boot::late::run(Path::new(FOLDER)),
        ["--end-start"] => boot::end_killed_start(std::env::var("SERVICE_RESULT").ok().as_deref()),
        ["--stop"] => stop::run(),
        ["--export", folder] => {
            if let Err(e) =
                initramfs::export(&Store::open_untidied(Path::new(FOLDER)), Path::new(folder))
            {
                tracing::error!("the records are not copied to {folder}: {e}");
                return ExitCode::FAILURE;
            }
        }
        ["--in-initramfs"] => {
            if !initramfs::is_complete(&Store::open_untidied(Path::new(FOLDER))) {
                tracing::error!("the initial file system of the running kernel was not made anew");
                return ExitCode::FAILURE;
            }
        }
        ["--change-names"] => {
            if let Err(e) = names::change_as_requested(Path::new(FOLDER), Path::new("/")) {
                tracing::error!("no file is changed: {e}");
                return ExitCode::FAILURE;
            }
        }
        ["--drain"] => match Store::open(Path::new(FOLDER)) {
            Ok(store) => shutdown::run(&store),
            Err(e) => tracing::error!("no records in {FOLDER}: {e}"),
        },
        [] | ["--initramfs"] => match Store::open(Path::new(FOLDER)) {
            Ok(store) if words.is_empty() => {
                boot::run(&store);
                grub::environment::refresh(&store);
            }
            Ok(store) => boot::run_in_initramfs(&store),
            Err(e) => tracing::error!("no records in {FOLDER}: {e}"),
        },
        _ => {
            eprintln!(
                "usage: tandem-assemble [--initramfs | --late | --end-start | --drain | --stop | --export FOLDER | --in-initramfs | --change-names]"
            );
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
