// SPDX-License-Identifier: GPL-3.0-or-later
//! Is this the disk that the SSD belongs to, and is it as the cache left it?
//!
//! The identity on the SSD is compared as the module compares it. In addition some of the copies on the SSD are compared with the
//! disk: where the SSD holds a clean copy, the disk holds the same, also after a crash, when the module knows of no samples.

use serde::Serialize;
use tandem_core::start::Verdict;

use crate::error::{Doubt, Known, Why};
use crate::open::{Disk, Source};
use crate::owner::{Owner, Record};
use crate::{BLOCK_BYTES, Cache, Error, Medium};

/// How many clean copies are compared before the disk is written to.
const COMPARED: u64 = 1024;

/// What the SSD says of the content of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// All that was compared is the same.
    Same,
    /// Something differs: the disk was written without the cache, or it is another disk.
    Changed,
    /// Nothing on the SSD can be compared.
    Unknown,
}

/// Reads a quarter of a disk.
pub(crate) fn quarter(disk: &dyn Medium, sector: u64) -> Option<[u8; BLOCK_BYTES]> {
    let mut bytes = [0; BLOCK_BYTES];
    disk.read(sector, &mut bytes).ok().map(|()| bytes)
}

/// Compares samples, and clean copies at places spread over the disk, with the disk.
pub fn content(cache: &Cache, ssd: &dyn Medium, disk: &dyn Medium) -> Content {
    let samples = cache
        .core
        .compare(&cache.samples, &|sector| quarter(disk, sector));
    if samples == Verdict::Changed {
        return Content::Changed;
    }
    let mut total = 0_u64;
    cache.clean(|_| {
        total += 1;
        true
    });
    let step = total.div_ceil(COMPARED).max(1);
    let (mut at, mut equal, mut differs) = (0, 0_u64, false);
    cache.clean(|range| {
        at += 1;
        if (at - 1) % step != 0 || range.count < BLOCK_BYTES as u64 / 512 {
            return true;
        }
        let pair = quarter(disk, range.sector).zip(quarter(ssd, range.ssd_sector));
        if let Some((on_disk, on_ssd)) = pair {
            differs = on_disk != on_ssd;
            // A piece of zeroes is the same on most disks.
            equal += u64::from(!differs && on_ssd.iter().any(|&byte| byte != on_ssd[0]));
        }
        !differs
    });
    match (differs, samples == Verdict::Same || equal > 0) {
        (true, _) => Content::Changed,
        (false, true) => Content::Same,
        (false, false) => Content::Unknown,
    }
}

/// Decides whether this disk may be written to, or shown, with what is on the SSD. `serial`: the serial number by which the user
/// names the disk in spite of a doubt. Returns what is known of the disk, and the doubts.
///
/// # Errors
/// If there is a doubt and the user does not name the disk; if the disk is too small.
pub fn judge(
    cache: &Cache,
    ssd: &Disk,
    disk: &Disk,
    record: Option<&Record>,
    serial: Option<&str>,
) -> Result<(Owner, Vec<Doubt>), Error> {
    let owner = Owner::of(disk, cache);
    let (has, wants) = (disk.medium.sectors(), cache.disk_sectors());
    if has < wants {
        return Err(Error::refused(
            disk.medium.name(),
            Why::DiskTooSmall(has, wants),
        ));
    }
    let mut doubts = Vec::new();
    match disk.source {
        Source::Image(_) => doubts.push(Doubt::Image),
        Source::Device(_) if !owner.named => doubts.push(Doubt::OtherDisk),
        Source::Device(_) => {}
    }
    if has > wants {
        doubts.push(Doubt::Larger);
    }
    if content(cache, ssd.medium.as_ref(), disk.medium.as_ref()) == Content::Changed {
        doubts.push(Doubt::Changed);
    }
    if record.is_some_and(|record| record.outdated) {
        doubts.push(Doubt::Outdated);
    }
    let is_named = serial.is_some_and(|serial| !serial.is_empty() && serial == owner.serial);
    if doubts.is_empty() || is_named {
        return Ok((owner, doubts));
    }
    let known = match (&disk.source, serial) {
        (_, Some(serial)) => Known::NamedAs(serial.to_owned()),
        (Source::Image(file), None) => Known::Image(file.clone()),
        (Source::Device(_), None) if owner.serial.is_empty() => Known::NoSerial,
        (Source::Device(_), None) => Known::Serial,
    };
    Err(Error::refused(
        disk.medium.name(),
        Why::InDoubt(doubts, known),
    ))
}
