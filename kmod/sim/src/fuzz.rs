// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds and runs the libFuzzer targets in `fuzz/`.
//!
//! `fuzz/corpus/TARGET` is kept; what a run finds beyond it goes to the build directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::native::{self, Error, Sources, file_error};

/// All targets.
pub const TARGETS: [&str; 3] = ["superblock", "load", "arguments"];

/// Builds one target into `dir` and runs it for so many seconds.
///
/// # Errors
/// clang refuses, or an input broke something; its file is named in the output.
pub fn run(target: &str, sources: &Sources, dir: &Path, seconds: u64) -> Result<(), Error> {
    let found = dir.join("found");
    std::fs::create_dir_all(&found).map_err(file_error(&found))?;
    let program = build(target, sources, dir)?;
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-artifact_prefix={}/", dir.display()),
    ];
    native::show(
        Command::new(program)
            .args(limits)
            .args([
                "-max_len=2048",
                "-use_value_profile=1",
                "-print_final_stats=1",
                "-verbosity=0",
            ])
            .arg(&found)
            .arg(native::here().join("fuzz/corpus").join(target)),
    )
}

fn build(target: &str, sources: &Sources, dir: &Path) -> Result<PathBuf, Error> {
    let (Sources { core, linux }, fuzz) = (sources, native::here().join("fuzz"));
    let headers = dir.join("kernel");
    stand_in_headers(linux, &headers)?;
    let program = dir.join(target);
    let include = |path: &Path| format!("-I{}", path.display());
    native::run(
        Command::new("clang")
            .args([
                "-std=gnu11",
                "-g",
                "-O1",
                "-fsanitize=fuzzer,address,undefined",
                "-fno-sanitize-recover=all",
            ])
            .args([
                include(&core.join("env-user")),
                include(core),
                include(linux),
                include(&headers),
                include(&fuzz),
            ])
            .args(native::c_files(core)?)
            .arg(fuzz.join(target).with_extension("c"))
            .arg("-o")
            .arg(&program),
    )?;
    Ok(program)
}

/// Makes one header in `to` for every kernel header that the argument parser includes: `fuzz/kernel_stand_in.h` stands for all.
fn stand_in_headers(linux: &Path, to: &Path) -> Result<(), Error> {
    for source in ["args.c", "tandem.h"] {
        let path = linux.join(source);
        let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("#include <")?.strip_suffix('>'));
        for name in names.chain(["tandem-compat.h"]) {
            write_header(&to.join(name))?;
        }
    }
    Ok(())
}

fn write_header(path: &Path) -> Result<(), Error> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(file_error(dir))?;
    }
    std::fs::write(path, "#include \"kernel_stand_in.h\"\n").map_err(file_error(path))
}
