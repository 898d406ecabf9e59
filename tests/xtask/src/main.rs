// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds, tests and shows Tandem: `cargo xtask demo` and `cargo xtask test`.

mod bench;
mod c_style;
mod cargo_tests;
mod crates;
mod host;
mod kernels;
mod meson_install;
mod mutants;
mod promises;
mod record;
mod rust_tests;
mod screenshots;
mod suite;
mod test;
mod uml;
mod verify;
mod vm_shell;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use tandem_guest::deb;
use tandem_harness::cx::Cx;
use tandem_harness::deps;
use tandem_scenarios::demo;

/// Builds, tests and shows Tandem.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Name the Debian packages that the other commands need, and install those that are missing.
    Deps {
        /// Name what is missing and stop.
        #[arg(long)]
        dry_run: bool,
    },
    /// Run every layer of tests; `--only` chooses, `--all` runs large matrices whole.
    Test(test::Args),
    /// Name each promise of the crash contract with the tests that keep it and the seeded bugs that they found.
    Promises,
    /// Show the main job by clicks in a virtual machine, with pictures and a report.
    Demo(demo::Args),
    /// Take pictures of every page of the app on a simulated machine.
    Screenshots(screenshots::Args),
    /// Build the Debian packages in a clean Debian 12.
    Deb(deb::Args),
    /// Open a root shell in the virtual machine.
    Vm(vm_shell::Args),
    /// Measure the cost of requests beside other caches, in virtual time; with `ui` the window instead.
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    match dispatch(args.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    let cx = Cx::new()?;
    match command {
        Command::Deps { dry_run: true } => deps::tell(&deps::all())?,
        Command::Deps { dry_run: false } => deps::ensure(&deps::all())?,
        Command::Test(args) => return test::command(&cx, &args),
        Command::Promises => return promises::command(&cx),
        Command::Demo(args) => demo::command(&cx, &args)?,
        Command::Screenshots(args) => screenshots::command(&cx, &args)?,
        Command::Deb(args) => deb::command(&cx, &args)?,
        Command::Vm(args) => vm_shell::command(&cx, &args)?,
        Command::Bench(args) => bench::command(&cx, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}
