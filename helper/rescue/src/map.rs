// SPDX-License-Identifier: GPL-3.0-or-later
//! The map that ddrescue makes beside an image: which parts of a failing SSD could be read.
//!
//! The image has zeros, or what its file had before, where the SSD could not be read. Nothing in the image tells them from data, and
//! a slot has no checksum. With the map such places are as on the SSD itself: they cannot be read.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::Path;

use crate::error::Why;
use crate::medium::{Medium, SECTOR_BYTES};
use crate::{Disk, Error};

/// Statuses of a part in a map. The last one says that the part was read.
const STATUSES: [&str; 5] = ["?", "*", "/", "-", "+"];
const READ: &str = "+";

/// The parts of an image that were read: from a sector to a sector, in order, none beside the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map(Vec<(u64, u64)>);

impl Map {
    /// Reads a map.
    ///
    /// # Errors
    /// If the file cannot be read, or is no map.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|e| Error::refused(&name, Why::NotOpened(e)))?;
        Self::of(&text).ok_or_else(|| Error::refused(&name, Why::NoMap))
    }

    /// `None`: the text is no map. Parts of which the map says nothing were not read.
    fn of(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        // Where ddrescue goes on.
        number(lines.next()?.split_ascii_whitespace().next()?)?;
        let mut parts = Vec::new();
        for line in lines {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            let [from, size, status] = fields[..] else {
                return None;
            };
            let (from, size) = (number(from)?, number(size)?);
            let to = from.checked_add(size).filter(|_| size > 0)?;
            STATUSES.contains(&status).then_some(())?;
            parts.push((from, to, status == READ));
        }
        parts.sort_unstable();
        let overlap = parts.windows(2).any(|two| two[0].1 > two[1].0);
        if parts.is_empty() || overlap {
            return None;
        }
        let read = parts.into_iter().filter(|part| part.2);
        let bytes = joined(read.map(|(from, to, _)| (from, to)));
        let whole = |(from, to): (u64, u64)| (from.div_ceil(SECTOR_BYTES), to / SECTOR_BYTES);
        Some(Self(bytes.into_iter().map(whole).collect()))
    }

    fn has(&self, first: u64, end: u64) -> bool {
        let at = self.0.partition_point(|&(from, _)| from <= first);
        at.checked_sub(1).is_some_and(|at| end <= self.0[at].1)
    }

    fn add(&mut self, first: u64, end: u64) {
        self.0.push((first, end));
        self.0.sort_unstable();
        self.0 = joined(self.0.iter().copied());
    }
}

/// A number as ddrescue writes it.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// The ranges, which are in order, with those joined that touch.
fn joined(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (from, to) in ranges {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}

/// An image of which some parts could not be read.
struct Mapped {
    image: Box<dyn Medium>,
    /// What is written becomes readable.
    readable: RefCell<Map>,
}

impl Medium for Mapped {
    fn name(&self) -> &str {
        self.image.name()
    }

    fn sectors(&self) -> u64 {
        self.image.sectors()
    }

    fn read(&self, sector: u64, bytes: &mut [u8]) -> io::Result<()> {
        let end = sector + bytes.len() as u64 / SECTOR_BYTES;
        if !self.readable.borrow().has(sector, end) {
            return Err(io::Error::other("the SSD could not be read there"));
        }
        self.image.read(sector, bytes)
    }

    fn write(&self, sector: u64, bytes: &[u8]) -> io::Result<()> {
        self.image.write(sector, bytes)?;
        let end = sector + bytes.len() as u64 / SECTOR_BYTES;
        let mut readable = self.readable.borrow_mut();
        if !readable.has(sector, end) {
            readable.add(sector, end);
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.image.flush()
    }
}

impl Disk {
    /// The image, of which only those parts can be read that the map says were read.
    #[must_use]
    pub fn with_map(self, map: Map) -> Self {
        let medium = Mapped {
            image: self.medium,
            readable: RefCell::new(map),
        };
        Self {
            source: self.source,
            medium: Box::new(medium),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Mapfile. Created by GNU ddrescue\n# current_pos  current_status\n\
                        0x00120000     +               1\n#      pos        size  status\n\
                        0x00000000  0x00117000  +\n0x00117000  0x00000200  -\n0x00117200  0x00000900  +\n\
                        0x00117B00  0x00000100  *\n0x00117C00  0x00000400  +\n";

    #[test]
    fn only_what_was_read_counts() {
        let map = Map::of(TEXT).unwrap();
        // The last two parts are cut to whole sectors.
        let bad = 0x117000 / 512;
        assert_eq!(map.0, [(0, bad), (bad + 1, bad + 5), (bad + 6, bad + 8)]);
        assert!(map.has(0, bad) && map.has(bad - 8, bad));
        assert!(!map.has(bad - 8, bad + 1) && !map.has(bad, bad + 1));
        assert!(!map.has(bad + 8, bad + 9), "nothing is said of it");
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut map = Map::of(TEXT).unwrap();
        let bad = 0x117000 / 512;
        map.add(bad - 1, bad + 1);
        assert!(map.has(0, bad + 5) && !map.has(0, bad + 6));
    }

    #[test]
    fn any_other_file_is_refused() {
        for text in [
            "",
            "# only a comment\n",
            "0x0 ?\n",
            "0 + 1\n0 512\n",
            "0 + 1\n0 512 !\n",
            "0 + 1\n0 0 +\n",
            "0 + 1\n0x10 0xffffffffffffffff +\n",
            "0 + 1\n0 1024 +\n512 512 -\n",
            "some text\n",
        ] {
            assert_eq!(Map::of(text), None, "{text}");
        }
    }
}
