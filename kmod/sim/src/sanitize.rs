// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs core under the compilers' sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::native::{self, Error, Sources};

/// Starts this program again with the same arguments, but with a core built under the address and undefined behaviour
/// sanitizers. This program itself is not instrumented, so their library is loaded first.
///
/// # Errors
/// The compiler refuses, or a finding ended the run.
pub fn again(sources: &Sources, dir: &Path) -> Result<(), Error> {
    let core = native::library(sources, dir, &native::SANITIZE)?;
    let program = std::env::current_exe().map_err(native::file_error(Path::new("this program")))?;
    let arguments = std::env::args_os()
        .skip(1)
        .filter(|argument| argument != "--sanitize");
    native::show(
        Command::new(program)
            .args(arguments)
            .arg("--core")
            .arg(core)
            .envs(environment()?),
    )
}

/// What a program needs in its environment to load a library built with [`native::SANITIZE`].
///
/// # Errors
/// There is no compiler.
pub fn environment() -> Result<[(&'static str, PathBuf); 2], Error> {
    let library = native::compiler_file("libasan.so")?;
    Ok([
        ("LD_PRELOAD", library),
        ("UBSAN_OPTIONS", "print_stacktrace=1".into()),
    ])
}

/// Builds the scenarios of the word into `dir` with the thread sanitizer and lets real threads play each `rounds` times.
///
/// # Errors
/// The compiler refuses, or something was wrong.
pub fn threads(sources: &Sources, dir: &Path, rounds: u64) -> Result<(), Error> {
    let program = dir.join("threads");
    native::run(
        Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-pthread"])
            .arg(format!("-I{}", native::here().join("words/env").display()))
            .arg(format!("-I{}", sources.core.display()))
            .args(["words.c", "threads.c"].map(|name| native::here().join("words").join(name)))
            .arg("-o")
            .arg(&program),
    )?;
    native::show(
        Command::new(&program)
            .arg(rounds.to_string())
            .env("TSAN_OPTIONS", "halt_on_error=1"),
    )
}
