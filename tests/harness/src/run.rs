// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs other programs. The error of a failed program names the program, its arguments and the end of its output.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Lines of a failed program's output that an error message repeats.
const TAIL: usize = 15;

/// A command with its arguments.
pub fn cmd<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// A command that the kernel kills as soon as the thread that started it ends, even if that thread ends by SIGKILL.
pub fn ending_with_us(program: &Path) -> Command {
    let mut command = cmd("setpriv", ["--pdeathsig", "KILL", "--"]);
    command.arg(program);
    command
}

/// Runs to the end with the person's terminal as output.
pub fn show(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", words(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", words(command));
    }
    Ok(())
}

/// Runs to the end and returns the standard output; standard error is only part of the error message.
pub fn output(command: &mut Command) -> Result<String> {
    let result = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", words(command)))?;
    if !result.status.success() {
        let mut text = String::from_utf8_lossy(&result.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&result.stderr));
        bail!(
            "{} failed ({}):\n{}",
            words(command),
            result.status,
            tail(&text)
        );
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// Runs to the end with both outputs in a log file, which is appended to.
pub fn logged(command: &mut Command, log: &Path) -> Result<()> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot open {}", log.display()))?;
    let before = file.metadata()?.len();
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("cannot start {}", words(command)))?;
    if !status.success() {
        let text = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
        let new = text.get(usize::try_from(before)?..).unwrap_or(&text);
        bail!(
            "{} failed ({status}):\n{}\n(all of it in {})",
            words(command),
            tail(new),
            log.display()
        );
    }
    Ok(())
}

/// Runs to the end or for at most `limit`, with both outputs in a new log file. Returns the exit code: -1 if a signal
/// ended the program, `None` if the limit did.
pub fn limited(command: &mut Command, log: &Path, limit: Duration) -> Result<Option<i32>> {
    let file = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", words(command)))?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        if Instant::now() > end {
            // The whole process group, with the programs that the command has started.
            let group = format!("-{}", child.id());
            output(&mut cmd("kill", ["-KILL", "--", &group]))?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a program is on the path.
pub fn found(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

fn words(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args().take(6) {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    if command.get_args().len() > 6 {
        text.push_str(" ...");
    }
    text
}
