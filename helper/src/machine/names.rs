// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes of the files by which the start of the machine finds a disk: the UUID of its content takes the place of a
//! name that would not find the content through its cache, such as `/dev/sda1`. A changed file is right with a cache and
//! without one, so nothing undoes a change.
//!
//! The sandbox of the service allows no change below /etc. The service writes a request and starts a unit, which runs
//! `tandem-assemble change-names`. The menu of GRUB is made anew by another unit, whose command is fixed.

mod edit;

use self::edit::edited;
pub use self::edit::is_changed;
use crate::decide::plan::misses_cache;
use crate::model::facts::{Device, Facts, StartEntry, StartTable};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tandem_api::{Failure, Kind, NameChange};

/// The request, in the folder of the records.
pub const REQUEST: &str = "names-change.json";
/// What is added to the name of a file for the file of before.
const BACKUP: &str = "before-tandem";
/// Files of before that may be there, for each file.
const MAX_BACKUPS: u32 = 100;
/// The files that can be changed.
const FILES: [StartTable; 3] = [StartTable::Fstab, StartTable::Crypttab, StartTable::Grub];

/// What the unit is to do. All changes are of the same file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// What to change.
    pub changes: Vec<NameChange>,
    /// Name of the file of before, beside the file.
    pub backup: String,
    /// Put the file of before back. Otherwise the unit makes that file, which must not be there yet.
    pub undo: bool,
}

impl Request {
    /// The file, which is one of [`FILES`].
    ///
    /// # Errors
    /// If the request names no such file, or several.
    pub fn table(&self) -> io::Result<StartTable> {
        let named = |table: &StartTable| self.changes.iter().all(|c| c.file == table.file());
        let found = FILES
            .into_iter()
            .find(|table| !self.changes.is_empty() && named(table));
        found.ok_or_else(|| io::Error::other("the request names no file that can be changed"))
    }
}

/// The changes after which the start finds a disk through its cache. All of them are of one file: of the first file that
/// has to be changed. None if that file has to be changed by hand.
///
/// # Errors
/// `Indistinguishable` if the UUID of the content does not tell it from others.
pub fn needed(device: &Device, facts: &Facts) -> Result<Vec<NameChange>, Failure> {
    let mut changes: Vec<NameChange> = Vec::new();
    let Some(first) = device.entries.iter().find(|entry| misses_cache(entry)) else {
        return Ok(changes);
    };
    let table = first.table;
    let meant = |entry: &&StartEntry| entry.table == table && misses_cache(entry);
    for entry in device.entries.iter().filter(meant) {
        let change = NameChange {
            file: table.file().to_owned(),
            entry: entry.target.clone(),
            before: entry.spec.clone(),
            after: entry.better_spec(&device.content_uuid),
        };
        // A file may have the same entry twice.
        if FILES.contains(&table) && !changes.contains(&change) {
            changes.push(change);
        }
    }
    let uuid = &device.content_uuid;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let twin = facts.same_filesystem(device);
    if uuid.is_empty() || !uuid.bytes().all(plain) || twin.is_some() {
        let name = twin.map_or("", |twin| twin.ident.text.name.as_str());
        return Err(Failure::new(Kind::Indistinguishable)
            .device(&device.ident.text)
            .name(name));
    }
    Ok(changes)
}

/// Does what the request in `folder` says to a file of the system whose root folder is `root`.
///
/// # Errors
/// If the request, the file or its folder cannot be read or written, or if the request does not fit the file. The file is
/// as before then.
pub fn change_as_requested(folder: &Path, root: &Path) -> io::Result<()> {
    let request: Request = serde_json::from_slice(&fs::read(folder.join(REQUEST))?)?;
    let table = request.table()?;
    let file = root.join(table.file().trim_start_matches('/'));
    let facts = fs::symlink_metadata(&file)?;
    if !facts.is_file() {
        return Err(io::Error::other(format!(
            "{} is no plain file",
            file.display()
        )));
    }
    let text = fs::read_to_string(&file)?;
    let backup = file.with_file_name(&request.backup);
    if request.undo {
        let before = fs::read_to_string(&backup)?;
        if edited(table, &before, &request.changes)? != text {
            return Err(io::Error::other("another program has just changed it"));
        }
        fs::rename(&backup, &file)?;
        return sync_folder(&file);
    }
    let new = edited(table, &text, &request.changes)?;
    let beside = with_suffix(&file, "tandem-new");
    if fs::symlink_metadata(&backup).is_ok() {
        return Err(io::Error::other(format!(
            "{} is there already",
            backup.display()
        )));
    }
    let unchanged = || match fs::read_to_string(&file)? == text {
        true => Ok(()),
        false => Err(io::Error::other("another program has just changed it")),
    };
    let written = remove_if_there(&beside)
        .and_then(|()| write_like(&facts, &backup, &text))
        .and_then(|()| write_like(&facts, &beside, &new))
        .and_then(|()| unchanged())
        .and_then(|()| fs::rename(&beside, &file));
    if let Err(e) = written {
        // Neither of the two is of any use then.
        let tidied = remove_if_there(&beside).and_then(|()| remove_if_there(&backup));
        tracing::info!("nothing could be written, what was written is removed: {tidied:?}");
        return Err(e);
    }
    sync_folder(&file)
}

fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// The path of a file beside another one, with its name and something after that.
fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{name}.{suffix}"))
}

/// A name for the file of before that no file has.
///
/// # Errors
/// If there are too many such files.
pub fn free_backup(file: &Path) -> io::Result<String> {
    let names = (1..=MAX_BACKUPS).map(|n| match n {
        1 => with_suffix(file, BACKUP),
        _ => with_suffix(file, &format!("{BACKUP}-{n}")),
    });
    let found = names
        .into_iter()
        .find(|path| fs::symlink_metadata(path).is_err());
    let name = found
        .as_deref()
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy());
    name.map(|name| name.into_owned()).ok_or_else(|| {
        io::Error::other(format!(
            "there are too many files {}-…",
            with_suffix(file, BACKUP).display()
        ))
    })
}

/// Writes the request for the unit.
///
/// # Errors
/// If the file cannot be written.
pub fn write_request(file: &Path, request: &Request) -> io::Result<()> {
    remove_if_there(file)?;
    new_file(file)?.write_all(&serde_json::to_vec_pretty(request)?)
}

/// Writes a new file with the owner and the permissions of another one.
fn write_like(facts: &Metadata, path: &Path, text: &str) -> io::Result<()> {
    let mut file = new_file(path)?;
    file.write_all(text.as_bytes())?;
    fchown(&file, Some(facts.uid()), Some(facts.gid()))?;
    file.set_permissions(fs::Permissions::from_mode(facts.mode() & 0o7777))?;
    file.sync_all()
}

/// Makes a file that only its owner can read.
fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
