// SPDX-License-Identifier: GPL-3.0-or-later
//! The entry of the menu and the button of the banner, which both pause the cache or have it go on.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};

use super::CachePage;
use super::removal::relabel;
use crate::client::Client;
use crate::widgets::remove_dialog::show_failure;
use crate::widgets::window::Window;

/// The action of both.
pub(super) const PAUSE: &str = "cache.pause";

impl CachePage {
    /// Labels the entry by what it does.
    pub(super) fn show_pause(&self, paused: bool) {
        let words = if paused {
            gettext("Res_ume")
        } else {
            gettext("Pa_use")
        };
        relabel(&self.imp().cache_section, PAUSE, &words);
    }

    /// Pauses the cache, and offers to take that back; or has a paused cache go on.
    pub(super) fn pause(&self) {
        let page = self.clone();
        self.run_command(move |parent, client, facts| async move {
            let paused = !facts.paused;
            if let Err(failure) = client.set_paused(&facts.path, paused).await {
                return show_failure(parent.as_ref(), &failure);
            }
            let Some(window) = parent.and_downcast::<Window>() else {
                return;
            };
            if !paused {
                return window.withdraw_offer();
            }
            let undo = clone!(
                #[weak]
                page,
                move || page.resume(client.clone(), facts.path.clone())
            );
            window.offer(&gettext("Cache paused"), &gettext("_Undo"), undo);
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
