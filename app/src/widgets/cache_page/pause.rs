// SPDX-License-Identifier: GPL-3.0-or-later
//! The entry of the menu and the button of the banner, which both pause the cache or have it go on.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};

use super::CachePage;
use super::menu::{offer, relabel};
use crate::client::Client;
use crate::display::is_put_away;
use crate::widgets::remove_dialog::show_failure;
use crate::widgets::window::Window;

/// The action of both.
pub(super) const PAUSE: &str = "cache.pause";

impl CachePage {
    /// Labels the entry by what it does, and ends the offer to take a pause back when the cache goes on. `is_offered`: the
    /// cache can be paused, or go on.
    pub(super) fn show_pause(&self, paused: bool, is_offered: bool) {
        let words = if paused {
            gettext("Res_ume")
        } else {
            gettext("Pa_use")
        };
        let imp = self.imp();
        let before = "cache.reset-statistics";
        offer(&imp.cache_section, PAUSE, before, &words, is_offered);
        relabel(&imp.cache_section, PAUSE, &words);
        // There is nothing to take back any more.
        if !paused && let Some(offer) = imp.pause_offer.take() {
            offer.dismiss();
        }
    }

    /// Pauses the cache, and offers to take that back; or has a cache go on that was paused or put away.
    pub(super) fn pause(&self) {
        let page = self.clone();
        self.run_command(move |parent, client, facts| async move {
            if is_put_away(facts.state, &facts.reason) {
                if let Err(failure) = client.start(&facts.path).await {
                    show_failure(parent.as_ref(), &failure);
                }
                return;
            }
            let paused = !facts.paused;
            if let Err(failure) = client.set_paused(&facts.path, paused).await {
                return show_failure(parent.as_ref(), &failure);
            }
            let Some(window) = parent.and_downcast::<Window>().filter(|_| paused) else {
                return;
            };
            let undo = clone!(
                #[weak]
                page,
                move || page.resume(client.clone(), facts.path.clone())
            );
            let offer = window.offer(&gettext("Cache paused"), &gettext("_Undo"), undo);
            page.imp().pause_offer.replace(Some(offer));
        });
    }

    /// Has a cache go on. Another cache may be shown by now.
    fn resume(&self, client: Client, path: String) {
        glib::spawn_future_local(clone!(
            #[weak(rename_to = page)]
            self,
            async move {
                if let Err(failure) = client.set_paused(&path, false).await {
                    let window = page.root().and_downcast::<gtk::Window>();
                    show_failure(window.as_ref(), &failure);
                }
            }
        ));
    }
}
