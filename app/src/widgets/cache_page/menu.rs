// SPDX-License-Identifier: GPL-3.0-or-later
//! The entries of the menu that change: their labels, and those that only some caches have.

use gtk::prelude::*;
use gtk::{gio, glib};

/// The place and the label of the entry of `action` in `section`.
fn entry(section: &gio::Menu, action: &str) -> Option<(i32, String)> {
    let text = |item, attribute| {
        section
            .item_attribute_value(item, attribute, Some(glib::VariantTy::STRING))
            .and_then(|value| value.get::<String>())
    };
    let place = (0..section.n_items())
        .find(|item| text(*item, gio::MENU_ATTRIBUTE_ACTION).as_deref() == Some(action))?;
    let label = text(place, gio::MENU_ATTRIBUTE_LABEL);
    Some((place, label.unwrap_or_default()))
}

/// Gives the entry of `action` in `section` this label. An entry of a [`gio::Menu`] cannot change, so a new entry
/// replaces the old one. In an open menu a replaced entry loses the focus, so an entry with this label stays.
pub(super) fn relabel(section: &gio::Menu, action: &str, words: &str) {
    if let Some((place, label)) = entry(section, action)
        && label != words
    {
        section.remove(place);
        section.insert(place, Some(words), Some(action));
    }
}

/// Makes `section` have an entry of `action`, before the entry of the action `before`, or no such entry. `words`: its label
/// when it comes.
pub(super) fn offer(
    section: &gio::Menu,
    action: &str,
    before: &str,
    words: &str,
    is_offered: bool,
) {
    match (entry(section, action), is_offered) {
        (Some((place, _)), false) => section.remove(place),
        (None, true) => {
            let place = entry(section, before).map_or(-1, |(place, _)| place);
            section.insert(place, Some(words), Some(action));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_and_comes_back_to_its_place() {
        let section = gio::Menu::new();
        for (words, action) in [("A", "x.a"), ("B", "x.b"), ("C", "x.c")] {
            section.append(Some(words), Some(action));
        }
        let all = || -> Vec<_> {
            let places = ["x.a", "x.b", "x.c"].map(|action| entry(&section, action));
            places.into_iter().collect()
        };
        let before = all();
        offer(&section, "x.b", "x.c", "B", true);
        assert_eq!(all(), before);
        offer(&section, "x.b", "x.c", "B", false);
        assert_eq!((section.n_items(), entry(&section, "x.b")), (2, None));
        offer(&section, "x.b", "x.c", "B", true);
        assert_eq!(all(), before);
        relabel(&section, "x.b", "D");
        assert_eq!(entry(&section, "x.b"), Some((1, "D".to_owned())));
    }
}
