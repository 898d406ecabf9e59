// SPDX-License-Identifier: GPL-3.0-or-later
//! Things to do, as numbered rows of a list.

use adw::prelude::*;
use gettextrs::gettext;

use crate::display::Task;

/// Makes `list` show these tasks. An empty list is hidden.
pub fn show_tasks(list: &gtk::ListBox, tasks: &[Task]) {
    while let Some(row) = list.first_child() {
        list.remove(&row);
    }
    for (place, task) in (1..).zip(tasks) {
        list.append(&task_row(place, task));
    }
    list.set_visible(!tasks.is_empty());
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
        let command = task.command.clone();
        copy.connect_clicked(move |button| button.clipboard().set_text(&command));
        row.add_suffix(&copy);
    }
    row
}
