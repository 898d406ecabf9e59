// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks for another mode of an existing cache.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use tandem_api::Mode;

use crate::a11y;
use crate::client::Client;
use crate::display::mode_change;
use crate::model::facts::CacheFacts;
use crate::widgets::choice_window::ChoiceWindow;
use crate::widgets::mode_list::ModeList;
use crate::widgets::remove_dialog::show_failure;
use crate::widgets::scrolled::scroll_to_end;

/// Shows the modes and has the service set another one if the person chooses it. The cache page shows the new mode when
/// the service reports it.
pub fn ask_for_mode(parent: Option<&gtk::Window>, client: &Client, cache: &CacheFacts) {
    let ChoiceWindow {
        window,
        scroller,
        content,
        go_on: change,
        // Translators: changes what the SSD does to what was just chosen
    } = ChoiceWindow::new(parent, &gettext("Choose a Mode"), &gettext("C_hange"));
    let list: ModeList = glib::Object::new();
    list.show(cache.mode, &cache.refused_modes);
    let consequence = gtk::Label::builder()
        .wrap(true)
        .xalign(0.0)
        .visible(false)
        .build();
    content.append(&list);
    content.append(&consequence);
    let before = cache.mode;
    list.connect_chosen(clone!(
        #[weak]
        change,
        #[weak]
        consequence,
        #[weak]
        scroller,
        move |mode| {
            let words = mode_change(before, mode);
            consequence.set_label(&words);
            consequence.set_visible(!words.is_empty());
            scroll_to_end(&scroller);
            change.set_sensitive(mode != before);
            change.set_css_classes(&[if mode == Mode::Writeback {
                "destructive-action"
            } else {
                "suggested-action"
            }]);
        }
    ));
    let (client, path) = (client.clone(), cache.path.clone());
    let parent = parent.cloned();
    change.connect_clicked(clone!(
        #[weak]
        window,
        #[weak]
        list,
        move |_| {
            window.close();
            let (client, path, parent) = (client.clone(), path.clone(), parent.clone());
            let mode = list.mode();
            glib::spawn_future_local(async move {
                if let Err(failure) = client.set_mode(&path, mode).await {
                    show_failure(parent.as_ref(), &failure);
                }
            });
        }
    ));
    a11y::name_by_labels(&window);
    window.present();
}
