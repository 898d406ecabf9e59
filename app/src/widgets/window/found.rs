// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands for caches of which this system has no record.

use adw::subclass::prelude::*;
use gtk::prelude::*;

use super::Window;
use crate::display::{discard_found_words, take_over_words};
use crate::widgets::found::ask;

impl Window {
    /// Asks whether the cache on this SSD (block path) is to be used, and has it used.
    pub(super) fn take_over(&self, ssd: &str) {
        let imp = self.imp();
        let found = imp.store.found_caches();
        let found = found.into_iter().find(|f| f.ssd.object.as_str() == ssd);
        let (Some(client), Some(found)) = (imp.client.get().cloned(), found) else {
            return;
        };
        let words = take_over_words(&found);
        let agreed = move || {
            let (client, ssd) = (client.clone(), found.ssd.object.clone());
            async move { client.take_over(&ssd).await }
        };
        ask(Some(self.upcast_ref()), &words, false, agreed);
    }

    /// Asks whether what the cache on this SSD (block path) holds is to be given up, and has it given up.
    pub(super) fn discard_found(&self, ssd: &str) {
        let imp = self.imp();
        let found = imp.store.found_caches();
        let found = found.into_iter().find(|f| f.ssd.object.as_str() == ssd);
        let (Some(client), Some(found)) = (imp.client.get().cloned(), found) else {
            return;
        };
        let words = discard_found_words(&found);
        let agreed = move || {
            let (client, ssd) = (client.clone(), found.ssd.object.clone());
            async move { client.discard_found(&ssd).await }
        };
        ask(Some(self.upcast_ref()), &words, true, agreed);
    }
}
