// SPDX-License-Identifier: GPL-3.0-or-later
//! Reasons not to touch a device.

use super::{MINIMUM_ORIGIN_BYTES, MINIMUM_SSD_BYTES};
use crate::model::action::{DM_UUID_PREFIX, Pair};
use crate::model::facts::{Device, Facts, SYSTEM_POINTS, StartEntry, StartTable};
use tandem_api::{Failure, Kind};

/// EFI system partition.
const EFI: [&str; 2] = ["c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "0xef"];
/// Linux swap.
const SWAP: [&str; 2] = ["0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "0x82"];
/// Extended boot loader partition, used as /boot.
const XBOOTLDR: [&str; 2] = ["bc13c2ff-59e6-4262-a352-b275fd6f7172", "0xea"];
/// BIOS boot partition: GRUB reads it without a file system.
const BIOS_BOOT: &str = "21686148-6449-6e6f-744e-656564454649";
/// Mount points of /boot.
const BOOT_POINTS: [&str; 1] = ["/boot"];
/// Mount points of the EFI system partition.
const EFI_POINTS: [&str; 2] = ["/boot/efi", "/efi"];
const ROOT: &str = "/";

/// Kind of refusal for a holder of a device, by role.
fn in_use(device: &Device, role: Kind) -> Result<(), Failure> {
    let Some(holder) = device.holders.first() else {
        return Ok(());
    };
    let text = &device.ident.text;
    if holder.kind == "tandem" {
        return Err(Failure::new(Kind::AlreadyCached)
            .device(text)
            .name(&holder.name));
    }
    Err(Failure::new(role).device(text).name(&holder.kind))
}

/// Checks that no program has the device open exclusively. Some users of a device show only in this way, such as an
/// imported pool of ZFS.
fn claimed(device: &Device, role: Kind) -> Result<(), Failure> {
    if !device.claimed {
        return Ok(());
    }
    let content = device.ident.text.content.as_str();
    let name = match member(device) {
        Some(volume) => volume,
        None if content.is_empty() => "exclusive",
        None => content,
    };
    Err(Failure::new(role).device(&device.ident.text).name(name))
}

/// Checks that the device is no member of a volume group or an array, active or not: a scan would find the member
/// twice.
fn member(device: &Device) -> Option<&'static str> {
    match device.ident.text.content.as_str() {
        "LVM2_member" => Some("lvm"),
        "linux_raid_member" | "isw_raid_member" | "ddf_raid_member" => Some("md"),
        "zfs_member" => Some("zfs"),
        "bcache" => Some("bcache"),
        "mpath_member" => Some("multipath"),
        "bcachefs" => Some("bcachefs"),
        _ => None,
    }
}

fn is_tandem(device: &Device) -> bool {
    device.ident.text.content == "tandem" || device.ident.hardware.starts_with("TANDEM-")
}

/// Whether boot loaders read the partition.
fn is_boot(device: &Device) -> bool {
    XBOOTLDR.contains(&device.part_type.as_str()) || device.part_type == BIOS_BOOT
}

/// Checks that the identity of the device is unique; otherwise a later search may find another device. Some bridges
/// give all their disks the same serial number.
pub fn identity(device: &Device, facts: &Facts) -> Result<(), Failure> {
    let ident = &device.ident;
    let refused = Failure::new(Kind::Indistinguishable).device(&ident.text);
    if ident.hardware.is_empty() && ident.part_uuid.is_empty() {
        if ident.network {
            return Err(Failure::new(Kind::ExportUnknown).device(&ident.text));
        }
        return Err(refused.detail("nothing identifies the device"));
    }
    match facts.same_identity(device) {
        Some(twin) => Err(refused.name(&twin.ident.text.name)),
        None => Ok(()),
    }
}

/// Checks that the device is no part of a file system or volume with several devices. On an SSD that may be erased, a
/// part that another device needs counts, and an old signature of an array or a volume group does not.
pub fn no_part(device: &Device, facts: &Facts, only_shared: bool) -> Result<(), Failure> {
    let alone = member(device).filter(|_| !only_shared);
    let shared = match device.ident.text.content.as_str() {
        "btrfs" => facts.same_filesystem(device).map(|_| "btrfs"),
        _ => None,
    };
    match alone.or(shared) {
        Some(volume) => Err(Failure::new(Kind::PartOfVolume)
            .device(&device.ident.text)
            .name(volume)),
        None => Ok(()),
    }
}

/// Checks that disk and SSD do not overlap.
pub fn distinct(origin: &Device, ssd: &Device) -> Result<(), Failure> {
    let same = origin.object() == ssd.object()
        || origin.table.as_deref() == Some(ssd.object())
        || ssd.table.as_deref() == Some(origin.object());
    if same {
        Err(Failure::new(Kind::SameDevice).device(&ssd.ident.text))
    } else {
        Ok(())
    }
}

/// Checks that this can be the disk of a cache. `later`: the next start of the machine puts the cache over the disk, so
/// the disk may be in use now.
pub fn origin(
    device: &Device,
    facts: &Facts,
    caches: &[String],
    later: bool,
) -> Result<(), Failure> {
    let text = &device.ident.text;
    let refuse = |kind| Err(Failure::new(kind).device(text));
    let at = |points: &[&str]| {
        device
            .mounts
            .iter()
            .any(|m| points.contains(&m.point.as_str()))
    };
    let refuse_mounted = |kind| {
        Err(Failure::new(kind)
            .device(text)
            .mount_points(device.mount_points()))
    };

    uncached_by_other(device)?;
    if is_tandem(device) || caches.iter().any(|object| object == device.object()) {
        return refuse(Kind::AlreadyCached);
    }
    if EFI.contains(&device.part_type.as_str()) || at(&EFI_POINTS) {
        return refuse(Kind::OriginEfi);
    }
    if is_boot(device) || at(&BOOT_POINTS) {
        return refuse_mounted(Kind::OriginBoot);
    }
    if device.swap || text.content == "swap" || SWAP.contains(&device.part_type.as_str()) {
        return refuse(Kind::OriginSwap);
    }
    if facts.is_below_grub(device) {
        return refuse_mounted(Kind::OriginGrub);
    }
    let system = match later {
        true => &SYSTEM_POINTS[1..],
        false => &SYSTEM_POINTS,
    };
    if at(system) {
        return refuse_mounted(Kind::OriginRoot);
    }
    if device.partitioned {
        return refuse(Kind::OriginPartitioned);
    }
    in_use(device, Kind::OriginInUse)?;
    no_part(device, facts, false)?;
    claimed(device, Kind::OriginInUse)?;
    if device.read_only {
        return refuse(Kind::ReadOnly);
    }
    if text.size < MINIMUM_ORIGIN_BYTES {
        return Err(Failure::new(Kind::OriginTooSmall)
            .device(text)
            .sizes(MINIMUM_ORIGIN_BYTES, text.size));
    }
    unused_early(device)?;
    if !later {
        return mounts(device);
    }
    named_by_content(device)
}

/// Checks that no initial file system mounts or unlocks the disk: the cache would come after that.
fn unused_early(device: &Device) -> Result<(), Failure> {
    let Some(entry) = device.used_early() else {
        return Ok(());
    };
    Err(Failure::new(Kind::NotFoundAtStart)
        .device(&device.ident.text)
        .mount_points(vec![entry.target.clone()])
        .name("early"))
}

/// Checks that the device is no cached disk of another system.
fn uncached_by_other(device: &Device) -> Result<(), Failure> {
    if !device.cached_by_other {
        return Ok(());
    }
    let cached = Failure::new(Kind::AlreadyCached).device(&device.ident.text);
    Err(cached.name("other"))
}

/// Checks that reads of this device say what a disk alone does: it is no cache. It is no loop device either: its file may
/// be served by any user, and a read that never ends would hold up others.
pub fn reads(device: &Device) -> Result<(), Failure> {
    let text = &device.ident.text;
    if let Some(uuid) = device.ident.hardware.strip_prefix(DM_UUID_PREFIX) {
        return Err(Failure::new(Kind::AlreadyCached).device(text).name(uuid));
    }
    if text.name.starts_with("loop") {
        return Err(not_a_disk(device));
    }
    uncached_by_other(device)
}

fn not_a_disk(device: &Device) -> Failure {
    Failure::new(Kind::InvalidArgument)
        .device(&device.ident.text)
        .name("disk")
}

/// Checks that the requests to this device can say what a cache of it would do. `caches`: the caches with their disks.
pub fn watched(device: &Device, facts: &Facts, caches: &[Pair]) -> Result<(), Failure> {
    let text = &device.ident.text;
    let of = |cache: &&Pair| device.ident.same_hardware(&cache.origin);
    if let Some(cache) = caches.iter().find(of) {
        let cached = Failure::new(Kind::AlreadyCached).device(text);
        return Err(cached.name(&cache.uuid));
    }
    reads(device)?;
    if is_tandem(device) {
        return Err(not_a_disk(device));
    }
    if device.partitioned {
        return Err(Failure::new(Kind::OriginPartitioned).device(text));
    }
    identity(device, facts)
}

/// Whether the running system is on the disk.
pub fn is_root(device: &Device) -> bool {
    device.mounts.iter().any(|m| m.point == ROOT)
}

/// Whether the next start of the machine puts a cache over the disk.
pub fn at_next_start(origin: &Device, ssd: &Device, facts: &Facts) -> Result<(), Failure> {
    let refused = |device: &Device, why| {
        Err(Failure::new(Kind::NotFoundAtStart)
            .device(&device.ident.text)
            .name(why))
    };
    if let Some(device) = [origin, ssd].into_iter().find(|d| !d.found_at_start) {
        return refused(device, "records");
    }
    if !is_root(origin) {
        return Ok(());
    }
    if !facts.initramfs {
        return refused(origin, "initramfs");
    }
    // An initial file system unlocks, activates or assembles a volume in its own time, also without a part of it.
    match [origin, ssd].into_iter().find(|d| d.ident.is_volume()) {
        Some(device) => refused(device, "volume"),
        None => Ok(()),
    }
}

/// Checks that the mounts of the disk can be made again at the same mount points.
pub fn mounts(device: &Device) -> Result<(), Failure> {
    let text = &device.ident.text;
    if !device.submounts.is_empty() {
        return Err(Failure::new(Kind::FilesystemBusy)
            .device(text)
            .mount_points(device.submounts.clone()));
    }
    // A mount of a folder of a file system is a bind mount, which no unit describes. A mount of a Btrfs subvolume looks
    // the same, and its options name the subvolume.
    let bind = |m: &&crate::model::facts::Mount| m.root != "/" && m.fstype != "btrfs";
    if let Some(mount) = device.mounts.iter().find(bind) {
        return Err(Failure::new(Kind::FilesystemBusy)
            .device(text)
            .mount_points(vec![mount.point.clone()]));
    }
    named_by_content(device)
}

/// Checks that all entries of fstab, crypttab, systemd and the boot loader that lead to the disk also lead to the mapping of the cache. An entry
/// that is not in use now would otherwise stop the next start of the machine.
pub(super) fn named_by_content(device: &Device) -> Result<(), Failure> {
    let Some(entry) = device.entries.iter().find(|entry| misses_cache(entry)) else {
        return Ok(());
    };
    let kind = match entry.table {
        StartTable::Fstab => Kind::FstabNamesDevice,
        StartTable::Crypttab => Kind::CrypttabNamesDevice,
        StartTable::Grub => Kind::GrubNamesDevice,
        StartTable::CommandLine => Kind::BootNamesDevice,
        StartTable::MountUnit => Kind::UnitNamesDevice,
    };
    let name = match kind {
        Kind::BootNamesDevice => entry.better_spec(&device.content_uuid),
        _ => entry.spec.clone(),
    };
    Err(Failure::new(kind)
        .device(&device.ident.text)
        .mount_points(vec![entry.target.clone()])
        .name(name))
}

/// Whether an entry that leads to the disk does not lead to the mapping of its cache. The initial file system finds the
/// root file system by any name, so the entry of fstab for it need not. The boot loader's name for it is looked at apart:
/// an SSD that is added may take the name of the disk, and GRUB would name the mapping, which is not there at a start
/// without the cache.
pub fn misses_cache(entry: &StartEntry) -> bool {
    match entry.table {
        StartTable::Fstab if entry.target == ROOT => false,
        StartTable::Fstab | StartTable::Crypttab | StartTable::MountUnit => {
            !follows_content(&entry.spec)
        }
        StartTable::Grub | StartTable::CommandLine => true,
    }
}

/// Whether a field of fstab or crypttab names the content and not the device, so that it leads to the mapping.
fn follows_content(spec: &str) -> bool {
    // PARTLABEL= is not in this list: udev makes no such link for the mapping.
    const TAGS: [&str; 3] = ["UUID=", "LABEL=", "PARTUUID="];
    const LINKS: [&str; 3] = [
        "/dev/disk/by-uuid/",
        "/dev/disk/by-label/",
        "/dev/disk/by-partuuid/",
    ];
    TAGS.iter()
        .chain(&LINKS)
        .any(|prefix| spec.starts_with(prefix))
}

/// Checks that the SSD is in this machine: one on the network is no faster than the disk, and another computer can write
/// to it.
fn is_local(device: &Device) -> Result<(), Failure> {
    match device.ident.network {
        true => Err(Failure::new(Kind::SsdOnNetwork).device(&device.ident.text)),
        false => Ok(()),
    }
}

/// Checks that a partition can be added to the partition table of an SSD. Other partitions of the SSD may be in use.
pub fn ssd_table(device: &Device) -> Result<(), Failure> {
    let text = &device.ident.text;
    is_local(device)?;
    if !device.mounts.is_empty() {
        return Err(Failure::new(Kind::SsdMounted)
            .device(text)
            .mount_points(device.mount_points()));
    }
    in_use(device, Kind::SsdInUse)?;
    if device.read_only {
        return Err(Failure::new(Kind::ReadOnly).device(text));
    }
    Ok(())
}

/// Checks that this can be the SSD of a cache. `erase`: the content of the SSD may be erased.
pub fn ssd(device: &Device, facts: &Facts, caches: &[String], erase: bool) -> Result<(), Failure> {
    let text = &device.ident.text;
    let parts = || std::iter::once(device).chain(facts.partitions(device));

    is_local(device)?;
    if parts().any(|d| is_tandem(d) || caches.iter().any(|object| object == d.object())) {
        // A format that no cache claims is left over from an unfinished removal, or a cache of another system: erasing is
        // enough unless data may be on the SSD only.
        let claimed = parts().any(|d| caches.iter().any(|object| object == d.object()));
        let unwritten = |d: &Device| d.carried.as_ref().is_some_and(|c| c.may_be_dirty);
        if !claimed && parts().any(unwritten) {
            return Err(Failure::new(Kind::SsdHoldsUnwritten).device(text));
        }
        if claimed || !erase {
            return Err(Failure::new(Kind::AlreadyCached).device(text));
        }
    }
    for part in parts() {
        if !part.mounts.is_empty() {
            return Err(Failure::new(Kind::SsdMounted)
                .device(text)
                .mount_points(part.mount_points()));
        }
        if part.swap {
            return Err(Failure::new(Kind::SsdInUse).device(text).name("swap"));
        }
        in_use(part, Kind::SsdInUse)?;
        if let Some(entry) = part.entries.iter().find(|entry| entry.at_start) {
            return Err(Failure::new(Kind::SsdUsedAtStart)
                .device(text)
                .mount_points(vec![entry.target.clone()]));
        }
        no_part(part, facts, true)?;
    }
    // Another system may start from a partition that this one does not mount.
    if EFI.contains(&device.part_type.as_str()) {
        return Err(Failure::new(Kind::OriginEfi).device(text));
    }
    if is_boot(device) {
        return Err(Failure::new(Kind::OriginBoot).device(text));
    }
    claimed(device, Kind::SsdInUse)?;
    // The start of the machine waits for logical volumes. For any other volume it may wait in vain.
    if let Some(volume) = device.volume.as_ref().filter(|kind| *kind != "lvm") {
        return Err(Failure::new(Kind::SsdIsVolume).device(text).name(volume));
    }
    if device.read_only {
        return Err(Failure::new(Kind::ReadOnly).device(text));
    }
    if text.size < MINIMUM_SSD_BYTES {
        return Err(Failure::new(Kind::SsdTooSmall)
            .device(text)
            .sizes(MINIMUM_SSD_BYTES, text.size));
    }
    if !erase {
        if device.partitioned || !device.usage.is_empty() || !text.content.is_empty() {
            return Err(Failure::new(Kind::SsdHoldsData).device(text));
        }
        if !device.blank {
            return Err(Failure::new(Kind::SsdUnknownContent).device(text));
        }
    }
    Ok(())
}
