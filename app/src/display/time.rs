// SPDX-License-Identifier: GPL-3.0-or-later
//! Times to wait, as a person reads them. The window and the tray indicator share this file.

use gettextrs::{gettext, ngettext};

use super::fill;

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

#[cfg(test)]
mod tests {
    use super::duration;

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
