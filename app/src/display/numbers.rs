// SPDX-License-Identifier: GPL-3.0-or-later
//! Sizes, rates, shares and times as a person reads them.

use gettextrs::{gettext, ngettext};
use gtk::glib;

use super::fill;

/// A size in powers of ten, as it is printed on disks: "2.0 TB".
#[must_use]
pub fn bytes(count: u64) -> String {
    glib::format_size(count).to_string()
}

/// A size that is a power of two, in binary units: "64.0 MiB".
#[must_use]
pub fn binary_size(count: u64) -> String {
    const MIB: u64 = 1 << 20;
    if count.is_multiple_of(MIB) && count < 1024 * MIB {
        return format!("{}\u{a0}MiB", count / MIB);
    }
    glib::format_size_full(count, glib::FormatSizeFlags::IEC_UNITS).to_string()
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

/// A time to wait in seconds, minutes, or hours and minutes. Rounded up.
#[must_use]
pub fn duration(seconds: u64) -> String {
    let plural = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let minutes = seconds.div_ceil(60);
    let (number, words) = match (seconds, minutes) {
        (0..60, _) => {
            let number = seconds.max(1);
            (
                number,
                ngettext("{number} second", "{number} seconds", plural(number)),
            )
        }
        (_, 0..60) => (
            minutes,
            ngettext("{number} minute", "{number} minutes", plural(minutes)),
        ),
        (_, minutes) => {
            let hours = minutes / 60;
            let words = if minutes.is_multiple_of(60) {
                ngettext("{number} hour", "{number} hours", plural(hours))
            } else {
                // Translators: a time such as "1 h 5 min"
                gettext("{number} h {minutes} min")
            };
            (hours, words)
        }
    };
    fill(
        &words,
        &[
            ("number", &number.to_string()),
            ("minutes", &(minutes % 60).to_string()),
        ],
    )
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

    #[test]
    fn times_are_never_much_longer_than_they_are() {
        assert_eq!(duration(0), "1 second");
        assert_eq!(duration(45), "45 seconds");
        assert_eq!(duration(61), "2 minutes");
        assert_eq!(duration(3599), "1 hour");
        assert_eq!(duration(3601), "1 h 1 min");
        assert_eq!(duration(7000), "1 h 57 min");
        assert_eq!(duration(7200), "2 hours");
    }
}
