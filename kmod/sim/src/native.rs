// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles core once more at run time: changed by a mutant, or under sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Core could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The compiler was not found or could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The compiler.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// The compiler refused.
    #[error("{program} failed:\n{output}")]
    Compile {
        /// The compiler.
        program: String,
        /// What it said.
        output: String,
    },
}

/// This crate's directory.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sources of core as they are in the tree.
pub fn core() -> PathBuf {
    here().join("../core")
}

/// A directory for what is built at run time, beside this program.
///
/// # Errors
/// It cannot be made.
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

/// The C files directly in `dir`, sorted.
///
/// # Errors
/// The directory cannot be read.
pub fn c_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let file_error = |source| Error::File {
        path: dir.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(file_error)? {
        let path = entry.map_err(file_error)?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Runs a compiler with these arguments.
///
/// # Errors
/// It is missing, or it refuses.
pub fn compile(program: &str, arguments: &[&std::ffi::OsStr]) -> Result<(), Error> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|source| Error::Start {
            program: program.to_owned(),
            source,
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Compile {
        program: program.to_owned(),
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
