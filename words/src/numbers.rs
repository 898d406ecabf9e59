// SPDX-License-Identifier: GPL-3.0-or-later
//! Sizes, rates, shares and short times as a person reads them.

use gettextrs::{gettext, ngettext};
use tandem_api::SizeText;

use crate::fill;

/// A size in powers of ten, as it is printed on disks: "2.0 TB".
#[must_use]
pub fn bytes(count: u64) -> String {
    let text = SizeText::new(count);
    if count < 1000 {
        let words = ngettext("{number} byte", "{number} bytes", count as u32);
        return fill(&words, &[("number", &text.number)]);
    }
    let words = match text.unit {
        "kB" => gettext("{number} kB"),
        "MB" => gettext("{number} MB"),
        "GB" => gettext("{number} GB"),
        "TB" => gettext("{number} TB"),
        "PB" => gettext("{number} PB"),
        _ => gettext("{number} EB"),
    };
    amount(&words, &decimal(&text.number))
}

/// A size that is a power of two, in binary units: "64 MiB".
#[must_use]
pub fn binary_size(count: u64) -> String {
    const MIB: u64 = 1 << 20;
    const GIB: f64 = (1 << 30) as f64;
    if count < 1024 * MIB {
        let number = match count % MIB {
            0 => (count / MIB).to_string(),
            _ => decimal(&format!("{:.1}", count as f64 / MIB as f64)),
        };
        return amount(&gettext("{number} MiB"), &number);
    }
    let (number, words) = match count as f64 / GIB {
        gib @ ..1023.95 => (gib, gettext("{number} GiB")),
        gib => (gib / 1024.0, gettext("{number} TiB")),
    };
    amount(&words, &decimal(&format!("{number:.1}")))
}

/// A number with its unit, which stay on one line.
fn amount(words: &str, number: &str) -> String {
    fill(words, &[("number", number)]).replace(' ', "\u{a0}")
}

/// A number with one digit behind the decimal mark, as the language writes it.
fn decimal(number: &str) -> String {
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    // Translators: a number such as "2.5", with the decimal mark of your language
    let words = gettext("{whole}.{tenth}");
    fill(&words, &[("whole", whole), ("tenth", tenth)])
}

/// A speed: "132.4 MB/s".
#[must_use]
pub fn rate(bytes_per_second: u64) -> String {
    // Translators: a speed; {size} is for example "132.4 MB"
    fill(&gettext("{size}/s"), &[("size", &bytes(bytes_per_second))])
}

/// A share between 0 and 1. Only a share of 0 reads 0%, and only a share of 1 reads 100%.
#[must_use]
pub fn percent(share: f64) -> String {
    let rounded = (share * 100.0).round();
    let number = if share > 0.0 && rounded < 1.0 {
        "<1".to_owned()
    } else if share < 1.0 && rounded > 99.0 {
        "99".to_owned()
    } else {
        format!("{rounded:.0}")
    };
    // Translators: a share, for example "93%" or "<1%"; with a no-break space before the sign where your language has one
    fill(&gettext("{number}%"), &[("number", &number)])
}

/// A short time, in whole microseconds, milliseconds or seconds: "128 µs", "16 ms".
#[must_use]
pub fn short_time(microseconds: u64) -> String {
    let (number, words) = match microseconds {
        0..1000 => (microseconds, gettext("{number} µs")),
        1000..1_000_000 => (microseconds / 1000, gettext("{number} ms")),
        _ => (microseconds / 1_000_000, gettext("{number} s")),
    };
    fill(&words, &[("number", &number.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_stays_on_one_line_and_has_the_unit_that_is_asked_for() {
        for (count, decimal, binary) in [
            (0, "0 bytes", "0 MiB"),
            (1, "1 byte", "0.0 MiB"),
            (64 << 20, "67.1 MB", "64 MiB"),
            (1_572_864, "1.6 MB", "1.5 MiB"),
            (5 << 30, "5.4 GB", "5.0 GiB"),
            (3 << 40, "3.3 TB", "3.0 TiB"),
        ] {
            let shown = [bytes(count), binary_size(count)];
            assert_eq!(
                shown.map(|words| words.replace('\u{a0}', " ")),
                [decimal, binary]
            );
        }
        assert!(!bytes(1500).contains(' ') && !binary_size(1 << 30).contains(' '));
    }

    #[test]
    fn a_share_is_never_rounded_to_nothing_or_to_all() {
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(0.001), "<1%");
        assert_eq!(percent(0.9999), "99%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(percent(0.426), "43%");
    }

    #[test]
    fn short_times_are_whole() {
        assert_eq!(short_time(16), "16 µs");
        assert_eq!(short_time(16_384), "16 ms");
        assert_eq!(short_time(1_048_576), "1 s");
    }
}
