// SPDX-License-Identifier: GPL-3.0-or-later
//! Counters as rows of a list.

use adw::prelude::*;
use gtk::glib;

use crate::a11y;
use crate::display::Figure;

/// A row, and the label that shows its value.
pub type FigureRow = (adw::ActionRow, gtk::Label);

/// Makes `list` show these figures. `rows`: all rows of the list. The rows are reused, so that a screen reader keeps
/// its place when a value changes.
pub fn show_figures(list: &gtk::ListBox, rows: &mut Vec<FigureRow>, figures: &[Figure]) {
    for (row, _) in rows.drain(figures.len().min(rows.len())..) {
        list.remove(&row);
    }
    while rows.len() < figures.len() {
        let row: adw::ActionRow = glib::Object::builder()
            .property("use-markup", false)
            .property("title-lines", 0)
            .property("subtitle-lines", 0)
            .build();
        let value = gtk::Label::builder().css_classes(["numeric"]).build();
        row.add_suffix(&value);
        list.append(&row);
        rows.push((row, value));
    }
    for ((row, value), figure) in rows.iter().zip(figures) {
        let same_meaning = row.subtitle().is_some_and(|s| s == figure.meaning);
        if row.title() == figure.title && value.label() == figure.value && same_meaning {
            continue;
        }
        row.set_title(&figure.title);
        row.set_subtitle(&figure.meaning);
        value.set_label(&figure.value);
        // The name is the title.
        a11y::set_description(row, &figure.value);
    }
}
