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
use crate::widgets::mode_list::ModeList;
use crate::widgets::remove_dialog::show_failure;
use crate::widgets::scrolled::scroll_to_end;

/// Shows the modes and has the service set another one if the person chooses it. The cache page shows the new mode when
/// the service reports it.
pub fn ask_for_mode(parent: Option<&gtk::Window>, client: &Client, cache: &CacheFacts) {
    let list: ModeList = glib::Object::new();
    list.show(cache.mode, &cache.refused_modes);
    let consequence = gtk::Label::builder()
        .wrap(true)
        .xalign(0.0)
        .visible(false)
        .build();
    let content = gtk::Box::builder()
        .orientation(gtk::Orientation::Vertical)
        .spacing(18)
        .margin_start(18)
        .margin_end(18)
        .margin_top(18)
        .margin_bottom(18)
        .build();
    // The title bar of a narrow window has no room for the question.
    let question = gtk::Label::builder()
        .label(gettext("Choose a Mode"))
        .wrap(true)
        .justify(gtk::Justification::Center)
        .css_classes(["title-2"])
        .build();
    content.append(&question);
    content.append(&list);
    content.append(&consequence);
    let scroller = gtk::ScrolledWindow::builder()
        .hscrollbar_policy(gtk::PolicyType::Never)
        .vexpand(true)
        .child(&adw::Clamp::builder().child(&content).build())
        .build();
    let cancel = gtk::Button::with_mnemonic(&gettext("_Cancel"));
    // Translators: changes what the SSD does to what was just chosen
    let change = gtk::Button::with_mnemonic(&gettext("C_hange"));
    change.set_sensitive(false);
    let header = adw::HeaderBar::builder()
        .show_start_title_buttons(false)
        .show_end_title_buttons(false)
        .build();
    header.set_title_widget(Some(&adw::WindowTitle::new("", "")));
    header.pack_start(&cancel);
    header.pack_end(&change);
    let all = gtk::Box::new(gtk::Orientation::Vertical, 0);
    all.append(&header);
    all.append(&scroller);
    // The dialog is not wider than the window under it.
    let width = parent.map_or(520, |parent| parent.width().clamp(320, 520));
    let dialog = adw::Window::builder()
        .title(gettext("Choose a Mode"))
        .modal(true)
        .default_width(width)
        .default_height(560)
        .content(&all)
        .build();
    dialog.set_transient_for(parent);
    close_by_escape(&dialog);
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
    cancel.connect_clicked(clone!(
        #[weak]
        dialog,
        move |_| dialog.close()
    ));
    let (client, path) = (client.clone(), cache.path.clone());
    let parent = parent.cloned();
    change.connect_clicked(clone!(
        #[weak]
        dialog,
        #[weak]
        list,
        move |_| {
            dialog.close();
            let (client, path, parent) = (client.clone(), path.clone(), parent.clone());
            let mode = list.mode();
            glib::spawn_future_local(async move {
                if let Err(failure) = client.set_mode(&path, mode).await {
                    show_failure(parent.as_ref(), &failure);
                }
            });
        }
    ));
    a11y::name_by_labels(&dialog);
    dialog.present();
}

fn close_by_escape(dialog: &adw::Window) {
    let keys = gtk::ShortcutController::new();
    keys.set_scope(gtk::ShortcutScope::Managed);
    keys.add_shortcut(gtk::Shortcut::new(
        gtk::ShortcutTrigger::parse_string("Escape"),
        Some(gtk::NamedAction::new("window.close")),
    ));
    dialog.add_controller(keys);
}
