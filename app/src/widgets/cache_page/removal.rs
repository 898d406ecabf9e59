// SPDX-License-Identifier: GPL-3.0-or-later
//! The two ways on the page to the removal of a cache: the entry of the menu and the button at the foot. Both have the
//! same words.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::{gio, glib};
use tandem_api::CacheState;

use super::CachePage;

/// Action of the entry and of the button.
pub(super) const REMOVE: &str = "cache.remove";

impl CachePage {
    /// Says on the button and in the menu what the removal does to a cache in this state with so many `dirty` bytes.
    pub(super) fn show_removal(&self, state: CacheState, dirty: u64) {
        let imp = self.imp();
        let words = match state {
            CacheState::Pending => gettext("_Cancel Setup…"),
            CacheState::Active if dirty > 0 => gettext("_Write Back and Remove…"),
            _ => gettext("_Remove Cache…"),
        };
        imp.remove_what.set_visible(state != CacheState::Pending);
        imp.remove.set_label(&words);
        relabel(&imp.cache_section, &words);
    }
}

/// Gives the entry of the removal in `section` this label. An entry of a [`gio::Menu`] cannot change, so a new entry
/// replaces the old one, but only for a new label: a replaced entry loses the focus in a menu that is open.
fn relabel(section: &gio::Menu, words: &str) {
    let text = |item, attribute| {
        section
            .item_attribute_value(item, attribute, Some(glib::VariantTy::STRING))
            .and_then(|value| value.get::<String>())
    };
    let entry = (0..section.n_items())
        .find(|item| text(*item, gio::MENU_ATTRIBUTE_ACTION).as_deref() == Some(REMOVE));
    let Some(entry) = entry else { return };
    if text(entry, gio::MENU_ATTRIBUTE_LABEL).as_deref() != Some(words) {
        section.remove(entry);
        section.insert(entry, Some(words), Some(REMOVE));
    }
}
