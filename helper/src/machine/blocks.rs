// SPDX-License-Identifier: GPL-3.0-or-later
//! The block devices of the machine as the kernel (sysfs) and udev (libudev) describe them. The start of the machine,
//! udev's events and the service all recognise devices by these data. Mounts are in [`crate::machine::mounts`].

use crate::machine::memory;
use crate::machine::network;
pub use crate::machine::sysfs::{line, names_in, sysfs, whole_disk};
use crate::model::action::Pair;
use crate::model::facts::{self, Carried, Ident, drive_name};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};
use tandem_api::{DeviceText, SECTOR_BYTES};

/// Properties in which udev gives the WWN of a drive, the best one first.
const WWN: [&str; 2] = ["ID_WWN_WITH_EXTENSION", "ID_WWN"];
/// Properties in which udev gives the serial number of a drive, the best one first.
const SERIAL: [&str; 3] = ["ID_SERIAL_SHORT", "ID_SCSI_SERIAL", "ID_SERIAL"];
/// Files in sysfs with the unique name of a volume.
const VOLUME: [&str; 3] = ["dm/uuid", "md/uuid", "loop/backing_file"];

/// Checks that a device is still where it was found on its drive, and as large: the kernel gives the name and the number
/// of a partition that is gone to another one. `folder`: the folder of the device in sysfs.
///
/// # Errors
/// What is another, in words.
pub fn check_place(folder: &Path, ident: &Ident) -> Result<(), String> {
    let name = &ident.text.name;
    let bytes = |file: &str| -> Option<u64> {
        let sectors: u64 = line(folder.join(file))?.parse().ok()?;
        sectors.checked_mul(SECTOR_BYTES)
    };
    let size = bytes("size").ok_or_else(|| format!("{name} is gone"))?;
    let start = bytes("start").unwrap_or(0);
    if (start, size) != (ident.start, ident.text.size) {
        return Err(format!(
            "{name} is another partition now: {size} bytes at {start}, and not {} at {}",
            ident.text.size, ident.start
        ));
    }
    Ok(())
}

/// Id of the running boot.
pub fn boot_id() -> String {
    line("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Whether a device of this boot was unplugged since: the kernel has none of its name, or another disk there. UDisks2 may
/// have noticed that already, or not yet.
pub fn has_left(ident: &Ident) -> bool {
    let is_there = |name: &str| Sysfs::read(name).is_some_and(|now| now.diskseq == ident.diskseq);
    ident.boot == boot_id() && !is_there(&ident.text.name)
}

/// `major:minor` of a block device.
pub fn number(name: &str) -> Option<String> {
    line(sysfs(name).join("dev"))
}

/// A value as udev writes it in the names of its links, with `\x20` for a blank; none if it cannot be written.
pub fn link_name(value: &str) -> Option<String> {
    let text = CString::new(value).ok()?;
    // Each byte may become four bytes, as with udev's own limit.
    let mut name = vec![0_u8; 4 * value.len() + 1];
    // SAFETY: the text ends with a zero, and no more than `name.len()` bytes are written.
    let failed = unsafe {
        libudev_sys::udev_util_encode_string(text.as_ptr(), name.as_mut_ptr().cast(), name.len())
    };
    let end = name.iter().position(|byte| *byte == 0)?;
    name.truncate(end);
    (failed == 0).then(|| String::from_utf8(name).ok())?
}

/// What udev knows of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Values may be of any encoding; the values that this program compares are ASCII.
    pub fn new<N: AsRef<OsStr>, V: AsRef<OsStr>>(all: impl Iterator<Item = (N, V)>) -> Self {
        let text = |text: &OsStr| text.to_string_lossy().trim().to_owned();
        let pair = |(name, value): (N, V)| (text(name.as_ref()), text(value.as_ref()));
        Self(all.map(pair).collect())
    }

    /// A property; empty if the device does not have it.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The first of these properties that the device has; empty if it has none.
    fn first(&self, names: &[&str]) -> String {
        let mut values = names.iter().map(|name| self.get(name));
        let found = values.find(|value| !value.is_empty());
        found.unwrap_or_default().to_owned()
    }

    /// `major:minor` of the device.
    fn number(&self) -> String {
        format!("{}:{}", self.get("MAJOR"), self.get("MINOR"))
    }
}

/// What sysfs says of a block device.
#[derive(Debug, Clone, Default)]
struct Sysfs {
    name: String,
    sectors: u64,
    /// First sector on the whole disk, 0 for a whole one.
    start: u64,
    /// Sequence number of the whole disk, 0 if the kernel gives none.
    diskseq: u64,
    /// Unique name of a volume.
    volume: Option<String>,
    /// What a disk on the network has in place of a serial number; empty for any other disk.
    export: String,
    /// See [`Ident::network`].
    network: bool,
}

impl Sysfs {
    fn read(name: &str) -> Option<Self> {
        let folder = sysfs(name);
        let count = |path: PathBuf| line(path).and_then(|text| text.parse().ok());
        let diskseq = count(sysfs(&whole_disk(name)).join("diskseq")).unwrap_or(0);
        Some(Self {
            name: name.to_owned(),
            sectors: count(folder.join("size"))?,
            start: count(folder.join("start")).unwrap_or(0),
            diskseq,
            volume: memory::owner(name, diskseq)
                .map(|uuid| facts::memory_name(&uuid))
                .or_else(|| VOLUME.iter().find_map(|file| line(folder.join(file)))),
            export: network::of(name)
                .map(|target| target.serial)
                .unwrap_or_default(),
            network: network::is_below(name),
        })
    }
}

/// A block device as it is now.
#[derive(Debug, Clone, Default)]
pub struct BlockDevice {
    /// The identity by which it is recognised, without the texts of UDisks2.
    pub ident: Ident,
    /// `major:minor`.
    pub number: String,
    /// What udev knows of it.
    pub properties: Properties,
    /// The cache whose superblock is on it.
    pub carried: Option<Carried>,
}

impl BlockDevice {
    /// The device from the data of sysfs and udev. `drive`: udev's data of the drive that the device is on.
    fn of(sysfs: Sysfs, properties: Properties, drive: &Properties, boot: &str) -> Self {
        let (wwn, mut serial) = (drive.first(&WWN), drive.first(&SERIAL));
        if serial.is_empty() {
            serial.clone_from(&sysfs.export);
        }
        let hardware = match sysfs.volume.clone() {
            Some(volume) => volume,
            None if wwn.is_empty() && serial.is_empty() => String::new(),
            None => format!("{wwn}/{serial}"),
        };
        let mut names: Vec<_> = WWN
            .iter()
            .chain(&SERIAL)
            .map(|n| drive_name(drive.get(n)))
            .collect();
        names.retain(|name| !name.is_empty() && sysfs.volume.is_none());
        names.sort();
        names.dedup();
        // Memory is made anew under the same name: the sequence number is not what the cache knows it by.
        let boot = match facts::is_memory_name(&hardware) {
            true => "",
            false => boot,
        };
        let ident = Ident {
            text: DeviceText {
                name: sysfs.name,
                size: sysfs.sectors.saturating_mul(SECTOR_BYTES),
                content: properties.get("ID_FS_TYPE").to_owned(),
                ..DeviceText::none()
            },
            diskseq: sysfs.diskseq,
            boot: boot.to_owned(),
            hardware,
            names,
            start: sysfs.start.saturating_mul(SECTOR_BYTES),
            part_uuid: properties.get("ID_PART_ENTRY_UUID").to_lowercase(),
            content_uuid: properties.get("ID_FS_UUID").to_owned(),
            network: sysfs.network,
        };
        let carried = Some(properties.get("TANDEM_UUID")).filter(|uuid| !uuid.is_empty());
        let carried = carried.map(|uuid| Carried {
            uuid: uuid.to_owned(),
            disk_id: properties.get("TANDEM_DISK").to_owned(),
            may_be_dirty: properties.get("TANDEM_CLEAN") != "1",
            target: properties.get("TANDEM_TARGET").parse().unwrap_or_default(),
        });
        Self {
            ident,
            number: properties.number(),
            properties,
            carried,
        }
    }

    /// Kernel name.
    pub fn name(&self) -> &str {
        &self.ident.text.name
    }

    /// Length.
    pub fn sectors(&self) -> u64 {
        self.ident.text.size / SECTOR_BYTES
    }

    /// Whether a program could write to the device now. False for a device that cannot be opened or is
    /// write-protected.
    pub fn writable(&self) -> bool {
        writable(Path::new(&self.ident.node()), &sysfs(self.name()))
    }
}

/// Equal if the kernel sees the same device; udev's data of it may differ.
impl PartialEq for BlockDevice {
    fn eq(&self, other: &Self) -> bool {
        let key = |d: &Self| (d.number.clone(), d.ident.diskseq, d.ident.text.size);
        key(self) == key(other) && self.name() == other.name()
    }
}

impl Eq for BlockDevice {}

/// The device is opened for reading only: after an open for writing udev would handle the device again.
fn writable(node: &Path, folder: &Path) -> bool {
    fs::File::open(node).is_ok() && line(folder.join("ro")).is_none_or(|ro| ro == "0")
}

/// The machine's block devices.
#[derive(Default)]
pub struct Machine {
    /// udev's data of the device for which udev runs this program. Since version 257 udev writes its database only
    /// after the program has run.
    event: Option<Properties>,
}

impl Machine {
    /// The machine for a program that udev runs for a device, with the device's properties as variables.
    pub fn in_event(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        Self {
            event: Some(Properties::new(variables)),
        }
    }

    /// Whether udev runs this program for the device, or udev does not run it at all.
    pub fn is_about(&self, device: &BlockDevice) -> bool {
        self.event
            .as_ref()
            .is_none_or(|event| event.number() == device.number)
    }

    /// All block devices that udev has handled.
    ///
    /// # Errors
    /// If libudev cannot list them.
    pub fn block_devices(&self) -> io::Result<Vec<BlockDevice>> {
        let boot = boot_id();
        let mut list = udev::Enumerator::new()?;
        list.match_subsystem("block")?;
        let device = |device: udev::Device| {
            let properties = self.properties(&device)?;
            let drive = match device.devtype() {
                Some(kind) if kind == "partition" => device
                    .parent()
                    .and_then(|drive| self.properties(&drive))
                    .unwrap_or_default(),
                _ => properties.clone(),
            };
            let sysfs = Sysfs::read(device.sysname().to_str()?)?;
            Some(BlockDevice::of(sysfs, properties, &drive, &boot))
        };
        Ok(list.scan_devices()?.filter_map(device).collect())
    }

    /// udev's data of a device; none until udev has handled the device.
    fn properties(&self, device: &udev::Device) -> Option<Properties> {
        let known = Properties::new(
            device
                .properties()
                .map(|p| (p.name().to_owned(), p.value().to_owned())),
        );
        match &self.event {
            Some(event) if event.number() == known.number() => Some(event.clone()),
            _ => Some(known).filter(|known| !known.get("USEC_INITIALIZED").is_empty()),
        }
    }
}

/// The SSD of a cache, see [`facts::ssd_of`].
pub fn ssd_among(devices: &[BlockDevice], pair: &Pair) -> Option<BlockDevice> {
    facts::ssd_of(devices, |d| &d.ident, |d| &d.carried, pair).cloned()
}

/// The devices of the machine to which a record leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The disk of the record, see [`facts::disk_of`].
    pub recorded: Option<BlockDevice>,
    /// All devices that may be the recorded one, see [`facts::possible`].
    pub possible: Vec<BlockDevice>,
}

impl Found {
    /// Finds a recorded device among these devices.
    pub fn among(devices: &[BlockDevice], record: &Ident) -> Self {
        Self {
            recorded: facts::disk_of(devices, |d| &d.ident, record).cloned(),
            possible: facts::possible(devices, |d| &d.ident, record)
                .into_iter()
                .cloned()
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
