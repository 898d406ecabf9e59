// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds, tests and shows Tandem: `cargo xtask demo` and `cargo xtask test`.

mod agent;
mod apt;
mod bench;
mod c_style;
mod case;
mod compiler;
mod cx;
mod deb;
mod demo;
mod deps;
mod disks;
mod fetch;
mod guest;
mod guest_kernel;
mod hash;
mod host;
mod image;
mod inputs;
mod install_image;
mod kernels;
mod layer;
mod meson_install;
mod mutants;
mod pins;
mod power;
mod programs;
mod promises;
mod qemu;
mod qmp;
mod record;
mod report;
mod results;
mod rotation;
mod run;
mod rust_tests;
mod screenshots;
mod seed;
mod stage;
mod suite;
mod test;
mod test_log;
mod turns;
mod uml;
mod verify;
mod vm;
mod vm_shell;
mod vm_state;
mod vm_tests;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::cx::Cx;

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
    Deps(deps::Args),
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
        Command::Deps(args) => deps::command(&cx, &args)?,
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
