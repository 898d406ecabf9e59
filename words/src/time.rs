// SPDX-License-Identifier: GPL-3.0-or-later
//! Times to wait and days, as a person reads them.

use std::ffi::CString;
use std::mem::MaybeUninit;

use gettextrs::{gettext, ngettext};
use tandem_api::Span;

use crate::fill;

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

/// The day of a moment in seconds of Unix time, as the language writes it.
#[must_use]
pub fn date(time: u64) -> String {
    // Translators: a date, see `man strftime`; %B is the name of the month
    local(time, gettext("%B %-e, %Y"))
}

/// A moment in seconds of Unix time, as exactly as it matters in a history of this length.
#[must_use]
pub fn moment(time: u64, span: Span) -> String {
    let format = match span {
        Span::Hour => "%H:%M",
        Span::Day => "%a %H:%M",
        Span::Month => "%x",
    };
    local(time, format.to_owned())
}

/// A moment in the time of this place, in a format of `strftime`.
fn local(time: u64, format: String) -> String {
    let format = CString::new(format);
    let (Ok(time), Ok(format)) = (libc::time_t::try_from(time), format) else {
        return String::new();
    };
    let mut parts = MaybeUninit::<libc::tm>::uninit();
    let mut words = [0_u8; 256];
    // SAFETY: all pointers lead to live memory, `words` is as long as it is said to be, and `strftime` reads `parts` only
    // if `localtime_r` has filled it.
    let length = unsafe {
        if libc::localtime_r(&raw const time, parts.as_mut_ptr()).is_null() {
            return String::new();
        }
        let (start, room) = (words.as_mut_ptr().cast(), words.len());
        libc::strftime(start, room, format.as_ptr(), parts.as_ptr())
    };
    String::from_utf8_lossy(&words[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{date, duration, moment};
    use tandem_api::Span;

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

    #[test]
    fn a_day_is_written_out_and_a_day_without_a_date_is_left_out() {
        assert_eq!(date(1_793_534_400), "November 1, 2026");
        assert_eq!(date(u64::MAX), "");
    }

    #[test]
    fn a_moment_is_told_as_exactly_as_it_matters() {
        let in_ten_minutes = |span| [0, 600].map(|later| moment(1_793_534_400 + later, span));
        for span in [Span::Hour, Span::Day] {
            let [now, later] = in_ten_minutes(span);
            assert!(now != later && now.contains(':'), "{now} {later}");
        }
        let [now, later] = in_ten_minutes(Span::Month);
        assert!(now == later && now.contains("26"), "{now} {later}");
        assert_eq!(moment(u64::MAX, Span::Hour), "");
    }
}
