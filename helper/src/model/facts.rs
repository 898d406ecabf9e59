// SPDX-License-Identifier: GPL-3.0-or-later
//! The facts about the machine's block devices at one moment. They are plain values, so that all decisions about them
//! are pure functions.

mod ident;

pub use ident::{Ident, drive_name, is_memory_name, memory_name};

use crate::model::action::{DM_UUID_PREFIX, PARTITION_TYPE, Pair};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tandem_api::distribution::GRUB_SETTINGS;
use tandem_api::{Sharing, SsdHealth, Target, plain};

/// The program that mounted a file system. It decides how the file system is mounted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mounter {
    /// systemd, by the fstab entry with this first field.
    Fstab(String),
    /// UDisks2 on behalf of the user with this uid.
    Udisks(u32),
    /// Any other program.
    Other,
}

/// The files by which the start of the machine finds devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTable {
    /// `/etc/fstab`
    Fstab,
    /// `/etc/crypttab`
    Crypttab,
    /// The settings from which GRUB's menu is made.
    Grub,
    /// The command line of the kernel, where no setting of GRUB explains it.
    CommandLine,
    /// The units of systemd that mount what fstab does not name.
    MountUnit,
}

impl StartTable {
    /// The path of the file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Fstab => "/etc/fstab",
            Self::Crypttab => "/etc/crypttab",
            Self::Grub => GRUB_SETTINGS,
            Self::CommandLine => "/proc/cmdline",
            Self::MountUnit => "/etc/systemd/system",
        }
    }
}

/// An entry of fstab or crypttab that leads to a device, whether or not it is in use now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartEntry {
    /// The table with the entry.
    pub table: StartTable,
    /// Mount point in fstab, name of the unlocked device in crypttab, the setting in the file of GRUB. The file that
    /// has to be changed by hand for a command line; empty if no known file has it. The path of a unit.
    pub target: String,
    /// The field that names the device, such as `/dev/sda1` or `UUID=..`. For GRUB and a command line the word that
    /// names it, such as `root=/dev/sda1`; empty if a command line has none.
    pub spec: String,
    /// The start of the machine, or a later access, uses the entry. False for `noauto`.
    pub at_start: bool,
    /// An initial file system uses the entry. No cache of another disk than that of `/` is there by then.
    pub early: bool,
}

impl StartEntry {
    /// What the field has to be so that it names the content of a device: `UUID=`, by the UUID of the content.
    pub fn better_spec(&self, uuid: &str) -> String {
        match (self.table, self.spec.as_str()) {
            (StartTable::Fstab | StartTable::Crypttab | StartTable::MountUnit, _) => {
                format!("UUID={uuid}")
            }
            // GRUB's setting to write names of devices.
            (StartTable::Grub, "true") => "false".to_owned(),
            (StartTable::Grub | StartTable::CommandLine, _) => format!("root=UUID={uuid}"),
        }
    }
}

/// A mount, with everything that is needed to make the same mount again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Mount point.
    pub point: String,
    /// Folder of the file system that is mounted there, `/` for the whole file system.
    pub root: String,
    /// Type of the file system as the kernel names it.
    pub fstype: String,
    /// Options of the mount and of the file system, separated by commas.
    pub options: String,
    /// The program that mounted the file system.
    pub mounter: Mounter,
}

/// The words of the superblock on an SSD, as udev has read it at the last event of the SSD.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// UUID of the cache, 32 hex digits.
    pub uuid: String,
    /// [`Ident::origin_id`] of its disk; empty if udev has not told it.
    pub disk_id: String,
    /// Data may be on the SSD only.
    pub may_be_dirty: bool,
    /// The target that serves the cache.
    pub target: Target,
}

/// All facts about a block device that a plan needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The identity of the device.
    pub ident: Ident,
    /// `major:minor`.
    pub number: String,
    /// Object path of the whole disk, if this is a partition.
    pub table: Option<String>,
    /// Object path of the drive; none for a volume.
    pub drive: Option<String>,
    /// What the drive says of its health. The wear is not known here: [`crate::host::traits::Disks::used_percent`].
    pub health: SsdHealth,
    /// The device has a partition table, or is an extended partition.
    pub partitioned: bool,
    /// UDisks2's name for the type of the partition table (`gpt`, `dos`); empty without a table.
    pub table_type: String,
    /// Name of the partition in the partition table, or empty.
    pub part_name: String,
    /// Type of the partition: GUID or `0x..`, lower case.
    pub part_type: String,
    /// `filesystem`, `crypto`, `raid`, `other`, or empty if there is no known signature.
    pub usage: String,
    /// UUID of the file system or volume format on the device; empty if there is none.
    pub content_uuid: String,
    /// The device was read at some places, and only zeroes were found. It is read only if `usage` is empty.
    pub blank: bool,
    /// Another program has the device open exclusively, although neither mounts nor holders show a user. This is
    /// checked only shortly before the device is used.
    pub claimed: bool,
    /// The device is a logical volume with snapshots. Those of a thin volume are not seen here.
    pub snapshots: bool,
    /// The device is a cached disk as another system shows it, or lies over one: a logical volume with a cache of LVM.
    pub cached_by_other: bool,
    /// The cache whose superblock is on the device.
    pub carried: Option<Carried>,
    /// Kind of the volume (`luks`, `lvm`, ...); none for a drive, a partition or an md array.
    pub volume: Option<String>,
    /// The device shows the clear text of an encrypted device below it.
    pub clear_text: bool,
    /// The device cannot be written to.
    pub read_only: bool,
    /// The device can be unplugged while the system runs. This is also true for a volume with a part on such a drive,
    /// and for a device whose drive is unknown.
    pub removable: bool,
    /// The device can be unplugged while the system runs, and each of its drives is known.
    pub portable: bool,
    /// Size of the smallest request in bytes (logical block size), 0 if unknown.
    pub block_bytes: u32,
    /// Bytes of the requests that the drive says are best for it (`optimal_io_size`); 0 if it says nothing.
    pub optimal_bytes: u64,
    /// The drive has spinning platters; `None` if unknown.
    pub rotates: Option<bool>,
    /// The device is in use as swap.
    pub swap: bool,
    /// The volumes above the device.
    pub holders: Vec<Holder>,
    /// The mounts of the device, in the order in which they were made.
    pub mounts: Vec<Mount>,
    /// The entries of fstab and crypttab that lead to the device, in their order.
    pub entries: Vec<StartEntry>,
    /// The program that assembles caches at the start of the machine recognises the device by its record before the
    /// file systems are mounted.
    pub found_at_start: bool,
    /// The start of the machine unlocks the device or a device below it.
    pub behind_lock: bool,
    /// Other file systems that are mounted below a mount point of the device.
    pub submounts: Vec<String>,
}

/// Mount points of file systems that the running system needs at every moment. A start of the machine can put a cache
/// over the first of them. Some of the others hold files that this start needs.
pub const SYSTEM_POINTS: [&str; 6] = ["/", "/usr", "/var", "/var/lib", "/etc", "/opt"];

/// A volume above a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Kernel name.
    pub name: String,
    /// `luks`, `lvm`, `md`, `tandem`, `bcache`, ...; the kernel name for another kind of volume.
    pub kind: String,
}

impl Device {
    /// An empty device that nothing uses and of which nothing else is known.
    pub fn empty(ident: Ident) -> Self {
        Self {
            ident,
            number: String::new(),
            table: None,
            drive: None,
            health: SsdHealth::unknown(),
            partitioned: false,
            table_type: String::new(),
            part_name: String::new(),
            part_type: String::new(),
            usage: String::new(),
            content_uuid: String::new(),
            blank: true,
            claimed: false,
            snapshots: false,
            cached_by_other: false,
            carried: None,
            volume: None,
            clear_text: false,
            read_only: false,
            removable: false,
            portable: false,
            block_bytes: 0,
            optimal_bytes: 0,
            rotates: None,
            swap: false,
            holders: Vec::new(),
            mounts: Vec::new(),
            entries: Vec::new(),
            found_at_start: false,
            behind_lock: false,
            submounts: Vec::new(),
        }
    }

    /// UDisks2 object path.
    pub fn object(&self) -> &str {
        self.ident.text.object.as_str()
    }

    /// Whether no volume, no mount and no swap uses the device.
    pub fn unused(&self) -> bool {
        self.holders.is_empty() && self.mounts.is_empty() && !self.swap
    }

    /// Whether a mount, swap, or a volume other than a mapping of the service uses the device.
    pub fn used_by_others(&self) -> bool {
        let other = self.holders.iter().any(|holder| holder.kind != "tandem");
        other || !self.mounts.is_empty() || self.swap
    }

    /// Whether the start of the machine mounts or unlocks the device, or swaps to it.
    pub fn used_at_start(&self) -> bool {
        self.entries.iter().any(|entry| entry.at_start)
    }

    /// Whether the start of the machine unlocks the device.
    pub fn unlocked_at_start(&self) -> bool {
        let unlocks = |entry: &StartEntry| entry.at_start && entry.table == StartTable::Crypttab;
        self.entries.iter().any(unlocks)
    }

    /// The entry by which an initial file system mounts or unlocks the device, before its cache is there. The initial
    /// file systems put the cache of `/` over its disk themselves.
    pub fn used_early(&self) -> Option<&StartEntry> {
        let mut early = self.entries.iter().filter(|entry| entry.early);
        early.find(|entry| entry.table != StartTable::Fstab || entry.target != "/")
    }

    /// The mount points of the device in words.
    pub fn mount_points(&self) -> Vec<String> {
        self.mounts.iter().map(|m| plain(&m.point)).collect()
    }
}

/// All block devices.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The devices in no order.
    pub devices: Vec<Device>,
    /// The initial file systems of this machine's kernels can be made so that they assemble the cache of the root file
    /// system.
    pub initramfs: bool,
    /// `major:minor` of the devices from which GRUB starts this machine: see [`crate::machine::grub`].
    pub grub_disks: BTreeSet<String>,
    /// Most bytes of memory that a further cache may take. Only the service that makes a plan fills this in.
    pub memory_for_cache: u64,
}

impl Facts {
    /// The device with this object path.
    pub fn device(&self, object: &str) -> Option<&Device> {
        self.devices.iter().find(|d| d.object() == object)
    }

    /// Whether an update of GRUB fails to start the machine while a cache is over this device: see [`crate::machine::grub`].
    pub fn is_below_grub(&self, device: &Device) -> bool {
        self.grub_disks.contains(&device.number)
    }

    /// The partitions of a whole disk.
    pub fn partitions<'a>(&'a self, whole: &'a Device) -> impl Iterator<Item = &'a Device> {
        self.devices
            .iter()
            .filter(move |d| d.table.as_deref() == Some(whole.object()))
    }

    /// Another device with the same identity as `device`.
    pub fn same_identity(&self, device: &Device) -> Option<&Device> {
        self.devices
            .iter()
            .find(|d| d.object() != device.object() && d.ident.same_hardware(&device.ident))
    }

    /// Another device with a part of the same file system as `device`. A mapping of the service and the device below
    /// the mapping have the same file system, and count as one device.
    pub fn same_filesystem(&self, device: &Device) -> Option<&Device> {
        let same = |d: &&Device| {
            d.object() != device.object()
                && d.ident.text.content == device.ident.text.content
                && d.content_uuid == device.content_uuid
                && !d.ident.hardware.starts_with(DM_UUID_PREFIX)
        };
        let known = !device.content_uuid.is_empty();
        known.then(|| self.devices.iter().find(same)).flatten()
    }

    /// The partition that the service made for the cache of this pair, see
    /// [`crate::model::action::Partition`]. None if two partitions have its name.
    pub fn made_partition(&self, pair: &Pair, boot: &str) -> Option<&Device> {
        let disk = self.locate(&pair.partition.as_ref()?.disk, boot)?;
        let name = pair.partition_name();
        let mut named = self
            .partitions(disk)
            .filter(|d| d.part_name == name && d.part_type == PARTITION_TYPE);
        named.next().filter(|_| named.next().is_none())
    }

    /// The recorded device: see [`recorded`].
    pub fn same_hardware(&self, ident: &Ident) -> Option<&Device> {
        recorded(&self.devices, |d| &d.ident, ident)
    }

    /// Whether something beside a cache changes its disk. `mapped`: the mapping above the disk.
    pub fn sharing(&self, disk: &Device, mapped: Option<&Device>) -> Sharing {
        let content = mapped.unwrap_or(disk);
        let further = |d: &Device| {
            d.object() != disk.object()
                && !d.ident.hardware.starts_with(DM_UUID_PREFIX)
                && d.ident.text.content == "btrfs"
                && d.content_uuid == content.content_uuid
        };
        let is_btrfs = content.ident.text.content == "btrfs" && !content.content_uuid.is_empty();
        match is_btrfs && self.devices.iter().any(further) {
            true => Sharing::Filesystem,
            false if disk.snapshots => Sharing::Snapshots,
            false if disk.ident.network => Sharing::Network,
            false => Sharing::Alone,
        }
    }

    /// The disk of a cache: see [`disk_of`].
    pub fn disk(&self, pair: &Pair) -> Option<&Device> {
        disk_of(&self.devices, |d| &d.ident, &pair.origin)
    }

    /// The SSD of a cache: see [`ssd_of`].
    pub fn ssd(&self, pair: &Pair) -> Option<&Device> {
        ssd_of(&self.devices, |d| &d.ident, |d| &d.carried, pair)
    }

    /// The devices that may be the recorded device: see [`possible`].
    pub fn possible(&self, ident: &Ident) -> Vec<&Device> {
        possible(&self.devices, |d| &d.ident, ident)
    }

    /// The devices to hold while the newest data of the recorded disk may be on an SSD only: the disk, and all
    /// devices that may be the disk. None if the disk itself is in use. Copies that are in use are left out.
    pub fn to_be_held(&self, ident: &Ident) -> impl Iterator<Item = &Device> {
        let busy = self
            .same_hardware(ident)
            .is_some_and(Device::used_by_others);
        let all = if busy {
            Vec::new()
        } else {
            self.possible(ident)
        };
        all.into_iter().filter(|device| !device.used_by_others())
    }

    /// The device of this identity. In the boot of the identity: the very same device, which was not plugged in again.
    /// In another boot: the device with the same hardware.
    pub fn locate(&self, ident: &Ident, boot: &str) -> Option<&Device> {
        if ident.boot == boot {
            self.devices.iter().find(|d| d.ident.same_device(ident))
        } else {
            self.same_hardware(ident)
        }
    }
}

/// The recorded device, perhaps under another name. None if several devices agree with the record.
pub fn recorded<'a, T>(
    devices: &'a [T],
    ident_of: impl Fn(&T) -> &Ident,
    record: &Ident,
) -> Option<&'a T> {
    let mut all = devices.iter().filter(|d| ident_of(d).same_hardware(record));
    all.next().filter(|_| all.next().is_none())
}

/// The recorded disk of a cache, perhaps renamed: see [`Ident::is_renamed`]. A renamed disk counts only if no other device
/// may be the disk.
pub fn disk_of<'a, T>(
    devices: &'a [T],
    ident_of: impl Fn(&T) -> &Ident,
    record: &Ident,
) -> Option<&'a T> {
    recorded(devices, &ident_of, record).or_else(|| {
        let mut all = devices.iter().filter(|d| ident_of(d).may_be(record));
        let only = all.next().filter(|_| all.next().is_none());
        only.filter(|d| ident_of(d).is_renamed(record))
    })
}

/// The SSD of a cache: the recorded device, or, if there is none, the one device with the superblock of the cache. None if
/// two devices have it. No other device takes the place of memory.
pub fn ssd_of<'a, T>(
    devices: &'a [T],
    ident_of: impl Fn(&T) -> &Ident,
    carried_by: impl Fn(&T) -> &Option<Carried>,
    pair: &Pair,
) -> Option<&'a T> {
    recorded(devices, &ident_of, &pair.ssd).or_else(|| {
        let carries = |d: &&T| {
            let carried = carried_by(d).as_ref();
            carried.is_some_and(|carried| carried.uuid == pair.uuid)
                && ident_of(d).same_kind(&pair.ssd)
                && !pair.ssd.is_memory()
        };
        let mut all = devices.iter().filter(carries);
        all.next().filter(|_| all.next().is_none())
    })
}

/// All devices that may be the recorded device. Devices that agree with the whole record come first.
pub fn possible<'a, T>(
    devices: &'a [T],
    ident_of: impl Fn(&T) -> &Ident,
    record: &Ident,
) -> Vec<&'a T> {
    let agrees = |d: &&T| ident_of(d).same_hardware(record);
    let mut all: Vec<&T> = devices
        .iter()
        .filter(|d| ident_of(d).may_be(record))
        .collect();
    all.sort_by_key(|d| !agrees(d));
    all
}
