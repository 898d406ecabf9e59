// SPDX-License-Identifier: GPL-3.0-or-later
//! Programs that run in transient services of their own, because the sandbox of this service does not allow what they do. They
//! go on when this service ends, and systemd keeps how they ended until that is forgotten.

use super::{LIMIT, PAUSE, Request, SystemdProxy, TRIES, ask, literal, unavailable, unit};
use rustix::process::Signal;
use std::path::Path;
use std::time::Duration;
use tandem_api::{Failure, Kind};
use tokio::time::Instant;
use zbus::{Connection, Variant};

/// What systemd answers for a unit that it does not know.
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";
/// What systemd answers to the start of a transient unit whose name is taken.
const UNIT_EXISTS: &str = "org.freedesktop.systemd1.UnitExists";

/// A program.
pub(crate) struct Program<'a> {
    /// Name of its unit, which names one task: a second start is refused while the first runs.
    pub unit: &'a str,
    /// The task in words, for who looks at the units.
    pub task: &'a str,
    /// The absolute path of the program and its arguments.
    pub words: &'a [&'a str],
    /// The file for what it prints.
    pub output: &'a Path,
}

/// The state of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The program runs, or begins to.
    Running,
    /// The program has ended with this exit status; none if a signal has ended it.
    Ended(Option<i32>),
    /// systemd does not know of it.
    Unknown,
}

/// Starts a program and returns when it runs.
///
/// # Errors
/// `StepFailed`, `ServiceUnavailable`.
pub(crate) async fn start(connection: &Connection, program: &Program<'_>) -> Result<(), Failure> {
    let output = program.output.to_string_lossy();
    let words: Vec<_> = program.words.iter().map(|word| literal(word)).collect();
    let path = program
        .words
        .first()
        .copied()
        .unwrap_or_default()
        .to_owned();
    let properties = [
        ("Description", Variant::new(program.task)),
        ("Type", Variant::new("exec")),
        ("ExecStart", Variant::new(vec![(path, words, false)])),
        ("Environment", Variant::new(vec!["LC_ALL=C"])),
        ("StandardOutputFile", Variant::new(&*output)),
        ("StandardError", Variant::new("inherit")),
        // The exit status stays known.
        ("RemainAfterExit", Variant::new(true)),
        // A shutdown interrupts the program as a person does.
        ("KillSignal", Variant::new(Signal::INT.as_raw())),
    ];
    for _ in 0..TRIES {
        let request = Request::Transient(program.unit, &properties);
        match ask(connection, request, LIMIT).await {
            Ok(result) => return super::done("start", program.unit, &result),
            // The name of an ended unit is free a moment later.
            Err(zbus::Error::MethodError(name, ..)) if name.as_str() == UNIT_EXISTS => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(e) => return Err(unavailable(e)),
        }
    }
    Err(Failure::new(Kind::StepFailed).detail(format_args!("{} exists", program.unit)))
}

/// Runs a program that ends soon, and forgets it. Returns how it ended; `Running` if that takes longer than the limit.
///
/// # Errors
/// As [`start`] and [`state`].
pub(crate) async fn run(
    connection: &Connection,
    program: &Program<'_>,
    limit: Duration,
) -> Result<State, Failure> {
    forget(connection, program.unit).await;
    start(connection, program).await?;
    let begun = Instant::now();
    let ended = loop {
        match state(connection, program.unit).await? {
            State::Running if begun.elapsed() < limit => tokio::time::sleep(PAUSE).await,
            ended => break ended,
        }
    };
    forget(connection, program.unit).await;
    Ok(ended)
}

/// The state of the program of a unit.
///
/// # Errors
/// `ServiceUnavailable`.
pub(crate) async fn state(connection: &Connection, name: &str) -> Result<State, Failure> {
    let asked = async {
        let systemd = SystemdProxy::new(connection).await?;
        let path = systemd.get_unit(name).await?;
        let unit = unit(connection, path.clone()).await?;
        let sub_state: String = unit.get_property("SubState").await?;
        let service: zbus::Proxy<'_> = zbus::proxy::Builder::new(connection)
            .destination("org.freedesktop.systemd1")
            .path(path)
            .interface("org.freedesktop.systemd1.Service")
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await?;
        let code: i32 = service.get_property("ExecMainCode").await?;
        let status: i32 = service.get_property("ExecMainStatus").await?;
        Ok((sub_state, code, status))
    };
    match asked.await {
        Ok((sub_state, code, status)) => Ok(state_of(&sub_state, code, status)),
        Err(zbus::Error::MethodError(name, ..)) if name.as_str() == NO_SUCH_UNIT => {
            Ok(State::Unknown)
        }
        Err(e) => Err(unavailable(e)),
    }
}

fn state_of(sub_state: &str, code: i32, status: i32) -> State {
    match sub_state {
        // `CLD_EXITED` of waitid(2).
        "exited" | "failed" => State::Ended((code == 1).then_some(status)),
        "dead" => State::Unknown,
        _ => State::Running,
    }
}

/// Interrupts a program and the programs that it runs, as Ctrl+C does.
///
/// # Errors
/// `ServiceUnavailable`, also if the program has ended.
pub(crate) async fn interrupt(connection: &Connection, name: &str) -> Result<(), Failure> {
    let systemd = SystemdProxy::new(connection).await.map_err(unavailable)?;
    let sent = systemd.kill_unit(name, "all", Signal::INT.as_raw()).await;
    sent.map_err(unavailable)
}

/// Forgets a program that has ended.
pub(crate) async fn forget(connection: &Connection, name: &str) {
    let _ = ask(connection, Request::Stop(name), LIMIT).await;
    if let Ok(systemd) = SystemdProxy::new(connection).await {
        // systemd knows a unit that has failed until then.
        let _ = systemd.reset_failed_unit(name).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_counts_only_when_the_program_has_ended_by_itself() {
        assert_eq!(state_of("exited", 1, 0), State::Ended(Some(0)));
        assert_eq!(state_of("failed", 1, 5), State::Ended(Some(5)));
        // A signal, whose number is no exit status.
        assert_eq!(state_of("failed", 2, 9), State::Ended(None));
        for running in ["start", "running", "stop-sigterm"] {
            assert_eq!(state_of(running, 0, 0), State::Running);
        }
        assert_eq!(state_of("dead", 0, 0), State::Unknown);
    }
}
