// SPDX-License-Identifier: GPL-3.0-or-later
//! The entry of the menu and the button at the foot of the page, which both remove the cache. Both have the same label.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::{gio, glib};
use tandem_api::CacheState;

use super::CachePage;

/// The action of both.
pub(super) const REMOVE: &str = "cache.remove";

impl CachePage {
    /// Labels the button and the entry by what a removal does to a cache in this state. `dirty`: the dirty bytes.
    pub(super) fn show_removal(&self, state: CacheState, dirty: u64) {
        let imp = self.imp();
        let words = match state {
            CacheState::Pending => gettext("_Cancel Setup…"),
            CacheState::Active if dirty > 0 => gettext("_Write Back and Remove…"),
            _ => gettext("_Remove Cache…"),
        };
        imp.remove_what.set_visible(state != CacheState::Pending);
        imp.remove.set_label(&words);
        relabel(&imp.cache_section, REMOVE, &words);
    }
}

/// Gives the entry of `action` in `section` this label. An entry of a [`gio::Menu`] cannot change, so a new entry
/// replaces the old one. In an open menu a replaced entry loses the focus, so an entry with this label stays.
pub(super) fn relabel(section: &gio::Menu, action: &str, words: &str) {
    let text = |item, attribute| {
        section
            .item_attribute_value(item, attribute, Some(glib::VariantTy::STRING))
            .and_then(|value| value.get::<String>())
    };
    let entry = (0..section.n_items())
        .find(|item| text(*item, gio::MENU_ATTRIBUTE_ACTION).as_deref() == Some(action));
    let Some(entry) = entry else { return };
    if text(entry, gio::MENU_ATTRIBUTE_LABEL).as_deref() != Some(words) {
        section.remove(entry);
        section.insert(entry, Some(words), Some(action));
    }
}
