// SPDX-License-Identifier: GPL-3.0-or-later
//! The row of the speed test, with the last result.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::SpeedTest;

use super::CachePage;
use crate::client::SpeedTarget;
use crate::display::{plain_name, speed_words};
use crate::widgets::speed_dialog::SpeedDialog;

impl CachePage {
    /// Shows the last result.
    pub(super) fn refresh_speed_test(&self, last: Option<&SpeedTest>) {
        let words = last.map_or_else(
            || gettext("Measure how much faster the hard disk is with its cache"),
            |last| speed_words(last).short(last.time),
        );
        self.imp()
            .speed
            .set_subtitle(&glib::markup_escape_text(&words));
    }

    /// Offers the test while the cache works and no job changes it. The last result can always be seen.
    pub(super) fn enable_speed_test(&self, can_test: bool, was_tested: bool) {
        self.imp().speed_group.set_visible(can_test || was_tested);
        self.action_set_enabled("cache.test-speed", can_test || was_tested);
    }

    /// Opens the window of the test.
    pub(super) fn test_speed(&self) {
        let (Some(client), Some(cache)) = (self.imp().client.get(), self.cache()) else {
            return;
        };
        let facts = cache.facts();
        let parent = self.root().and_downcast::<gtk::Window>();
        let disk = plain_name(&facts.origin);
        let target = SpeedTarget::Cache(facts.path);
        SpeedDialog::open(parent.as_ref(), client, target, &disk, facts.speed.as_ref());
    }
}
