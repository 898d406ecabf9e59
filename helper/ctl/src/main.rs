// SPDX-License-Identifier: GPL-3.0-or-later
//! Tandem's SSD caches on the command line, over the same service as the app.
//!
//! Exit codes: 0 done, 1 failed or canceled, 2 wrong usage, 3 refused before anything was changed, 4 not
//! allowed, 5 service not there, 6 service gone in the middle of a job.

mod advice;
mod agree;
mod caches;
mod devices;
mod found;
mod history;
mod job;
mod names;
mod others;
mod report;
mod rescue;
mod run;
mod speed;
mod status;
mod words;

use clap::FromArgMatches;
use gettextrs::gettext;
use std::io::Write;
use std::process::ExitCode;
use tandem_api::{DataState, Failure, Kind};
use tandem_words::{Reader, failure_words, language};
use tandemctl_arguments::{Arguments, Command, command_with_headings};

/// The ways in which a command fails.
enum Ending {
    /// The service refused the call.
    Failure(Box<Failure>),
    /// The command line does not fit the present state.
    Usage(String),
    /// The person did not agree.
    Declined,
    /// The service has left the bus in the middle of a job.
    Lost,
    /// A rescue was refused, or it was stopped.
    Rescue(tandem_rescue::Error),
    /// A rescue ended with problems, which it has printed.
    Incomplete,
}

impl From<tandem_rescue::Error> for Ending {
    fn from(e: tandem_rescue::Error) -> Self {
        Self::Rescue(e)
    }
}

impl From<zbus::Error> for Ending {
    fn from(e: zbus::Error) -> Self {
        Self::Failure(Box::new(Failure::from(e)))
    }
}

fn main() -> ExitCode {
    // What programs read is the same in every language, also the errors of the system in it.
    if std::env::args_os().all(|argument| argument != "--json") {
        // SAFETY: no other thread runs yet.
        if let Err(error) = unsafe { language::init_with_locale() } {
            eprintln!("tandemctl: no translations: {error}");
        }
    }
    let arguments = Arguments::from_arg_matches(&command_with_headings().get_matches());
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    let json = arguments.json;
    let ended = match arguments.command {
        Command::Rescue { what } => rescue::run(what, json),
        Command::Service(request) => zbus::block_on(run::run(request, json)),
    };
    let Err(ending) = ended else {
        return ExitCode::SUCCESS;
    };
    match ending {
        Ending::Usage(text) => {
            complain(&text);
            ExitCode::from(2)
        }
        Ending::Declined => {
            complain(&gettext("Not agreed. Nothing was changed."));
            ExitCode::from(1)
        }
        Ending::Lost => {
            if json {
                emit(serde_json::json!({ "lost": true }));
            }
            complain(&gettext(
                "The service ended in the middle of the job. It puts things right when it starts again; “tandemctl status” shows how they are.",
            ));
            ExitCode::from(6)
        }
        Ending::Rescue(error) => {
            if json {
                // The same in every language.
                emit(serde_json::json!({ "error": {
                    "kind": error.kind,
                    "why": error.why.word(),
                    "name": error.name,
                } }));
            }
            complain(&rescue::error_words(&error));
            ExitCode::from(match error.kind {
                tandem_rescue::Kind::Refused => 3,
                tandem_rescue::Kind::Stopped => 1,
            })
        }
        Ending::Incomplete => ExitCode::from(1),
        Ending::Failure(failure) => {
            if json {
                emit(serde_json::json!({ "success": false, "failure": failure }));
            }
            complain(&failure_words(&failure, Reader::Terminal).sentences());
            if !failure.detail.is_empty() {
                eprintln!("{}", failure.detail);
            }
            ExitCode::from(code(&failure))
        }
    }
}

/// Seconds of Unix time.
pub fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    now.map_or(0, |now| now.as_secs())
}

/// Prints values for programs, or a text as it is. Ends the program if the output is closed (`tandemctl list | head`).
fn emit(line: impl std::fmt::Display) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(1);
    }
}

/// Prints a line of words. A terminal wraps lines where it likes, and people copy from it.
fn say(words: impl std::fmt::Display) {
    emit(plain(&words.to_string()));
}

/// Prints what is wrong.
fn complain(words: &str) {
    eprintln!("tandemctl: {}", plain(words));
}

/// The words with plain blanks.
fn plain(words: &str) -> String {
    words.replace('\u{a0}', " ")
}

fn code(failure: &Failure) -> u8 {
    match (failure.kind, failure.data) {
        // A change was begun and has failed, for any reason.
        (
            _,
            DataState::Restored
            | DataState::Erased
            | DataState::Incomplete
            | DataState::Removed
            | DataState::OnDisk
            | DataState::Unwritten,
        ) => 1,
        (Kind::NotAuthorized, _) => 4,
        (Kind::ServiceUnavailable | Kind::AuthorityUnavailable, _) => 5,
        (Kind::StepFailed | Kind::SpeedTestFailed | Kind::Internal | Kind::Cancelled, _) => 1,
        (_, DataState::Unchanged) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_tell_refusals_from_failures() {
        assert_eq!(code(&Failure::new(Kind::SsdMounted)), 3);
        assert_eq!(
            code(&Failure::new(Kind::FilesystemBusy).data(DataState::Restored)),
            1
        );
        assert_eq!(code(&Failure::new(Kind::StepFailed)), 1);
        assert_eq!(code(&Failure::new(Kind::SpeedTestFailed)), 1);
        assert_eq!(code(&Failure::new(Kind::NotAuthorized)), 4);
        assert_eq!(code(&Failure::new(Kind::ServiceUnavailable)), 5);
        let late = Failure::new(Kind::ServiceUnavailable).data(DataState::Incomplete);
        assert_eq!(code(&late), 1);
    }
}
