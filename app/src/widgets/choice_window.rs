// SPDX-License-Identifier: GPL-3.0-or-later
//! A small window with one question, a button that changes nothing and a button that goes on.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};

/// The window and its parts.
pub struct ChoiceWindow {
    /// The window, which the Escape key and the button "Cancel" close.
    pub window: adw::Window,
    /// What scrolls.
    pub scroller: gtk::ScrolledWindow,
    /// The box under the question.
    pub content: gtk::Box,
    /// The button that goes on; it is insensitive at first.
    pub go_on: gtk::Button,
}

/// The width of a window that is not wider than the window under it, at most `most` pixels.
pub(super) fn width_over(parent: Option<&gtk::Window>, most: i32) -> i32 {
    parent.map_or(most, |parent| parent.width().clamp(320, most))
}

impl ChoiceWindow {
    /// Makes a window over `parent`. `go_on`: the label of the button that goes on, with its mnemonic.
    #[must_use]
    pub fn new(parent: Option<&gtk::Window>, question: &str, go_on: &str) -> Self {
        let content = gtk::Box::builder()
            .orientation(gtk::Orientation::Vertical)
            .spacing(18)
            .margin_start(18)
            .margin_end(18)
            .margin_top(18)
            .margin_bottom(18)
            .build();
        // The title bar of a narrow window has no room for the question.
        let title = gtk::Label::builder()
            .label(question)
            .wrap(true)
            .justify(gtk::Justification::Center)
            .css_classes(["title-2"])
            .build();
        content.append(&title);
        let scroller = gtk::ScrolledWindow::builder()
            .hscrollbar_policy(gtk::PolicyType::Never)
            .vexpand(true)
            .child(&adw::Clamp::builder().child(&content).build())
            .build();
        let cancel = gtk::Button::with_mnemonic(&gettext("_Cancel"));
        let go_on = gtk::Button::with_mnemonic(go_on);
        go_on.set_sensitive(false);
        let header = adw::HeaderBar::builder()
            .show_start_title_buttons(false)
            .show_end_title_buttons(false)
            .build();
        header.set_title_widget(Some(&adw::WindowTitle::new("", "")));
        header.pack_start(&cancel);
        header.pack_end(&go_on);
        let all = gtk::Box::new(gtk::Orientation::Vertical, 0);
        all.append(&header);
        all.append(&scroller);
        let window = adw::Window::builder()
            .title(question)
            .modal(true)
            .default_width(width_over(parent, 520))
            .default_height(560)
            .content(&all)
            .build();
        window.set_transient_for(parent);
        close_by_escape(&window);
        cancel.connect_clicked(clone!(
            #[weak]
            window,
            move |_| window.close()
        ));
        Self {
            window,
            scroller,
            content,
            go_on,
        }
    }
}

fn close_by_escape(window: &adw::Window) {
    let keys = gtk::ShortcutController::new();
    keys.set_scope(gtk::ShortcutScope::Managed);
    keys.add_shortcut(gtk::Shortcut::new(
        gtk::ShortcutTrigger::parse_string("Escape"),
        Some(gtk::NamedAction::new("window.close")),
    ));
    window.add_controller(keys);
}
