// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks what an existing cache should do from now on with what is saved.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::Mode;

use crate::client::Client;
use crate::display::mode_change;
use crate::model::facts::CacheFacts;
use crate::widgets::mode_list::ModeList;
use crate::widgets::remove_dialog::show_failure;
use crate::widgets::scrolled::{scroll_to_end, scrolled};

/// Shows the modes, and changes to another if the person wants it. That it has changed the cache tells by itself.
pub fn ask_for_mode(parent: Option<&gtk::Window>, client: &Client, cache: &CacheFacts) {
    let list: ModeList = glib::Object::new();
    list.show(cache.mode, &cache.refused_modes);
    let consequence = gtk::Label::builder()
        .wrap(true)
        .xalign(0.0)
        .visible(false)
        .build();
    let more = gtk::Box::builder()
        .orientation(gtk::Orientation::Vertical)
        .spacing(18)
        .build();
    more.append(&list);
    more.append(&consequence);
    let scroller = scrolled(&more);
    let dialog = adw::MessageDialog::builder()
        .heading(gettext("What Should the SSD Do?"))
        .extra_child(&scroller)
        .build();
    dialog.set_transient_for(parent);
    dialog.add_responses(&[
        ("cancel", &gettext("_Cancel")),
        // Translators: changes what the SSD does to what was just chosen
        ("change", &gettext("C_hange")),
    ]);
    dialog.set_response_enabled("change", false);
    dialog.set_close_response("cancel");
    let before = cache.mode;
    let weak = dialog.downgrade();
    list.connect_chosen(move |mode| {
        let words = mode_change(before, mode);
        consequence.set_label(&words);
        consequence.set_visible(!words.is_empty());
        scroll_to_end(&scroller);
        if let Some(dialog) = weak.upgrade() {
            dialog.set_response_enabled("change", mode != before);
            let look = if mode == Mode::Writeback {
                adw::ResponseAppearance::Destructive
            } else {
                adw::ResponseAppearance::Suggested
            };
            dialog.set_response_appearance("change", look);
        }
    });
    let (client, path) = (client.clone(), cache.path.clone());
    let parent = parent.cloned();
    dialog.connect_response(Some("change"), move |_, _| {
        let (client, path, parent, mode) =
            (client.clone(), path.clone(), parent.clone(), list.mode());
        glib::spawn_future_local(async move {
            if let Err(failure) = client.set_mode(&path, mode).await {
                show_failure(parent.as_ref(), &failure);
            }
        });
    });
    dialog.present();
}
