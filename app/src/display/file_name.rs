// SPDX-License-Identifier: GPL-3.0-or-later
//! Names of files that have the name of a disk in them.

/// Most bytes of the name, so that there is room for an ending: file systems take 255.
const MOST: usize = 200;

/// A text as the name of a file, without its ending. The label of a file system may have slashes, or begin with a dot.
pub fn file_name(text: &str) -> String {
    let visible = text.trim_start_matches('.');
    let mut name = String::new();
    for c in visible.chars() {
        let c = if c == '/' || c.is_control() { '-' } else { c };
        if name.len() + c.len_utf8() > MOST {
            break;
        }
        name.push(c);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_file_leads_to_no_other_folder_and_is_neither_hidden_nor_too_long() {
        for (text, name) in [
            ("Archive", "Archive"),
            ("../../etc/x", "-..-etc-x"),
            (".hidden", "hidden"),
            ("a/b\n", "a-b-"),
        ] {
            assert_eq!(file_name(text), name);
        }
        assert_eq!(file_name(&"\u{e4}".repeat(300)).len(), 200);
    }
}
