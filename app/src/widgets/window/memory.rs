// SPDX-License-Identifier: GPL-3.0-or-later
//! What the window remembers from one start to the next, where the program is installed with its settings: its size, and
//! the page that it showed last.

use adw::subclass::prelude::*;
use gtk::gio;
use gtk::prelude::*;

use super::Window;
use crate::application::APP_ID;

/// Setting: uuid of the cache whose page was shown last; empty for the overview.
const SHOWN_CACHE: &str = "shown-cache";

impl Window {
    /// Gives the window the size that it had, and finds out which page it showed.
    pub(super) fn remember(&self) {
        let schemas = gio::SettingsSchemaSource::default();
        if schemas.and_then(|all| all.lookup(APP_ID, true)).is_none() {
            return;
        }
        let settings = gio::Settings::new(APP_ID);
        for (key, property) in [
            ("window-width", "default-width"),
            ("window-height", "default-height"),
            ("window-maximized", "maximized"),
        ] {
            settings.bind(key, self, property).build();
        }
        let imp = self.imp();
        imp.page_before
            .replace(Some(settings.string(SHOWN_CACHE).into()));
        // The window is made once.
        let _ = imp.settings.set(settings);
    }

    /// Shows the page of the last start again as soon as the caches are known. A cache that is gone by then has no page.
    pub(super) fn show_page_before(&self) {
        let imp = self.imp();
        if !imp.store.is_known() {
            return;
        }
        if let Some(uuid) = imp.page_before.take() {
            self.show_cache(&uuid);
        }
    }

    /// Keeps for the next start that the page of the cache with this uuid is shown; without one, the overview.
    pub(super) fn remember_page(&self, uuid: &str) {
        let Some(settings) = self.imp().settings.get() else {
            return;
        };
        if let Err(error) = settings.set_string(SHOWN_CACHE, uuid) {
            tracing::debug!("the page is not remembered: {error}");
        }
    }
}
