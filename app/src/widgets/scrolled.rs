// SPDX-License-Identifier: GPL-3.0-or-later
//! Scrolls to widgets that have just appeared.

use std::time::Duration;

use gtk::glib;
use gtk::prelude::*;

/// Longest time until a new widget has its place; that takes a frame or two.
const SOON: Duration = Duration::from_millis(400);

/// Keeps the end of the content in view for [`SOON`].
pub fn scroll_to_end(scroller: &gtk::ScrolledWindow) {
    let adjustment = scroller.vadjustment();
    // The adjustment changes while the content gets its place, and takes another value only after that.
    let handler = adjustment.connect_changed(|adjustment| {
        let adjustment = adjustment.clone();
        glib::idle_add_local_once(move || {
            adjustment.set_value(adjustment.upper() - adjustment.page_size());
        });
    });
    glib::timeout_add_local_once(SOON, move || adjustment.disconnect(handler));
}
