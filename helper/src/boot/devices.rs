// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds a recorded device by the kernel's own files and by what udev has written down, because
//! neither the bus nor UDisks2 is there while the machine starts.

use crate::facts::Ident;
use std::fs;
use std::path::{Path, PathBuf};
use tandem_api::SECTOR_BYTES;

/// Where the kernel shows all block devices.
const BLOCK: &str = "/sys/class/block";
/// Where udev writes down a device when it is through with it.
pub const UDEV_DATA: &str = "/run/udev/data";

/// Properties that UDisks2 takes a drive's world wide name from.
const WWN: [&str; 2] = ["ID_WWN_WITH_EXTENSION", "ID_WWN"];
/// Properties that UDisks2 takes a drive's serial number from.
const SERIAL: [&str; 3] = ["ID_SERIAL_SHORT", "ID_SCSI_SERIAL", "ID_SERIAL"];

/// A device as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Kernel name.
    pub name: String,
    /// `major:minor`.
    pub number: String,
    /// Length.
    pub sectors: u64,
}

impl Found {
    /// Path of the device node.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// Whether somebody could write to it now. One that does not even open, or is write-protected, stays as it is.
    pub fn writable(&self) -> bool {
        writable(Path::new(&self.node()), &Path::new(BLOCK).join(&self.name))
    }
}

/// Opened for reading only: udev would look at a device again that was open for writing.
fn writable(node: &Path, folder: &Path) -> bool {
    fs::File::open(node).is_ok() && line(&folder.join("ro")).is_none_or(|ro| ro == "0")
}

/// The kernel's and udev's files.
pub struct Machine {
    block: PathBuf,
    udev: PathBuf,
    /// Number and properties of the device that udev runs us for.
    event: Option<(String, String)>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            block: BLOCK.into(),
            udev: UDEV_DATA.into(),
            event: None,
        }
    }
}

fn line(path: &Path) -> Option<String> {
    Some(crate::read_lossy(path).ok()?.trim().to_owned())
}

impl Machine {
    /// The machine for a program that udev runs for a device, with the properties of it as variables: since its
    /// version 257 it writes the device down only after that.
    pub fn in_event(variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut text = "I:1\n".to_owned();
        for (name, value) in variables {
            text.push_str(&format!("E:{name}={value}\n"));
        }
        let number = property(&text, "MAJOR").zip(property(&text, "MINOR"));
        let number = number.map(|(major, minor)| format!("{major}:{minor}"));
        Self {
            event: number.map(|number| (number, text)),
            ..Self::default()
        }
    }

    /// Whether udev runs us for this device, or nobody does.
    pub fn is_about(&self, found: &Found) -> bool {
        let event = self.event.as_ref();
        event.is_none_or(|(number, _)| *number == found.number)
    }

    /// The device that is this piece of hardware, whatever it is called now, if udev is through with
    /// it; none if several say the same of themselves.
    pub fn find(&self, ident: &Ident) -> Option<Found> {
        let names = fs::read_dir(&self.block).ok()?;
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut all = names.filter_map(|name| self.matching(&name, ident));
        all.next().filter(|_| all.next().is_none())
    }

    fn matching(&self, name: &str, ident: &Ident) -> Option<Found> {
        let folder = self.block.join(name);
        let sectors: u64 = line(&folder.join("size"))?.parse().ok()?;
        let start = line(&folder.join("start")).unwrap_or_else(|| "0".to_owned());
        let start: u64 = start.parse().ok()?;
        let same_place = sectors.checked_mul(SECTOR_BYTES)? == ident.text.size
            && start.checked_mul(SECTOR_BYTES)? == ident.start;
        if !same_place {
            return None;
        }
        let record = self.record(&folder)?;
        let part_uuid = property(&record, "ID_PART_ENTRY_UUID").unwrap_or_default();
        let partition = folder.join("partition").exists();
        let same_part = if partition {
            part_uuid.to_lowercase() == ident.part_uuid
        } else {
            ident.part_uuid.is_empty()
        };
        if !same_part || !self.same_hardware(&folder, partition, &record, ident) {
            return None;
        }
        Some(Found {
            name: name.to_owned(),
            number: line(&folder.join("dev"))?,
            sectors,
        })
    }

    /// What udev has written down; none as long as it is not through.
    fn record(&self, folder: &Path) -> Option<String> {
        let number = line(&folder.join("dev"))?;
        let ours = self.event.as_ref().filter(|(device, _)| *device == number);
        if let Some((_, text)) = ours {
            return Some(text.clone());
        }
        let record = crate::read_lossy(self.udev.join(format!("b{number}"))).ok()?;
        let through = record.lines().any(|line| line.starts_with("I:"));
        through.then_some(record)
    }

    fn same_hardware(&self, folder: &Path, partition: bool, record: &str, ident: &Ident) -> bool {
        if ident.hardware.is_empty() {
            // Nothing but a partition's own name is left to tell it by; see Ident::same_hardware.
            return !ident.part_uuid.is_empty();
        }
        let volume = ["dm/uuid", "md/uuid", "loop/backing_file"];
        let volume = volume.iter().find_map(|file| line(&folder.join(file)));
        if let Some(volume) = volume {
            return volume == ident.hardware;
        }
        let Some((wwn, serial)) = ident.hardware.split_once('/') else {
            return false;
        };
        let drive = if partition {
            let whole = fs::canonicalize(folder).ok();
            whole.and_then(|path| self.record(path.parent()?))
        } else {
            Some(record.to_owned())
        };
        let Some(drive) = drive else { return false };
        let says = |names: &[&str], value: &str| {
            value.is_empty()
                || names
                    .iter()
                    .any(|name| property(&drive, name) == Some(value))
        };
        says(&WWN, wwn) && says(&SERIAL, serial)
    }
}

fn property<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    let field = |line: &'a str| {
        line.strip_prefix("E:")?
            .strip_prefix(name)?
            .strip_prefix('=')
    };
    record.lines().find_map(field).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::DeviceText;

    const PART: &str = "5ec0de0d-0001-4000-8000-7a0de5a10001";

    /// A folder with the files of one drive `sda` and its partition.
    fn machine(name: &str) -> (Machine, PathBuf) {
        let root = std::env::temp_dir().join(format!("tandem-boot-{name}-{}", std::process::id()));
        let (real, block, udev) = (root.join("real"), root.join("block"), root.join("udev"));
        for folder in [&block, &udev, &real.join("sda/sda1")] {
            fs::create_dir_all(folder).unwrap();
        }
        let put = |path: &str, text: &str| fs::write(real.join(path), text).unwrap();
        put("sda/size", "4096\n");
        put("sda/dev", "8:0\n");
        put("sda/sda1/size", "2048\n");
        put("sda/sda1/start", "2048\n");
        put("sda/sda1/dev", "8:1\n");
        put("sda/sda1/partition", "1\n");
        for name in ["sda", "sda/sda1"] {
            let link = block.join(name.rsplit('/').next().unwrap());
            std::os::unix::fs::symlink(real.join(name), link).unwrap();
        }
        let drive = "I:77\nE:ID_SERIAL_SHORT=S 1\nE:ID_WWN=0x5\nE:ID_WWN_WITH_EXTENSION=0x5006\n";
        fs::write(udev.join("b8:0"), drive).unwrap();
        let part = format!("I:78\nE:ID_PART_ENTRY_UUID={}\n", PART.to_uppercase());
        fs::write(udev.join("b8:1"), part).unwrap();
        let event = None;
        (Machine { block, udev, event }, root)
    }

    fn ident() -> Ident {
        Ident {
            text: DeviceText {
                size: 1 << 20,
                ..DeviceText::none()
            },
            diskseq: 0,
            boot: "an earlier one".into(),
            hardware: "0x5006/S 1".into(),
            start: 1 << 20,
            part_uuid: PART.into(),
        }
    }

    #[test]
    fn a_device_that_udev_has_not_written_down_yet_is_found_by_what_it_says_of_it() {
        let (mut machine, root) = machine("event");
        fs::remove_file(machine.udev.join("b8:1")).unwrap();
        assert_eq!(machine.find(&ident()), None);
        for (minor, found) in [("2", false), ("1", true)] {
            let says = [
                ("MAJOR", "8"),
                ("MINOR", minor),
                ("ID_PART_ENTRY_UUID", PART),
            ];
            let says = says.map(|(name, value)| (name.to_owned(), value.to_owned()));
            machine.event = Machine::in_event(says.into_iter()).event;
            assert_eq!(machine.find(&ident()).is_some(), found, "{minor}");
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_device_can_be_written_if_it_opens_and_is_not_protected() {
        let (machine, root) = machine("writable");
        let folder = root.join("real/sda");
        assert!(!writable(&root.join("none"), &folder));
        for (ro, open) in [("0\n", true), ("1\n", false)] {
            fs::write(folder.join("ro"), ro).unwrap();
            assert_eq!(writable(&machine.udev.join("b8:0"), &folder), open);
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_partition_is_found_by_all_that_is_known_of_it() {
        let (machine, root) = machine("find");
        let found = machine.find(&ident()).unwrap();
        assert_eq!(
            (found.name.as_str(), found.number.as_str()),
            ("sda1", "8:1")
        );
        let other = |change: &dyn Fn(&mut Ident)| {
            let mut ident = ident();
            change(&mut ident);
            machine.find(&ident)
        };
        assert_eq!(other(&|i| i.hardware = "0x5006/S 2".into()), None);
        assert_eq!(other(&|i| i.hardware = "0x5007/S 1".into()), None);
        assert_eq!(other(&|i| i.hardware = "LVM-x".into()), None);
        assert_eq!(other(&|i| i.part_uuid = "other".into()), None);
        assert_eq!(other(&|i| i.part_uuid = String::new()), None);
        assert_eq!(other(&|i| i.start += 512), None);
        assert_eq!(other(&|i| i.text.size += 512), None);
        // A drive that says nothing of itself: the partition's name decides.
        assert!(other(&|i| i.hardware = String::new()).is_some());
        assert!(other(&|i| i.hardware = "/S 1".into()).is_some());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_udev_is_not_through_with_is_not_there_and_twins_are_nobody() {
        let (machine, root) = machine("through");
        fs::write(root.join("udev/b8:0"), "E:ID_SERIAL_SHORT=S 1\n").unwrap();
        assert_eq!(machine.find(&ident()), None);
        let mut alone = ident();
        alone.hardware = String::new();
        assert!(machine.find(&alone).is_some());
        std::os::unix::fs::symlink(root.join("real/sda/sda1"), root.join("block/sdb1")).unwrap();
        assert_eq!(machine.find(&alone), None);
        fs::remove_dir_all(root).unwrap();
    }
}
