// SPDX-License-Identifier: GPL-3.0-or-later
//! Names that users give caches.

/// Most characters of a name.
pub const MAX_NAME_CHARS: usize = 64;

/// The name without spaces at its ends; empty for no name. `None` if the name is too long, or has characters that break
/// a line or change the order of others: a name must not make the words around it say something else.
pub fn checked_name(name: &str) -> Option<&str> {
    let name = name.trim();
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let reorders = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let refused =
        name.chars().count() > MAX_NAME_CHARS || name.chars().any(|c| breaks(c) || reorders(c));
    (!refused).then_some(name)
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
