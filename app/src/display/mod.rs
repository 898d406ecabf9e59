// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns states into words, icons and severity. Pure: no widget, no bus, tested without GTK.

mod choice;
mod device;
mod failure;
mod figures;
mod mode;
mod numbers;
mod plan;
mod state;
mod traffic;

pub use choice::{Choice, origin_choices, ssd_choices};
pub use device::{
    DeviceWords, VolumeWords, content_words, device_words, obstacle_words, ssd_words, volume_names,
    volume_words,
};
pub use failure::{FailureWords, SYSTEM_BUS, failure_words};
pub use figures::{Figure, figures};
pub use mode::{
    MODES, UnwrittenWords, mode_change, mode_description, mode_name, mode_refusal, mode_warnings,
    recommended, refusal, unwritten_short, unwritten_words,
};
pub use numbers::{binary_size, bytes, duration, percent, rate, short_time};
pub use plan::{
    device_facts, full_name, full_title, job_end_words, job_title, plain_name, plan_title,
    short_name, step_name, step_words, warning_words,
};
pub use state::{CacheWords, Severity, cache_words};
pub use traffic::{Share, read_shares, reason_words, write_shares};

/// Between facts in a line. The no-break space keeps the dot at the end of the fact before it.
pub const SEPARATOR: &str = "\u{a0}· ";

/// Puts values into a translated sentence: `{name}` becomes the value of that name.
pub fn fill(sentence: &str, values: &[(&str, &str)]) -> String {
    let mut words = String::with_capacity(sentence.len() + 32);
    let mut rest = sentence;
    // One pass, so that a value that contains `{name}` itself (a disk label, for example) stays as it is.
    while let Some((before, tail)) = rest.split_once('{') {
        words.push_str(before);
        let value = tail.split_once('}').and_then(|(name, after)| {
            values
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (value, after))
        });
        match value {
            Some((value, after)) => {
                words.push_str(value);
                rest = after;
            }
            None => {
                words.push('{');
                rest = tail;
            }
        }
    }
    words + rest
}

/// A value for words with mnemonics: underscores in the value do not mark a key.
#[must_use]
pub fn keyless(value: &str) -> String {
    value.replace('_', "__")
}

#[cfg(test)]
mod tests {
    use super::{fill, keyless};

    #[test]
    fn underscores_in_names_mark_no_key() {
        assert_eq!(
            fill("_Erase {model}", &[("model", &keyless("SSD_120"))]),
            "_Erase SSD__120"
        );
    }

    #[test]
    fn values_are_put_in_once_and_never_read_again() {
        assert_eq!(
            fill("{a} and {b}", &[("a", "{b}"), ("b", "x")]),
            "{b} and x"
        );
        assert_eq!(fill("{unknown} {", &[]), "{unknown} {");
    }
}
