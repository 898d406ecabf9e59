// SPDX-License-Identifier: GPL-3.0-or-later
//! The program of the start and of the end of the machine, which is also in the initial file system. It has neither the bus
//! nor an asynchronous runtime in it.

use clap::{Parser, Subcommand};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tandem_helper::log;
use tandem_helper::machine::grub;
use tandem_helper::machine::initramfs;
use tandem_helper::machine::memory::{self, Devices};
use tandem_helper::machine::names;
use tandem_helper::machine::store::{FOLDER, Store};
use tandem_helper::start::boot;
use tandem_helper::start::kernel_caches;
use tandem_helper::start::shutdown;
use tandem_helper::start::stop;

/// Puts caches over their disks while the machine starts
#[derive(Parser)]
#[command(name = "tandem-assemble", version)]
struct Arguments {
    /// Without a command: assemble the caches, once, early
    #[command(subcommand)]
    command: Option<Command>,
}

/// Each command also has the form of an option, which an older unit, an older rule of udev or an older initial file system
/// may call.
#[derive(Clone, Subcommand)]
enum Command {
    /// In the initial file system: assemble the cache of the root file system
    #[command(long_flag = "initramfs")]
    Initramfs,
    /// Run by udev for each device: hold a disk that comes late
    #[command(long_flag = "late")]
    Late,
    /// The unit of the start was stopped or has failed: let systemd go on
    #[command(long_flag = "end-start")]
    EndStart,
    /// A shutdown begins: write back what the records ask for
    #[command(long_flag = "drain")]
    Drain,
    /// The end of a shutdown: note the disks of the caches that dm-cache served
    Note,
    /// The end of a shutdown: stop the cache of the root file system in order
    #[command(long_flag = "stop")]
    Stop,
    /// Copy the records that an initial file system needs to a folder, and print the modules that serve them
    #[command(long_flag = "export")]
    Export {
        /// Empty, or not there
        folder: PathBuf,
        /// Modules that the kernel lacks: the records of the caches that need one of these are left out
        lacking: Vec<String>,
    },
    /// Fail if the initial file system of the running kernel lacks its records
    #[command(long_flag = "in-initramfs")]
    InInitramfs,
    /// The memory that caches have in place of an SSD
    Memory {
        #[command(subcommand)]
        task: MemoryTask,
    },
    /// Change the names of disks in a file of the start as the service has asked for
    #[command(long_flag = "change-names")]
    ChangeNames,
}

#[derive(Clone, Subcommand)]
enum MemoryTask {
    /// Before the caches are assembled: make the memory of all of them
    MakeAll,
    /// Make the memory of a cache, empty; fails with status 3 if the kernel has no compressed memory
    Make {
        /// The cache
        uuid: String,
        /// How much
        bytes: u64,
    },
    /// Give the memory of a cache back
    GiveBack {
        /// The cache
        uuid: String,
    },
}

/// Does a task with the memory of caches.
fn change_memory(task: &MemoryTask) -> ExitCode {
    let devices = Devices::default();
    let done = match task {
        MemoryTask::MakeAll => {
            devices.make_all(&Store::open_untidied(Path::new(FOLDER)));
            Ok(())
        }
        MemoryTask::Make { uuid, bytes } => devices.make(uuid, *bytes),
        MemoryTask::GiveBack { uuid } => devices.give_back(uuid),
    };
    let Err(e) = done else {
        return ExitCode::SUCCESS;
    };
    tracing::error!("the memory of a cache is not changed: {e}");
    match e.kind() {
        ErrorKind::NotFound => ExitCode::from(memory::ABSENT),
        _ => ExitCode::FAILURE,
    }
}

/// A start ends well whatever it finds: a unit that failed is started again by all that needs the system's start.
fn main() -> ExitCode {
    log();
    let folder = Path::new(FOLDER);
    let with_records = |run: &dyn Fn(&Store)| match Store::open(folder) {
        Ok(store) => run(&store),
        Err(e) => tracing::error!("no records in {FOLDER}: {e}"),
    };
    match Arguments::parse().command {
        None => with_records(&|store| {
            kernel_caches::forget();
            boot::run(store);
            grub::environment::refresh(store);
        }),
        Some(Command::Initramfs) => with_records(&boot::run_in_initramfs),
        Some(Command::Late) => boot::late::run(folder),
        Some(Command::EndStart) => {
            boot::end_killed_start(std::env::var("SERVICE_RESULT").ok().as_deref());
        }
        Some(Command::Drain) => {
            with_records(&shutdown::run);
            kernel_caches::begin();
        }
        Some(Command::Note) => kernel_caches::end(),
        Some(Command::Stop) => stop::run(),
        Some(Command::Export {
            folder: to,
            lacking,
        }) => match initramfs::export(&Store::open_untidied(folder), &to, &lacking) {
            Ok(modules) => modules.iter().for_each(|module| println!("{module}")),
            Err(e) => {
                tracing::error!("the records are not copied to {}: {e}", to.display());
                return ExitCode::FAILURE;
            }
        },
        Some(Command::InInitramfs) => {
            if !initramfs::is_complete(&Store::open_untidied(folder)) {
                tracing::error!("the initial file system of the running kernel was not made anew");
                return ExitCode::FAILURE;
            }
        }
        Some(Command::Memory { task }) => return change_memory(&task),
        Some(Command::ChangeNames) => {
            if let Err(e) = names::change_as_requested(folder, Path::new("/")) {
                tracing::error!("no file is changed: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parsed(words: &[&str]) -> Option<Command> {
        let words = ["tandem-assemble"].iter().chain(words);
        Arguments::try_parse_from(words).unwrap().command
    }

    #[test]
    fn each_command_has_its_older_form() {
        let known = Arguments::command();
        let mut count = 0;
        let older = |name: &str| !["memory", "note"].contains(&name);
        for command in known.get_subcommands().filter(|c| older(c.get_name())) {
            let (word, option) = (command.get_name(), format!("--{}", command.get_name()));
            let folder = command.get_positionals().map(|_| "/tmp/x");
            let rest: Vec<_> = folder.collect();
            let [new, old] =
                [word, &option].map(|first| parsed(&[&[first], rest.as_slice()].concat()).unwrap());
            assert_eq!(
                std::mem::discriminant(&new),
                std::mem::discriminant(&old),
                "{word}"
            );
            count += 1;
        }
        assert_eq!(count, 8);
        assert!(parsed(&[]).is_none());
        let Some(Command::Export { folder, lacking }) = parsed(&["--export", "/tmp/x"]) else {
            panic!("the older form names no folder");
        };
        assert_eq!(folder, Path::new("/tmp/x"));
        assert!(lacking.is_empty());
    }

    #[test]
    fn a_word_that_is_not_known_runs_nothing() {
        for words in [
            &["boot"][..],
            &["--assemble"],
            &["late", "drain"],
            &["export"],
        ] {
            let words = ["tandem-assemble"].iter().chain(words);
            assert!(Arguments::try_parse_from(words).is_err());
        }
    }
}
