// SPDX-License-Identifier: GPL-3.0-or-later
//! Content that may be higher than the screen.

use std::time::Duration;

use gtk::glib;
use gtk::prelude::*;

/// Height above which the content of a message scrolls, so that its buttons stay on a small screen; pixels.
const MOST: i32 = 420;

/// Lets the content of a message scroll where it is high.
#[must_use]
pub fn scrolled(content: &impl IsA<gtk::Widget>) -> gtk::ScrolledWindow {
    // Room for the shadow of lists.
    content.set_margin_start(3);
    content.set_margin_end(3);
    content.set_margin_bottom(3);
    gtk::ScrolledWindow::builder()
        .hscrollbar_policy(gtk::PolicyType::Never)
        .propagate_natural_height(true)
        .max_content_height(MOST)
        .child(content)
        .build()
}

/// Shows what has just appeared at the end, once it has its place.
pub fn scroll_to_end(scroller: &gtk::ScrolledWindow) {
    let adjustment = scroller.vadjustment();
    glib::timeout_add_local_once(Duration::from_millis(100), move || {
        adjustment.set_value(adjustment.upper() - adjustment.page_size());
    });
}
