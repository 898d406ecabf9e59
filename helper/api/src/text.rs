// SPDX-License-Identifier: GPL-3.0-or-later
//! Texts that someone else chose: the label of a file system, the model of a drive, the name of a process.

/// Whether a character takes part in a line of text and nothing more: it sends no command to a terminal, breaks no line,
/// does not change the order of the words around it, and is not hidden.
pub(crate) fn is_plain(c: char) -> bool {
    let breaks = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    // Embeddings, overrides and isolates of bidirectional text, and the marks that have the direction of a letter.
    let reorders = matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // The joiners U+200C and U+200D belong to scripts and to emoji.
    let hides = matches!(c,
        '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !(breaks || reorders || hides)
}

/// The text with `�` for each character that is not plain. Each text of another program becomes plain where the value is
/// made that has it, so that no terminal, log or desktop gets any other text. Markup is left: the place that shows a text
/// knows whether it takes markup.
pub fn plain(text: &str) -> String {
    let shown = |c| if is_plain(c) { c } else { '\u{fffd}' };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_text_stays_as_it_is() {
        for text in [
            "",
            "Fotos & Müll <b> 📷",
            "תמונות",
            "👩\u{200d}💻",
            "می\u{200c}خواهم",
        ] {
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn whatever_commands_breaks_reorders_or_hides_is_replaced() {
        for (text, shown) in [
            ("\u{1b}[2Jx\u{9b}m", "\u{fffd}[2Jx\u{fffd}m"),
            (
                "two\nlines\r\u{2028}\u{85}",
                "two\u{fffd}lines\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("a\u{202e}b\u{2066}c\u{200f}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("A\u{200b}B\u{feff}\u{e0041}", "A\u{fffd}B\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(plain(text), shown, "{text:?}");
        }
    }
}
