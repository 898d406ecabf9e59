// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for a disk that is watched: whether an SSD would help it, and what was seen so far.

use gettextrs::gettext;
use tandem_api::{AdvicePoint, DiskWatch, Verdict, WatchState};

use crate::{Figure, bytes, duration, fill, percent};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdviceWords {
    /// The answer in a few words.
    pub title: String,
    /// The reason, or how large the cache should be.
    pub text: String,
    /// Why nothing is counted now; empty if requests are counted.
    pub notice: String,
}

fn share(permille: u32) -> String {
    percent(f64::from(permille) / 1000.0)
}

/// Whether a cache would help, and why.
#[must_use]
pub fn advice_words(watch: &DiskWatch) -> AdviceWords {
    let against = || gettext("An SSD Will Not Help You");
    let (title, text) = match watch.verdict {
        Verdict::TooEarly => (
            gettext("Too Early to Say"),
            fill(
                // Translators: {time} is for example "19 hours"
                &gettext("The first answer takes {time} more."),
                &[("time", &duration(watch.wait_seconds))],
            ),
        ),
        Verdict::Helps => {
            let point = watch.at(watch.enough_bytes).unwrap_or_default();
            let words = gettext(
                "With {size} on an SSD, about {share} of the reads come from the SSD. More room gains little.",
            );
            let values = [
                ("size", bytes(watch.enough_bytes)),
                ("share", share(point.reads_permille)),
            ];
            let values = values
                .each_ref()
                .map(|(name, value)| (*name, value.as_str()));
            (gettext("An SSD Would Help"), fill(&words, &values))
        }
        Verdict::FewReads => (
            against(),
            gettext("Hardly anything is read from this disk. An SSD would have nothing to do."),
        ),
        Verdict::MostlyWrites => (
            against(),
            gettext(
                "Nearly everything that happens on this disk is writing, and what is written has to get to the hard disk in any case.",
            ),
        ),
        Verdict::MostlySequential => (
            against(),
            gettext(
                "Most data is read in long runs and not again. A hard disk does that well by itself.",
            ),
        ),
        Verdict::NothingReadAgain => (
            against(),
            gettext("What is read from this disk is hardly ever read again."),
        ),
        Verdict::Incomplete => (
            gettext("The Answer Is Unclear"),
            gettext(
                "At times this disk was so busy that Tandem missed many requests. With less to do at a time, the answer gets clear.",
            ),
        ),
    };
    let notice = match watch.state {
        WatchState::Watching => String::new(),
        WatchState::Away => gettext("Nothing is counted until the disk is connected again."),
        WatchState::Blind => gettext(
            "Nothing is counted at the moment: the system does not tell Tandem what the disk does. Tandem tries again.",
        ),
    };
    AdviceWords {
        title,
        text,
        notice,
    }
}

/// The answer in a line below the name of the disk.
#[must_use]
pub fn watched_words(verdict: Verdict) -> String {
    match verdict {
        Verdict::TooEarly => gettext("Watched: too early to say whether an SSD helps"),
        Verdict::Incomplete => gettext("Watched: unclear whether an SSD helps"),
        Verdict::Helps => gettext("Watched: an SSD would help"),
        Verdict::FewReads
        | Verdict::MostlyWrites
        | Verdict::MostlySequential
        | Verdict::NothingReadAgain => gettext("Watched: an SSD will not help"),
    }
}

/// The prediction for one size.
#[must_use]
pub fn point_words(point: &AdvicePoint) -> String {
    let words = if point.reads_error < 5 {
        // Translators: {size} is the size of a cache
        gettext("{size}: {share} of the reads")
    } else {
        // Translators: {size} is the size of a cache; {error} is a number of percentage points
        gettext("{size}: {share} of the reads, give or take {error}")
    };
    fill(
        &words,
        &[
            ("size", &bytes(point.bytes)),
            ("share", &share(point.reads_permille)),
            ("error", &point.reads_error.div_ceil(10).to_string()),
        ],
    )
}

/// What a cache of so many bytes would have done for a disk that is watched; empty while that is not known.
#[must_use]
pub fn size_advice(watch: Option<&DiskWatch>, size: u64) -> String {
    let known = watch.filter(|watch| watch.verdict != Verdict::TooEarly);
    let Some(point) = known.and_then(|watch| watch.at(size)) else {
        return String::new();
    };
    fill(
        &gettext("A cache of {size} would have answered about {share} of the reads seen so far."),
        &[
            ("size", &bytes(size)),
            ("share", &share(point.reads_permille)),
        ],
    )
}

/// The whole curve, for a screen reader.
#[must_use]
pub fn curve_words(watch: &DiskWatch) -> String {
    let title =
        gettext("Predicted share of the reads that come from the SSD, by the size of the cache.");
    let points = watch.points.iter().map(point_words);
    let all: Vec<_> = std::iter::once(title).chain(points).collect();
    all.join("\n")
}

/// The figures that the service has seen of the disk so far.
#[must_use]
pub fn seen_figures(watch: &DiskWatch) -> Vec<Figure> {
    let requests = |count: u64, size: u64| {
        fill(
            // Translators: {count} is a number of reads or writes, {size} how much they were together
            &gettext("{count} ({size})"),
            &[("count", &count.to_string()), ("size", &bytes(size))],
        )
    };
    let mut all = vec![
        Figure {
            title: gettext("Watched for"),
            meaning: gettext("While the disk was connected and the computer was on"),
            value: duration(watch.watched_seconds),
        },
        Figure {
            title: gettext("Reads"),
            meaning: String::new(),
            value: requests(watch.reads, watch.read_bytes),
        },
        Figure {
            title: gettext("Writes"),
            meaning: String::new(),
            value: requests(watch.writes, watch.written_bytes),
        },
    ];
    if watch.lost > 0 {
        all.push(Figure {
            title: gettext("Not counted"),
            meaning: gettext(
                "Reads and writes that came too fast. The prediction leaves them out.",
            ),
            value: watch.lost.to_string(),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::DeviceText;

    fn watch(verdict: Verdict) -> DiskWatch {
        DiskWatch {
            id: "0".repeat(32),
            disk: DeviceText::none(),
            state: WatchState::Watching,
            since: 1,
            watched_seconds: 2 * 86_400,
            reads: 70_000,
            read_bytes: 7_000_000_000,
            sequential_bytes: 0,
            writes: 30_000,
            written_bytes: 3_000_000_000,
            lost: 0,
            verdict,
            wait_seconds: 7200,
            enough_bytes: 32_000_000_000,
            points: vec![AdvicePoint {
                bytes: 32_000_000_000,
                reads_permille: 414,
                reads_error: 21,
                bytes_permille: 377,
                bytes_error: 18,
            }],
        }
    }

    #[test]
    fn each_verdict_has_an_answer_and_a_reason() {
        for verdict in Verdict::ALL {
            let words = advice_words(&watch(*verdict));
            assert!(
                !words.title.is_empty() && !words.text.contains('{'),
                "{words:?}"
            );
            let open = [Verdict::TooEarly, Verdict::Helps, Verdict::Incomplete];
            let against = !open.contains(verdict);
            assert_eq!(words.title.contains("Not"), against);
            assert_eq!(watched_words(*verdict).contains("not"), against);
        }
        let early = advice_words(&watch(Verdict::TooEarly)).text;
        assert_eq!(early, "The first answer takes 2 hours more.");
        let helps = advice_words(&watch(Verdict::Helps))
            .text
            .replace('\u{a0}', " ");
        assert!(
            helps.starts_with("With 32.0 GB on an SSD, about 41% of"),
            "{helps}"
        );
    }

    #[test]
    fn a_screen_reader_says_each_size_with_its_error() {
        let spoken = curve_words(&watch(Verdict::Helps)).replace('\u{a0}', " ");
        let last = spoken.lines().last().unwrap();
        assert_eq!(last, "32.0 GB: 41% of the reads, give or take 3");
    }

    #[test]
    fn a_size_has_its_share_as_soon_as_that_is_known() {
        assert_eq!(size_advice(None, 1), "");
        assert_eq!(size_advice(Some(&watch(Verdict::TooEarly)), 1), "");
        let words = size_advice(Some(&watch(Verdict::FewReads)), 16_000_000_000);
        assert!(words.contains("about 21% of the reads"), "{words}");
    }

    #[test]
    fn what_was_not_counted_is_told() {
        let mut watch = watch(Verdict::Helps);
        assert_eq!(seen_figures(&watch).len(), 3);
        assert_eq!(advice_words(&watch).notice, "");
        watch.lost = 5;
        watch.state = WatchState::Blind;
        assert_eq!(seen_figures(&watch)[3].value, "5");
        assert!(
            advice_words(&watch)
                .notice
                .starts_with("Nothing is counted")
        );
    }
}
