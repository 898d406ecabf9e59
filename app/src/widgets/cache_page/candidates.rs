// SPDX-License-Identifier: GPL-3.0-or-later
//! The disks that may belong to the cache, where no disk is as recorded.

use adw::subclass::prelude::*;
use gtk::prelude::*;

use super::CachePage;
use crate::display::confirm_words;
use crate::model::facts::CacheFacts;
use crate::widgets::found::{ask, candidate_row};

impl CachePage {
    /// Shows the disks. The rows are made anew only if they change, so that the focus stays.
    pub(super) fn show_candidates(&self, facts: &CacheFacts) {
        let imp = self.imp();
        imp.candidates.set_visible(!facts.candidates.is_empty());
        if *imp.shown_candidates.borrow() == facts.candidates {
            return;
        }
        while let Some(row) = imp.candidate_list.first_child() {
            imp.candidate_list.remove(&row);
        }
        for candidate in &facts.candidates {
            imp.candidate_list.append(&candidate_row(candidate));
        }
        imp.shown_candidates.replace(facts.candidates.clone());
    }

    /// Asks whether this disk (block path) is the disk of the cache, and tells the service so.
    pub(super) fn confirm_disk(&self, disk: &str) {
        let (Some(client), Some(cache)) = (self.imp().client.get().cloned(), self.cache()) else {
            return;
        };
        let facts = cache.facts();
        let is_meant = |c: &&tandem_api::DiskCandidate| c.device.object.as_str() == disk;
        let Some(candidate) = facts.candidates.iter().find(is_meant).cloned() else {
            return;
        };
        let words = confirm_words(&candidate);
        let agreed = move || {
            let (client, cache) = (client.clone(), facts.path.clone());
            let disk = candidate.device.object.clone();
            async move { client.confirm_disk(&cache, &disk).await }
        };
        let parent = self.root().and_downcast::<gtk::Window>();
        ask(parent.as_ref(), &words, true, agreed);
    }
}
