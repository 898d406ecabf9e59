// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers that prove that the tests find bugs. Each seeded bug is a test, which passes when the bug is found for the
//! reason in the bug's file. `tests/mutants` tells how the bugs get into one build.

mod drawn;
mod engine;
mod helper;
mod module;
mod recordings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tandem_harness::layer::{Layer, Run};
use tandem_harness::results::{Outcome, Test};
use tandem_harness::{run, sample};
use tandem_mutants::{Bug, Change, Copy};

/// How many bugs are hunted at the same time.
const WORKERS: usize = 2;

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    let mut layers = vec![
        recordings::layer(),
        engine::layer(),
        module::layer(),
        helper::layer(),
    ];
    layers.extend(drawn::layers());
    layers
}

/// Each directory of seeded bugs, the layer that hunts them, and the sources that they change.
pub const DIRS: [(&str, &str, &str); 4] = [
    (engine::DIR, "mutants", "kmod"),
    (module::DIR, "uml-mutants", "kmod"),
    (recordings::DIR, "record-mutants", "kmod"),
    (helper::DIR, "helper-mutants", "."),
];

/// A test that has failed with a bug.
struct Failure {
    /// The test, for the promises.
    test: String,
    /// Everything that the test printed.
    said: String,
    /// How long the test took to fail.
    time: Duration,
}

/// A build with a bug that is chosen by its number, or that is the only bug if the number is 0; and who asks.
#[derive(Clone, Copy)]
struct Chosen {
    number: usize,
    /// No other bug is hunted by the same worker at the same time.
    worker: usize,
}

impl Chosen {
    /// The kernel module with the bug, made from the one that was built in `dir`.
    fn module(self, dir: &Path) -> Result<PathBuf> {
        let own = dir.join(format!("worker-{}", self.worker));
        fs::create_dir_all(&own)?;
        let module = own.join("dm-tandem.ko");
        tandem_mutants::number_module(&dir.join("dm-tandem.ko"), self.number, &module)?;
        Ok(module)
    }
}

/// The bugs in a directory: all of them, or without `--all` so many, others with each commit.
fn taken(run: &Run, dir: &str, ordinary: usize) -> Result<Vec<Bug>> {
    let all = tandem_mutants::all(&run.cx.path(dir))?;
    let mut bugs = sample::of(run, dir, all, ordinary)?;
    bugs.retain(|bug| run.wants(&bug.name));
    // A bug with a limit of its own takes long. It would keep one worker busy after the other one has ended.
    bugs.sort_by_key(|bug| bug.limit.is_none());
    Ok(bugs)
}

/// A copy of sources below the top of the work tree, at a place below cargo's target directory, with all bugs.
fn copy(run: &Run, from: &str, parts: &[&str], to: &str, bugs: &[Bug]) -> Result<Copy> {
    let sources = run.cx.path(from);
    let changes = bugs.iter().map(|bug| bug.change(&sources));
    copy_with(run, from, parts, to, changes.collect::<Result<_>>()?)
}

/// As [`copy`], with any changes.
fn copy_with(
    run: &Run,
    from: &str,
    parts: &[&str],
    to: &str,
    changes: Vec<Change>,
) -> Result<Copy> {
    let from = run.cx.path(from);
    let mut git = run::cmd("git", ["ls-files", "--cached", "--others"]);
    git.args(["--exclude-standard", "--"]).args(parts);
    let listed = run::output(git.current_dir(&from))?;
    let files = listed.lines().filter(|file| from.join(file).is_file());
    let files: Vec<String> = files.map(str::to_owned).collect();
    Copy::new(&from, &files, &run.cx.target.join(to), changes)
}

/// Builds a copy. A bug that does not build with the others gets a build of its own. `build` returns what the compiler
/// said if there are errors.
fn build_all(
    run: &mut Run,
    copy: &mut Copy,
    mut build: impl FnMut(&mut Run) -> Result<Option<String>>,
) -> Result<()> {
    while let Some(said) = build(run)? {
        let out = copy.take_out(&said)?;
        if out.is_empty() {
            bail!("the copy does not build:\n{}", run::tail(&said));
        }
        run.note(&format!("not built with others: {}", out.join(", ")));
    }
    Ok(())
}

/// Tests with each bug. `build` builds the copy again for a bug that is alone in its file; `test` returns how the test
/// failed, or an error if it did not fail.
fn hunt(
    run: &mut Run,
    copy: &Copy,
    bugs: &[Bug],
    mut build: impl FnMut(&mut Run) -> Result<Option<String>>,
    test: impl Fn(&mut Run, &Bug, Chosen) -> Result<Failure> + Sync,
) -> Result<()> {
    let (together, alone): (Vec<_>, Vec<_>) = bugs
        .iter()
        .partition(|bug| copy.number(&bug.name).is_some());
    let failures = side_by_side(run, WORKERS, &together, |run, bug, worker| {
        let number = copy.number(&bug.name).unwrap_or_default();
        run.note(&format!("--- {}", bug.name));
        test(run, bug, Chosen { number, worker })
    })?;
    for (bug, failure) in together.iter().zip(failures) {
        count(run, bug, failure);
    }
    for bug in &alone {
        copy.plant(&bug.name)?;
        let failure = match build(run) {
            Ok(None) => test(
                run,
                bug,
                Chosen {
                    number: 0,
                    worker: 0,
                },
            ),
            Ok(Some(said)) => bail!("{} does not build: {}", bug.name, run::tail(&said)),
            Err(error) => Err(error),
        };
        copy.restore(&bug.name)?;
        count(run, bug, failure);
    }
    let names: Vec<_> = alone.iter().map(|bug| bug.name.as_str()).collect();
    run.figures.push(format!(
        "{} bugs in one build, {} in a build of their own: {}",
        together.len(),
        alone.len(),
        names.join(", ")
    ));
    Ok(())
}

/// Does a task for each of some things, a few at a time, each with a log of its own and the number of its worker.
/// Returns the results in the order of the things.
fn side_by_side<T: Sync, R: Send>(
    run: &mut Run,
    workers: usize,
    things: &[T],
    task: impl Fn(&mut Run, &T, usize) -> R + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let mut own = Vec::new();
    for worker in 0..workers {
        let log = run.log.with_extension(format!("{worker}.log"));
        own.push(Run::new(run.cx, &log)?);
    }
    std::thread::scope(|scope| {
        for (worker, run) in own.iter_mut().enumerate() {
            let (next, done, task) = (&next, &done, &task);
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(thing) = things.get(place) else {
                        break;
                    };
                    let result = task(run, thing, worker);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((place, result));
                }
            });
        }
    });
    for bench_of_worker in own {
        let said = fs::read(&bench_of_worker.log)?;
        run.note(&String::from_utf8_lossy(&said));
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Counts a bug as a test: passed if the bug was found.
fn count(run: &mut Run, bug: &Bug, failure: Result<Failure>) {
    let found = failure.and_then(|failure| bug.is_found_by(&failure.said).map(|()| failure));
    let (seconds, words) = match &found {
        Ok(failure) => (Some(failure.time.as_secs_f64()), failure.test.clone()),
        Err(error) => (None, format!("{error:#}")),
    };
    run.note(&format!("{}: {}: {words}", bug.name, bug.why));
    run.count(Test {
        name: bug.name.clone(),
        outcome: Outcome::of(found.is_ok()),
        seconds,
        words,
    });
}

/// How a program that ran with a bug ended.
struct Ran {
    /// The exit code; `None` if the limit ended the program.
    code: Option<i32>,
    said: String,
    time: Duration,
}

/// Runs a program for at most `limit`, in a process of its own, because the bug may crash the process.
fn limited(run: &Run, command: &mut Command, limit: Duration) -> Result<Ran> {
    let log = run.log.with_extension("run");
    let start = Instant::now();
    let code = run::limited(command, &log, limit)?;
    let time = start.elapsed();
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    run.note(&said);
    Ok(Ran { code, said, time })
}

/// The output of a build that failed.
fn errors(result: (String, Result<()>)) -> Option<String> {
    let (said, result) = result;
    result.err().map(|_| said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_harness::cx::Cx;

    #[test]
    fn each_bug_fits_the_sources_of_today() {
        let cx = Cx::new().unwrap();
        for (dir, _, sources) in DIRS {
            for bug in tandem_mutants::all(&cx.path(dir)).unwrap() {
                bug.change(&cx.path(sources)).unwrap();
            }
        }
    }
}
