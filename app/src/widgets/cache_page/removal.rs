// SPDX-License-Identifier: GPL-3.0-or-later
//! The entry of the menu and the button at the foot of the page, which both remove the cache. Both have the same label.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use tandem_api::CacheState;

use super::CachePage;
use super::menu::relabel;
use crate::model::facts::CacheFacts;

/// The action of both.
pub(super) const REMOVE: &str = "cache.remove";

impl CachePage {
    /// Labels the button and the entry by what a removal does to this cache. `dirty`: the dirty bytes.
    pub(super) fn show_removal(&self, facts: &CacheFacts, dirty: u64) {
        let imp = self.imp();
        let words = match facts.state {
            CacheState::Pending => gettext("_Cancel Setup…"),
            CacheState::Active if dirty > 0 => gettext("_Write Back and Remove…"),
            _ => gettext("_Remove Cache…"),
        };
        // A removal may give up what is on the SSD only; its plan says so.
        let loses = !facts.is_live() && facts.may_be_unwritten(dirty);
        let says = facts.state != CacheState::Pending && !loses;
        imp.remove_what.set_visible(says);
        if facts.ssd.is_memory() {
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
