// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows that the tests find bugs: builds the module's sources with one bug after the other and waits for the alarm.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::flaw::Flaw;
use crate::native::{self, Sources, file_error};
use crate::sanitize;

/// Longest that one mutant may go on unfound.
const PATIENCE: Duration = Duration::from_secs(600);

/// This program's exit code when what it was to run could not be built.
pub const NOT_BUILT: u8 = 3;

/// Which tests must find a mutant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Random,
    Crash,
    Cases,
    Whole,
    Format,
    Words,
    Sanitized,
    Threads,
    Superblock,
    Load,
    Arguments,
    Messages,
}

impl By {
    fn parse(name: &str) -> Option<By> {
        Some(match name {
            "random" => By::Random,
            "crash" => By::Crash,
            "cases" => By::Cases,
            "whole" => By::Whole,
            "format" => By::Format,
            "words" => By::Words,
            "sanitized" => By::Sanitized,
            "threads" => By::Threads,
            "superblock" => By::Superblock,
            "load" => By::Load,
            "arguments" => By::Arguments,
            "messages" => By::Messages,
            _ => return None,
        })
    }

    /// What the tests are called, and the arguments of this program that run them.
    fn command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            By::Random => (
                "random requests",
                &["random", "--seeds", "500", "--requests", "6000", "--brief"],
            ),
            By::Crash => (
                "power cuts",
                &["crash", "--cuts", "600000", "--threads", "1", "--brief"],
            ),
            By::Cases => ("single cases", &["cases"]),
            By::Whole => ("small cases whole", &["exhaust", "--requests", "2"]),
            By::Format => ("cuts of the format", &["format"]),
            By::Words => ("all schedules", &["words"]),
            By::Sanitized => (
                "random requests, sanitized",
                &["random", "--seeds", "50", "--requests", "6000", "--brief"],
            ),
            By::Threads => ("threads", &["threads", "--rounds", "20000"]),
            By::Superblock => (
                "fuzzing",
                &["fuzz", "--target", "superblock", "--seconds", "40"],
            ),
            By::Load => ("fuzzing", &["fuzz", "--target", "load", "--seconds", "40"]),
            By::Arguments => (
                "fuzzing",
                &["fuzz", "--target", "arguments", "--seconds", "40"],
            ),
            By::Messages => (
                "fuzzing",
                &["fuzz", "--target", "messages", "--seconds", "40"],
            ),
        }
    }
}

/// One bug.
pub struct Mutant {
    /// File name without suffix.
    pub name: String,
    /// What it does wrong.
    pub why: String,
    file: String,
    by: By,
    old: String,
    new: String,
}

/// What became of a mutant.
#[derive(Debug)]
pub enum Outcome {
    /// Found, by what and what it said first.
    Found(&'static str, String),
    /// It came to no end.
    Endless(&'static str),
    /// Not found.
    Survived,
}

/// A mutant cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be built.
    #[error("{0}")]
    Native(#[from] native::Error),
    /// Its file is not as `mutants/README.md` says.
    #[error("{0}: not a mutant, or its text is not once in the file")]
    Stale(PathBuf),
    /// The tests could not be built with it.
    #[error("the tests could not be built with it: {0}")]
    NotBuilt(String),
}

/// All mutants, sorted by name.
///
/// # Errors
/// One cannot be read.
pub fn all() -> Result<Vec<Mutant>, Error> {
    let dir = native::here().join("mutants");
    let mut mutants = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(file_error(&dir))? {
        let path = entry.map_err(file_error(&dir))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "mutant")
        {
            let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
            mutants.push(parse(&path, &text).ok_or_else(|| Error::Stale(path.clone()))?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

fn parse(path: &Path, text: &str) -> Option<Mutant> {
    let (head, texts) = text.split_once("\n-\n")?;
    let (old, new) = texts.split_once("\n+\n")?;
    let field = |name: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|rest| rest.trim().to_owned())
    };
    Some(Mutant {
        name: path.file_stem()?.to_str()?.to_owned(),
        why: field("why ")?,
        file: field("file ")?,
        by: field("by ").map_or(Some(By::Random), |name| By::parse(&name))?,
        old: old.to_owned(),
        new: new.strip_suffix('\n').unwrap_or(new).to_owned(),
    })
}

impl Mutant {
    /// Sources with this bug, in `dir`.
    fn plant(&self, dir: &Path) -> Result<Sources, Error> {
        let (tree, sources) = (Sources::tree(), Sources::in_dir(dir));
        copy(&tree.core, &sources.core)?;
        copy(&tree.linux, &sources.linux)?;
        let path = dir.join(&self.file);
        let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
        if text.matches(&self.old).count() != 1 {
            return Err(Error::Stale(format!("mutants/{}.mutant", self.name).into()));
        }
        std::fs::write(&path, text.replacen(&self.old, &self.new, 1)).map_err(file_error(&path))?;
        Ok(sources)
    }

    /// Builds it and runs the tests that must find it. The time is theirs alone, but for threads and fuzzing, which build
    /// what they run.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub fn hunt(&self) -> Result<(Outcome, Duration), Error> {
        let dir = native::build_dir(&format!("mutant-{}", self.name))?;
        let sources = self.plant(&dir)?;
        let (name, arguments) = self.by.command();
        let mut command = this_program()?;
        command.args(arguments);
        match self.by {
            By::Threads | By::Superblock | By::Load | By::Arguments | By::Messages => {
                command.arg("--sources").arg(&dir);
            }
            By::Sanitized => {
                command
                    .arg("--core")
                    .arg(native::library(&sources, &dir, &native::SANITIZE)?);
                command.envs(sanitize::environment()?);
            }
            By::Random | By::Crash | By::Cases | By::Whole | By::Format | By::Words => {
                command
                    .arg("--core")
                    .arg(native::library(&sources, &dir, &["-w"])?);
            }
        }
        let start = Instant::now();
        let outcome = attempt(command, name, &dir.join("log"))?;
        Ok((outcome, start.elapsed()))
    }
}

/// Runs the power cuts with a flaw in how core's actions are carried out.
///
/// # Errors
/// This program cannot be started.
pub fn hunt_flaw(flaw: Flaw) -> Result<(Outcome, Duration), Error> {
    let (name, arguments) = By::Crash.command();
    let mut command = this_program()?;
    command.args(arguments).args(["--flaw", &flaw.name()]);
    let log = native::build_dir("flaws")?.join(flaw.name());
    let start = Instant::now();
    let outcome = attempt(command, name, &log)?;
    Ok((outcome, start.elapsed()))
}

/// To be started again, in a process of its own.
///
/// # Errors
/// It is gone.
pub fn this_program() -> Result<Command, native::Error> {
    let program = std::env::current_exe().map_err(file_error(Path::new("this program")))?;
    Ok(Command::new(program))
}

/// Copies a directory and those in it.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(to).map_err(file_error(to))?;
    for entry in std::fs::read_dir(from).map_err(file_error(from))? {
        let path = entry.map_err(file_error(from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).map_err(file_error(&path))?;
        }
    }
    Ok(())
}

/// What random requests find where no bug was seeded: then they say nothing of those that were. (What else finds bugs are
/// runs that the usual tests do too.)
///
/// # Errors
/// It cannot be built or started.
pub fn without_a_bug() -> Result<Outcome, Error> {
    let dir = native::build_dir("no-bug")?;
    let (name, arguments) = By::Random.command();
    let core = native::library(&Sources::tree(), &dir, &["-w"])?;
    let mut command = this_program()?;
    command.args(arguments).arg("--core").arg(core);
    attempt(command, name, &dir.join("log"))
}

/// Runs this program on a mutant, in a process of its own, as a bug may take all down.
fn attempt(mut command: Command, name: &'static str, said: &Path) -> Result<Outcome, Error> {
    let log = std::fs::File::create(said).map_err(file_error(said))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(file_error(Path::new("this program")))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(file_error(said))? {
            if status.success() {
                return Ok(Outcome::Survived);
            }
            let text = std::fs::read_to_string(said).unwrap_or_default();
            if status.code() == Some(NOT_BUILT.into()) {
                return Err(Error::NotBuilt(text));
            }
            return Ok(Outcome::Found(
                name,
                telling(&text).map_or_else(|| status.to_string(), str::to_owned),
            ));
        }
        if start.elapsed() > PATIENCE {
            child.kill().map_err(file_error(said))?;
            child.wait().map_err(file_error(said))?;
            return Ok(Outcome::Endless(name));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The line of a log that says what was wrong.
fn telling(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let report = |line: &&str| {
        ["runtime error", "ERROR: ", "WARNING: Thread"]
            .iter()
            .any(|mark| line.contains(mark))
    };
    let chatter = |line: &&str| ["INFO", "#"].iter().any(|mark| line.starts_with(mark));
    lines()
        .find(report)
        .or_else(|| lines().find(|line| !chatter(line)))
}
