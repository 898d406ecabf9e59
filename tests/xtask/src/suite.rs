// SPDX-License-Identifier: GPL-3.0-or-later
//! The functional suite of the kernel module, whatever guest it runs in: building it, and reading its results.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use tandem_harness::layer::Run;
use tandem_harness::results::{Outcome, Test};
use tandem_harness::run;

/// Beginning of the suite's last line.
const OVER: &str = "suite: exit ";
/// Longest time from that line until the guest powers off. User-mode Linux with two processors sometimes waits for ever
/// for one of its own processes that is already gone.
const POWER_OFF: Duration = Duration::from_secs(120);

/// Runs a guest and counts each of the suite's cases.
///
/// A guest that ends without the suite's last line, or does not end within `limit`, is a failure of its own.
pub fn cases(run: &mut Run, guest: &mut Command, limit: Duration) -> Result<()> {
    cases_with(run, guest, limit, |_| ())
}

/// As [`cases`]; `hear` gets all other lines of the suite.
pub fn cases_with(
    run: &mut Run,
    guest: &mut Command,
    limit: Duration,
    mut hear: impl FnMut(&str),
) -> Result<()> {
    let mut exit = None;
    let mut last = String::from("nothing");
    let log = run.log.clone();
    let ended = follow(guest, limit, &log, |line| {
        if let Some(test) = case(line) {
            last.clone_from(&test.name);
            run.count(test);
        } else if let Some(code) = line.strip_prefix(OVER) {
            exit = code.trim().parse::<u32>().ok();
        }
        hear(line);
    })?;
    match (ended, exit) {
        (true, Some(0)) => Ok(()),
        (true, Some(_)) if run.has_failed() => Ok(()),
        (true, Some(code)) => bail!("the suite ended with {code}; see {}", log.display()),
        (true, None) => bail!(
            "the guest died after the case: {last}; see {}",
            log.display()
        ),
        (false, _) => bail!(
            "stopped after {} s, after the case: {last}; see {}",
            limit.as_secs(),
            log.display()
        ),
    }
}

/// A case by its line: `ok   NAME (1.20 s)`, `FAIL NAME (1.20 s): what was wrong` or `SKIP NAME (0.10 s): because WHY`.
pub fn case(line: &str) -> Option<Test> {
    let (mark, rest) = line.split_at_checked(5)?;
    let outcome = match mark {
        "ok   " => Outcome::Passed,
        "FAIL " => Outcome::Failed,
        "SKIP " => Outcome::Skipped,
        _ => return None,
    };
    let (head, words) = rest.split_once(" s)").unwrap_or((rest, ""));
    let (name, seconds) = head.rsplit_once(" (").unwrap_or((head, ""));
    Some(Test {
        name: name.to_owned(),
        outcome,
        seconds: seconds.parse().ok(),
        words: words.trim_start_matches(": ").to_owned(),
    })
}

/// Runs a guest into the log and calls `each` with each line. Returns whether the suite or the guest ended within
/// `limit`.
pub fn follow(
    guest: &mut Command,
    limit: Duration,
    log: &Path,
    each: impl FnMut(&str),
) -> Result<bool> {
    follow_until(guest, limit, POWER_OFF, log, each)
}

/// As [`follow`]; a guest that has not powered off `power_off` after the suite's last line is killed.
pub fn follow_until(
    guest: &mut Command,
    limit: Duration,
    power_off: Duration,
    log: &Path,
    mut each: impl FnMut(&str),
) -> Result<bool> {
    follow_while(guest, limit, power_off, log, |line| {
        each(line);
        true
    })
}

/// The first case that fails, after which the guest is killed; `None` if all pass. A guest that dies, or does not end
/// within `limit`, is a failure too.
pub fn first_failure(
    guest: &mut Command,
    limit: Duration,
    log: &Path,
) -> Result<Option<(String, String)>> {
    let mut failed = None;
    let mut last = "nothing".to_owned();
    let mut exit = None;
    let ended = follow_while(guest, limit, Duration::ZERO, log, |line| {
        exit = exit.take().or(line.strip_prefix(OVER).map(str::to_owned));
        if let Some(test) = case(line) {
            last.clone_from(&test.name);
            if test.outcome == Outcome::Failed {
                failed = Some((test.name, test.words));
            }
        }
        failed.is_none()
    })?;
    Ok(match (failed, ended, exit.as_deref().map(str::trim)) {
        (Some(failed), _, _) => Some(failed),
        (None, true, Some("0")) => None,
        (None, true, Some(code)) => Some((last, format!("the suite ended with {code}"))),
        (None, true, None) => Some((last, "the guest died after this case".to_owned())),
        (None, false, _) => Some((last, "the guest hangs after this case".to_owned())),
    })
}

/// As [`follow_until`], and kills the guest `power_off` after `each` returns false.
fn follow_while(
    guest: &mut Command,
    limit: Duration,
    power_off: Duration,
    log: &Path,
    mut each: impl FnMut(&str) -> bool,
) -> Result<bool> {
    let mut log = File::options().append(true).create(true).open(log)?;
    let mut child = guest
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?)
        .spawn()
        .with_context(|| format!("cannot start {}", guest.get_program().display()))?;
    let output = child.stdout.take().context("a guest without output")?;
    let done = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(false));
    let watcher = watch(
        child,
        [limit, power_off],
        Arc::clone(&done),
        Arc::clone(&over),
    );
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches('\r');
        writeln!(log, "{line}")?;
        if !each(line) || line.starts_with(OVER) {
            over.store(true, Ordering::Relaxed);
        }
    }
    done.store(true, Ordering::Relaxed);
    watcher
        .join()
        .map_err(|_| anyhow::anyhow!("the thread that watches a guest panicked"))?
}

/// Stops a guest that takes too long; the thread returns whether the guest's suite came to an end.
fn watch(
    mut child: Child,
    [limit, power_off]: [Duration; 2],
    done: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
) -> thread::JoinHandle<Result<bool>> {
    let mut end = Instant::now() + limit;
    let mut was_over = false;
    thread::spawn(move || {
        loop {
            if child.try_wait()?.is_some() {
                return Ok(true);
            }
            if !was_over && over.load(Ordering::Relaxed) {
                was_over = true;
                end = end.min(Instant::now() + power_off);
            }
            // The guest's output has ended, so that the guest is about to end.
            let patience = if done.load(Ordering::Relaxed) {
                Duration::from_secs(10)
            } else {
                Duration::ZERO
            };
            if Instant::now() > end + patience {
                // User-mode Linux has several processes, and each of them would keep the output open.
                let group = format!("-{}", child.id());
                run::output(&mut run::cmd("kill", ["-KILL", "--", &group]))?;
                child.wait()?;
                return Ok(was_over);
            }
            thread::sleep(Duration::from_millis(50));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::case;
    use tandem_harness::results::Outcome;

    #[test]
    fn a_case_is_read_from_its_line() {
        let ok = case("ok   starts: a cut (twice) (1.20 s)").unwrap();
        assert_eq!(
            (ok.name.as_str(), ok.outcome),
            ("starts: a cut (twice)", Outcome::Passed)
        );
        assert_eq!(ok.seconds, Some(1.2));
        let failed = case("FAIL life: stop (0.10 s): left behind: dm-0").unwrap();
        assert_eq!(
            (failed.name.as_str(), failed.outcome),
            ("life: stop", Outcome::Failed)
        );
        assert_eq!(failed.words, "left behind: dm-0");
        assert_eq!(
            case("FAIL leaks: the kernel says: x").unwrap().name,
            "leaks: the kernel says: x"
        );
        let skipped = case("SKIP flaky: bad blocks (0.10 s): because there is no dm-dust").unwrap();
        assert_eq!(
            (skipped.name.as_str(), skipped.outcome),
            ("flaky: bad blocks", Outcome::Skipped)
        );
        assert_eq!(skipped.words, "because there is no dm-dust");
        assert!(case("suite: 3 passed, 0 failed").is_none());
    }
}
