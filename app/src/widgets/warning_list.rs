// SPDX-License-Identifier: GPL-3.0-or-later
//! Warnings as rows of a list.

use adw::prelude::*;
use gtk::glib;

/// Makes `list` end with these warnings, after its other rows. Rows that stay are kept, so that a reader keeps the
/// place when a number in a row changes.
pub fn show_warnings(list: &gtk::ListBox, warnings: &[String]) {
    let mut rows = Vec::new();
    let mut child = list.first_child();
    while let Some(widget) = child {
        child = widget.next_sibling();
        if widget.has_css_class("warning-row") {
            rows.extend(widget.downcast::<adw::ActionRow>());
        }
    }
    for row in rows.drain(warnings.len().min(rows.len())..) {
        list.remove(&row);
    }
    for warning in &warnings[rows.len()..] {
        let row: adw::ActionRow = glib::Object::builder()
            .property("use-markup", false)
            .property("title", warning)
            .property("title-lines", 0)
            .build();
        row.add_css_class("warning-row");
        let icon = gtk::Image::from_icon_name("dialog-warning-symbolic");
        icon.add_css_class("warning");
        row.add_prefix(&icon);
        list.append(&row);
    }
    for (row, warning) in rows.iter().zip(warnings) {
        if row.title() != *warning {
            row.set_title(warning);
        }
    }
}
