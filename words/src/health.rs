// SPDX-License-Identifier: GPL-3.0-or-later
//! The health of an SSD in words: the report of the SSD, how long the SSD will last, and how much its cache wrote.

use gettextrs::{gettext, ngettext};
use tandem_api::{Lifetime, SelfReport, SsdHealth, SsdWritten};

use crate::date;
use crate::{bytes, fill, percent};

const DAY: u64 = 24 * 3600;
/// Hours of a month.
const MONTH: u64 = 730;

/// The words for the health of an SSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthWords {
    /// Whether the SSD reports that it is failing.
    pub condition: String,
    /// Name of a symbolic icon for that.
    pub icon: &'static str,
    /// Style class of that icon; may be empty.
    pub class: &'static str,
    /// How much of its life is used, and how long it will last.
    pub life: String,
}

/// Words for the health of an SSD.
#[must_use]
pub fn health_words(health: &SsdHealth) -> HealthWords {
    let (condition, icon, class) = match health.report {
        SelfReport::Unknown => (
            gettext("Not known: the SSD does not report it, or this system cannot read the report"),
            "drive-harddisk-solidstate-symbolic",
            "",
        ),
        SelfReport::Good => (
            // Translators: {date} is a day
            gettext("Good, by the SSD’s own report of {date}"),
            "tandem-done-symbolic",
            "success",
        ),
        SelfReport::Failing => (
            gettext("The SSD reports that it is failing. Replace it soon."),
            "tandem-bypass-symbolic",
            "warning",
        ),
    };
    HealthWords {
        condition: fill(&condition, &[("date", &date(health.read_at))]),
        icon,
        class,
        life: life(health),
    }
}

fn life(health: &SsdHealth) -> String {
    let used = match health.used_percent {
        // A whole percent is not used yet.
        0 => 0.005,
        used => f64::from(used) / 100.0,
    };
    let (words, time) = match health.lifetime() {
        Lifetime::Failing if health.used_percent < 0 => (
            gettext("Not known. An SSD that reports its failure may last for a day or for a year."),
            String::new(),
        ),
        Lifetime::Failing => (
            gettext(
                "{used} used. An SSD that reports its failure may last for a day or for a year.",
            ),
            String::new(),
        ),
        Lifetime::NotKnown if health.report == SelfReport::Unknown => {
            (gettext("Not known without such a report"), String::new())
        }
        Lifetime::NotKnown if used < 0.0 => (
            gettext("Not known: nothing tells how much of its life is used"),
            String::new(),
        ),
        Lifetime::NotKnown => (
            gettext(
                "{used} used. How long it lasts is not known: the SSD does not report how long it ran.",
            ),
            String::new(),
        ),
        Lifetime::LittleUsed => (
            // Translators: {used} is "<1%"
            gettext("{used} used, too little to tell how long it lasts"),
            String::new(),
        ),
        Lifetime::TooNew => (
            gettext("{used} used. The SSD ran too briefly to tell how long it lasts."),
            String::new(),
        ),
        Lifetime::Over => (
            gettext(
                "All of the life that its maker planned is used. It may work on, but be ready to replace it.",
            ),
            String::new(),
        ),
        Lifetime::Hours(hours) => (
            // Translators: {used} is for example "6%", {time} is for example "16 years"
            gettext("{used} used. Time left at the pace so far: about {time} of operation."),
            running_time(hours),
        ),
    };
    fill(&words, &[("used", &percent(used)), ("time", &time)])
}

/// A long time, in whole months below two years, or in whole years. Rounded down, but not to nothing.
fn running_time(hours: u64) -> String {
    let months = (hours / MONTH).max(1);
    let plural = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let (number, words) = match months {
        0..24 => (
            months,
            ngettext("{number} month", "{number} months", plural(months)),
        ),
        _ => {
            let years = months / 12;
            (
                years,
                ngettext("{number} year", "{number} years", plural(years)),
            )
        }
    };
    fill(&words, &[("number", &number.to_string())])
}

/// The words for how much the cache wrote to its SSD. `now`: seconds of Unix time.
#[must_use]
pub fn written_words(written: &SsdWritten, now: u64) -> String {
    if written.since == 0 {
        return gettext("Nothing counted yet");
    }
    let days = now.saturating_sub(written.since) / DAY;
    let (words, daily) = match days {
        // Translators: {size} is for example "120 GB", {date} is a day
        0 => (gettext("At least {size} since {date}"), 0),
        days => (
            // Translators: {daily} is for example "12 GB"
            gettext("At least {size} since {date}, about {daily} a day"),
            written.bytes / days,
        ),
    };
    fill(
        &words,
        &[
            ("size", &bytes(written.bytes)),
            ("date", &date(written.since)),
            ("daily", &bytes(daily)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(report: SelfReport, used_percent: i32, hours_on: u64) -> SsdHealth {
        SsdHealth {
            report,
            used_percent,
            hours_on,
            read_at: 1_793_534_400,
        }
    }

    #[test]
    fn what_is_not_known_is_said_with_its_reason_and_never_estimated() {
        let none = health_words(&SsdHealth::unknown());
        assert!(none.condition.starts_with("Not known: ") && none.class.is_empty());
        assert!(none.life.starts_with("Not known"));
        for (used, hours) in [(-1, 9000), (0, 9000), (1, 10), (5, 0), (100, 9000)] {
            let words = health_words(&health(SelfReport::Good, used, hours));
            assert!(!words.life.contains("Time left"), "{words:?}");
            assert!(!words.life.contains(['{', '-']), "{words:?}");
        }
    }

    #[test]
    fn a_known_life_says_how_much_is_used_and_left() {
        let good = health_words(&health(SelfReport::Good, 6, 9300));
        assert_eq!(
            good.condition,
            "Good, by the SSD’s own report of November 1, 2026"
        );
        assert_eq!(
            good.life.replace('\u{a0}', " "),
            "6% used. Time left at the pace so far: about 16 years of operation."
        );
        let failing = health_words(&health(SelfReport::Failing, 97, 24_000));
        assert_eq!(failing.class, "warning");
        assert_eq!(
            failing.life.replace('\u{a0}', " "),
            "97% used. An SSD that reports its failure may last for a day or for a year."
        );
        let short = health_words(&health(SelfReport::Good, 97, 24_000));
        assert!(short.life.ends_with("about 1 month of operation."));
    }

    #[test]
    fn what_the_cache_wrote_has_its_first_day() {
        let since = 1_793_534_400;
        let written = SsdWritten {
            since,
            bytes: 20_000_000_000,
        };
        let at = |now| written_words(&written, now).replace('\u{a0}', " ");
        assert_eq!(at(since + 60), "At least 20.0 GB since November 1, 2026");
        assert!(at(since + 10 * DAY).ends_with(", about 2.0 GB a day"));
        assert_eq!(
            written_words(&SsdWritten::default(), since),
            "Nothing counted yet"
        );
    }
}
