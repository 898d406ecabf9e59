// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl-pages DIRECTORY` writes the manual pages of tandemctl and its completions for bash, zsh and fish. Meson
//! runs this program during the build, and installs the pages but not the program.

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use std::path::PathBuf;
use std::process::ExitCode;
use tandemctl_arguments::Arguments;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: tandemctl-pages DIRECTORY");
        return ExitCode::from(2);
    };
    let mut written = clap_mangen::generate_to(Arguments::command(), &directory);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut command = Arguments::command();
        let mut file = || generate_to(shell, &mut command, "tandemctl", &directory).map(drop);
        written = written.and_then(|()| file());
    }
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "tandemctl-pages: cannot write to {}: {error}",
                directory.display()
            );
            ExitCode::FAILURE
        }
    }
}
