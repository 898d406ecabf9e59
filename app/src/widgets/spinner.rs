// SPDX-License-Identifier: GPL-3.0-or-later
//! A spinner that turns only while it is on the screen.

use gtk::prelude::*;

/// Starts `spinner` when it is mapped and stops it when it is unmapped. A spinner that turns on a hidden page makes GTK
/// draw the whole window 60 times a second.
pub fn spin_while_mapped(spinner: &gtk::Spinner) {
    spinner.connect_map(|spinner| spinner.set_spinning(true));
    spinner.connect_unmap(|spinner| spinner.set_spinning(false));
    spinner.set_spinning(spinner.is_mapped());
}
