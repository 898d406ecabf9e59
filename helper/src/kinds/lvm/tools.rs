// SPDX-License-Identifier: GPL-3.0-or-later
//! The programs of LVM. Each runs in a unit of its own: LVM needs what the sandbox of this service does not allow, and goes on when
//! the service ends.

use crate::host::systemd::program::{self, Program, State};
use crate::kinds::failed;
use crate::kinds::notes::{self, FOLDER};
use crate::model::removal::OtherRemoval;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_api::Failure;
use zbus::Connection;

/// Where LVM is, on one system or the other.
const PROGRAMS: [&str; 3] = ["/usr/sbin/lvm", "/sbin/lvm", "/usr/bin/lvm"];
/// Bytes at the end of what LVM prints that are read.
const TAIL: u64 = 4096;
/// Longest wait for `lvs`, which waits for each program that changes the group.
const LIMIT: Duration = Duration::from_secs(60);

/// The path of LVM's program.
pub(super) fn lvm() -> Result<&'static str, Failure> {
    let there = |path: &&str| Path::new(path).exists();
    let found = PROGRAMS.into_iter().find(there);
    found.ok_or_else(|| failed("the program lvm is not there"))
}

/// A file that belongs to a removal.
pub(super) fn file(removal: &OtherRemoval, ending: &str) -> PathBuf {
    notes::file(Path::new(FOLDER), &removal.id, ending)
}

/// The unit of a task with the volume of a removal. The name begins so for all tasks.
pub(super) fn unit(task: &str, removal: &OtherRemoval) -> String {
    format!("tandem-{task}-{}.service", removal.volume_uuid())
}

/// The end of a file; an empty text without the file.
pub(super) fn tail(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(TAIL);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// What `lvs` says in these columns of the volume of a removal; nothing while another program of LVM has the group for itself.
/// Warnings may be among the lines. `purpose`: a word; two questions at once with the same word disturb one another.
pub(super) async fn ask(
    connection: &Connection,
    removal: &OtherRemoval,
    columns: &str,
    purpose: &str,
) -> Result<Option<String>, Failure> {
    let (told, unit) = (file(removal, purpose), unit(purpose, removal));
    fs::create_dir_all(FOLDER).map_err(failed)?;
    notes::remove(&told);
    let words = [lvm()?, "lvs", "--noheadings", "-o", columns, &removal.name];
    let asked = Program {
        unit: &unit,
        task: "Tandem asks LVM for a volume",
        words: &words,
        output: &told,
    };
    let ended = program::run(connection, &asked, LIMIT).await?;
    let text = tail(&told);
    notes::remove(&told);
    Ok((ended != State::Running).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::removal;
    use tandem_api::OtherKind;

    #[test]
    fn names_are_of_the_volume_alone() {
        let removal = removal(OtherKind::LvmCache);
        let uuid = "b".repeat(32);
        assert_eq!(unit("lvm", &removal), format!("tandem-lvm-{uuid}.service"));
    }

    #[test]
    fn only_the_end_of_what_is_printed_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("printed");
        assert_eq!(tail(&file), "");
        let line = "  Flushing 9 blocks for cache vg2/m.\n";
        fs::write(&file, line.repeat(1_000)).unwrap();
        let read = tail(&file);
        assert!(read.len() <= 4096 && read.ends_with(line));
    }
}
