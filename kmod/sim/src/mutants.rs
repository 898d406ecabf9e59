// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows that the tests find bugs: builds core with one bug after the other and waits for the alarm.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::native;

/// Longest that one mutant may go on unfound; one that hangs is found by this.
const PATIENCE: Duration = Duration::from_secs(60);

/// One bug.
pub struct Mutant {
    /// File name without suffix.
    pub name: String,
    /// What it does wrong.
    pub why: String,
    file: String,
    old: String,
    new: String,
}

/// What became of a mutant.
#[derive(Debug)]
pub enum Outcome {
    /// Found, by what and what it said first.
    Found(&'static str, String),
    /// Found because it came to no end.
    Hung(&'static str),
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
    #[error("{0}: not a mutant, or its text is not once in core")]
    Stale(PathBuf),
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> native::Error {
    let path = path.to_owned();
    |source| native::Error::File { path, source }
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
        old: old.to_owned(),
        new: new.strip_suffix('\n').unwrap_or(new).to_owned(),
    })
}

impl Mutant {
    /// Builds core with this bug.
    fn build(&self) -> Result<PathBuf, Error> {
        let dir = native::build_dir(&format!("mutant-{}", self.name))?;
        let core = dir.join("core");
        copy(&native::core(), &core)?;
        let path = core.join(&self.file);
        let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
        if text.matches(&self.old).count() != 1 {
            return Err(Error::Stale(format!("mutants/{}.mutant", self.name).into()));
        }
        std::fs::write(&path, text.replacen(&self.old, &self.new, 1)).map_err(file_error(&path))?;
        Ok(native::library(&core, &dir, &["-w"])?)
    }

    /// Builds it and runs the tests until one finds it.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub fn hunt(&self) -> Result<(Outcome, Duration), Error> {
        let core = self.build()?;
        let start = Instant::now();
        let random = (
            "random requests",
            ["random", "--seeds", "200", "--requests", "20000"].as_slice(),
        );
        let words = ("all schedules", ["words"].as_slice());
        let tests = if self.file == "word.h" {
            vec![words, random]
        } else {
            vec![random]
        };
        for (name, arguments) in tests {
            match attempt(&core, arguments)? {
                Attempt::Passed => {}
                Attempt::Failed(said) => return Ok((Outcome::Found(name, said), start.elapsed())),
                Attempt::Hung => return Ok((Outcome::Hung(name), start.elapsed())),
            }
        }
        Ok((Outcome::Survived, start.elapsed()))
    }
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

enum Attempt {
    Passed,
    Failed(String),
    Hung,
}

/// Runs this program with another core; in a process of its own, as a bug may take all down.
fn attempt(core: &Path, arguments: &[&str]) -> Result<Attempt, Error> {
    let program = std::env::current_exe().map_err(file_error(Path::new("this program")))?;
    let said = core.with_extension("log");
    let log = std::fs::File::create(&said).map_err(file_error(&said))?;
    let mut child = Command::new(&program)
        .args(arguments)
        .arg("--core")
        .arg(core)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(file_error(&program))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(file_error(&program))? {
            if status.success() {
                return Ok(Attempt::Passed);
            }
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            let line = text
                .lines()
                .find(|line| !line.is_empty())
                .map_or_else(|| status.to_string(), str::to_owned);
            return Ok(Attempt::Failed(line));
        }
        if start.elapsed() > PATIENCE {
            child.kill().map_err(file_error(&program))?;
            child.wait().map_err(file_error(&program))?;
            return Ok(Attempt::Hung);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
