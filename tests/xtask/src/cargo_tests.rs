// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs the test programs of packages side by side, each as cargo would: most tests wait for another program's messages,
//! and cargo itself starts one program after the other.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use tandem_harness::layer::Run;
use tandem_harness::{libtest, run};

/// Programs that run at once.
const AT_ONCE: usize = 4;
/// Number of the first X server; each of the programs at once has its own.
const DISPLAY: usize = 70;
/// Numbers of displays between those of two lanes.
const APART: usize = 20;

/// A test program.
struct Program {
    /// Name of the program, without the hash that cargo appends.
    name: String,
    file: PathBuf,
    /// The folder of its package, in which its tests run.
    folder: PathBuf,
}

/// Builds and runs the tests of some packages, and counts each test. `shown`: each program runs on an X server. `without`:
/// names of tests that do not run.
///
/// # Errors
/// The packages do not build.
pub fn run(run: &mut Run, packages: &[&str], shown: bool, without: &[&str]) -> Result<()> {
    let programs = built(run, packages)?;
    let logs = run.log.with_extension("programs");
    if logs.exists() {
        fs::remove_dir_all(&logs)?;
    }
    fs::create_dir_all(&logs)?;
    let queue: Mutex<VecDeque<_>> = Mutex::new(programs.iter().collect());
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let case = run.case.clone();
    let lane = |lane: usize| {
        let mut ended = Vec::new();
        while let Some(program) = next() {
            let display = shown.then_some(DISPLAY + lane * APART);
            let log = logs.join(program.file.file_name().unwrap_or_default());
            let mut command = program.command(display, without, case.as_deref());
            ended.push((program, run::logged(&mut command, &log), log));
        }
        ended
    };
    let lane = &lane;
    let lanes: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..AT_ONCE).map(|n| scope.spawn(move || lane(n))).collect();
        started.into_iter().map(|lane| lane.join()).collect()
    });
    let mut counted = false;
    for ended in lanes {
        let ended = ended.map_err(|_| anyhow!("a lane of test programs ended by a panic"))?;
        for (program, result, log) in ended {
            let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
            run.note(&format!("--- {}\n{said}", program.name));
            let before = run.tests.len();
            // A program that crashed prints no line for its tests.
            if libtest::count(run, &program.name, &said)? == 0 && result.is_err() {
                run.check(&program.name, result);
            }
            counted |= run.tests.len() > before;
        }
    }
    if !counted {
        let case = case.unwrap_or_default();
        run.check(
            "the layer itself",
            Err(anyhow!("no program has a test called {case:?}")),
        );
    }
    Ok(())
}

impl Program {
    fn command(&self, display: Option<usize>, without: &[&str], case: Option<&str>) -> Command {
        let mut command = match display {
            Some(number) => {
                let number = number.to_string();
                // Or the next free number, if a stopped run has left a server.
                let words = ["--auto-servernum", "--server-num", &number];
                let mut command = run::cmd("xvfb-run", words);
                command.arg(&self.file);
                command
            }
            None => Command::new(&self.file),
        };
        // The output of passed tests says which of them skipped themselves.
        command.arg("--show-output").current_dir(&self.folder);
        for name in without {
            command.args(["--skip", name]);
        }
        if let Some(case) = case {
            command.args(["--exact", case]);
        }
        command
    }
}

/// Has cargo build the test programs and name them.
fn built(run: &Run, packages: &[&str]) -> Result<Vec<Program>> {
    let mut cargo = run::cmd("cargo", ["test", "--quiet", "--no-run"]);
    cargo.arg("--message-format=json-render-diagnostics");
    for package in packages {
        cargo.args(["--package", package]);
    }
    let said = run::output(cargo.current_dir(&run.cx.root))?;
    let mut programs = Vec::new();
    for line in said.lines() {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let Some(file) = message["executable"].as_str() else {
            continue;
        };
        if message["profile"]["test"] != true {
            continue;
        }
        let file = PathBuf::from(file);
        let manifest = message["manifest_path"].as_str().unwrap_or_default();
        let folder = Path::new(manifest).parent();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
        programs.push(Program {
            name: name.to_owned(),
            folder: folder.context("cargo names no manifest")?.to_owned(),
            file,
        });
    }
    Ok(programs)
}
