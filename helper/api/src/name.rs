// SPDX-License-Identifier: GPL-3.0-or-later
//! Names that users give caches.

use crate::text::is_plain;

/// Most characters of a name.
pub const MAX_NAME_CHARS: usize = 64;

/// The name without spaces at its ends; empty for no name. `None` if the name is too long, or has characters that are
/// not plain: a name must not make the words around it say something else.
pub fn checked_name(name: &str) -> Option<&str> {
    let name = name.trim();
    let is_short = name.chars().count() <= MAX_NAME_CHARS;
    (is_short && name.chars().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_on_one_line_and_changes_no_words_around_it() {
        for (asked, kept) in [
            ("  Photos ", "Photos"),
            ("", ""),
            ("   ", ""),
            ("Fotos & Müll 📷", "Fotos & Müll 📷"),
            ("תמונות", "תמונות"),
        ] {
            assert_eq!(checked_name(asked), Some(kept));
        }
        assert!(checked_name(&"ä".repeat(MAX_NAME_CHARS)).is_some());
        let long = "a".repeat(MAX_NAME_CHARS + 1);
        for refused in [
            long.as_str(),
            "two\nlines",
            "a\0b",
            "\u{1b}[2J",
            "a\u{202e}b",
            "a\u{2028}b",
        ] {
            assert_eq!(checked_name(refused), None, "{refused:?}");
        }
    }
}
