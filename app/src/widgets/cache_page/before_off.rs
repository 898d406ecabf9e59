// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a shutdown writes everything to the hard disk, and how long that may take.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib::{self, clone};
use tandem_api::{CacheState, Target};

use super::{CachePage, choices};
use crate::model::facts::CacheFacts;
use crate::widgets::remove_dialog::show_failure;

/// The limits that a person can choose, in minutes.
const LIMITS: [u32; 4] = [0, 5, 15, 25];

impl CachePage {
    pub(super) fn prepare_before_off(&self) {
        let row = &self.imp().before_off;
        row.connect_selected_notify(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.set_before_off()
        ));
    }

    /// Shows the setting of the service.
    pub(super) fn refresh_before_off(&self, facts: &CacheFacts) {
        let imp = self.imp();
        let is_used = facts.can_write_back() || facts.shutdown_minutes > 0;
        imp.before_off
            .set_visible(is_used && facts.target == Target::Tandem);
        imp.before_off
            .set_sensitive(facts.state == CacheState::Active);
        let minutes = facts.shutdown_minutes;
        choices::show(
            &imp.before_off,
            &imp.limits,
            choices::minutes(&LIMITS, minutes),
            &minutes,
            |&minutes| choices::minutes_words(minutes),
        );
    }

    /// Has the service take over what the person has chosen.
    fn set_before_off(&self) {
        let imp = self.imp();
        let chosen = choices::selected(&imp.before_off, &imp.limits);
        let (Some(minutes), Some(cache), Some(client)) =
            (chosen, self.cache(), imp.client.get().cloned())
        else {
            return;
        };
        let facts = cache.facts();
        if minutes == facts.shutdown_minutes {
            return;
        }
        glib::spawn_future_local(clone!(
            #[weak(rename_to = page)]
            self,
            async move {
                if let Err(failure) = client.set_shutdown_minutes(&facts.path, minutes).await {
                    let window = page.root().and_downcast::<gtk::Window>();
                    show_failure(window.as_ref(), &failure);
                }
                if let Some(cache) = page.cache() {
                    page.refresh_before_off(&cache.facts());
                }
            }
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_another_program_has_set_can_be_kept() {
        let limits = |now| choices::minutes(&LIMITS, now);
        assert_eq!(limits(5), LIMITS);
        assert_eq!(limits(7), [0, 5, 7, 15, 25]);
    }
}
