// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds kernel modules for the kernels of the tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// The sources of the kernel module under test, below `kmod`.
pub const KMOD: [&str; 5] = ["Kbuild", "Makefile", "configure.d", "core", "linux"];

/// Builds a module whose sources are below `source` (a Kbuild and what it names) for the kernel in `kernel`.
///
/// The sources are copied, so that kernels do not share object files.
pub fn module(
    source: &Path,
    kernel: &Path,
    build: &Path,
    settings: &[&str],
    log: &Path,
) -> Result<()> {
    copy(source, build)?;
    run::logged(&mut command(kernel, build, settings), log)
        .with_context(|| format!("{} does not build", source.display()))
}

/// Copies the sources of a module to an empty directory. The directory is emptied each time: switching branches leaves
/// object files that make takes for up to date. Of `kmod` only the sources of the module are copied, not the simulator's
/// files, which change without need to build the module again.
pub fn copy(source: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    if !source.join("core").is_dir() {
        return run::output(run::cmd("cp", ["-r"]).arg(source.join(".")).arg(to)).map(drop);
    }
    for part in KMOD {
        run::output(run::cmd("cp", ["-r"]).arg(source.join(part)).arg(to))?;
    }
    Ok(())
}

/// The command that builds the changed files of a module's copied sources.
pub fn command(kernel: &Path, build: &Path, settings: &[&str]) -> Command {
    let mut make = run::cmd("make", ["-s", "-j2"]);
    make.arg("-C")
        .arg(kernel)
        .arg(format!("M={}", build.display()))
        .args(settings)
        .arg("modules");
    make
}
