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

/// A run of a test program.
struct Program {
    /// Name of the results: of the program, without the hash that cargo appends, or of its second run.
    name: String,
    file: PathBuf,
    /// The folder of its package, in which its tests run.
    folder: PathBuf,
    /// Name of the file of its output.
    log: PathBuf,
    again: Option<&'static Again>,
}

/// A second run of a test program, in another setting.
pub struct Again {
    /// Name of its results. `--case` names its tests with this name and `::` in front.
    pub name: &'static str,
    /// The program, by its name without the hash.
    pub program: &'static str,
    /// A variable of its environment, and its value.
    pub setting: (&'static str, &'static str),
    /// Parts of the names of tests that do not run.
    pub without: &'static [&'static str],
}

/// Builds and runs the tests of some packages, and counts each test. `shown`: each program runs on an X server. `without`:
/// names of tests that do not run.
///
/// # Errors
/// The packages do not build.
pub fn run(run: &mut Run, packages: &[&str], shown: bool, without: &[&str]) -> Result<()> {
    run_again(run, packages, shown, without, &[])
}

/// As [`run`]; some programs run a second time.
pub fn run_again(
    run: &mut Run,
    packages: &[&str],
    shown: bool,
    without: &[&str],
    again: &'static [Again],
) -> Result<()> {
    let mut programs = built(run, packages)?;
    for again in again {
        let first = programs.iter().find(|first| first.name == again.program);
        let first = first.with_context(|| format!("there is no program {}", again.program))?;
        let second = first.again(again);
        programs.push(second);
    }
    let case = run.case.clone();
    programs.retain(|program| program.has(case.as_deref()));
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
    let lane = |lane: usize| {
        let mut ended = Vec::new();
        while let Some(program) = next() {
            let display = shown.then_some(DISPLAY + lane * APART);
            let log = logs.join(&program.log);
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
    fn again(&self, again: &'static Again) -> Self {
        Self {
            name: again.name.to_owned(),
            file: self.file.clone(),
            folder: self.folder.clone(),
            log: again.name.into(),
            again: Some(again),
        }
    }

    /// Whether the selected test may be one of this run.
    fn has(&self, case: Option<&str>) -> bool {
        self.again.is_none() || case.is_none_or(|case| case.starts_with(&self.prefix()))
    }

    /// How `--case` names the tests of a second run.
    fn prefix(&self) -> String {
        format!("{}::", self.name)
    }

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
        let own = self.again.map_or(&[][..], |again| again.without);
        for name in without.iter().chain(own) {
            command.args(["--skip", name]);
        }
        if let Some(again) = self.again {
            command.env(again.setting.0, again.setting.1);
        }
        if let Some(case) = case {
            let prefix = self.again.map(|_| self.prefix()).unwrap_or_default();
            command.args(["--exact", case.strip_prefix(&prefix).unwrap_or(case)]);
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
        let name = name
            .rsplit_once('-')
            .map_or(&*name, |(name, _)| name)
            .to_owned();
        programs.push(Program {
            name,
            folder: folder.context("cargo names no manifest")?.to_owned(),
            log: file.file_name().unwrap_or_default().into(),
            file,
            again: None,
        });
    }
    Ok(programs)
}
