// SPDX-License-Identifier: GPL-3.0-or-later
//! Where requests went: from the SSD, from the disk, or past the cache and why.

use gettextrs::gettext;
use tandem_api::{Direction, SECTOR_BYTES, Target};

use crate::{Place, fill};

/// One way of data.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Key that is the same in every language and in every sample: `hit`, `missed` or the reason.
    pub key: String,
    /// Name of the way.
    pub title: String,
    /// Why data goes this way, or what follows from it; may be empty.
    pub subtitle: String,
    /// Bytes that went this way.
    pub bytes: u64,
    /// Share of all, 0 to 1.
    pub share: f64,
}

/// The ways of reads, those from the cache first. `target`: what serves the cache.
#[must_use]
pub fn read_shares(reads: &Direction, target: Target, place: Place) -> Vec<Share> {
    let missed = match target {
        Target::Tandem => gettext("Was not cached; it is now"),
        Target::DmCache => gettext("Cached when it is used more often"),
    };
    let ways = vec![
        (
            "hit",
            match place {
                Place::Ssd => gettext("From the SSD"),
                Place::Memory => gettext("From Memory"),
            },
            gettext("Already cached"),
            reads.hit,
        ),
        (
            "missed",
            gettext("From the Hard Disk"),
            missed,
            reads.missed,
        ),
    ];
    shares(ways, reads)
}

/// The ways of writes, the SSD first. `write_back` sectors were on the SSD only at first; `writes.hit` counts them too.
#[must_use]
pub fn write_shares(writes: &Direction, write_back: u64, place: Place) -> Vec<Share> {
    let mut ways = vec![
        (
            "hit",
            match place {
                Place::Ssd => gettext("To the Hard Disk and the SSD"),
                Place::Memory => gettext("To the Hard Disk and to Memory"),
            },
            gettext("Fast when read again"),
            writes.hit.saturating_sub(write_back),
        ),
        (
            "missed",
            gettext("To the Hard Disk Only"),
            String::new(),
            writes.missed,
        ),
    ];
    if write_back > 0 {
        let first = (
            "back",
            gettext("To the SSD First"),
            gettext("Written to the hard disk shortly after"),
            write_back,
        );
        ways.insert(0, first);
    }
    shares(ways, writes)
}

/// The ways that are always shown, and those reasons to bypass the cache that occurred.
fn shares(always: Vec<(&str, String, String, u64)>, direction: &Direction) -> Vec<Share> {
    let share = |key: &str, title, subtitle, sectors: u64| Share {
        key: key.to_owned(),
        title,
        subtitle,
        bytes: sectors.saturating_mul(SECTOR_BYTES),
        share: 0.0,
    };
    let mut ways: Vec<Share> = always
        .into_iter()
        .map(|(key, title, subtitle, sectors)| share(key, title, subtitle, sectors))
        .collect();
    let past = direction.bypassed.iter().filter(|reason| reason.value > 0);
    ways.extend(past.map(|reason| {
        let (title, subtitle) = reason_words(&reason.name);
        share(&reason.name, title, subtitle, reason.value)
    }));
    let total = ways
        .iter()
        .map(|way| way.bytes)
        .fold(0, u64::saturating_add);
    for way in &mut ways {
        way.share = if total == 0 {
            0.0
        } else {
            way.bytes as f64 / total as f64
        };
    }
    ways
}

/// Why data bypassed the cache: the title, and why that is right.
#[must_use]
pub fn reason_words(reason: &str) -> (String, String) {
    match reason {
        "sequential" => (
            gettext("Skipped: Large Transfers"),
            gettext("Large files in one go, which hard disks handle well"),
        ),
        "promotion" => (
            gettext("Skipped: Cache Paused"),
            gettext("You had paused the cache"),
        ),
        "busy" => (
            gettext("Skipped: SSD Busy"),
            gettext("The SSD could not keep up, or the same place was being written"),
        ),
        "memory" => (
            gettext("Skipped: Low Memory"),
            gettext("There was no memory left for a copy"),
        ),
        "unaligned" => (
            gettext("Skipped: Small Requests"),
            gettext("Requests too small or not aligned"),
        ),
        "failed" => (
            gettext("Skipped: SSD Error"),
            gettext("The hard disk took over from the SSD"),
        ),
        "discard" => (
            gettext("Skipped: Freed Space"),
            gettext("Space that the file system gave back"),
        ),
        "mode" => (
            gettext("Skipped: By Mode"),
            gettext("The mode caches only what you read"),
        ),
        "full" => (
            gettext("Skipped: No Free Space"),
            gettext("Every place for it on the SSD was in use, or held data waiting to be written"),
        ),
        other => (
            fill(&gettext("Skipped: {reason}"), &[("reason", other)]),
            String::new(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::Counter;

    #[test]
    fn shares_add_up_to_all_and_unused_reasons_are_left_out() {
        let bypassed = [("sequential", 20), ("busy", 0)]
            .map(|(name, value)| Counter {
                name: name.into(),
                value,
            })
            .to_vec();
        let reads = Direction {
            requested: 100,
            hit: 70,
            missed: 10,
            bypassed,
        };
        let ways = read_shares(&reads, Target::Tandem, Place::Ssd);
        assert_eq!(
            ways.iter().map(|way| way.key.as_str()).collect::<Vec<_>>(),
            ["hit", "missed", "sequential"]
        );
        assert!((ways.iter().map(|way| way.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(ways[0].bytes, 70 * 512);
        // dm-cache waits until a block is used more often.
        let of_dm_cache = read_shares(&reads, Target::DmCache, Place::Ssd);
        assert!(!of_dm_cache[1].subtitle.contains("it is now"));
    }

    #[test]
    fn nothing_requested_is_no_division_by_zero() {
        assert!(
            write_shares(&Direction::default(), 0, Place::Ssd)
                .iter()
                .all(|way| way.share == 0.0)
        );
    }

    #[test]
    fn what_was_on_the_ssd_first_is_told_apart_and_counted_once() {
        let writes = Direction {
            requested: 100,
            hit: 80,
            missed: 20,
            bypassed: vec![],
        };
        let of = |write_back| -> Vec<_> {
            write_shares(&writes, write_back, Place::Ssd)
                .into_iter()
                .map(|way| (way.key, way.bytes / SECTOR_BYTES))
                .collect()
        };
        let way = |key: &str, sectors| (key.to_owned(), sectors);
        assert_eq!(of(0), [way("hit", 80), way("missed", 20)]);
        assert_eq!(of(60), [way("back", 60), way("hit", 20), way("missed", 20)]);
    }

    #[test]
    fn a_reason_that_this_program_does_not_know_is_still_named() {
        assert!(reason_words("martian").0.contains("martian"));
    }
}
