// SPDX-License-Identifier: GPL-3.0-or-later
//! The figures over days: the shares of reads that the SSD served, what the cache wrote to the SSD, and their new
//! beginning.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};

use super::CachePage;
use super::numbers::share_words;
use crate::client::Client;
use crate::display::{Place, date, fill, written_words};
use crate::model::bars::{hit_rate_since, total_hit_rate};
use crate::widgets::remove_dialog::show_failure;
use crate::widgets::window::Window;

impl CachePage {
    /// Shows the figures of the last day and of all days.
    pub(super) fn refresh_rates(&self) {
        let imp = self.imp();
        let day = imp.day.borrow();
        let place = self
            .cache()
            .map_or(Place::Ssd, |cache| Place::of(&cache.facts().ssd));
        imp.hit_today.set_label(&share_words(
            midnight().and_then(|since| hit_rate_since(&day, since)),
        ));
        imp.hit_total.set_label(&share_words(total_hit_rate(&day)));
        let [legend, today, since, all] = match place {
            Place::Ssd => [
                gettext("Read from SSD"),
                gettext("Read from SSD today"),
                // Translators: under a share; {date} is a day
                gettext("Read from SSD since {date}"),
                gettext("Read from SSD since setup"),
            ],
            Place::Memory => [
                gettext("Read from memory"),
                gettext("Read from memory today"),
                // Translators: under a share; {date} is a day
                gettext("Read from memory since {date}"),
                gettext("Read from memory since setup"),
            ],
        };
        imp.hit_legend.set_label(legend);
        imp.hit_today_caption.set_label(&today);
        imp.hit_total_caption.set_label(&if day.was_reset {
            fill(&since, &[("date", &date(day.total.start))])
        } else {
            all
        });
        let now = u64::try_from(glib::real_time() / 1_000_000).unwrap_or(0);
        imp.health
            .show_written(&written_words(&day.ssd_written, now));
    }

    /// Has the service begin the figures since the set-up anew, and offers to take that back.
    pub(super) fn reset_statistics(&self) {
        let Some(cache) = self.cache() else { return };
        let page = self.clone();
        self.run_command(move |parent, client, facts| async move {
            if let Err(failure) = client.reset_statistics(&facts.path, false).await {
                return show_failure(parent.as_ref(), &failure);
            }
            page.load_histories();
            let Some(window) = parent.and_downcast::<Window>() else {
                return;
            };
            let undo = clone!(
                #[weak]
                page,
                move || page.undo_reset(client.clone(), cache.facts().path)
            );
            drop(window.offer(&gettext("Statistics reset"), &gettext("_Undo"), undo));
        });
    }

    /// Takes the new beginning back. Another cache may be shown by now.
    fn undo_reset(&self, client: Client, path: String) {
        glib::spawn_future_local(clone!(
            #[weak(rename_to = page)]
            self,
            async move {
                if let Err(failure) = client.reset_statistics(&path, true).await {
                    let window = page.root().and_downcast::<gtk::Window>();
                    show_failure(window.as_ref(), &failure);
                }
                page.load_histories();
            }
        ));
    }
}

/// The start of today, in seconds of Unix time.
fn midnight() -> Option<u64> {
    let now = glib::DateTime::now_local().ok()?;
    let (year, month, day) = now.ymd();
    let start = glib::DateTime::from_local(year, month, day, 0, 0, 0.0).ok()?;
    u64::try_from(start.to_unix()).ok()
}
