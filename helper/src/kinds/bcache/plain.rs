// SPDX-License-Identifier: GPL-3.0-or-later
//! Makes the partition below a bcache device without a cache a plain one: the device is stopped, and the start of the partition
//! moves to the file system. What the table and the kernel show says how far it is, so that the next process, and the next start
//! of the machine, go on or undo it as a whole.

mod next;

use self::next::{Next, Phase, Seen, is_bcache, next, place};
use super::remove::{block, write};
use super::table::{Place, Table, Which};
use super::tools::Tools;
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::host::traits::Disks;
use crate::kinds::failed;
use crate::kinds::notes::Note;
use crate::kinds::system::Remover;
use crate::machine::blocks::{boot_id, line, names_in, sysfs};
use crate::model::facts::Ident;
use crate::model::removal::{OtherProgress, OtherRemoval};
use crate::model::shift::Shift;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_api::{DataState, Failure, Kind, TABLES_FOLDER};
use tokio::time::{Instant, sleep};

/// Longest wait for bcache to stop or to begin, and for UDisks2 to show the partition.
const LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// bcache as the remover of what it leaves on a partition.
pub(in crate::kinds) struct MakePlain;

/// The facts that the service's next process needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    /// The table before the move.
    table: Table,
    /// The same in the form that `sfdisk` reads.
    backup: PathBuf,
    phase: Phase,
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
            true => Which::Foreign(Place::Other),
            false => {
                let now = self.tools().read().await?;
                before.table.compare(&now, self.shift)
            }
        };
        let table = match table {
            Which::Torn if self.is_taken_whole().await? => Which::Foreign(Place::Other),
            table => table,
        };
        let place = self.partition().map_or(Place::Other, |(_, place)| place);
        let holders = self.holders();
        let content = match (table.entry(), place) {
            (Place::Old, Place::Old) if holders.is_empty() => self.is_content_ahead().await?,
            // A volume group may be in use there already.
            (Place::Moved, Place::Moved) if !holders.iter().any(|name| is_bcache(name)) => {
                self.is_content_there().await?
            }
            _ => false,
        };
        let is_bcache = match place {
            // The same unit would be stopped in the middle of its work.
            Place::Old if holders.is_empty() && !at_work => self.is_of_bcache().await?,
            _ => false,
        };
        Ok(Seen {
            later: self.removal.devices[1].boot != boot_id(),
            at_work,
            table,
            place,
            holders,
            is_bcache,
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

    /// Whether bcache has left its superblock on the partition as it is now.
    async fn is_of_bcache(&self) -> Result<bool, Failure> {
        let Some((name, _)) = self.partition() else {
            return Ok(false);
        };
        let bytes = self.shift.size * self.shift.sector_bytes;
        let found = self.tools().probe(&name, 0, bytes).await;
        // With a second, older signature blkid says nothing. The kernel takes no device without its superblock.
        Ok(found.map_or(true, |found| found.is_some_and(|f| f.format == "bcache")))
    }

    /// Whether the disk, whose table is torn, belongs to somebody else by now.
    async fn is_taken_whole(&self) -> Result<bool, Failure> {
        self.tools()
            .is_taken_whole(self.removal.devices[1].text.size)
            .await
    }

    /// Stops a bcache device that nothing uses, and waits until it is gone. Returns whether it is.
    async fn stop(&self, bcache: &str) -> Result<bool, Failure> {
        if let Err(e) = open_alone(bcache).await? {
            tracing::warn!("{bcache} is in use: {e}");
            return Ok(false);
        }
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
        let there = until(|| self.holders().iter().any(|name| is_bcache(name))).await;
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

/// Whether a removal is about the partition of an earlier one.
fn is_of(removal: &OtherRemoval, earlier: &OtherRemoval) -> bool {
    let number = |removal: &OtherRemoval| removal.shift.as_ref().map(|shift| shift.number);
    removal.devices[1].same_hardware(&earlier.devices[1]) && number(removal) == number(earlier)
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

/// Opens a device as a mount and a volume do, which only one user can, and closes it again.
async fn open_alone(name: &str) -> Result<io::Result<()>, Failure> {
    let node = Path::new("/dev").join(name);
    let alone = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(alone);
    blocking(move || options.open(node).map(drop)).await
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
        earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        let work = Work::of(machine, removal).await?;
        // The kernel may give the name of a device to another disk. The note of that move must not be lost.
        if earlier.is_some_and(|note| !is_of(removal, &note.removal)) {
            return Err(work.refused("another-move"));
        }
        let own = block(&removal.name);
        let is_alone = line(own.join("state")).is_some_and(|state| state == "no cache")
            && !own.join("cache").exists();
        let at_old = work
            .partition()
            .is_some_and(|(_, place)| place == Place::Old);
        if !is_alone || !at_old || work.holders() != [removal.name.clone()] {
            return Err(removal.changed("the device is not as it was"));
        }
        if let Err(e) = open_alone(&removal.name).await? {
            return Err(work.refused("in-use").detail(e));
        }
        let tools = work.tools();
        let read = tools.read().await;
        let read = read.map_err(|e| work.refused("tool").detail(e.detail))?;
        if let Some(said) = read.complaint {
            return Err(work.refused("table-damaged").detail(said.trim()));
        }
        let table = read.table.filter(|table| table.has(work.shift));
        let table = table.ok_or_else(|| work.refused("table-damaged"))?;
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
                // The table is read again next; that shows whether the program has worked.
                if let Err(e) = work
                    .tools()
                    .place(work.shift, work.shift.moved(), Some(&before.backup))
                    .await
                {
                    tracing::error!("the partition is not moved: {e}");
                }
                None
            }
            Next::Done => {
                work.wait_for_udisks().await;
                return Ok(OtherProgress::Ended(Ok(())));
            }
            Next::Undo(why) => Some(why),
            Next::PutBack | Next::Restore => {
                let (tools, shift) = (work.tools(), work.shift);
                let restored = match seen.table {
                    Which::Torn => tools.restore(shift, &before.backup).await,
                    _ => tools.place(shift, (shift.start, shift.size), None).await,
                };
                let now = work.see(&before).await?;
                if (now.table.entry(), now.place) != (Place::Old, Place::Old) {
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
            Next::InUse => return incomplete("another device uses the moved partition"),
            Next::Left(why) => {
                let why = format!("{why}; the table is left as it is, that of before is in {kept}");
                return Ok(OtherProgress::Ended(Err(Box::new(removal.changed(why)))));
            }
            Next::Restored(why) => {
                let failure = removal.not_moved(DataState::Restored, why);
                return Ok(OtherProgress::Ended(Err(Box::new(failure))));
            }
        };
        if let Some(why) = undo {
            before.phase = match before.phase {
                Phase::Begun => Phase::Leaving(why.to_owned()),
                _ => Phase::Undoing(why.to_owned()),
            };
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
    use super::*;

    #[test]
    fn a_device_of_another_disk_may_have_the_name_of_an_earlier_one() {
        let of = |hardware: &str, number: u32| {
            let mut removal = crate::kinds::tests::removal(tandem_api::OtherKind::Bcache);
            removal.devices[1].hardware = hardware.into();
            removal.shift = Some(Shift {
                number,
                ..crate::kinds::bcache::table::tests::shift()
            });
            removal
        };
        assert!(is_of(&of("a", 1), &of("a", 1)));
        assert!(!is_of(&of("b", 1), &of("a", 1)));
        assert!(!is_of(&of("a", 2), &of("a", 1)));
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
