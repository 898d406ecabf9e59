// SPDX-License-Identifier: GPL-3.0-or-later
//! Brings into view what has just appeared.

use std::time::Duration;

use gtk::glib;
use gtk::prelude::*;

/// What appears has its place after a frame or two.
const SOON: Duration = Duration::from_millis(400);

/// Follows the end of the content for a moment.
pub fn scroll_to_end(scroller: &gtk::ScrolledWindow) {
    let adjustment = scroller.vadjustment();
    let to_end = |adjustment: &gtk::Adjustment| {
        adjustment.set_value(adjustment.upper() - adjustment.page_size());
    };
    to_end(&adjustment);
    let handler = adjustment.connect_changed(to_end);
    glib::timeout_add_local_once(SOON, move || adjustment.disconnect(handler));
}
