// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl-pages DIRECTORY` writes the manual pages of tandemctl and its completions for bash, zsh and fish.
//! `tandemctl-pages DIRECTORY CATALOGUES` writes only the pages, in the language of the environment. Meson runs this
//! program during the build, and installs the pages but not the program.

use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use gettextrs::{LocaleCategory, gettext, setlocale};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tandem_words::language;
use tandemctl_arguments::command;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(directory) = arguments.next() else {
        eprintln!("usage: tandemctl-pages DIRECTORY [CATALOGUES]");
        return ExitCode::from(2);
    };
    let written = match arguments.next() {
        Some(catalogues) => translated(&directory, &catalogues),
        None => pages(&command(), &directory).and_then(|()| completions(&directory)),
    };
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

fn translated(directory: &Path, catalogues: &Path) -> Result<()> {
    // SAFETY: no other thread runs.
    if unsafe { setlocale(LocaleCategory::LcAll, "") }.is_none() {
        return Err(Error::other("the locale of the environment is missing"));
    }
    language::init(catalogues)?;
    pages(&command(), directory)
}

fn completions(directory: &Path) -> Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command(), "tandemctl", directory)?;
    }
    Ok(())
}

/// Writes the page of a command and of each of its own.
fn pages(command: &Command, directory: &Path) -> Result<()> {
    for inner in command.get_subcommands() {
        if inner.get_name() != "help" {
            pages(inner, directory)?;
        }
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = headed(&String::from_utf8_lossy(&page));
    std::fs::write(directory.join(man.get_filename()), page)
}

/// The page with the headings of the language.
fn headed(page: &str) -> String {
    let heading = |line: &str| match line {
        // Translators: headings of a manual page, as other pages of your language have them
        ".SH NAME" => gettext("NAME"),
        ".SH SYNOPSIS" => gettext("SYNOPSIS"),
        ".SH DESCRIPTION" => gettext("DESCRIPTION"),
        ".SH OPTIONS" => gettext("OPTIONS"),
        ".SH SUBCOMMANDS" => gettext("SUBCOMMANDS"),
        ".SH EXTRA" => gettext("EXTRA"),
        ".SH VERSION" => gettext("VERSION"),
        _ => String::new(),
    };
    let mut words = String::new();
    for line in page.lines() {
        match heading(line) {
            none if none.is_empty() => words.push_str(line),
            heading => words.push_str(&format!(".SH {heading}")),
        }
        words.push('\n');
    }
    words
}
