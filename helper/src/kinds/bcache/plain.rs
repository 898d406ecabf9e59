// SPDX-License-Identifier: GPL-3.0-or-later
//! Makes the partition below a bcache device without a cache a plain one: the device is stopped, and the start of the partition
//! moves to the file system. What the table and the kernel show says how far it is, so that the next process, and the next start
//! of the machine, go on or undo it as a whole.

use super::remove::{block, write};
use super::table::{Table, Which};
use super::tools::Tools;
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::host::traits::Disks;
use crate::kinds::failed;
use crate::kinds::notes::Note;
use crate::kinds::system::Remover;
use crate::machine::blocks::{line, names_in, sysfs};
use crate::model::facts::Ident;
use crate::model::removal::{OtherProgress, OtherRemoval};
use crate::model::shift::Shift;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_api::{DataState, Failure, Kind, SECTOR_BYTES, TABLES_FOLDER};
use tokio::time::{Instant, sleep};

/// Longest wait for bcache to stop or to begin, and for UDisks2 to show the partition.
const LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// bcache as the remover of what it leaves on a partition.
pub(in crate::kinds) struct MakePlain;

/// What the next process has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    /// The table before the move.
    table: Table,
    /// The same in the form that `sfdisk` reads.
    backup: PathBuf,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// The table is not touched yet.
    Begun,
    /// The table may be changed.
    Moving,
    /// All is put back, because of this.
    Undoing(String),
}

/// Where the kernel has the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Old,
    Moved,
    Other,
}

/// The state of the partition at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    /// A program is changing the table.
    at_work: bool,
    table: Which,
    place: Place,
    /// Kernel names of the devices above the partition.
    holders: Vec<String>,
    /// The content is found where the moved partition begins. It is looked for when no device is above the partition.
    content: bool,
}

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Wait,
    /// Stop this bcache device.
    Stop(String),
    /// Move the start of the partition.
    Move,
    /// Undo all of it from now on, because of this.
    Undo(&'static str),
    /// Write the table of before.
    Restore,
    /// Have bcache take the partition again.
    Register,
    /// The end: the user has cancelled, and nothing was changed.
    Cancelled,
    /// The end: everything is as before, because of this.
    Restored(String),
    /// The end: the partition is a plain one.
    Done,
}

fn next(seen: &Seen, phase: &Phase, stopped: bool) -> Next {
    if seen.at_work {
        return Next::Wait;
    }
    let is_old = (seen.table, seen.place) == (Which::Old, Place::Old);
    let bcache = seen.holders.iter().find(|name| name.starts_with("bcache"));
    match phase {
        Phase::Undoing(_) if !is_old => Next::Restore,
        Phase::Undoing(why) if bcache.is_some() => Next::Restored(why.clone()),
        Phase::Undoing(_) => Next::Register,
        Phase::Begun if is_old && stopped && bcache.is_some() => Next::Cancelled,
        Phase::Begun if is_old && stopped => Next::Undo("canceled"),
        Phase::Begun if is_old => match seen.holders.as_slice() {
            [] if seen.content => Next::Move,
            [] => Next::Undo("no file system is found where the partition would begin"),
            [only] if bcache == Some(only) => Next::Stop(only.clone()),
            _ => Next::Undo("another device uses the partition"),
        },
        // The kernel refuses to move a partition that is in use.
        Phase::Moving if (seen.table, seen.place) == (Which::Moved, Place::Moved) => {
            match seen.content {
                true => Next::Done,
                false => Next::Undo("the file system is not found in the moved partition"),
            }
        }
        Phase::Moving if is_old => Next::Undo("the partition was not moved"),
        Phase::Begun | Phase::Moving => Next::Undo("the partition table is not as it should be"),
    }
}

/// The kernel name of a partition of this disk, by its number, and where the kernel has it.
fn partition(disk: &str, shift: &Shift) -> Option<(String, Place)> {
    let number = |name: &String| line(sysfs(name).join("partition"));
    let is_it = |name: &String| number(name).is_some_and(|n| n == shift.number.to_string());
    let name = names_in(sysfs(disk)).into_iter().find(is_it)?;
    let told = |file: &str| -> Option<u64> { line(sysfs(&name).join(file))?.parse().ok() };
    let place = match told("start").zip(told("size")) {
        Some(now) => place(now, shift),
        None => Place::Other,
    };
    Some((name, place))
}

/// `now`: first sector and sectors as the kernel tells them, in units of 512 bytes on every disk.
fn place(now: (u64, u64), shift: &Shift) -> Place {
    let unit = shift.sector_bytes / SECTOR_BYTES;
    let of = |(start, size): (u64, u64)| (start * unit, size * unit);
    match now {
        _ if now == of((shift.start, shift.size)) => Place::Old,
        _ if now == of(shift.moved()) => Place::Moved,
        _ => Place::Other,
    }
}

/// A removal on the machine as it is now.
struct Work<'a> {
    machine: &'a DeviceMapper,
    removal: &'a OtherRemoval,
    shift: &'a Shift,
    disk: String,
}

impl<'a> Work<'a> {
    /// The disk may have another name after a restart.
    async fn of(machine: &'a DeviceMapper, removal: &'a OtherRemoval) -> Result<Self, Failure> {
        let shift = removal
            .shift
            .as_ref()
            .ok_or_else(|| failed("no partition is named"))?;
        let disk = machine.locate(&removal.devices[1]).await?;
        Ok(Self {
            machine,
            removal,
            shift,
            disk: disk.ident.text.name,
        })
    }

    fn tools(&self) -> Tools<'_> {
        Tools::new(&self.machine.connection, &self.removal.id, &self.disk)
    }

    fn refused(&self, why: &str) -> Failure {
        let partition = &self.removal.devices[0].text;
        Failure::new(Kind::StaysBcache).device(partition).name(why)
    }

    fn partition(&self) -> Option<(String, Place)> {
        partition(&self.disk, self.shift)
    }

    fn holders(&self) -> Vec<String> {
        let partition = self.partition();
        partition.map_or_else(Vec::new, |(name, _)| names_in(sysfs(&name).join("holders")))
    }

    async fn see(&self, before: &Before) -> Result<Seen, Failure> {
        let at_work = self.tools().is_at_work().await?;
        // The same unit reads the table: it is left alone while it works.
        let table = match at_work {
            true => Which::Other,
            false => {
                let now = self.tools().read().await?.ok();
                before.table.compare(now.as_ref(), self.shift)
            }
        };
        let place = self.partition().map_or(Place::Other, |(_, place)| place);
        let holders = self.holders();
        let content = match (table, place) {
            _ if !holders.is_empty() => false,
            (Which::Old, Place::Old) => self.is_content_ahead().await?,
            (Which::Moved, Place::Moved) => self.is_content_there().await?,
            _ => false,
        };
        Ok(Seen {
            at_work,
            table,
            place,
            holders,
            content,
        })
    }

    /// Whether the content is found where the partition is to begin.
    async fn is_content_ahead(&self) -> Result<bool, Failure> {
        let found = self.tools().probe_ahead(self.shift).await?;
        Ok(found.as_ref() == Some(&self.shift.content))
    }

    /// Whether the content is found in the partition as it is now.
    async fn is_content_there(&self) -> Result<bool, Failure> {
        let Some((name, _)) = self.partition() else {
            return Ok(false);
        };
        let (_, size) = self.shift.moved();
        let bytes = size * self.shift.sector_bytes;
        let found = self.tools().probe(&name, 0, bytes).await?;
        Ok(found.as_ref() == Some(&self.shift.content))
    }

    /// Stops a bcache device and waits until it is gone. Returns whether it is.
    async fn stop(&self, bcache: &str) -> Result<bool, Failure> {
        write(self.machine, bcache, &block(bcache).join("stop"), "1").await?;
        Ok(until(|| !sysfs(bcache).exists() && self.holders().is_empty()).await)
    }

    /// Has bcache take the partition again. Returns whether it has.
    async fn register(&self) -> Result<bool, Failure> {
        let Some((name, _)) = self.partition() else {
            return Ok(false);
        };
        let file = Path::new("/sys/fs/bcache/register_quiet");
        // udev may have been faster.
        let written = write(
            self.machine,
            &self.removal.name,
            file,
            &format!("/dev/{name}"),
        )
        .await;
        let there = until(|| !self.holders().is_empty()).await;
        if let (Err(e), false) = (written, there) {
            tracing::error!("bcache does not take {name}: {e}");
        }
        Ok(there)
    }

    /// Waits until UDisks2 shows the plain partition, so that the next plan knows it.
    async fn wait_for_udisks(&self) {
        let begun = Instant::now();
        let (start, _) = self.shift.moved();
        while begun.elapsed() < LIMIT {
            let facts = self.machine.facts().await;
            let shown = facts.is_ok_and(|facts| {
                let object = self.removal.devices[0].text.object.as_str();
                let device = facts.device(object);
                device.is_some_and(|d| {
                    d.ident.start == start * self.shift.sector_bytes
                        && d.content_uuid == self.shift.content.uuid
                })
            });
            if shown {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}

/// Waits until something is so, and returns whether it is.
async fn until(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begun.elapsed() > LIMIT {
            return false;
        }
        sleep(PAUSE).await;
    }
}

/// Notes what is to be known later.
async fn save(note: &Note, before: &Before) -> Result<(), Failure> {
    let note = Note {
        before: serde_json::to_value(before).map_err(failed)?,
        ..note.clone()
    };
    blocking(move || note.save()).await?.map_err(failed)
}

/// The file for the table of a disk: its name says of which one.
fn backup(disk: &Ident, number: u32, seconds: u64) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let disk: String = disk.hardware.chars().map(plain).collect();
    let name = format!(
        "{}-partition-{number}-{seconds}.sfdisk",
        disk.trim_matches('-')
    );
    Path::new(TABLES_FOLDER).join(name)
}

#[async_trait]
impl Remover for MakePlain {
    /// Nothing is changed before all of this is so.
    async fn look(
        &self,
        machine: &DeviceMapper,
        removal: &OtherRemoval,
        _earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        let work = Work::of(machine, removal).await?;
        let own = block(&removal.name);
        let is_alone = line(own.join("state")).is_some_and(|state| state == "no cache")
            && !own.join("cache").exists();
        let at_old = work
            .partition()
            .is_some_and(|(_, place)| place == Place::Old);
        if !is_alone || !at_old || work.holders() != [removal.name.clone()] {
            return Err(removal.changed("the device is not as it was"));
        }
        let node = Path::new("/dev").join(&removal.name);
        let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
        let opened = move || {
            OpenOptions::new()
                .read(true)
                .custom_flags(exclusive)
                .open(node)
        };
        if let Err(e) = blocking(opened).await? {
            return Err(work.refused("in-use").detail(e));
        }
        let tools = work.tools();
        let read = tools.read().await;
        let read = read.map_err(|e| work.refused("tool").detail(e.detail))?;
        let table = read.map_err(|said| work.refused("table-damaged").detail(said.trim()))?;
        if !table.has(work.shift) {
            return Err(work.refused("table-damaged"));
        }
        if !work.is_content_ahead().await? {
            return Err(work.refused("content"));
        }
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let seconds = since.map_or(0, |since| since.as_secs());
        let backup = backup(&removal.devices[1], work.shift.number, seconds);
        tools.dump(backup.clone()).await?;
        let before = Before {
            table,
            backup,
            phase: Phase::Begun,
        };
        serde_json::to_value(before).map_err(failed)
    }

    async fn go_on(&self, machine: &DeviceMapper, note: &Note) -> Result<OtherProgress, Failure> {
        let removal = &note.removal;
        let work = Work::of(machine, removal).await?;
        let mut before = note.before::<Before>()?;
        let kept = before.backup.display().to_string();
        let incomplete = |why: &str| {
            let why = format!("{why}; the table of before is in {kept}");
            let failure = removal.not_moved(DataState::Incomplete, why);
            Ok(OtherProgress::Ended(Err(Box::new(failure))))
        };
        let seen = work.see(&before).await?;
        let undo = match next(&seen, &before.phase, note.stopped) {
            Next::Wait => None,
            Next::Stop(bcache) => match work.stop(&bcache).await? {
                true => None,
                false => Some("the bcache device is still in use"),
            },
            Next::Move => {
                before.phase = Phase::Moving;
                save(note, &before).await?;
                // What the table shows next says whether this has worked.
                if let Err(e) = work.tools().shift(work.shift).await {
                    tracing::error!("the partition is not moved: {e}");
                }
                None
            }
            Next::Done => {
                work.wait_for_udisks().await;
                return Ok(OtherProgress::Ended(Ok(())));
            }
            Next::Undo(why) => Some(why),
            Next::Restore => {
                let restored = work.tools().restore(work.shift, &before.backup).await;
                let now = work.see(&before).await?;
                if (now.table, now.place) != (Which::Old, Place::Old) {
                    let why = restored.err().map(|e| e.detail).unwrap_or_default();
                    return incomplete(&why);
                }
                None
            }
            Next::Register => match work.register().await? {
                true => None,
                false => return incomplete("bcache did not take the partition again"),
            },
            Next::Cancelled => {
                let cancelled = Failure::new(Kind::Cancelled).device(&removal.devices[0].text);
                return Ok(OtherProgress::Ended(Err(Box::new(cancelled))));
            }
            Next::Restored(why) => {
                let failure = removal.not_moved(DataState::Restored, why);
                return Ok(OtherProgress::Ended(Err(Box::new(failure))));
            }
        };
        if let Some(why) = undo {
            before.phase = Phase::Undoing(why.to_owned());
            save(note, &before).await?;
        }
        Ok(OtherProgress::Removes)
    }

    async fn forget(&self, machine: &DeviceMapper, removal: &OtherRemoval) {
        Tools::forget(&machine.connection, &removal.id).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::shift;
    use super::*;

    fn seen(table: Which, place: Place, holders: &[&str]) -> Seen {
        Seen {
            at_work: false,
            table,
            place,
            holders: holders.iter().map(|&name| name.to_owned()).collect(),
            content: true,
        }
    }

    fn undoing() -> Phase {
        Phase::Undoing("why".into())
    }

    #[test]
    fn the_device_is_stopped_and_the_partition_moved_and_looked_at() {
        let next = |seen, phase| next(&seen, &phase, false);
        let old = |holders| seen(Which::Old, Place::Old, holders);
        let stop = Next::Stop("bcache0".into());
        assert_eq!(next(old(&["bcache0"]), Phase::Begun), stop);
        assert_eq!(next(old(&[]), Phase::Begun), Next::Move);
        let moved = || seen(Which::Moved, Place::Moved, &[]);
        assert_eq!(next(moved(), Phase::Moving), Next::Done);
        let works = Seen {
            at_work: true,
            ..moved()
        };
        assert_eq!(next(works.clone(), Phase::Moving), Next::Wait);
        assert_eq!(next(works, undoing()), Next::Wait);
    }

    #[test]
    fn nothing_is_moved_or_believed_without_a_look_at_the_file_system() {
        for (table, place, phase) in [
            (Which::Old, Place::Old, Phase::Begun),
            (Which::Moved, Place::Moved, Phase::Moving),
        ] {
            let without = Seen {
                content: false,
                ..seen(table, place, &[])
            };
            let next = next(&without, &phase, false);
            assert!(matches!(next, Next::Undo(_)), "{next:?}");
        }
    }

    #[test]
    fn what_is_neither_old_nor_moved_is_put_back_whole() {
        use Which::{Moved, Old, Other};
        let undoes = |seen, phase: &Phase| matches!(next(&seen, phase, false), Next::Undo(_));
        for (table, place) in [
            (Other, Place::Old),
            (Other, Place::Moved),
            // The kernel did not take the table.
            (Moved, Place::Old),
            (Old, Place::Moved),
            (Moved, Place::Other),
        ] {
            assert!(
                undoes(seen(table, place, &[]), &Phase::Moving),
                "{table:?} {place:?}"
            );
            assert!(undoes(seen(table, place, &[]), &Phase::Begun));
            assert_eq!(
                next(&seen(table, place, &[]), &undoing(), false),
                Next::Restore
            );
        }
        // A moved table is not believed before this process has moved it.
        assert!(undoes(seen(Moved, Place::Moved, &[]), &Phase::Begun));
        // It was tried once.
        assert!(undoes(seen(Old, Place::Old, &[]), &Phase::Moving));
        assert!(undoes(seen(Old, Place::Old, &["bcache0"]), &Phase::Moving));
        // udev has it for another user.
        assert!(undoes(seen(Old, Place::Old, &["dm-0"]), &Phase::Begun));
    }

    #[test]
    fn what_failed_ends_with_the_table_and_the_device_of_before() {
        let next = |seen| next(&seen, &undoing(), false);
        let after_a_check = seen(Which::Moved, Place::Moved, &[]);
        assert_eq!(next(after_a_check), Next::Restore);
        assert_eq!(next(seen(Which::Old, Place::Old, &[])), Next::Register);
        let restored = Next::Restored("why".into());
        assert_eq!(next(seen(Which::Old, Place::Old, &["bcache3"])), restored);
    }

    #[test]
    fn a_user_cancels_as_long_as_the_table_is_not_touched() {
        let next = |seen, phase| next(&seen, &phase, true);
        let old = |holders| seen(Which::Old, Place::Old, holders);
        assert_eq!(next(old(&["bcache0"]), Phase::Begun), Next::Cancelled);
        assert_eq!(next(old(&[]), Phase::Begun), Next::Undo("canceled"));
        let moved = seen(Which::Moved, Place::Moved, &[]);
        assert_eq!(next(moved, Phase::Moving), Next::Done);
    }

    #[test]
    fn the_kernel_counts_in_512_bytes_whatever_the_sectors_of_the_disk() {
        assert_eq!(place((2048, 409_600), &shift()), Place::Old);
        assert_eq!(place((2064, 409_584), &shift()), Place::Moved);
        assert_eq!(place((2064, 409_600), &shift()), Place::Other);
        let large = Shift {
            sector_bytes: 4096,
            by: 2,
            ..shift()
        };
        assert_eq!(place((2048 * 8, 409_600 * 8), &large), Place::Old);
        assert_eq!(place((2050 * 8, 409_598 * 8), &large), Place::Moved);
        assert_eq!(place((2048, 409_600), &large), Place::Other);
    }

    #[test]
    fn the_file_of_a_table_is_named_by_its_disk_and_stays_in_its_folder() {
        let disk = Ident {
            hardware: "0x5000c500/../WD 1".into(),
            ..Ident::default()
        };
        let file = backup(&disk, 3, 17);
        let name = "0x5000c500----WD-1-partition-3-17.sfdisk";
        assert_eq!(file, Path::new("/var/lib/tandem/tables").join(name));
    }
}
