// SPDX-License-Identifier: GPL-3.0-or-later
//! The entry of the menu and the button at the foot of the page, which both remove the cache. Both have the same label.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use tandem_api::CacheState;

use super::CachePage;
use super::menu::relabel;

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
        if self
            .cache()
            .is_some_and(|cache| cache.facts().ssd.is_memory())
        {
            imp.remove_what.set_label(&gettext(
                "Restores the plain hard disk and frees the memory. All files stay where they are.",
            ));
        } else {
            imp.remove_what.set_label(&gettext(
                "Restores the plain hard disk and releases the SSD. All files stay where they are.",
            ));
        }
        imp.remove.set_label(&words);
        relabel(&imp.cache_section, REMOVE, &words);
    }
}
