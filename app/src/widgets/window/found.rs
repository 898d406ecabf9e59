// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands for caches of which this system has no record.

use adw::subclass::prelude::*;
use gtk::prelude::*;
use tandem_api::FoundCache;

use super::Window;
use crate::client::Client;
use crate::display::{discard_found_words, take_over_words};
use crate::widgets::found::ask;

impl Window {
    /// The cache of which this system has no record on this SSD (block path); `None` without the service, or if none is there.
    fn found_on(&self, ssd: &str) -> Option<(Client, FoundCache)> {
        let imp = self.imp();
        let mut found = imp.store.found_caches().into_iter();
        let found = found.find(|f| f.ssd.object.as_str() == ssd)?;
        Some((imp.client.get().cloned()?, found))
    }

    /// Asks whether the cache on this SSD (block path) is to be used, and has it used.
    pub(super) fn take_over(&self, ssd: &str) {
        let Some((client, found)) = self.found_on(ssd) else {
            return;
        };
        let words = take_over_words(&found);
        let agreed = move || {
            let (client, found) = (client.clone(), found.clone());
            async move { client.take_over(&found).await }
        };
        ask(Some(self.upcast_ref()), &words, false, agreed);
    }

    /// Asks whether what the cache on this SSD (block path) holds is to be given up, and has it given up.
    pub(super) fn discard_found(&self, ssd: &str) {
        let Some((client, found)) = self.found_on(ssd) else {
            return;
        };
        let words = discard_found_words(&found);
        let agreed = move || {
            let (client, found) = (client.clone(), found.clone());
            async move { client.discard_found(&found).await }
        };
        ask(Some(self.upcast_ref()), &words, true, agreed);
    }
}
