// SPDX-License-Identifier: GPL-3.0-or-later
//! The parts of an SSD, and the place for a partition of a cache.

use super::{MINIMUM_SSD_BYTES, checks};
use crate::model::action::{PARTITION_TYPE, Partition};
use crate::model::facts::{Device, Facts, Ident};
use tandem_api::{DeviceText, Failure, Kind, PartUse, PlanSpec, SsdPart};

const MIB: u64 = 1 << 20;
/// Bytes of the largest block that any drive has. A partition begins and ends between two of them.
const BLOCK: u64 = 4096;
/// A drive that asks for more than this is taken for one that asks for nothing.
const MOST_UNIT: u64 = 1 << 30;

/// Partitions begin and end at multiples of this many bytes. UDisks2 2.9 moves a partition to multiples of the size that
/// the drive says is best for it, unless 1 MiB is a multiple of that size. USB boxes say 33,553,920 bytes, which is no
/// multiple of a block.
fn unit(ssd: &Device) -> u64 {
    let optimal = ssd.optimal_bytes;
    if optimal == 0 || MIB.is_multiple_of(optimal) {
        return MIB;
    }
    // BLOCK is a power of two: the factor of two that the size lacks makes it a multiple of a block.
    let lacking = BLOCK >> optimal.trailing_zeros().min(BLOCK.trailing_zeros());
    let unit = optimal.saturating_mul(lacking);
    if unit <= MOST_UNIT { unit } else { MIB }
}
/// The only type of partition table in which the service makes partitions, because its partitions have names.
const GPT: &str = "gpt";

/// The parts of a whole SSD, by address. `caches`: for each device that is part of a cache, the object path of the
/// device and the UUID of the cache.
///
/// # Errors
/// `InvalidArgument` if the device is a partition or a volume.
pub fn layout(
    ssd: &Device,
    facts: &Facts,
    caches: &[(String, String)],
) -> Result<Vec<SsdPart>, Failure> {
    if ssd.table.is_some() || ssd.volume.is_some() {
        return Err(Failure::new(Kind::InvalidArgument).name("ssd"));
    }
    let part = |device: &Device| {
        let cache = caches.iter().find(|(object, _)| object == device.object());
        SsdPart {
            start: device.ident.start,
            bytes: device.ident.text.size,
            used_for: match cache {
                Some(_) => PartUse::Cache,
                None => PartUse::Other,
            },
            device: device.ident.text.clone(),
            cache: cache.map(|(_, uuid)| uuid.clone()).unwrap_or_default(),
        }
    };
    if !ssd.partitioned {
        let whole = part(ssd);
        let empty = ssd.usage.is_empty() && ssd.ident.text.content.is_empty() && ssd.unused();
        return Ok(vec![match whole.used_for {
            PartUse::Other if empty => SsdPart {
                used_for: PartUse::Free,
                ..whole
            },
            _ => whole,
        }]);
    }
    let mut parts: Vec<_> = facts.partitions(ssd).map(part).collect();
    if makes_partitions(ssd) {
        parts.extend(
            free(ssd, facts, None)
                .into_iter()
                .map(|(start, bytes)| SsdPart {
                    start,
                    bytes,
                    used_for: PartUse::Free,
                    device: DeviceText::none(),
                    cache: String::new(),
                }),
        );
    }
    parts.sort_by_key(|part| part.start);
    Ok(parts)
}

fn makes_partitions(ssd: &Device) -> bool {
    ssd.table_type == GPT
}

/// Start and size of each free space in a partition table, aligned. The table itself takes the first and, as a copy,
/// the last MiB. The space of the partition `leaving` counts as free.
fn free(ssd: &Device, facts: &Facts, leaving: Option<&Device>) -> Vec<(u64, u64)> {
    let mut used: Vec<_> = facts
        .partitions(ssd)
        .filter(|p| leaving.is_none_or(|leaving| p.object() != leaving.object()))
        .map(|p| (p.ident.start, p.ident.start + p.ident.text.size))
        .collect();
    let unit = unit(ssd);
    let end = end_of_room(ssd);
    used.push((end, end));
    used.sort_unstable();
    let mut spaces = Vec::new();
    let mut from = MIB.next_multiple_of(unit);
    for (start, end) in used {
        let to = start / unit * unit;
        if to > from {
            spaces.push((from, to - from));
        }
        from = from.max(end.next_multiple_of(unit));
    }
    spaces
}

/// Where the room for partitions ends.
fn end_of_room(ssd: &Device) -> u64 {
    let unit = unit(ssd);
    ssd.ident.text.size.saturating_sub(MIB) / unit * unit
}

/// Checks that a partition for a cache can be made on this SSD. `erase`: the content of an SSD without a partition
/// table may be erased.
///
/// # Errors
/// The reason against the partition.
pub fn check(
    spec: &PlanSpec,
    ssd: &Device,
    facts: &Facts,
    caches: &[String],
    erase: bool,
) -> Result<(), Failure> {
    let text = &ssd.ident.text;
    if ssd.table.is_some() {
        return Err(Failure::new(Kind::InvalidArgument)
            .device(text)
            .name("partition_bytes"));
    }
    if let Some(volume) = &ssd.volume {
        return Err(Failure::new(Kind::SsdIsVolume).device(text).name(volume));
    }
    let wanted = large_enough(spec.partition_bytes, ssd)?;
    // Before the question whether the SSD is blank, which is not asked if the plan is not possible anyway.
    place(wanted, ssd, facts)?;
    match ssd.partitioned {
        true => can_change_table(ssd),
        false => checks::ssd(ssd, facts, caches, erase),
    }
}

/// Checks that the service can add a partition to the table of this SSD.
fn can_change_table(ssd: &Device) -> Result<(), Failure> {
    checks::ssd_table(ssd)?;
    if !makes_partitions(ssd) {
        return Err(Failure::new(Kind::SsdTable)
            .device(&ssd.ident.text)
            .name(&ssd.table_type));
    }
    Ok(())
}

/// Size of the partition for which so many bytes are asked.
///
/// # Errors
/// `SsdTooSmall`.
fn large_enough(bytes: u64, ssd: &Device) -> Result<u64, Failure> {
    let unit = unit(ssd);
    let wanted = bytes / unit * unit;
    if wanted < MINIMUM_SSD_BYTES {
        return Err(Failure::new(Kind::SsdTooSmall)
            .device(&ssd.ident.text)
            .sizes(MINIMUM_SSD_BYTES.next_multiple_of(unit), bytes));
    }
    Ok(wanted)
}

/// First byte of a new partition of this size. The partition goes into the smallest free space that is large enough, so
/// that large free spaces stay.
fn place(wanted: u64, ssd: &Device, facts: &Facts) -> Result<u64, Failure> {
    let spaces = match ssd.partitioned {
        true => free(ssd, facts, None),
        false => {
            let start = MIB.next_multiple_of(unit(ssd));
            vec![(start, end_of_room(ssd).saturating_sub(start))]
        }
    };
    let fits = spaces.iter().filter(|(_, bytes)| *bytes >= wanted);
    let best = fits.min_by_key(|(start, bytes)| (*bytes, *start));
    best.map(|(start, _)| *start)
        .ok_or_else(|| no_free_space(wanted, &spaces, ssd))
}

fn no_free_space(wanted: u64, spaces: &[(u64, u64)], ssd: &Device) -> Failure {
    let largest = spaces.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    Failure::new(Kind::SsdNoFreeSpace)
        .device(&ssd.ident.text)
        .sizes(wanted, largest)
}

/// The partition of so many bytes that takes the place of the partition `own` of a cache, and its identity before it is
/// made. It stays in the same space if it fits there, and in its place, so that the copies stay. But if it gets smaller and
/// only the cache in front of the space can use the rest later, it goes to the end of the space.
///
/// # Errors
/// `SsdTooSmall`, `SsdNoFreeSpace`, the reason against a change of the table; `InvalidArgument` if the partition has
/// this size.
pub fn replaced(
    bytes: u64,
    own: &Device,
    ssd: &Device,
    facts: &Facts,
) -> Result<(Ident, Partition), Failure> {
    let wanted = large_enough(bytes, ssd)?;
    if wanted == own.ident.text.size {
        return Err(Failure::new(Kind::InvalidArgument)
            .device(&own.ident.text)
            .name("bytes"));
    }
    can_change_table(ssd)?;
    let spaces = free(ssd, facts, Some(own));
    let fits = spaces.iter().filter(|(_, bytes)| *bytes >= wanted);
    let elsewhere =
        |(start, bytes): &(u64, u64)| own.ident.start < *start || own.ident.start >= start + bytes;
    let best = fits.min_by_key(|space| (elsewhere(space), space.1, space.0));
    let (from, size) = *best.ok_or_else(|| no_free_space(wanted, &spaces, ssd))?;
    let to = from + size;
    let is_cache = |is_there: &dyn Fn(&Ident) -> bool| {
        let mut caches = facts
            .partitions(ssd)
            .filter(|d| d.part_type == PARTITION_TYPE);
        caches.any(|d| d.object() != own.object() && is_there(&d.ident))
    };
    let unit = unit(ssd);
    let in_front = is_cache(&|d| (d.start + d.text.size).next_multiple_of(unit) == from);
    let behind = is_cache(&|d| d.start / unit * unit == to);
    let here = own.ident.start;
    let fits_here = here >= from && here + wanted <= to && here.is_multiple_of(unit);
    let rest_is_for_front = in_front && !behind;
    let grows = wanted > own.ident.text.size;
    let start = if fits_here && (grows || !rest_is_for_front) {
        here
    } else if rest_is_for_front {
        to - wanted
    } else {
        from
    };
    Ok(at(start, wanted, false, ssd))
}

/// The partition that is asked for, and its identity before it is made: no device agrees with that identity.
///
/// # Errors
/// `SsdNoFreeSpace`.
pub fn planned(
    spec: &PlanSpec,
    ssd: &Device,
    facts: &Facts,
) -> Result<(Ident, Partition), Failure> {
    let size = large_enough(spec.partition_bytes, ssd)?;
    let start = place(size, ssd, facts)?;
    Ok(at(start, size, !ssd.partitioned, ssd))
}

fn at(start: u64, size: u64, new_table: bool, ssd: &Device) -> (Ident, Partition) {
    let partition = Partition {
        disk: ssd.ident.clone(),
        start,
        size,
        new_table,
    };
    let ident = Ident {
        text: DeviceText {
            size,
            content: String::new(),
            label: String::new(),
            ..ssd.ident.text.clone()
        },
        start: partition.start,
        part_uuid: String::new(),
        content_uuid: String::new(),
        ..ssd.ident.clone()
    };
    (ident, partition)
}
