// SPDX-License-Identifier: GPL-3.0-or-later
//! The words of the chart: its axes, the values of a bar, and the whole chart for a screen reader.

use gettextrs::gettext;
use gtk::glib;
use tandem_api::Span;

use super::{bytes, fill, percent, rate};
use crate::model::bars::Bar;
use crate::model::range::Range;

/// The choices of a chart, beside its bars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// How far back it goes.
    pub range: Range,
    /// Whether a second plot shows the dirty data.
    pub dirty: bool,
    /// Whether the bars show all reads as those of the disk, since the SSD's share of them is not known.
    pub whole: bool,
}

/// Name of a range.
#[must_use]
pub fn range_name(range: Range) -> String {
    match range {
        Range::Live => gettext("Last 5 Minutes"),
        Range::Kept(Span::Hour) => gettext("Last Hour"),
        Range::Kept(Span::Day) => gettext("Last 24 Hours"),
        Range::Kept(Span::Month) => gettext("Last 30 Days"),
    }
}

/// An amount beside an axis.
#[must_use]
pub fn axis_bytes(amount: u64) -> String {
    if amount == 0 {
        "0".to_owned()
    } else {
        bytes(amount)
    }
}

/// A speed beside an axis.
#[must_use]
pub fn axis_rate(amount: u64) -> String {
    if amount == 0 {
        "0".to_owned()
    } else {
        rate(amount)
    }
}

/// A mark of the time axis, so many units of the range before now.
#[must_use]
pub fn axis_time(range: Range, before: u64) -> String {
    let words = match range {
        // Translators: the right end of the time axis
        _ if before == 0 => gettext("now"),
        // Translators: a mark of the time axis, as short as possible
        Range::Live | Range::Kept(Span::Hour) => gettext("−{number} min"),
        // Translators: a mark of the time axis in hours, as short as possible
        Range::Kept(Span::Day) => gettext("−{number} h"),
        // Translators: a mark of the time axis in days, as short as possible
        Range::Kept(Span::Month) => gettext("−{number} d"),
    };
    fill(&words, &[("number", &before.to_string())])
}

/// A moment in seconds of Unix time, as exactly as it matters in this range.
fn moment(range: Range, seconds: f64) -> String {
    let format = match range {
        Range::Live | Range::Kept(Span::Hour) => "%X",
        Range::Kept(Span::Day) => "%H:%M",
        Range::Kept(Span::Month) => "%x %H:%M",
    };
    glib::DateTime::from_unix_local(seconds as i64)
        .and_then(|time| time.format(format))
        .map_or_else(|_| String::new(), |words| words.to_string())
}

/// The values of a bar.
#[must_use]
pub fn bar_words(bar: &Bar, shown: Shown) -> String {
    let words = match (shown.whole, shown.dirty && !bar.dirty_unknown) {
        (false, true) => gettext(
            "{time}: {ssd} read from the SSD, {disk} from the hard disk, {written} written, {dirty} waiting to be written",
        ),
        (false, false) => {
            // Translators: {time} is for example "14:05:10"; the others are speeds
            gettext("{time}: {ssd} read from the SSD, {disk} from the hard disk, {written} written")
        }
        (true, true) => {
            gettext("{time}: {read} read, {written} written, {dirty} waiting to be written")
        }
        // Translators: {time} is for example "14:05:10"; the others are speeds
        (true, false) => gettext("{time}: {read} read, {written} written"),
    };
    fill(
        &words,
        &[
            ("time", &moment(shown.range, bar.end)),
            ("read", &rate(bar.read())),
            ("ssd", &rate(bar.ssd)),
            ("disk", &rate(bar.disk)),
            ("written", &rate(bar.written)),
            ("dirty", &bytes(bar.dirty)),
        ],
    )
}

/// The chart in words.
#[must_use]
pub fn chart_words(bars: &[Bar], shown: Shown) -> String {
    let name = range_name(shown.range);
    let total = |part: fn(&Bar) -> f64| -> f64 {
        bars.iter()
            .map(|bar| part(bar) * (bar.end - bar.start))
            .sum()
    };
    let most = |part: fn(&Bar) -> u64| bars.iter().map(part).max().unwrap_or(0);
    let read = total(|bar| bar.read() as f64);
    let Some(last) = bars.last() else {
        return fill(
            &gettext("Chart, {range}: no numbers yet."),
            &[("range", &name)],
        );
    };
    let mut words = match (read > 0.0, shown.whole) {
        // Translators: {range} is for example "Last 24 Hours"; {share} is for example "94%"
        (true, false) => {
            gettext("Chart, {range}: reading {now}, at most {most}, {share} from the SSD.")
        }
        // Translators: {range} is for example "Last 24 Hours"
        (true, true) => gettext("Chart, {range}: reading {now}, at most {most}."),
        (false, _) => gettext("Chart, {range}: nothing was read."),
    };
    words.push(' ');
    words.push_str(&gettext("Writing {written}, at most {most_written}."));
    if shown.dirty && !last.dirty_unknown {
        words.push(' ');
        words.push_str(&gettext(
            "Waiting to be written: {dirty}, at most {most_dirty}.",
        ));
    }
    let share = total(|bar| bar.ssd as f64) / read.max(1.0);
    fill(
        &words,
        &[
            ("range", &name),
            ("now", &rate(last.read())),
            ("most", &rate(most(Bar::read))),
            ("share", &percent(share)),
            ("written", &rate(last.written)),
            ("most_written", &rate(most(|bar| bar.written))),
            ("dirty", &bytes(last.dirty)),
            ("most_dirty", &bytes(most(|bar| bar.dirty))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(words: &str) -> String {
        words.replace('\u{a0}', " ")
    }

    #[test]
    fn the_chart_can_be_told_in_words() {
        let live = Shown {
            dirty: true,
            ..Shown::default()
        };
        assert!(chart_words(&[], live).ends_with("no numbers yet."));
        let bar = |start: f64, ssd, disk| Bar {
            start,
            end: start + 5.0,
            ssd,
            disk,
            written: 1_000_000,
            dirty: 3_000_000,
            dirty_unknown: false,
        };
        let bars = [
            bar(0.0, 9_000_000, 1_000_000),
            bar(5.0, 6_000_000, 4_000_000),
        ];
        assert_eq!(
            plain(&chart_words(&bars, live)),
            "Chart, Last 5 Minutes: reading 10.0 MB/s, at most 10.0 MB/s, 75% from the SSD. \
             Writing 1.0 MB/s, at most 1.0 MB/s. Waiting to be written: 3.0 MB, at most 3.0 MB."
        );
        let idle = [Bar::default()];
        let day = Shown {
            range: Range::Kept(Span::Day),
            ..Shown::default()
        };
        let words = chart_words(&idle, day);
        assert!(words.contains("nothing was read"), "{words}");
    }

    #[test]
    fn a_bar_tells_its_exact_values() {
        let bar = Bar {
            end: 1_000_000.0,
            ssd: 24_100_000,
            ..Bar::default()
        };
        for range in Range::ALL {
            let shown = Shown {
                range,
                dirty: true,
                whole: false,
            };
            let words = plain(&bar_words(&bar, shown));
            assert!(
                words.contains(": 24.1 MB/s read from the SSD, 0 bytes/s from"),
                "{words}"
            );
            assert!(words.ends_with("waiting to be written") && !words.starts_with(':'));
        }
    }

    #[test]
    fn what_nobody_knows_is_not_told() {
        let bar = Bar {
            end: 1_000_000.0,
            disk: 24_100_000,
            dirty_unknown: true,
            ..Bar::default()
        };
        let shown = Shown {
            range: Range::Kept(Span::Hour),
            dirty: true,
            whole: true,
        };
        let words = plain(&bar_words(&bar, shown));
        assert!(
            words.ends_with(": 24.1 MB/s read, 0 bytes/s written"),
            "{words}"
        );
        let long = Bar { start: 0.0, ..bar };
        let words = plain(&chart_words(&[long], shown));
        assert_eq!(
            words,
            "Chart, Last Hour: reading 24.1 MB/s, at most 24.1 MB/s. Writing 0 bytes/s, at most 0 bytes/s."
        );
    }

    #[test]
    fn marks_are_short() {
        assert_eq!(axis_time(Range::Live, 0), "now");
        assert_eq!(axis_time(Range::Kept(Span::Month), 5), "−5 d");
        assert_eq!(axis_rate(0), "0");
    }
}
