// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds and runs the libFuzzer targets in `fuzz/`, and tells which branches their inputs reach.
//!
//! `fuzz/corpus/TARGET` is kept; what a run finds beyond it goes to the build directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::coverage::{self, Branches};
use crate::native::{self, Error, Sources, file_error};

/// All targets.
pub const TARGETS: [&str; 4] = ["superblock", "load", "arguments", "messages"];

/// The files that a target is there for.
fn about(target: &str) -> &'static [&'static str] {
    match target {
        "superblock" => &["super.c"],
        "load" => &["load.c", "load_slots.c", "format.c"],
        _ => &["args.c"],
    }
}

/// Builds one target into `dir` and runs it for so many seconds.
///
/// # Errors
/// clang refuses, or an input broke something; its file is named in the output.
pub fn run(target: &str, sources: &Sources, dir: &Path, seconds: u64) -> Result<(), Error> {
    let found = dir.join("found");
    std::fs::create_dir_all(&found).map_err(file_error(&found))?;
    let program = dir.join(target);
    let sanitize = "-fsanitize=fuzzer,address,undefined";
    let compiler = [
        "clang",
        "-std=gnu11",
        "-g",
        "-O1",
        sanitize,
        "-fno-sanitize-recover=all",
    ];
    let mut all = native::files(&sources.core, "c")?;
    all.push(fuzz().join(target).with_extension("c"));
    let objects = native::objects(&compiler, &headers(sources, dir)?, &all)?;
    native::run(
        Command::new("clang")
            .arg(sanitize)
            .args(objects)
            .arg("-o")
            .arg(&program),
    )?;
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
            .arg(corpus(target)),
    )
}

/// What the kept inputs of a target and those that runs in `dir` found reach, in a line.
///
/// # Errors
/// gcc refuses, or an input broke something.
pub fn reach(target: &str, sources: &Sources, dir: &Path) -> Result<String, Error> {
    let place = dir.join("coverage");
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(file_error(&place))?;
    }
    std::fs::create_dir_all(&place).map_err(file_error(&place))?;
    let (program, object) = (place.join("replay"), place.join("target.o"));
    let measured = ["-O0", "--coverage"];
    // By itself: gcov tells files apart by their last names, of which core may have the same.
    native::run(
        compiler(sources, dir)?
            .args(measured)
            .arg("-c")
            .arg(fuzz().join(target).with_extension("c"))
            .arg("-o")
            .arg(&object),
    )?;
    native::run(
        compiler(sources, dir)?
            .args(measured)
            .args(native::files(&sources.core, "c")?)
            .arg(fuzz().join("replay.c"))
            .arg(&object)
            .arg("-o")
            .arg(&program),
    )?;
    let mut inputs = inputs(target)?;
    inputs.extend(inputs_in(&dir.join("found"))?);
    native::show(Command::new(&program).args(&inputs))?;
    let report = coverage::report(&place)?;
    let parts: Vec<_> = about(target)
        .iter()
        .filter_map(|file| Some(format!("{} of {file}", Branches::of(&report, file)?)))
        .collect();
    Ok(format!(
        "{target}: {} inputs take {}",
        inputs.len(),
        parts.join(", ")
    ))
}

fn fuzz() -> PathBuf {
    native::here().join("fuzz")
}

fn corpus(target: &str) -> PathBuf {
    fuzz().join("corpus").join(target)
}

/// The kept inputs of a target.
///
/// # Errors
/// The directory of the inputs cannot be read.
pub fn inputs(target: &str) -> Result<Vec<PathBuf>, Error> {
    inputs_in(&corpus(target))
}

fn inputs_in(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(file_error(dir))? {
        files.push(entry.map_err(file_error(dir))?.path());
    }
    files.sort();
    Ok(files)
}

/// The compiler that counts branches.
fn compiler(sources: &Sources, dir: &Path) -> Result<Command, Error> {
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-g"]);
    for dir in headers(sources, dir)? {
        command.arg("-I").arg(dir);
    }
    Ok(command)
}

/// Where the headers of a target are.
fn headers(sources: &Sources, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let Sources { core, linux } = sources;
    let own = dir.join("kernel");
    stand_in_headers(linux, &own)?;
    Ok(vec![
        core.join("env-user"),
        core.clone(),
        linux.clone(),
        own,
        fuzz(),
    ])
}

/// Makes one header in `to` for every kernel header that the parser includes: `fuzz/kernel_stand_in.h` stands for all.
fn stand_in_headers(linux: &Path, to: &Path) -> Result<(), Error> {
    let path = linux.join("args.c");
    let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
    for name in text
        .lines()
        .filter_map(|line| line.strip_prefix("#include <")?.strip_suffix('>'))
    {
        let header = to.join(name);
        if let Some(dir) = header.parent() {
            std::fs::create_dir_all(dir).map_err(file_error(dir))?;
        }
        std::fs::write(&header, "#include \"kernel_stand_in.h\"\n").map_err(file_error(&header))?;
    }
    Ok(())
}
