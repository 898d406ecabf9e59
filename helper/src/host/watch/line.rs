// SPDX-License-Identifier: GPL-3.0-or-later
//! Lines of a trace: `block_bio_queue: 8,0 RA 12580504 + 32 [program]`.
//!
//! A program chooses its own name, which may contain line breaks. It has 15 bytes at most, which is less than an event's name
//! takes, so that no program can make a line of its own that is taken for a request.

use tandem_advisor::Kind;

/// A request of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What it does.
    pub kind: Kind,
    /// First sector.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
}

/// Longer lines are not read.
const LONGEST: usize = 256;
const EVENT: &[u8] = b"block_bio_queue: ";

/// Cuts what is read into lines.
#[derive(Default)]
pub struct Lines {
    /// The begin of a line whose end is not there yet.
    rest: Vec<u8>,
    /// The line is too long.
    skips: bool,
    lost: u64,
}

impl Lines {
    /// Takes some bytes and gives each request in them.
    pub fn feed(&mut self, bytes: &[u8], mut event: impl FnMut(Event)) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (line, ends) = match part.strip_suffix(b"\n") {
                Some(line) => (line, true),
                None => (part, false),
            };
            if self.skips || self.rest.len() + line.len() > LONGEST {
                self.skips = true;
                self.rest.clear();
            } else {
                self.rest.extend_from_slice(line);
            }
            if !ends {
                continue;
            }
            match parse(&self.rest) {
                Some(found) => event(found),
                None => self.lost += lost(&self.rest),
            }
            self.rest.clear();
            self.skips = false;
        }
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.rest.capacity()
    }

    /// See [`super::Watch::lost`].
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// How many events this line, which is no request, stands for. The kernel writes `CPU:1 [LOST 4 EVENTS]`.
fn lost(line: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(line);
    let count = text
        .strip_prefix("CPU:")
        .and_then(|rest| rest.split_once(" [LOST "))
        .and_then(|(_, rest)| rest.strip_suffix(" EVENTS]"))
        .map(|count| count.parse().unwrap_or(1));
    // The rest of a program's name with a line break is no event.
    count.unwrap_or(u64::from(line.starts_with(EVENT)))
}

fn parse(line: &[u8]) -> Option<Event> {
    let line = line.strip_prefix(EVENT)?;
    // What comes behind the numbers is the program's name, in any encoding.
    let end = line.iter().position(|&byte| byte == b'[')?;
    let mut words = std::str::from_utf8(&line[..end])
        .ok()?
        .split_ascii_whitespace();
    let _device = words.next()?;
    let kind = kind(words.next()?)?;
    let sector = words.next()?.parse().ok()?;
    let (Some("+"), Some(sectors), None) = (words.next(), words.next(), words.next()) else {
        return None;
    };
    Some(Event {
        kind,
        sector,
        sectors: sectors.parse().ok()?,
    })
}

/// The kernel's letters: `F` before them is a flush that comes first; flags follow.
///
/// A request that fills a range with zeroes brings no data that a cache could keep, so it counts as a discard. Newer
/// kernels call it `WZ`, and older ones have only the `N` for "any other" for it. Besides that, an `N` with sectors stands
/// only for appends to zoned disks, which can have no cache.
fn kind(letters: &str) -> Option<Kind> {
    let letters = letters.strip_prefix('F').unwrap_or(letters);
    if letters.starts_with("WZ") {
        return Some(Kind::Discard);
    }
    match letters.chars().next()? {
        'R' => Some(Kind::Read),
        'W' => Some(Kind::Write),
        'D' | 'N' => Some(Kind::Discard),
        _ => None,
    }
}
