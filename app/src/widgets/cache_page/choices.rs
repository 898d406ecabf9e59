// SPDX-License-Identifier: GPL-3.0-or-later
//! A row from which a person chooses one of several values.

use adw::prelude::*;
use gettextrs::gettext;
use std::cell::RefCell;

use crate::display::duration;

/// Shows these values in the row, in words, and selects the present value `now`. `shown`: the values of the row. They are
/// empty while the row changes: a new model selects its first entry, which must not count as a choice.
pub(super) fn show<T: PartialEq>(
    row: &adw::ComboRow,
    shown: &RefCell<Vec<T>>,
    values: Vec<T>,
    now: &T,
    words: impl Fn(&T) -> String,
) {
    let place = values.iter().position(|value| value == now);
    let place = place.and_then(|place| u32::try_from(place).ok());
    if *shown.borrow() != values {
        let words: Vec<String> = values.iter().map(words).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        shown.take();
        row.set_model(Some(&gtk::StringList::new(&words)));
    }
    shown.take();
    row.set_selected(place.unwrap_or_default());
    shown.replace(values);
}

/// The value that the person has selected; `None` while the row changes.
pub(super) fn selected<T: Clone>(row: &adw::ComboRow, shown: &RefCell<Vec<T>>) -> Option<T> {
    let place = usize::try_from(row.selected()).ok()?;
    shown.borrow().get(place).cloned()
}

/// The minutes to choose from, in their order, with the present ones.
pub(super) fn minutes(offered: &[u32], now: u32) -> Vec<u32> {
    let mut minutes = offered.to_vec();
    if !minutes.contains(&now) {
        minutes.push(now);
        minutes.sort_unstable();
    }
    minutes
}

pub(super) fn minutes_words(minutes: u32) -> String {
    match minutes {
        0 => gettext("No"),
        _ => duration(u64::from(minutes) * 60),
    }
}
