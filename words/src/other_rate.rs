// SPDX-License-Identifier: GPL-3.0-or-later
//! How often the SSD helps in a cache of another system, and what that system counts, in words.

use gettextrs::gettext;
use tandem_api::OtherKind;

use crate::{bytes, fill, percent};

/// The hit rate of the last hour, and what it is with this system. `None`: the system counted nothing, or nothing that can be
/// believed.
#[must_use]
pub fn other_rate_words(kind: OtherKind, rate: Option<f64>) -> [String; 2] {
    let title = match rate {
        // Translators: the hit rate of the cache of another system
        Some(rate) => fill(
            &gettext("Hit rate, approximate: {share}"),
            &[("share", &percent(rate))],
        ),
        None => gettext("Hit rate: not known"),
    };
    [title, meaning(kind)]
}

fn meaning(kind: OtherKind) -> String {
    match kind {
        OtherKind::Bcache => gettext(
            "In the last hour. bcache counts reads and writes together, and its counters lose numbers under heavy load. Busy times are left out.",
        ),
        OtherKind::LvmCache | OtherKind::DmCache => gettext(
            "In the last hour. The kernel counts read requests of any size. Times in which its counters were set back are left out.",
        ),
        OtherKind::LvmWritecache | OtherKind::DmWritecache => gettext(
            "In the last hour. This cache keeps only what was written, so it is normal that the SSD serves few reads.",
        ),
        OtherKind::DmWriteboost => gettext("dm-writeboost does not say how often the SSD helps."),
        OtherKind::RapidDisk => gettext("RapidDisk does not say how often its memory helps."),
    }
}

/// How much waits to be written to the disk now; `None`: the system does not tell.
#[must_use]
pub fn other_waiting_words(kind: OtherKind, unwritten: Option<u64>) -> String {
    let words = match (unwritten, kind) {
        (None, _) => gettext("Waiting to be written: not known now"),
        (Some(_), OtherKind::LvmWritecache | OtherKind::DmWritecache) => gettext(
            "Waiting to be written: {amount} now. This cache always keeps about half of its space in use, and that is normal.",
        ),
        (Some(_), _) => gettext("Waiting to be written: {amount} now"),
    };
    fill(&words, &[("amount", &bytes(unwritten.unwrap_or(0)))])
}

/// Where the speeds in the chart come from. `whole`: nobody knows the reads of the SSD.
#[must_use]
pub fn other_speed_words(kind: OtherKind, whole: bool) -> String {
    match (whole, kind) {
        (false, _) => gettext(
            "The kernel measures these speeds at the SSD and at the hard disk. What the cache itself moves between them is included.",
        ),
        (true, OtherKind::RapidDisk) => gettext(
            "The kernel measures these speeds at the cached disk. It does not count what is read from memory.",
        ),
        (true, _) => gettext(
            "The kernel measures these speeds at the cached disk. It does not tell what is read from the SSD for this disk alone.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(words: &str) -> String {
        words.replace('\u{a0}', " ")
    }

    #[test]
    fn a_rate_is_called_approximate_and_says_what_was_counted() {
        for kind in OtherKind::ALL.iter().copied() {
            let [title, meaning] = other_rate_words(kind, Some(0.914));
            assert_eq!(plain(&title), "Hit rate, approximate: 91%");
            assert!(meaning.ends_with('.'), "{meaning}");
            let [title, same] = other_rate_words(kind, None);
            assert_eq!(title, "Hit rate: not known");
            assert_eq!(meaning, same);
        }
        let of = |kind| other_rate_words(kind, None)[1].clone();
        assert!(of(OtherKind::Bcache).contains("reads and writes together"));
        assert!(of(OtherKind::LvmCache).contains("set back"));
        assert_eq!(of(OtherKind::LvmCache), of(OtherKind::DmCache));
    }

    #[test]
    fn a_write_cache_that_stays_half_full_is_normal() {
        let write = plain(&other_waiting_words(
            OtherKind::DmWritecache,
            Some(5_000_000),
        ));
        assert!(
            write.contains("5.0 MB now") && write.contains("half"),
            "{write}"
        );
        let bcache = plain(&other_waiting_words(OtherKind::Bcache, Some(5_000_000)));
        assert_eq!(bcache, "Waiting to be written: 5.0 MB now");
        assert!(other_waiting_words(OtherKind::Bcache, None).contains("not known"));
    }

    #[test]
    fn the_source_of_the_speeds_is_told() {
        assert!(other_speed_words(OtherKind::Bcache, false).contains("at the SSD"));
        assert!(other_speed_words(OtherKind::Bcache, true).contains("this disk alone"));
        assert!(other_speed_words(OtherKind::RapidDisk, true).contains("memory"));
    }
}
