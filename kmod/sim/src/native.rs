// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles core once more at run time: changed by a mutant, or under sanitizers.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program could not be built or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A program was not found or could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A tool refused to make something.
    #[error("{program} failed: {output}")]
    Tool {
        /// The program.
        program: String,
        /// What the program said.
        output: String,
    },
    /// What was made ended badly.
    #[error("{program} failed: {status}")]
    Failed {
        /// The program.
        program: String,
        /// How.
        status: String,
    },
}

/// Names the file in an error.
pub fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::File { path, source }
}

/// This crate's directory.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the C sources are that a build takes.
pub struct Sources {
    /// The engine.
    pub core: PathBuf,
    /// The device-mapper target, of which only the argument parser is used.
    pub linux: PathBuf,
}

impl Sources {
    /// As they are in the tree.
    pub fn tree() -> Sources {
        Sources::in_dir(&here().join(".."))
    }

    /// In `core` and `linux` beneath `dir`.
    pub fn in_dir(dir: &Path) -> Sources {
        Sources {
            core: dir.join("core"),
            linux: dir.join("linux"),
        }
    }
}

/// A command that starts this program again, in a process of its own.
///
/// # Errors
/// The program's file is gone.
pub fn this_program() -> Result<Command, Error> {
    let program = std::env::current_exe().map_err(file_error(Path::new("this program")))?;
    Ok(Command::new(program))
}

/// A directory for what is built at run time, beside this program.
///
/// # Errors
/// The directory cannot be made.
pub fn build_dir(name: &str) -> Result<PathBuf, Error> {
    let program = std::env::current_exe().map_err(|source| Error::File {
        path: "current program".into(),
        source,
    })?;
    let dir = program.with_file_name("tandem-sim-build").join(name);
    std::fs::create_dir_all(&dir).map_err(|source| Error::File {
        path: dir.clone(),
        source,
    })?;
    Ok(dir)
}

/// The files directly in `dir` that end so, sorted.
///
/// # Errors
/// The directory cannot be read.
pub fn files(dir: &Path, ending: &str) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(file_error(dir))? {
        let path = entry.map_err(file_error(dir))?.path();
        if path.extension().is_some_and(|other| other == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Compiles each of `sources` with `compiler` (its name and flags) and headers from `include`, unless the same text was
/// compiled so before. For a seeded bug only the changed file is compiled.
///
/// # Errors
/// The compiler refuses.
pub fn objects(
    compiler: &[&str],
    include: &[PathBuf],
    sources: &[PathBuf],
) -> Result<Vec<PathBuf>, Error> {
    let done = build_dir("objects")?;
    let command = |source: &PathBuf| {
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).arg(source);
        for dir in include {
            command.arg("-I").arg(dir);
        }
        command
    };
    let object = |source: &PathBuf| {
        let mut key = DefaultHasher::new();
        compiler.hash(&mut key);
        output(command(source).args(["-E", "-P"]))?.hash(&mut key);
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let object = done.join(format!("{name}-{:016x}.o", key.finish()));
        if object.exists() {
            return Ok(object);
        }
        // Another run may be making it too.
        let own = object.with_extension(format!("{}.o", std::process::id()));
        run(command(source).arg("-c").arg("-o").arg(&own))?;
        std::fs::rename(&own, &object).map_err(file_error(&object))?;
        Ok(object)
    };
    sources.iter().map(object).collect()
}

/// Runs a tool to its end.
///
/// # Errors
/// It is missing, or it ends badly.
pub fn run(command: &mut Command) -> Result<(), Error> {
    output(command).map(drop)
}

/// Runs a tool to its end and returns what it printed.
///
/// # Errors
/// It is missing, or it ends badly.
pub fn output(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| Error::Start {
        program: program.clone(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Tool {
        program,
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs a program to its end and lets the user see what it prints.
///
/// # Errors
/// It is missing, or it ends badly.
pub fn show(command: &mut Command) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|source| Error::Start {
        program: program.clone(),
        source,
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Failed {
            program,
            status: status.to_string(),
        })
    }
}

/// Where the compiler keeps one of its libraries.
///
/// # Errors
/// There is no compiler.
pub fn compiler_file(name: &str) -> Result<PathBuf, Error> {
    let output = Command::new("cc")
        .arg(format!("-print-file-name={name}"))
        .output()
        .map_err(|source| Error::Start {
            program: "cc".to_owned(),
            source,
        })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Flags that turn every finding of the address and undefined behaviour sanitizers into the end of the program.
pub const SANITIZE: [&str; 3] = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

/// Where the shim of core and the checks in C are.
pub fn shims() -> [PathBuf; 2] {
    [here().join("../user/shim"), here().join("shim")]
}

/// Builds core with the shim, the checks and the scenarios into `dir`, as a library for
/// [`Core::load`](crate::engine::Core::load).
///
/// # Errors
/// The compiler refuses.
pub fn library(sources: &Sources, dir: &Path, flags: &[&str]) -> Result<PathBuf, Error> {
    let core = &sources.core;
    let library = dir.join("core.so");
    let mut compiler = vec![
        "cc",
        "-std=gnu11",
        "-O1",
        "-g",
        "-fPIC",
        "-fno-strict-aliasing",
    ];
    compiler.extend(flags);
    let words = ["words", "schedule"].map(|name| here().join("words").join(name));
    let words = words.map(|path| path.with_extension("c"));
    let own = [here().join("words/env"), here().join("words"), core.clone()];
    let mut linked = objects(&compiler, &own, &words)?;
    let mut engine = files(core, "c")?;
    for shim in shims() {
        engine.extend(files(&shim, "c")?);
    }
    let [user, own] = shims();
    let own = [core.join("env-user"), core.clone(), user, own];
    linked.extend(objects(&compiler, &own, &engine)?);
    run(Command::new("cc")
        .args(flags)
        .args(["-shared", "-Wl,-Bsymbolic", "-o"])
        .arg(&library)
        .args(linked))?;
    Ok(library)
}
