// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers the questions of the wizard as a person does.

use adw::prelude::*;
use gettextrs::gettext;
use tandem_app::widgets::wizard::Wizard;

use super::hand;

/// The SSD of the simulated machine that the wizard chooses: the only one that is empty.
pub const EMPTY: &str = "Samsung SSD 870 EVO 250GB";

/// The row that says what is chosen. `kind`: what it is for, such as "SSD".
pub fn choice(wizard: &Wizard, kind: &str) -> Option<adw::ExpanderRow> {
    let mut rows = hand::shown(wizard)
        .into_iter()
        .filter_map(|widget| widget.downcast::<adw::ExpanderRow>().ok());
    rows.find(|row| {
        let title = row.title();
        title == kind || title.starts_with(&format!("{kind}: "))
    })
}

/// Opens the row that says what is chosen.
pub async fn open(wizard: &Wizard, kind: &str) {
    let row = hand::wait(wizard, kind, || choice(wizard, kind)).await;
    row.set_expanded(true);
}

/// Opens the row that says what is chosen, and chooses another one.
pub async fn choose(wizard: &Wizard, kind: &str, title: &str) {
    open(wizard, kind).await;
    hand::choose(wizard, title).await;
}

/// Waits until the row says that this is chosen.
pub async fn is_chosen(wizard: &Wizard, kind: &str, title: &str) {
    hand::wait(wizard, title, || {
        choice(wizard, kind).filter(|row| row.title().ends_with(title))
    })
    .await;
}

/// Chooses this disk, and leaves the rest as the wizard has chosen it. Waits until the wizard has chosen an empty SSD: at
/// first it may know only free space.
pub async fn choose_disk(wizard: &Wizard, disk: &str) {
    choose(wizard, &gettext("Hard Disk"), disk).await;
    let empty = gettext("It is empty, so nothing is erased.");
    hand::wait(wizard, &empty, || {
        choice(wizard, &gettext("SSD")).filter(|row| row.subtitle().contains(&empty))
    })
    .await;
}

/// The same, and goes on to the review.
pub async fn answer(wizard: &Wizard, disk: &str) {
    choose_disk(wizard, disk).await;
    hand::press(wizard, &gettext("_Review")).await;
}

/// Presses the button that leads back to the choices.
///
/// # Panics
/// There is no such button.
pub fn back(wizard: &Wizard) {
    let mut all = hand::shown(wizard).into_iter();
    let words = gettext("Back");
    let back = all.find(|widget| widget.tooltip_text().as_deref() == Some(&words));
    let button = back.and_downcast::<gtk::Button>();
    button.expect("a button that leads back").emit_clicked();
}
