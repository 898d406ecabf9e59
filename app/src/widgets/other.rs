// SPDX-License-Identifier: GPL-3.0-or-later
//! Rows for caches that other systems have made.

use adw::prelude::*;
use tandem_api::OtherCache;

use crate::display::other_words;

/// A cache of another system. It has no button: its own tools change it.
pub fn other_row(cache: &OtherCache) -> adw::ActionRow {
    let row = adw::ActionRow::builder()
        .use_markup(false)
        .title_lines(0)
        .subtitle_lines(0)
        .build();
    set_other(&row, cache);
    row
}

/// Shows the figures of a cache in its row.
pub fn set_other(row: &adw::ActionRow, cache: &OtherCache) {
    let [title, subtitle] = other_words(cache);
    row.set_title(&title);
    row.set_subtitle(&subtitle);
}
