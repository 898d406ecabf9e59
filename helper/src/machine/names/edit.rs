// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of a file with other names for a disk. Everything else in the text stays as it is, byte for byte.

use crate::machine::mounts::{boot_loader, libmount, table};
use crate::model::facts::StartTable;
use std::io;
use tandem_api::NameChange;

/// The entries of a text, each with the name that the entry gives its disk.
type Named = Vec<(String, String)>;

/// The text of the file with the changes.
///
/// # Errors
/// If no entry of the text fits a change or, in another file than GRUB's, more than one, or if more than these entries
/// would be others afterwards.
pub fn edited(file: StartTable, text: &str, changes: &[NameChange]) -> io::Result<String> {
    let mut wanted = named(file, text)?;
    for change in changes {
        let fits = wanted.iter_mut().filter(|entry| is_meant(entry, change));
        let fits: Vec<_> = fits.collect();
        // GRUB's settings are the words of one command line, and a word may be there twice.
        if fits.is_empty() || (fits.len() > 1 && file != StartTable::Grub) {
            return Err(io::Error::other(format!(
                "not one line names {} as {}",
                change.entry, change.before
            )));
        }
        for entry in fits {
            entry.1.clone_from(&change.after);
        }
    }
    let mut new = String::new();
    for line in text.split_inclusive('\n') {
        let entries = named(file, line)?;
        // A line of GRUB's file may name the disk more than once.
        let mut line = line.to_owned();
        for change in changes {
            for _ in entries.iter().filter(|entry| is_meant(entry, change)) {
                line = with_word(&line, change)?;
            }
        }
        new += &line;
    }
    if named(file, &new)? != wanted {
        return Err(io::Error::other("its lines cannot be changed one by one"));
    }
    Ok(new)
}

/// Whether the text has all these changes.
pub fn is_changed(file: StartTable, text: &str, changes: &[NameChange]) -> bool {
    let entries = named(file, text).unwrap_or_default();
    let has = |change: &NameChange| {
        let fits =
            |(entry, name): &(String, String)| is_entry(entry, change) && *name == change.after;
        entries.iter().any(fits)
    };
    changes.iter().all(has)
}

/// The line with the new name in the place of the first word that is the name of before.
fn with_word(line: &str, change: &NameChange) -> io::Result<String> {
    let before = change.before.as_str();
    let is_end = |byte: u8| byte.is_ascii_whitespace() || b"\"'=".contains(&byte);
    let is_word = |(at, _): &(usize, &str)| {
        let bytes = line.as_bytes();
        bytes[..*at].last().is_none_or(|byte| is_end(*byte))
            && bytes[at + before.len()..]
                .first()
                .is_none_or(|byte| is_end(*byte))
    };
    let Some((at, _)) = line.match_indices(before).find(is_word) else {
        return Err(io::Error::other(format!("{before} is not written plainly")));
    };
    let (start, rest) = (&line[..at], &line[at + before.len()..]);
    Ok(format!("{start}{}{rest}", change.after))
}

fn named(file: StartTable, text: &str) -> io::Result<Named> {
    Ok(match file {
        StartTable::Fstab => {
            let entries = libmount::parse(text)?.into_iter();
            entries.map(|entry| (entry.target, entry.source)).collect()
        }
        StartTable::Crypttab => table::unlocked(text),
        StartTable::Grub => boot_loader::settings(text),
        StartTable::CommandLine | StartTable::MountUnit => Named::new(),
    })
}

/// Whether a change is for this entry with this name.
fn is_meant((entry, name): &(String, String), change: &NameChange) -> bool {
    is_entry(entry, change) && *name == change.before
}

fn is_entry(entry: &str, change: &NameChange) -> bool {
    table::same_point(entry, &change.entry)
}
