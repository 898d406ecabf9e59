// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether the partition below a bcache device without a cache can become a plain one. The file system begins behind the
//! superblock of bcache, so the start of the partition moves there, and no data is copied.

use super::checks::named_by_content;
use crate::model::facts::{Device, Facts, SYSTEM_POINTS};
use crate::model::shift::{Content, Shift};
use tandem_api::{DeviceText, Failure, Kind, OtherCache};

/// Partitions of an MBR table that have an entry in its first sector. The start of any other partition is told relative to a
/// sector before it.
const PRIMARY: u32 = 4;

/// A partition that can become plain, and how.
#[derive(Debug)]
pub(super) struct Movable<'a> {
    /// The disk with the partition table.
    pub disk: &'a Device,
    /// The partition.
    pub partition: &'a Device,
    /// The change of the partition table.
    pub shift: Shift,
}

/// The partition below a bcache device without a cache, and how its start moves.
///
/// # Errors
/// `StaysBcache` with the reason; `FstabNamesDevice` and its like for the bcache device.
pub(super) fn movable<'a>(cache: &OtherCache, facts: &'a Facts) -> Result<Movable<'a>, Failure> {
    let none = DeviceText::none();
    let drive = cache.disks.first().unwrap_or(&none);
    let stays =
        |device: &DeviceText, why: &str| Failure::new(Kind::StaysBcache).device(device).name(why);
    let mapped = facts.device(cache.mapped.as_str());
    let above = |device: &&Device| device.holders.iter().any(|holder| holder.name == cache.id);
    let mut below = facts.devices.iter().filter(above);
    let (Some(mapped), Some(partition), None) = (mapped, below.next(), below.next()) else {
        return Err(stays(drive, "unknown"));
    };
    let text = &partition.ident.text;
    if partition.volume.is_some() || partition.ident.is_volume() {
        return Err(stays(text, "volume"));
    }
    let Some(disk) = partition
        .table
        .as_ref()
        .and_then(|table| facts.device(table))
    else {
        return Err(stays(text, "whole-disk"));
    };
    if disk.volume.is_some() || disk.ident.is_volume() || disk.drive.is_none() {
        return Err(stays(text, "volume"));
    }
    let number = number(&disk.ident.text.name, &text.name).ok_or_else(|| stays(text, "unknown"))?;
    match disk.table_type.as_str() {
        "gpt" => {}
        "dos" if number <= PRIMARY => {}
        "dos" => return Err(stays(text, "logical")),
        _ => return Err(stays(text, "table")),
    }
    unused(mapped, text)?;
    if partition.read_only || disk.read_only {
        return Err(Failure::new(Kind::ReadOnly).device(text));
    }
    named_by_content(mapped)?;
    let content = Content {
        format: mapped.ident.text.content.clone(),
        uuid: mapped.content_uuid.clone(),
    };
    if mapped.partitioned || content.format.is_empty() || content.uuid.is_empty() {
        return Err(stays(text, "content"));
    }
    // The kernel has made the device that much smaller than the partition, and both end at the same place.
    let before = text.size.checked_sub(mapped.ident.text.size);
    let shift = before.and_then(|before| shift(disk, partition, number, before, content));
    let shift = shift.ok_or_else(|| stays(text, "offset"))?;
    Ok(Movable {
        disk,
        partition,
        shift,
    })
}

/// Checks that nothing uses the bcache device, which has to be stopped. `text`: the partition below.
fn unused(mapped: &Device, text: &DeviceText) -> Result<(), Failure> {
    let stays = |why: &str| Failure::new(Kind::StaysBcache).device(text).name(why);
    let is_system = |point: &str| SYSTEM_POINTS.contains(&point) || point.starts_with("/boot");
    if mapped.mounts.iter().any(|mount| is_system(&mount.point)) {
        return Err(stays("running-system"));
    }
    if !mapped.mounts.is_empty() {
        return Err(stays("mounted").mount_points(mapped.mount_points()));
    }
    match mapped.unused() && !mapped.claimed {
        true => Ok(()),
        false => Err(stays("in-use")),
    }
}

/// How the start of a partition moves by `before` bytes; nothing if it cannot.
fn shift(
    disk: &Device,
    partition: &Device,
    number: u32,
    before: u64,
    content: Content,
) -> Option<Shift> {
    let sector_bytes = u64::from(disk.block_bytes);
    let sectors = |bytes: u64| {
        (sector_bytes > 0 && bytes.is_multiple_of(sector_bytes)).then(|| bytes / sector_bytes)
    };
    let shift = Shift {
        number,
        sector_bytes,
        start: sectors(partition.ident.start)?,
        size: sectors(partition.ident.text.size)?,
        by: sectors(before)?,
        content,
    };
    let fits = shift.start > 0 && shift.by > 0 && shift.by < shift.size;
    fits.then_some(shift)
}

/// The number of a partition, by the kernel's names of its disk and of the partition: `sda` and `sda1`, `nvme0n1` and
/// `nvme0n1p1`.
fn number(disk: &str, partition: &str) -> Option<u32> {
    let rest = partition.strip_prefix(disk)?;
    let digits = match disk.ends_with(|last: char| last.is_ascii_digit()) {
        true => rest.strip_prefix('p')?,
        false => rest,
    };
    let is_number = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}
