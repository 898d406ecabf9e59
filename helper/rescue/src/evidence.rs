// SPDX-License-Identifier: GPL-3.0-or-later
//! Is this the disk that the SSD belongs to, and is it as the cache left it?
//!
//! The identity on the SSD is compared as the module compares it. In addition some of the copies on the SSD are compared with the
//! disk: where the SSD holds a clean copy, the disk holds the same, also after a crash, when there are no samples.

use serde::Serialize;
use tandem_core::start::Verdict;

use crate::error::{Doubt, Known, Why};
use crate::open::{Disk, Source};
use crate::order::FRAME_SECTORS;
use crate::owner::{Owner, Record};
use crate::{BLOCK_BYTES, Cache, Error, Medium, SECTOR_BYTES};

/// The longest clean copy.
const FRAME_BYTES: usize = (FRAME_SECTORS * SECTOR_BYTES) as usize;
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
    let samples = cache.core.compare_at_start(
        &cache.samples,
        &cache.engine,
        &|sector| quarter(ssd, sector),
        &|sector| quarter(disk, sector),
    );
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
    let (mut on_disk, mut on_ssd) = ([0; FRAME_BYTES], [0; FRAME_BYTES]);
    cache.clean(|range| {
        at += 1;
        if (at - 1) % step != 0 {
            return true;
        }
        let length = (range.count * SECTOR_BYTES) as usize;
        let (on_disk, on_ssd) = (&mut on_disk[..length], &mut on_ssd[..length]);
        let read = |medium: &dyn Medium, sector, bytes| medium.read(sector, bytes).is_ok();
        if read(disk, range.sector, on_disk) && read(ssd, range.ssd_sector, on_ssd) {
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

/// What the user has agreed to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Consent<'a> {
    /// The serial number by which the user names the disk, in spite of a doubt that it is the right one.
    pub serial: Option<&'a str>,
    /// What is on the disk may be newer, and may be lost.
    pub over_newer: bool,
    /// What an image of the SSD lacks is known, or nothing.
    pub ssd_is_whole: bool,
}

/// Decides whether this disk may be written to, or shown, with what is on the SSD. Returns what is known of the disk, and the
/// doubts.
///
/// # Errors
/// If there is a doubt in spite of which the user has not agreed; if the disk is too small.
pub fn judge(
    cache: &Cache,
    ssd: &Disk,
    disk: &Disk,
    record: Result<Option<&Record>, &std::io::Error>,
    consent: Consent<'_>,
) -> Result<(Owner, Vec<Doubt>), Error> {
    // Zeros in place of the newest records hide what is dirty.
    if matches!(ssd.source, Source::Image(_)) && !consent.ssd_is_whole {
        return Err(Error::refused(ssd.medium.name(), Why::MayLack));
    }
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
    match record {
        Ok(Some(record)) if record.outdated => doubts.push(Doubt::Outdated),
        Ok(_) => {}
        Err(_) => doubts.push(Doubt::NoRecord),
    }
    let serial = consent.serial;
    let is_named = serial.is_some_and(|serial| !serial.is_empty() && serial == owner.serial);
    let content: Vec<_> = doubts
        .iter()
        .copied()
        .filter(|doubt| doubt.is_of_content())
        .collect();
    if content.len() == doubts.len() || is_named {
        if content.is_empty() || consent.over_newer {
            return Ok((owner, doubts));
        }
        return Err(Error::refused(disk.medium.name(), Why::Newer(content)));
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
