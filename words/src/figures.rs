// SPDX-License-Identifier: GPL-3.0-or-later
//! The counters of a cache that are of use to a person, each with its meaning.

use gettextrs::gettext;
use tandem_api::{Latency, SECTOR_BYTES, Sample};

use crate::{bytes, fill, percent, short_time};

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Name of the counter.
    pub title: String,
    /// Meaning of the counter.
    pub meaning: String,
    /// Value of the counter.
    pub value: String,
}

/// Why the last start dropped the copies on the SSD, by the module's number for it; `None`: it did not.
fn cold_start(reason: u64) -> Option<String> {
    Some(match reason {
        0 => return None,
        1 => gettext("The hard disk was changed without the cache"),
        3 => gettext("The hard disk was unplugged while the cache was in use"),
        4 => gettext("With exFAT, FAT and NTFS, changes made elsewhere cannot be noticed"),
        _ => gettext("Nothing shows that the hard disk is unchanged since the cache was last used"),
    })
}

/// The counters of a cache, the useful ones first. Errors are shown only if there were any.
#[must_use]
pub fn figures(sample: &Sample) -> Vec<Figure> {
    let sectors = |count: u64| bytes(count.saturating_mul(SECTOR_BYTES));
    let frames = |event| sectors(sample.event(event).saturating_mul(sample.frame_sectors));
    let times = |event| sample.event(event).to_string();
    let cold = cold_start(sample.event("cold_start"))
        .map(|reason| (gettext("Started Empty"), reason, String::new()));
    let mut all = Vec::from_iter(cold);
    all.extend([
        (
            gettext("Added"),
            gettext("Read from the hard disk and stored on the SSD"),
            frames("fills"),
        ),
        (
            gettext("Replaced"),
            gettext("Removed from the SSD to make room"),
            frames("evictions"),
        ),
    ]);
    // dm-cache has no journal, and counts none of these.
    if sample.journal_total > 0 {
        all.extend([
            (
                gettext("Written Back"),
                gettext("Saved to the SSD first, written to the hard disk later"),
                sectors(sample.drained_sectors),
            ),
            (
                gettext("Hard Disk Flushes"),
                gettext("Times the hard disk had to save everything in its own memory"),
                times("flushes_disk"),
            ),
            (
                gettext("SSD Flushes"),
                gettext("Times the SSD had to save everything in its own memory"),
                times("flushes_ssd"),
            ),
            (
                gettext("Journal in Use Now"),
                gettext(
                    "Where the SSD notes what is on it; cleaned up automatically when half full",
                ),
                percent(sample.journal_used as f64 / sample.journal_total as f64),
            ),
        ]);
    }
    all.extend(wait(gettext("SSD Response Time"), &sample.ssd_latency));
    all.extend(wait(
        gettext("Hard Disk Response Time"),
        &sample.disk_latency,
    ));
    let errors = [
        ("disk_errors", gettext("Hard Disk Errors")),
        ("ssd_errors", gettext("SSD Errors")),
    ];
    for (event, title) in errors {
        if sample.event(event) > 0 {
            let meaning =
                gettext("Check the health of this device, and keep your backup up to date");
            all.push((title, meaning, times(event)));
        }
    }
    if sample.event("retired") > 0 {
        all.push((
            gettext("Unreadable SSD Blocks"),
            gettext("Blocks of 16 KiB that could not be read and are no longer used"),
            times("retired"),
        ));
    }
    let figure = |(title, meaning, value)| Figure {
        title,
        meaning,
        value,
    };
    all.into_iter().map(figure).collect()
}

/// How long a typical request and a slow request took; `None` while no request was measured.
fn wait(title: String, latency: &Latency) -> Option<(String, String, String)> {
    let (half, most) = latency.below_us(0.5).zip(latency.below_us(0.99))?;
    let below = |bound: u64| {
        if bound == u64::MAX {
            gettext("over a second")
        } else {
            // Translators: {time} is for example "16 ms"
            fill(&gettext("within {time}"), &[("time", &short_time(bound))])
        }
    };
    let meaning = if most == u64::MAX {
        gettext("Typical; some took over a second")
    } else {
        // Translators: what is typical stands beside it; {time} is for example "within 16 ms"
        gettext("Typical; 99% {time}")
    };
    Some((
        title,
        fill(&meaning, &[("time", &below(most))]),
        below(half),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{Bucket, Counter};

    fn sample(events: &[(&str, u64)]) -> Sample {
        let event = |(name, value): &(&str, u64)| Counter {
            name: (*name).to_owned(),
            value: *value,
        };
        Sample {
            frame_sectors: 32,
            drained_sectors: 4_000,
            journal_used: 16,
            journal_total: 64,
            events: events.iter().map(event).collect(),
            ..Sample::default()
        }
    }

    #[test]
    fn each_counter_is_in_the_unit_that_it_is_said_in() {
        let shown = figures(&sample(&[("fills", 100), ("flushes_disk", 7)]));
        let value = |title: &str| {
            let found = shown.iter().find(|figure| figure.title == title).unwrap();
            found.value.replace('\u{a0}', " ")
        };
        // 100 frames of 16 KiB, 4,000 sectors, 16 of 64 blocks.
        assert_eq!(value("Added"), "1.6 MB");
        assert_eq!(value("Written Back"), "2.0 MB");
        assert_eq!(value("Journal in Use Now"), "25%");
        assert_eq!(value("Hard Disk Flushes"), "7");
        assert!(shown.iter().all(|figure| !figure.title.contains("Error")));
    }

    #[test]
    fn what_a_target_without_a_journal_does_not_count_is_not_shown() {
        let of_dm_cache = Sample {
            journal_total: 0,
            ..sample(&[("fills", 100)])
        };
        let shown = figures(&of_dm_cache);
        let titles: Vec<_> = shown.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(titles, ["Added", "Replaced"]);
    }

    #[test]
    fn waits_are_those_of_the_half_and_of_nearly_all() {
        let mut measured = sample(&[]);
        assert!(
            figures(&measured)
                .iter()
                .all(|figure| !figure.title.ends_with("Time"))
        );
        let bucket = |below_us, requests| Bucket { below_us, requests };
        measured.ssd_latency.buckets = vec![bucket(128, 90), bucket(1024, 10)];
        measured.disk_latency.buckets = vec![bucket(16_384, 3), bucket(u64::MAX, 1)];
        let shown = figures(&measured);
        let of = |title: &str| {
            let found = shown.iter().find(|figure| figure.title == title).unwrap();
            (found.value.clone(), found.meaning.clone())
        };
        let words = |value: &str, meaning: &str| (value.to_owned(), meaning.to_owned());
        assert_eq!(
            of("SSD Response Time"),
            words("within 128 µs", "Typical; 99% within 1 ms")
        );
        assert_eq!(
            of("Hard Disk Response Time"),
            words("within 16 ms", "Typical; some took over a second")
        );
    }

    #[test]
    fn errors_are_shown_when_there_were_any() {
        let shown = figures(&sample(&[("ssd_errors", 2)]));
        let last = shown.last().unwrap();
        assert_eq!(
            (last.title.as_str(), last.value.as_str()),
            ("SSD Errors", "2")
        );
    }

    #[test]
    fn a_cold_start_is_told_with_its_reason() {
        let first = |reason| figures(&sample(&[("cold_start", reason)])).remove(0);
        assert_eq!(first(0).title, "Added");
        for (reason, words) in [
            (1, "was changed"),
            (2, "Nothing shows"),
            (3, "unplugged"),
            (4, "exFAT"),
        ] {
            let figure = first(reason);
            assert_eq!(figure.title, "Started Empty");
            assert!(figure.meaning.contains(words), "{}", figure.meaning);
        }
    }

    #[test]
    fn unreadable_blocks_are_shown_when_there_are_any() {
        let is_unreadable = |figure: &Figure| figure.title == "Unreadable SSD Blocks";
        assert!(!figures(&sample(&[])).iter().any(is_unreadable));
        let shown = figures(&sample(&[("retired", 3)]));
        let blocks = shown.into_iter().find(is_unreadable);
        assert_eq!(blocks.map(|figure| figure.value).as_deref(), Some("3"));
    }
}
