// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads what is on the SSD and compares its clean copies with the disk. Nothing is written.

use serde::Serialize;

use crate::evidence::{Content, content};
use crate::{BLOCK_BYTES, Cache, Medium, SECTOR_BYTES};

/// Clean copies that are compared unless all are.
const SAMPLED: u64 = 4096;
/// Places that are named in a report.
const NAMED: usize = 16;

/// How much to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// All dirty data, and clean copies at places spread over the disk.
    Sampled,
    /// Everything.
    Whole,
}

/// What was found. The places are bytes of the disk; the first ones only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Dirty data that the SSD can read.
    pub dirty_bytes: u64,
    /// Dirty data that the SSD cannot read.
    pub dirty_unreadable_bytes: u64,
    /// Where it belongs on the disk.
    pub dirty_unreadable_at: Vec<u64>,
    /// Clean copies that were read, and compared if there is a disk.
    pub clean_bytes: u64,
    /// Clean copies that the SSD cannot read; the disk has the same.
    pub clean_unreadable_bytes: u64,
    /// Clean copies that differ from the disk.
    pub differing_bytes: u64,
    /// Where they differ.
    pub differing_at: Vec<u64>,
    /// Copies that could not be compared, since the disk cannot be read there.
    pub disk_unreadable_bytes: u64,
    /// What the SSD says of the disk's content; `None` without a disk.
    pub disk: Option<Content>,
}

impl Report {
    /// Whether all is as it should be.
    pub fn is_good(&self) -> bool {
        self.dirty_unreadable_bytes == 0
            && self.differing_bytes == 0
            && self.disk != Some(Content::Changed)
    }
}

fn note(places: &mut Vec<u64>, sector: u64) {
    if places.len() < NAMED {
        places.push(sector * SECTOR_BYTES);
    }
}

/// Reads the SSD, and compares clean copies with the disk if it is given.
pub fn verify(cache: &Cache, ssd: &dyn Medium, disk: Option<&dyn Medium>, check: Check) -> Report {
    let mut report = Report::default();
    let mut bytes = [0; 4 * BLOCK_BYTES];
    let mut other = bytes;
    cache.dirty(0, |range| {
        let length = range.count * SECTOR_BYTES;
        if ssd
            .read(range.ssd_sector, &mut bytes[..length as usize])
            .is_ok()
        {
            report.dirty_bytes += length;
        } else {
            report.dirty_unreadable_bytes += length;
            note(&mut report.dirty_unreadable_at, range.sector);
        }
        true
    });
    let mut total = 0_u64;
    cache.clean(|_| {
        total += 1;
        true
    });
    let apart = match check {
        Check::Whole => 1,
        Check::Sampled => total.div_ceil(SAMPLED).max(1),
    };
    let mut at = 0;
    cache.clean(|range| {
        at += 1;
        if (at - 1) % apart != 0 {
            return true;
        }
        let length = range.count * SECTOR_BYTES;
        let (bytes, other) = (&mut bytes[..length as usize], &mut other[..length as usize]);
        if ssd.read(range.ssd_sector, bytes).is_err() {
            report.clean_unreadable_bytes += length;
            return true;
        }
        report.clean_bytes += length;
        match disk.map(|disk| disk.read(range.sector, other)) {
            Some(Err(_)) => report.disk_unreadable_bytes += length,
            Some(Ok(())) if bytes != other => {
                report.differing_bytes += length;
                note(&mut report.differing_at, range.sector);
            }
            Some(Ok(())) | None => {}
        }
        true
    });
    report.disk = disk.map(|disk| content(cache, ssd, disk));
    report
}
