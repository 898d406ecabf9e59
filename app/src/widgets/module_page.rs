// SPDX-License-Identifier: GPL-3.0-or-later
//! Says why the kernel cannot run a cache, and what to do, before the wizard asks anything.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;

use crate::display::{FailureWords, Task};

/// Shows the words and the tasks in a window of their own.
pub fn show_module_page(parent: &gtk::Window, words: &FailureWords, tasks: &[Task]) {
    let list = gtk::ListBox::builder()
        .selection_mode(gtk::SelectionMode::None)
        .css_classes(["boxed-list"])
        .build();
    for (place, task) in (1..).zip(tasks) {
        list.append(&task_row(place, task));
    }
    let status = adw::StatusPage::builder()
        .icon_name("dialog-warning-symbolic")
        .title(&words.title)
        .description(glib::markup_escape_text(&words.what))
        .child(&list)
        .vexpand(true)
        .build();
    let content = gtk::Box::new(gtk::Orientation::Vertical, 0);
    content.append(&adw::HeaderBar::new());
    content.append(&status);
    let window = adw::Window::builder()
        .title(gettext("Set Up a Cache"))
        .modal(true)
        .transient_for(parent)
        .default_width(parent.width().min(640))
        .default_height(640)
        .content(&content)
        .build();
    let escape = gtk::Shortcut::new(
        gtk::ShortcutTrigger::parse_string("Escape"),
        gtk::ShortcutAction::parse_string("action(window.close)"),
    );
    let keys = gtk::ShortcutController::new();
    keys.add_shortcut(escape);
    window.add_controller(keys);
    window.present();
}

fn task_row(place: u32, task: &Task) -> adw::ActionRow {
    let mut subtitle = task.subtitle.clone();
    if !task.command.is_empty() {
        subtitle = format!("{subtitle}\n{}", task.command);
    }
    let row = adw::ActionRow::builder()
        .title(&task.title)
        .subtitle(&subtitle)
        .use_markup(false)
        .title_lines(0)
        .subtitle_lines(0)
        .build();
    let number = gtk::Label::builder()
        .label(place.to_string())
        .valign(gtk::Align::Center)
        .css_classes(["step-number"])
        .build();
    row.add_prefix(&number);
    if !task.command.is_empty() {
        let words = gettext("Copy the command");
        let copy = gtk::Button::builder()
            .icon_name("edit-copy-symbolic")
            .tooltip_text(&words)
            .valign(gtk::Align::Center)
            .css_classes(["flat"])
            .build();
        crate::a11y::set_label(&copy, &words);
        let command = task.command;
        copy.connect_clicked(move |button| button.clipboard().set_text(command));
        row.add_suffix(&copy);
    }
    row
}
