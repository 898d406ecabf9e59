// SPDX-License-Identifier: GPL-3.0-or-later
//! Where requests went: from the SSD, from the disk, or past the cache and why.

use gettextrs::gettext;
use tandem_api::{Direction, Mode, SECTOR_BYTES};

use super::fill;

/// One way that data took.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Stays the same in every language and from sample to sample: `hit`, `missed` or the reason.
    pub key: String,
    /// What it is.
    pub title: String,
    /// Why, or what comes of it; may be empty.
    pub subtitle: String,
    /// Bytes that went this way.
    pub bytes: u64,
    /// Share of all, 0 to 1.
    pub share: f64,
}

/// The ways of reads, the SSD first.
#[must_use]
pub fn shares(direction: &Direction, writes: Option<Mode>) -> Vec<Share> {
    let (hit, missed) = match writes {
        None => (
            (gettext("From the SSD"), gettext("Fast: a copy was there")),
            (
                gettext("From the Hard Disk"),
                gettext("Not on the SSD yet; kept there for the next time"),
            ),
        ),
        Some(_) => (
            (
                gettext("To the Hard Disk and the SSD"),
                gettext("Fast when it is read again"),
            ),
            (gettext("To the Hard Disk Only"), String::new()),
        ),
    };
    let mut ways = vec![
        ("hit".to_owned(), hit, direction.hit),
        ("missed".to_owned(), missed, direction.missed),
    ];
    for reason in &direction.bypassed {
        ways.push((
            reason.name.clone(),
            reason_words(&reason.name),
            reason.value,
        ));
    }
    let total: u64 = ways.iter().map(|way| way.2).fold(0, u64::saturating_add);
    ways.into_iter()
        .enumerate()
        .filter(|(place, way)| *place < 2 || way.2 > 0)
        .map(|(_, (key, (title, subtitle), sectors))| Share {
            key,
            title,
            subtitle,
            bytes: sectors.saturating_mul(SECTOR_BYTES),
            share: if total == 0 {
                0.0
            } else {
                sectors as f64 / total as f64
            },
        })
        .collect()
}

/// Why data went past the cache: what, and why that is right.
#[must_use]
pub fn reason_words(reason: &str) -> (String, String) {
    match reason {
        "sequential" => (
            gettext("Past the Cache: Long Runs"),
            gettext("Large files in one go, which hard disks are quick at"),
        ),
        "busy" => (
            gettext("Past the Cache: Busy"),
            gettext("The SSD had more to do than it could, or the same place was being written"),
        ),
        "memory" => (
            gettext("Past the Cache: Memory"),
            gettext("There was no memory to spare for a copy"),
        ),
        "unaligned" => (
            gettext("Past the Cache: Small Pieces"),
            gettext("Pieces too small or too odd to keep"),
        ),
        "failed" => (
            gettext("Past the Cache: SSD Error"),
            gettext("The SSD did not take or give the data; the hard disk did"),
        ),
        "discard" => (
            gettext("Past the Cache: Deleted"),
            gettext("Space that was given back to the disk"),
        ),
        "mode" => (
            gettext("Past the Cache: Not Kept"),
            gettext("The chosen mode keeps only what you read"),
        ),
        "bypass" => (
            gettext("Past the Cache: Not in Use"),
            gettext("The cache was not in use at that time"),
        ),
        other => (
            fill(&gettext("Past the Cache: {reason}"), &[("reason", other)]),
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
        let ways = shares(
            &Direction {
                requested: 100,
                hit: 70,
                missed: 10,
                bypassed,
            },
            None,
        );
        assert_eq!(
            ways.iter().map(|way| way.key.as_str()).collect::<Vec<_>>(),
            ["hit", "missed", "sequential"]
        );
        assert!((ways.iter().map(|way| way.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(ways[0].bytes, 70 * 512);
    }

    #[test]
    fn nothing_requested_is_no_division_by_zero() {
        assert!(
            shares(&Direction::default(), Some(Mode::Writearound))
                .iter()
                .all(|way| way.share == 0.0)
        );
    }

    #[test]
    fn a_reason_that_this_program_does_not_know_is_still_named() {
        assert!(reason_words("martian").0.contains("martian"));
    }
}
