// SPDX-License-Identifier: GPL-3.0-or-later
//! Has LVM remove a cache that it has made: `lvconvert --uncache`, in a unit of its own, which goes on when the service ends.

use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::host::systemd::program::{self, Program, State};
use crate::host::traits::Lvm;
use crate::model::lvm::{LvmEnd, LvmProgress, LvmRemoval, blocks_left, has_cache};
use async_trait::async_trait;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_api::{Failure, Kind};
use tokio::time::{Instant, sleep};
use zbus::Connection;

/// The folder of the notes on removals, of what LVM prints, and of what `lvs` does. A start of the machine empties it.
const FOLDER: &str = "/run/tandem/lvm";
/// Where LVM is, on one system or the other.
const PROGRAMS: [&str; 3] = ["/usr/sbin/lvm", "/sbin/lvm", "/usr/bin/lvm"];
/// So much of the end of what LVM prints is read, in bytes.
const TAIL: u64 = 4096;
/// Longest wait for `lvs`, which waits for who changes the group.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// The names of what belongs to a removal.
struct Names {
    note: PathBuf,
    printed: PathBuf,
    told: PathBuf,
    unit: String,
    look_unit: String,
}

impl Names {
    fn of(removal: &LvmRemoval) -> Self {
        let uuid = removal.volume_uuid();
        let file = |ending: &str| Path::new(FOLDER).join(format!("{uuid}.{ending}"));
        Self {
            note: file("json"),
            printed: file("printed"),
            told: file("told"),
            unit: format!("tandem-lvm-{uuid}.service"),
            look_unit: format!("tandem-lvs-{uuid}.service"),
        }
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::StepFailed).detail(why)
}

fn program() -> Result<&'static str, Failure> {
    let there = |path: &&str| Path::new(path).exists();
    let found = PROGRAMS.into_iter().find(there);
    found.ok_or_else(|| failed("the program lvm is not there"))
}

/// The end of a file; an empty text without the file.
fn tail(path: &Path) -> String {
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

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("{} stays: {e}", path.display());
        }
        _ => {}
    }
}

/// Writes the note by which the next process of the service finds the removal.
fn note(path: &Path, removal: &LvmRemoval) -> io::Result<()> {
    // A process that is killed while it writes leaves no half note.
    let beside = path.with_extension("new");
    fs::write(&beside, serde_json::to_vec(removal)?)?;
    fs::rename(beside, path)
}

/// The notes in a folder. A note that cannot be read is left alone: its removal goes on without a job.
fn notes(folder: &Path) -> Vec<LvmRemoval> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let notes = files.filter(|file| file.path().extension().is_some_and(|end| end == "json"));
    notes
        .filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok())
        .collect()
}

/// What `lvs` says of the volume of a removal: whether it has a cache.
async fn look(connection: &Connection, removal: &LvmRemoval) -> Result<Option<bool>, Failure> {
    let names = Names::of(removal);
    let unit = names.look_unit.as_str();
    program::forget(connection, unit).await;
    remove(&names.told);
    let words = [
        program()?,
        "lvs",
        "--noheadings",
        "-o",
        "lv_uuid,segtype",
        &removal.volume,
    ];
    let asked = Program {
        unit,
        task: "Tandem asks LVM for a volume",
        words: &words,
        output: &names.told,
    };
    program::start(connection, &asked).await?;
    let begun = Instant::now();
    while program::state(connection, unit).await? == State::Running && begun.elapsed() < LIMIT {
        sleep(PAUSE).await;
    }
    program::forget(connection, unit).await;
    let told = tail(&names.told);
    remove(&names.told);
    Ok(has_cache(&told, removal.volume_uuid()))
}

#[async_trait]
impl Lvm for DeviceMapper {
    async fn begin_removal(&self, removal: &LvmRemoval) -> Result<(), Failure> {
        let names = Names::of(removal);
        if program::state(&self.connection, &names.unit).await? == State::Running {
            return Ok(());
        }
        program::forget(&self.connection, &names.unit).await;
        fs::create_dir_all(FOLDER).map_err(failed)?;
        // The name has to be that of the volume that the kernel shows.
        if look(&self.connection, removal).await? != Some(true) {
            let changed = Failure::new(Kind::DeviceChanged).device(&removal.devices[0].text);
            return Err(changed.detail("LVM knows no such volume with a cache"));
        }
        remove(&names.printed);
        note(&names.note, removal).map_err(failed)?;
        // Never with `--force`: LVM refuses then to give up what is only on an SSD that is missing.
        let words = [
            program()?,
            "lvconvert",
            "--uncache",
            "--yes",
            &removal.volume,
        ];
        let begun = Program {
            unit: &names.unit,
            task: "Tandem has LVM write back a cache and remove it",
            words: &words,
            output: &names.printed,
        };
        let started = program::start(&self.connection, &begun).await;
        if started.is_err() {
            remove(&names.note);
        }
        started
    }

    async fn removal_progress(&self, removal: &LvmRemoval) -> Result<LvmProgress, Failure> {
        let names = Names::of(removal);
        let state = program::state(&self.connection, &names.unit).await?;
        let printed = blocking(move || tail(&names.printed)).await?;
        let status = match state {
            State::Running => {
                return Ok(LvmProgress {
                    blocks_left: blocks_left(&printed),
                    ended: None,
                });
            }
            State::Ended(status) => status,
            State::Unknown => None,
        };
        let cached = look(&self.connection, removal).await?;
        Ok(LvmProgress {
            blocks_left: None,
            ended: Some(LvmEnd {
                status,
                cached,
                said: printed,
            }),
        })
    }

    async fn stop_removal(&self, removal: &LvmRemoval) -> Result<(), Failure> {
        program::interrupt(&self.connection, &Names::of(removal).unit).await
    }

    async fn forget_removal(&self, removal: &LvmRemoval) {
        let names = Names::of(removal);
        program::forget(&self.connection, &names.unit).await;
        remove(&names.note);
        remove(&names.printed);
    }

    async fn begun_removals(&self) -> Vec<LvmRemoval> {
        blocking(|| notes(Path::new(FOLDER)))
            .await
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::Ident;
    use tandem_api::OtherKind;

    fn removal() -> LvmRemoval {
        LvmRemoval {
            id: format!("LVM-{}{}", "a".repeat(32), "b".repeat(32)),
            volume: "vg2/m".into(),
            kind: OtherKind::LvmCache,
            devices: [Ident::default(), Ident::default()],
            steps: Vec::new(),
            unwritten_bytes: 1,
            may_be_unwritten: true,
            owner: 1000,
        }
    }

    #[test]
    fn a_removal_is_found_by_its_note_and_not_by_half_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("lvm");
        assert_eq!(notes(&inner), []);
        fs::create_dir(&inner).unwrap();
        note(&inner.join("b.json"), &removal()).unwrap();
        fs::write(inner.join("c.json"), "{\"id\":").unwrap();
        fs::write(inner.join("d.new"), "{}").unwrap();
        assert_eq!(notes(&inner), [removal()]);
    }

    #[test]
    fn names_are_of_the_volume_alone() {
        let names = Names::of(&removal());
        assert_eq!(names.unit, format!("tandem-lvm-{}.service", "b".repeat(32)));
        assert_ne!(names.unit, names.look_unit);
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
        assert_eq!(blocks_left(&read), Some(9));
    }
}
