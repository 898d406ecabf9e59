// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs core under the compilers' sanitizers.

use std::path::Path;
use std::process::Command;

use crate::native::{self, Error};

/// Starts this program again with the same arguments, but with a core built under the address and undefined behaviour
/// sanitizers. This program itself is not instrumented, so their library is loaded first.
///
/// # Errors
/// The compiler refuses, or a finding ended the run.
pub fn again() -> Result<(), Error> {
    let dir = native::build_dir("sanitized")?;
    let core = native::library(&native::core(), &dir, &native::SANITIZE)?;
    let program = std::env::current_exe().map_err(|source| Error::File {
        path: "this program".into(),
        source,
    })?;
    native::show(
        Command::new(program)
            .args(
                std::env::args_os()
                    .skip(1)
                    .filter(|argument| argument != "--sanitize"),
            )
            .arg("--core")
            .arg(core)
            .env("LD_PRELOAD", native::compiler_file("libasan.so")?)
            .env("UBSAN_OPTIONS", "print_stacktrace=1"),
    )
}

/// Builds the scenarios of the word in `core` with the thread sanitizer and lets real threads play each `rounds` times.
///
/// # Errors
/// The compiler refuses, or something was wrong.
pub fn threads(core: &Path, name: &str, rounds: u64) -> Result<(), Error> {
    let dir = native::build_dir(name)?;
    let program = dir.join("threads");
    native::run(
        Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-pthread"])
            .arg(format!("-I{}", native::here().join("words/env").display()))
            .arg(format!("-I{}", core.display()))
            .args(
                ["words", "threads"]
                    .map(|name| native::here().join("words").join(name).with_extension("c")),
            )
            .arg("-o")
            .arg(&program),
    )?;
    native::show(
        Command::new(&program)
            .arg(rounds.to_string())
            .env("TSAN_OPTIONS", "halt_on_error=1"),
    )
}
