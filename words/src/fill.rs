// SPDX-License-Identifier: GPL-3.0-or-later
//! Puts values into translated sentences.

/// Puts values into a translated sentence: `{name}` becomes the value of that name.
#[must_use]
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
    fn values_are_put_in_once_and_never_read_again() {
        assert_eq!(
            fill("{a} and {b}", &[("a", "{b}"), ("b", "x")]),
            "{b} and x"
        );
        assert_eq!(fill("{unknown} {", &[]), "{unknown} {");
    }

    #[test]
    fn underscores_in_names_mark_no_key() {
        assert_eq!(
            fill("_Erase {model}", &[("model", &keyless("SSD_120"))]),
            "_Erase SSD__120"
        );
    }
}
