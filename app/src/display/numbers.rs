// SPDX-License-Identifier: GPL-3.0-or-later
//! Sizes, rates, shares and short times as a person reads them.

use gettextrs::gettext;
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
}
