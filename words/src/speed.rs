// SPDX-License-Identifier: GPL-3.0-or-later
//! The result of a speed test in words: "140 times faster".

use gettextrs::gettext;
use tandem_api::{SpeedTest, TimedReads, Trust};

use crate::{SEPARATOR, date, fill, percent, rate, short_name, short_time};

/// Thousandths from the SSD from which the words do not mention the rest.
const ALL_FROM_SSD: u32 = 990;

/// One of the two speeds of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedLine {
    /// The device and its speed: "Hard disk: 79 reads/s · 13 ms each".
    pub words: String,
    /// The speed as a part of the faster speed, 0 to 1.
    pub share: f64,
    /// Whether the SSD takes part.
    pub with_ssd: bool,
}

/// The words for the reads of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedPart {
    /// What a person does with such reads.
    pub title: String,
    /// How much faster it is: "140 times faster"; without a cache the speed alone.
    pub result: String,
    /// Whether the SSD makes it faster, by a result that can be relied on.
    pub faster: bool,
    /// The speeds to compare; none without a cache.
    pub lines: Vec<SpeedLine>,
    /// What has to be known beside them; may be empty.
    pub note: String,
}

/// The words for a result.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedWords {
    /// The devices.
    pub title: String,
    /// Small reads, then large reads.
    pub parts: Vec<SpeedPart>,
    /// Why the result is not reliable; empty if it is.
    pub warning: String,
    /// The date, and what was measured.
    pub footer: String,
}

impl SpeedWords {
    /// Everything as a screen reader says it.
    #[must_use]
    pub fn spoken(&self) -> String {
        let mut words = vec![self.title.clone()];
        if !self.warning.is_empty() {
            words.push(self.warning.clone());
        }
        for part in &self.parts {
            words.push(headline(part));
            words.extend(part.lines.iter().map(|line| line.words.clone()));
            if !part.note.is_empty() {
                words.push(part.note.clone());
            }
        }
        words.push(self.footer.clone());
        words.join("\n").replace('\u{a0}', " ")
    }

    /// The result in few lines, with its date, for a row.
    #[must_use]
    pub fn short(&self, time: u64) -> String {
        let mut words: Vec<String> = self.parts.iter().map(headline).collect();
        words.push(if self.warning.is_empty() {
            date(time)
        } else {
            // Translators: after the date of a speed test that other programs disturbed
            fill(&gettext("{date}, not reliable"), &[("date", &date(time))])
        });
        words.join("\n")
    }
}

fn headline(part: &SpeedPart) -> String {
    fill(
        // Translators: for example "Opening many small files: 140 times faster"
        &gettext("{what}: {result}"),
        &[("what", &part.title), ("result", &part.result)],
    )
}

/// The words for a result.
#[must_use]
pub fn speed_words(test: &SpeedTest) -> SpeedWords {
    let disk = short_name(&test.disk);
    let title = if test.ssd.is_none() {
        disk
    } else {
        fill(
            // Translators: the models of a hard disk and of its SSD
            &gettext("{disk} with {ssd}"),
            &[("disk", &disk), ("ssd", &short_name(&test.ssd))],
        )
    };
    let reliable = test.trust != Trust::Disturbed;
    SpeedWords {
        title,
        parts: vec![
            part(
                gettext("Opening many small files"),
                &test.random,
                reliable,
                small_speed,
            ),
            part(
                gettext("Reading large files"),
                &test.sequential,
                reliable,
                |reads, us| rate(reads.bytes_per_second(us)),
            ),
        ],
        warning: match test.trust {
            Trust::Reliable => String::new(),
            Trust::Disturbed => fill(
                // Translators: {share} is for example "24%"
                &gettext(
                    "Not reliable: {share} of the work of the devices was for other programs. Close them and test again.",
                ),
                &[("share", &percent(f64::from(test.others_permille) / 1000.0))],
            ),
            Trust::Unknown => gettext(
                "Perhaps not reliable: the system does not tell whether other programs used the disk.",
            ),
        },
        footer: fill(
            // Translators: the date of a speed test
            &gettext("{date}. Measured with Tandem: 4 KiB at random places, 1 MiB in order."),
            &[("date", &date(test.time))],
        ),
    }
}

/// The speed of small reads: how many a second, and the time of one.
fn small_speed(reads: &TimedReads, us: u64) -> String {
    let per_second = u128::from(reads.count) * 1_000_000 / u128::from(us.max(1));
    let words = fill(
        // Translators: for example "79 reads/s"
        &gettext("{number} reads/s"),
        &[("number", &per_second.to_string())],
    );
    let each = fill(
        // Translators: the time of one read, for example "12 ms each"
        &gettext("{time} each"),
        &[("time", &short_time(rounded(reads.us_per_read(us))))],
    );
    [words, each]
        .join(SEPARATOR)
        .replace(' ', "\u{a0}")
        .replace("·\u{a0}", "· ")
}

/// A time in microseconds, rounded to the unit in which it is shown.
fn rounded(us: u64) -> u64 {
    let unit = match us {
        0..1_000 => 1,
        1_000..1_000_000 => 1_000,
        _ => 1_000_000,
    };
    (us + unit / 2) / unit * unit
}

fn part(
    title: String,
    reads: &TimedReads,
    reliable: bool,
    speed: impl Fn(&TimedReads, u64) -> String,
) -> SpeedPart {
    let disk = speed(reads, reads.disk_us);
    let Some(factor) = reads.factor() else {
        return SpeedPart {
            title,
            result: disk,
            faster: false,
            lines: Vec::new(),
            note: String::new(),
        };
    };
    let line = |words: String, with_ssd, share| SpeedLine {
        words,
        share,
        with_ssd,
    };
    let put = |words: &str, speed: &str| fill(words, &[("speed", speed)]);
    let ssd = speed(reads, reads.cache_us);
    // The drive may have kept in its own memory what the SSD did not.
    let served = reads.is_served_by_ssd();
    SpeedPart {
        title,
        result: match served {
            true => factor_words(factor),
            false => gettext("Not served by the SSD"),
        },
        faster: reliable && served && factor >= 1.05,
        lines: vec![
            line(
                put(&gettext("Hard disk: {speed}"), &disk),
                false,
                (1.0 / factor).min(1.0),
            ),
            line(
                put(&gettext("With the SSD: {speed}"), &ssd),
                true,
                factor.min(1.0),
            ),
        ],
        note: if reads.ssd_permille >= ALL_FROM_SSD {
            String::new()
        } else {
            fill(
                // Translators: {share} is for example "62%"; the other reads came from the hard disk
                &gettext("At least {share} of these reads came from the SSD."),
                &[("share", &percent(f64::from(reads.ssd_permille) / 1000.0))],
            )
        },
    }
}

/// How much faster it is with the SSD.
fn factor_words(factor: f64) -> String {
    let (words, times) = match factor {
        0.0..0.95 => (
            // Translators: with the decimal mark of your language
            gettext("{whole}.{tenth} times slower"),
            1.0 / factor.max(0.001),
        ),
        0.95..1.05 => return gettext("no faster"),
        // Translators: with the decimal mark of your language
        1.05..9.95 => (gettext("{whole}.{tenth} times faster"), factor),
        _ => (gettext("{whole} times faster"), factor.round()),
    };
    let tenths = (times * 10.0).round();
    let (whole, tenth) = ((tenths / 10.0).floor(), tenths % 10.0);
    fill(
        &words,
        &[
            ("whole", &format!("{whole:.0}")),
            ("tenth", &format!("{tenth:.0}")),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::DeviceText;

    fn test() -> SpeedTest {
        let device = |model: &str| DeviceText {
            model: model.into(),
            name: "sdx".into(),
            ..DeviceText::none()
        };
        let reads = |bytes, count, disk_us, cache_us| TimedReads {
            bytes,
            count,
            disk_us,
            cache_us,
            ssd_permille: 1000,
        };
        SpeedTest {
            time: 1_700_000_000,
            disk: device("Barge"),
            ssd: device("Flash"),
            random: reads(4096, 480, 6_000_000, 43_000),
            sequential: reads(1 << 20, 700, 5_000_000, 1_550_000),
            trust: Trust::Reliable,
            others_permille: 12,
        }
    }

    fn words(test: &SpeedTest) -> SpeedWords {
        speed_words(test)
    }

    #[test]
    fn a_result_is_told_in_plain_words_with_its_numbers_devices_and_date() {
        let spoken = words(&test()).spoken();
        let lines: Vec<&str> = spoken.lines().collect();
        assert_eq!(
            lines[..7],
            [
                "Barge with Flash",
                "Opening many small files: 140 times faster",
                "Hard disk: 80 reads/s · 13 ms each",
                "With the SSD: 11162 reads/s · 89 µs each",
                "Reading large files: 3.2 times faster",
                "Hard disk: 146.8 MB/s",
                "With the SSD: 473.6 MB/s",
            ]
        );
        assert!(lines[7].starts_with("November 1") && lines[7].contains("2023"));
        let part = &words(&test()).parts[0];
        assert!(part.faster && part.lines[1].share > 0.999);
        assert!((part.lines[0].share - 43.0 / 6000.0).abs() < 1e-6);
    }

    #[test]
    fn what_made_a_result_unreliable_is_part_of_all_its_words() {
        let mut test = test();
        assert!(words(&test).warning.is_empty());
        (test.trust, test.others_permille) = (Trust::Disturbed, 240);
        let told = words(&test);
        assert!(told.warning.starts_with("Not reliable: 24%"));
        assert!(told.parts.iter().all(|part| !part.faster));
        assert!(told.spoken().contains(&told.warning));
        assert!(told.short(test.time).ends_with(", not reliable"));
        test.trust = Trust::Unknown;
        assert!(words(&test).spoken().contains("Perhaps not reliable"));
    }

    #[test]
    fn nothing_is_claimed_that_was_not_measured() {
        for (factor, told) in [
            (0.5, "2.0 times slower"),
            (0.949, "1.1 times slower"),
            (0.95, "no faster"),
            (1.049, "no faster"),
            (1.05, "1.1 times faster"),
            (9.94, "9.9 times faster"),
            (9.95, "10 times faster"),
            (140.4, "140 times faster"),
        ] {
            assert_eq!(factor_words(factor), told, "{factor}");
        }
        let mut test = test();
        test.random.ssd_permille = 620;
        let told = words(&test);
        assert_eq!(
            told.parts[0].note,
            "At least 62% of these reads came from the SSD."
        );
        assert!(told.spoken().contains(&told.parts[0].note));
        test.random.ssd_permille = 499;
        let told = words(&test);
        assert_eq!(told.parts[0].result, "Not served by the SSD");
        assert!(!told.parts[0].faster);
        // Without a cache there is nothing to compare.
        (test.random.cache_us, test.sequential.cache_us) = (0, 0);
        test.ssd = DeviceText::none();
        let told = words(&test);
        assert_eq!(told.title, "Barge");
        assert!(
            told.parts
                .iter()
                .all(|part| part.lines.is_empty() && !part.faster)
        );
        assert!(!told.spoken().contains("times"), "{}", told.spoken());
    }
}
