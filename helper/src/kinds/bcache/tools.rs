// SPDX-License-Identifier: GPL-3.0-or-later
//! The programs of util-linux that read and change a partition table. Each runs in a unit of its own: what has begun to write
//! ends, also if this service is killed meanwhile.

use super::table::Read;
use crate::host::device_mapper::blocking;
use crate::host::systemd::program::{self, Program, State};
use crate::kinds::failed;
use crate::kinds::notes::{self, FOLDER};
use crate::machine::blocks::{names_in, sysfs};
use crate::model::shift::{Content, Shift};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_api::Failure;
use zbus::Connection;

/// Longest wait for a program that reads. A disk that sleeps answers within seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// The same for a program that writes, which nothing is to interrupt: a disk may try for minutes to read or write a sector. The
/// programs wait 30 seconds for the lock themselves.
const LIMIT_TO_WRITE: Duration = Duration::from_secs(600);
/// Exit status of a shell that does not find a program.
const NOT_FOUND: i32 = 127;
/// The words of sfdisk for a disk that has no partition table.
const NO_TABLE: &str = "does not contain a recognized partition table";
/// Exit status of blkid that finds nothing.
const NOTHING: i32 = 2;

/// Prints a table as JSON. `$1`: the disk.
const READ: &str = r#"exec env LC_ALL=C sfdisk --json "$1""#;
/// Prints a table as `sfdisk` reads it again. `$1`: the disk.
const DUMP: &str = r#"exec sfdisk --dump "$1""#;
/// Prints what lies at a place. `$1`: the device, `$2`: the first byte, `$3`: bytes. The kernel may have kept what was read there
/// before bcache wrote to it, so that is dropped first.
const PROBE: &str = r#"blockdev --flushbufs "$1" && exec blkid -p -o export -O "$2" -S "$3" "$1""#;
/// Gives a partition another place, and tells the kernel of this partition only: the others may be in use. `$1`: the disk, `$2`:
/// the number of the partition, `$3` and `$4`: its first sector and its sectors, `$5`: the file with the table as it has to be
/// now, or nothing: another program may have changed the table before the lock is ours. As long as the lock is held, udev looks at
/// no device of the disk, so that bcache is not registered again where it was.
const MOVE: &str = r#"exec 9<"$1" && flock -w 30 9 &&
{ [ -z "$5" ] || sfdisk --dump "$1" | cmp - "$5"; } &&
echo "start=$3, size=$4" | sfdisk --quiet --no-reread --no-tell-kernel --wipe never --wipe-partitions never -N "$2" "$1" &&
exec partx --update --nr "$2" "$1""#;
/// Writes a whole table as it was over a torn one, and tells the kernel of one partition. `$1`: the disk, `$2`: the number of the partition, `$3`:
/// the file with the table.
const RESTORE: &str = r#"exec 9<"$1" && flock -w 30 9 &&
sfdisk --quiet --force --no-reread --no-tell-kernel --wipe never --wipe-partitions never "$1" <"$3" &&
exec partx --update --nr "$2" "$1""#;

/// The tools for the disk of one removal.
pub(super) struct Tools<'a> {
    connection: &'a Connection,
    /// Id of the removal.
    id: &'a str,
    /// Kernel name of the disk.
    disk: &'a str,
}

/// The result of a program.
struct Done {
    status: Option<i32>,
    printed: String,
}

impl Done {
    /// The program's output, if the program succeeded.
    fn ok(self) -> Result<String, Failure> {
        match self.status {
            Some(0) => Ok(self.printed),
            Some(NOT_FOUND) => Err(failed(format_args!(
                "a program is missing: {}",
                self.printed.trim()
            ))),
            status => Err(failed(format_args!(
                "status {status:?}: {}",
                self.printed.trim()
            ))),
        }
    }
}

impl<'a> Tools<'a> {
    pub(super) fn new(connection: &'a Connection, id: &'a str, disk: &'a str) -> Self {
        Self {
            connection,
            id,
            disk,
        }
    }

    fn node(&self) -> String {
        format!("/dev/{}", self.disk)
    }

    /// The unit that changes the table. There is one for each removal.
    fn unit(id: &str) -> String {
        let file = notes::file(Path::new(FOLDER), id, "service");
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        format!("tandem-table-{name}")
    }

    /// Whether a program changes the table now.
    pub(super) async fn is_at_work(&self) -> Result<bool, Failure> {
        let state = program::state(self.connection, &Self::unit(self.id)).await?;
        Ok(state == State::Running)
    }

    /// The table of the disk, and what sfdisk says of it.
    pub(super) async fn read(&self) -> Result<Read, Failure> {
        let done = self.run(READ, &[]).await?;
        let read = Read::of(&done.printed);
        // A disk that cannot be read may have any table.
        if read.table.is_none() && done.status != Some(0) && !done.printed.contains(NO_TABLE) {
            return Err(done.ok().err().unwrap_or_else(|| failed("sfdisk")));
        }
        Ok(read)
    }

    /// What lies in a part of a device, in bytes; none if blkid knows nothing that lies there.
    pub(super) async fn probe(
        &self,
        device: &str,
        at: u64,
        bytes: u64,
    ) -> Result<Option<Content>, Failure> {
        let node = format!("/dev/{device}");
        let words = [node.as_str(), &at.to_string(), &bytes.to_string()];
        let done = self.run_on(PROBE, &words).await?;
        if done.status == Some(NOTHING) {
            return Ok(None);
        }
        Ok(content(&done.ok()?))
    }

    /// Whether the disk as a whole may belong to somebody else: a volume is above it, or something other than a partition table
    /// lies on it.
    pub(super) async fn is_taken_whole(&self, bytes: u64) -> Result<bool, Failure> {
        if !names_in(sysfs(self.disk).join("holders")).is_empty() {
            return Ok(true);
        }
        let words = [&self.node(), "0", &bytes.to_string()];
        let done = self.run_on(PROBE, &words).await?;
        // Two signatures at once are an error of blkid.
        let is_free = match done.status {
            Some(0) => !done.printed.lines().any(|line| line.starts_with("TYPE=")),
            status => status == Some(NOTHING),
        };
        Ok(!is_free)
    }

    /// What lies where the partition begins after its move, read from the disk.
    pub(super) async fn probe_ahead(&self, shift: &Shift) -> Result<Option<Content>, Failure> {
        let (start, size) = shift.moved();
        let [at, bytes] = [start, size].map(|sectors| sectors * shift.sector_bytes);
        self.probe(self.disk, at, bytes).await
    }

    /// Keeps the table in a file, and does not return before the file is on its disk.
    pub(super) async fn dump(&self, to: PathBuf) -> Result<(), Failure> {
        let folder = to.parent().map(Path::to_owned).unwrap_or_default();
        fs::create_dir_all(&folder).map_err(failed)?;
        let text = self.run(DUMP, &[]).await?.ok()?;
        if !text.starts_with("label:") {
            return Err(failed(text));
        }
        let write = move || -> std::io::Result<()> {
            fs::write(&to, text)?;
            File::open(&to)?.sync_all()?;
            File::open(folder)?.sync_all()
        };
        blocking(write).await?.map_err(failed)
    }

    /// Gives the partition this first sector and so many sectors. What else is in the table stays. `only_of`: the table as it has
    /// to be before.
    pub(super) async fn place(
        &self,
        shift: &Shift,
        (start, size): (u64, u64),
        only_of: Option<&Path>,
    ) -> Result<(), Failure> {
        let words = [
            shift.number.to_string(),
            start.to_string(),
            size.to_string(),
            only_of.map_or_else(String::new, |file| file.to_string_lossy().into_owned()),
        ];
        self.run(MOVE, &words).await?.ok().map(drop)
    }

    /// Writes the table of before over a torn one.
    pub(super) async fn restore(&self, shift: &Shift, backup: &Path) -> Result<(), Failure> {
        let words = [
            shift.number.to_string(),
            backup.to_string_lossy().into_owned(),
        ];
        self.run(RESTORE, &words).await?.ok().map(drop)
    }

    /// Forgets the programs of a removal.
    pub(super) async fn forget(connection: &Connection, id: &str) {
        program::forget(connection, &Self::unit(id)).await;
        notes::remove(&notes::file(Path::new(FOLDER), id, "said"));
    }

    async fn run(&self, script: &str, words: &[String]) -> Result<Done, Failure> {
        let node = self.node();
        let words: Vec<&str> = [node.as_str()]
            .into_iter()
            .chain(words.iter().map(String::as_str))
            .collect();
        self.run_on(script, &words).await
    }

    async fn run_on(&self, script: &str, arguments: &[&str]) -> Result<Done, Failure> {
        fs::create_dir_all(FOLDER).map_err(failed)?;
        let said = notes::file(Path::new(FOLDER), self.id, "said");
        notes::remove(&said);
        let words: Vec<&str> = ["/bin/sh", "-c", script, "sh"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let told = Program {
            unit: &Self::unit(self.id),
            task: "Tandem works on a partition table",
            words: &words,
            output: &said,
        };
        let limit = match [MOVE, RESTORE].contains(&script) {
            true => LIMIT_TO_WRITE,
            false => LIMIT,
        };
        let status = match program::run(self.connection, &told, limit).await? {
            State::Ended(status) => status,
            other => {
                return Err(failed(format_args!(
                    "a program for partition tables: {other:?}"
                )));
            }
        };
        let printed = blocking(move || crate::read_lossy(&said))
            .await?
            .unwrap_or_default();
        Ok(Done { status, printed })
    }
}

/// The content in what blkid prints with `-o export`.
fn content(printed: &str) -> Option<Content> {
    let value = |name: &str| {
        let mut lines = printed.lines().filter_map(|line| line.split_once('='));
        let (_, value) = lines.find(|(key, _)| *key == name)?;
        Some(value.to_owned())
    };
    Some(Content {
        format: value("TYPE")?,
        uuid: value("UUID")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program_for_test;

    #[test]
    fn a_content_has_a_type_and_a_uuid() {
        let printed =
            "DEVNAME=/dev/vdc\nLABEL=UUID=x\nUUID=0a1b\nVERSION=1.0\nTYPE=ext4\nUSAGE=filesystem\n";
        let found = Content {
            format: "ext4".into(),
            uuid: "0a1b".into(),
        };
        assert_eq!(content(printed), Some(found));
        assert_eq!(content("PTUUID=aa\nPTTYPE=gpt\n"), None);
        assert_eq!(content("TYPE=squashfs\n"), None);
    }

    /// Runs the move of a partition with programs that take the place of the real ones: whether it succeeded, and whether the
    /// table was written. The table of the disk is `now`.
    fn moves(now: &str, only_of: &str) -> (bool, bool) {
        let root = tempfile::tempdir().unwrap();
        let [disk, table, log] = ["disk", "table", "log"].map(|name| root.path().join(name));
        for file in [&disk, &table] {
            fs::write(file, only_of).unwrap();
        }
        let sfdisk = format!(
            "#!/bin/sh\n[ \"$1\" = --dump ] && printf '{now}' || cat >{}\n",
            log.display()
        );
        program_for_test::make(&root.path().join("bin/sfdisk"), &sfdisk);
        program_for_test::make(&root.path().join("bin/partx"), "#!/bin/sh\n");
        let only_of = match only_of {
            "" => String::new(),
            _ => table.display().to_string(),
        };
        let path = format!("{}/bin:/usr/bin:/bin", root.path().display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", MOVE, "sh"]).arg(&disk);
        shell.args(["1", "2064", "409584", &only_of]);
        let ran = shell.env("PATH", path).output().unwrap();
        (ran.status.success(), log.exists())
    }

    #[test]
    fn a_table_that_another_program_has_changed_meanwhile_is_not_written() {
        assert_eq!(moves("label: gpt", "label: gpt"), (true, true));
        assert_eq!(moves("label: gpt and more", "label: gpt"), (false, false));
        // To put the partition back, whatever else is in the table now.
        assert_eq!(moves("label: gpt and more", ""), (true, true));
    }

    #[test]
    fn each_removal_has_a_unit_of_its_own_with_a_plain_name() {
        let unit = Tools::unit("../bcache0");
        assert!(
            unit.starts_with("tandem-table-") && unit.ends_with(".service"),
            "{unit}"
        );
        assert!(!unit.contains('/'));
        assert_ne!(unit, Tools::unit("bcache0"));
    }
}
