// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes of fstab: the UUID of a file system takes the place of a name that would not find the file system through
//! its cache, such as `/dev/sda1`. The changed fstab is right with a cache and without one, so nothing undoes a change.
//!
//! The sandbox of the service allows no change below /etc. The service writes a request and starts a unit, which runs
//! `tandem-assemble --change-fstab`.

use crate::facts::{Device, Facts, StartEntry, StartTable};
use crate::mounts::table::same_point;
use crate::mounts::{libmount, systemd};
use crate::plan::misses_cache;
use crate::state::FOLDER;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use tandem_api::{Failure, FstabChange, Kind};
use tokio::sync::Mutex;
use zbus::Connection;

/// The file.
pub const FSTAB: &str = "/etc/fstab";
/// The unit that carries out the request.
const UNIT: &str = "tandem-fstab.service";
/// The request, in the folder of the records.
const REQUEST: &str = "fstab-change.json";
/// What the name of the file with the fstab of before begins with.
const BACKUP: &str = "fstab.before-tandem";
/// Files with a fstab of before that may be there.
const MAX_BACKUPS: u32 = 100;

/// One change at a time: there is one request and one unit.
static ALONE: Mutex<()> = Mutex::const_new(());

/// What the unit is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    changes: Vec<FstabChange>,
    /// Name of the file that will have the fstab of before. The file must not be there yet.
    backup: String,
}

/// The changes after which fstab finds the file system of a disk through its cache.
///
/// # Errors
/// `Indistinguishable` if the UUID of the file system does not tell it from others.
pub fn needed(device: &Device, facts: &Facts) -> Result<Vec<FstabChange>, Failure> {
    let mut changes = Vec::new();
    let meant = |entry: &&StartEntry| entry.table == StartTable::Fstab && misses_cache(entry);
    for entry in device.entries.iter().filter(meant) {
        let change = FstabChange {
            point: entry.target.clone(),
            before: entry.spec.clone(),
            after: format!("UUID={}", device.content_uuid),
        };
        // fstab may have the same entry twice.
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    let uuid = &device.content_uuid;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let twin = facts.same_filesystem(device);
    if !changes.is_empty() && (uuid.is_empty() || !uuid.bytes().all(plain) || twin.is_some()) {
        let name = twin.map_or("", |twin| twin.ident.text.name.as_str());
        return Err(Failure::new(Kind::Indistinguishable)
            .device(&device.ident.text)
            .name(name));
    }
    Ok(changes)
}

/// Has the changes made, and has systemd read fstab again. Returns the path of the file with the fstab of before.
///
/// # Errors
/// `StepFailed`: fstab is as before then.
pub async fn change(connection: &Connection, changes: &[FstabChange]) -> Result<String, Failure> {
    let _alone = ALONE.lock().await;
    let failed = |e: &dyn std::fmt::Display| {
        Failure::new(Kind::StepFailed).detail(format_args!("{FSTAB} is as before: {e}"))
    };
    let fstab = Path::new(FSTAB);
    let backup = free_backup(fstab).map_err(|e| failed(&e))?;
    let request = Request {
        changes: changes.to_vec(),
        backup: backup.clone(),
    };
    let file = Path::new(FOLDER).join(REQUEST);
    write_request(&file, &request).map_err(|e| failed(&e))?;
    let done = systemd::start(connection, UNIT).await;
    if let Err(e) = fs::remove_file(&file) {
        tracing::warn!("the request stays in {}: {e}", file.display());
    }
    if let Err(e) = done {
        if !is_changed(fstab, changes) {
            return Err(failed(&format_args!(
                "{e}; “journalctl -u {UNIT}” tells why"
            )));
        }
        tracing::warn!("{FSTAB} is changed, although {UNIT} did not end well: {e}");
    }
    if let Err(e) = systemd::reload(connection).await {
        tracing::warn!("systemd reads the changed {FSTAB} at its next reload only: {e}");
    }
    Ok(fstab.with_file_name(backup).display().to_string())
}

/// Whether the changes are in fstab.
fn is_changed(fstab: &Path, changes: &[FstabChange]) -> bool {
    let entries = libmount::fstab(fstab).unwrap_or_default();
    let has = |change: &FstabChange| {
        entries
            .iter()
            .any(|e| names(e, &change.point, &change.after))
    };
    changes.iter().all(has)
}

/// Does what the request in `folder` says to the file `fstab`.
///
/// # Errors
/// If the request, fstab or its folder cannot be read or written, or if the request does not fit fstab. fstab is as
/// before then.
pub fn change_as_requested(folder: &Path, fstab: &Path) -> io::Result<()> {
    let request: Request = serde_json::from_slice(&fs::read(folder.join(REQUEST))?)?;
    let facts = fs::symlink_metadata(fstab)?;
    if !facts.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let text = fs::read_to_string(fstab)?;
    let new = edited(&text, &request.changes)?;
    let backup = fstab.with_file_name(&request.backup);
    let beside = fstab.with_file_name("fstab.tandem-new");
    if fs::symlink_metadata(&backup).is_ok() {
        return Err(io::Error::other(format!(
            "{} is there already",
            backup.display()
        )));
    }
    let unchanged = || match fs::read_to_string(fstab)? == text {
        true => Ok(()),
        false => Err(io::Error::other("another program has just changed it")),
    };
    let written = remove_if_there(&beside)
        .and_then(|()| write_like(&facts, &backup, &text))
        .and_then(|()| write_like(&facts, &beside, &new))
        .and_then(|()| unchanged())
        .and_then(|()| fs::rename(&beside, fstab));
    if let Err(e) = written {
        // Neither of the two is of any use then.
        let tidied = remove_if_there(&beside).and_then(|()| remove_if_there(&backup));
        tracing::info!("fstab could not be written, what was written is removed: {tidied:?}");
        return Err(e);
    }
    File::open(fstab.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// The text of fstab with the changes. libmount reads both texts, and finds only the wanted difference.
fn edited(text: &str, changes: &[FstabChange]) -> io::Result<String> {
    let mut wanted = libmount::parse(text)?;
    for change in changes {
        let mut fits = wanted.iter_mut().filter(|entry| is_meant(entry, change));
        let (Some(entry), None) = (fits.next(), fits.next()) else {
            return Err(io::Error::other(format!(
                "not one line names {} as {}",
                change.point, change.before
            )));
        };
        entry.source.clone_from(&change.after);
        let tag = change.after.split_once('=');
        entry.tag = tag.map(|(name, value)| (name.to_owned(), value.to_owned()));
    }
    let mut new = String::new();
    for line in text.split_inclusive('\n') {
        let entries = libmount::parse(line)?;
        let meant = |change: &&FstabChange| entries.iter().any(|entry| is_meant(entry, change));
        match changes.iter().find(meant) {
            Some(change) => new += &line.replacen(&change.before, &change.after, 1),
            None => new += line,
        }
    }
    if libmount::parse(&new)? != wanted {
        return Err(io::Error::other("its lines cannot be changed one by one"));
    }
    Ok(new)
}

/// Whether a change is for this entry.
fn is_meant(entry: &libmount::Entry, change: &FstabChange) -> bool {
    names(entry, &change.point, &change.before)
}

/// Whether an entry is of this mount point and has this first field.
fn names(entry: &libmount::Entry, point: &str, source: &str) -> bool {
    same_point(&entry.target, point) && entry.source == source
}

/// A name for the fstab of before that no file has.
fn free_backup(fstab: &Path) -> io::Result<String> {
    let names = (1..=MAX_BACKUPS).map(|n| match n {
        1 => BACKUP.to_owned(),
        _ => format!("{BACKUP}-{n}"),
    });
    let free = |name: &String| fs::symlink_metadata(fstab.with_file_name(name)).is_err();
    let found = names.into_iter().find(free);
    found.ok_or_else(|| io::Error::other(format!("there are too many files {BACKUP}-…")))
}

fn write_request(file: &Path, request: &Request) -> io::Result<()> {
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
mod tests {
    use super::*;

    const TEXT: &str = "# /dev/sda1 /srv ext4\n\
                        UUID=aa / ext4 errors=remount-ro 0 1\n\
                        \t/dev/sda1  /srv\text4 defaults,x-of=/dev/sda1 0 2 # data\n\
                        /dev/sda1 none swap sw 0 0\n";

    fn change_of(point: &str) -> FstabChange {
        FstabChange {
            point: point.to_owned(),
            before: "/dev/sda1".to_owned(),
            after: "UUID=0a-1b".to_owned(),
        }
    }

    #[test]
    fn one_field_of_one_line_is_replaced() {
        let new = edited(TEXT, &[change_of("/srv")]).unwrap();
        let wanted = TEXT.replace("\t/dev/sda1  /srv", "\tUUID=0a-1b  /srv");
        assert_eq!(new, wanted);
    }

    #[test]
    fn a_line_that_is_not_there_or_not_alone_is_not_changed() {
        edited(TEXT, &[change_of("/home")]).unwrap_err();
        let twice = format!("{TEXT}/dev/sda1 /srv ext4 ro\n");
        edited(&twice, &[change_of("/srv")]).unwrap_err();
        let spaces = TEXT.replace("/srv\t", "/srv/my\\040disk/\t");
        let new = edited(&spaces, &[change_of("/srv/my disk")]);
        assert!(new.unwrap().contains("UUID=0a-1b  /srv/my"));
        let quoted = TEXT.replace("\t/dev/sda1 ", "\"/dev/sda1\" ");
        edited(&quoted, &[change_of("/srv")]).unwrap_err();
    }

    #[test]
    fn the_file_of_before_is_kept_and_never_overwritten() {
        let folder = std::env::temp_dir().join(format!("tandem-fstab-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let fstab = folder.join("fstab");
        fs::write(&fstab, TEXT).unwrap();
        fs::set_permissions(&fstab, fs::Permissions::from_mode(0o640)).unwrap();
        let request = |point: &str, backup: &str| {
            let request = Request {
                changes: vec![change_of(point)],
                backup: backup.to_owned(),
            };
            write_request(&folder.join(REQUEST), &request).unwrap();
        };
        let files = || {
            let names = fs::read_dir(&folder).unwrap();
            let mut names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };

        request("/home", "old");
        let before = files();
        change_as_requested(&folder, &fstab).unwrap_err();
        assert_eq!(fs::read_to_string(&fstab).unwrap(), TEXT);
        assert_eq!(files(), before);

        request("/srv", "old");
        change_as_requested(&folder, &fstab).unwrap();
        let new = fs::read_to_string(&fstab).unwrap();
        assert!(new.contains("UUID=0a-1b  /srv"), "{new}");
        assert_eq!(fs::metadata(&fstab).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_to_string(folder.join("old")).unwrap(), TEXT);

        fs::write(&fstab, TEXT).unwrap();
        change_as_requested(&folder, &fstab).unwrap_err();
        assert_eq!(fs::read_to_string(&fstab).unwrap(), TEXT);

        assert_eq!(free_backup(&fstab).unwrap(), BACKUP);
        fs::write(folder.join(BACKUP), "").unwrap();
        assert_eq!(free_backup(&fstab).unwrap(), format!("{BACKUP}-2"));

        // A link leads to a file that another program looks after.
        fs::rename(&fstab, folder.join("real")).unwrap();
        std::os::unix::fs::symlink("real", &fstab).unwrap();
        request("/srv", "older");
        change_as_requested(&folder, &fstab).unwrap_err();
        fs::remove_dir_all(folder).unwrap();
    }
}
