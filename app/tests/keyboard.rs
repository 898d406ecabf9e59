// SPDX-License-Identifier: GPL-3.0-or-later
//! The wizard without a mouse: where the focus goes, what Tab, Enter, Escape and the marked letters do.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use gtk::DirectionType;
use stage::{hand, opened, wizard};
use tandem_app::widgets::wizard::Wizard;

#[gtk::test]
async fn the_wizard_needs_no_mouse() {
    let opened = opened::open(20).await;
    let window = &opened.window;
    window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;

    // The focus is in the list of disks, because none is chosen; the arrow keys and Tab reach every row that can be
    // chosen, and Enter chooses.
    hand::wait(&dialog, "first row", || hand::row(&dialog, "Archive")).await;
    assert!(focused_row(&dialog).is_some(), "{:?}", focus(&dialog));
    down(&dialog);
    assert_eq!(focused_row(&dialog).unwrap().title(), "Windows");
    assert!(!hand::words(&dialog).contains("Hard Disk: "), "only seen");
    tab_to(&dialog, "Archive", |row| row.title() == "Archive");
    focus(&dialog).unwrap().activate();
    // The list closes, and the focus is on the row that says what is chosen.
    let disk = focused_row(&dialog).unwrap();
    assert_eq!(disk.title(), "Hard Disk: Archive");
    wizard::is_chosen(&dialog, "SSD", wizard::EMPTY).await;
    let review = hand::button(&dialog, "Review").unwrap();
    assert!(review.is_sensitive(), "the rest is chosen");
    assert_eq!(review.label().unwrap(), "_Review", "Alt+R is Review");
    assert!(review.uses_underline());
    assert_eq!(dialog.default_widget(), Some(review.clone().upcast()));

    // Another SSD: Enter on its row opens the list.
    tab_to(&dialog, "SSD", |row| row.title().starts_with("SSD: "));
    focus(&dialog).unwrap().activate();
    hand::wait(&dialog, "SSDs", || hand::row(&dialog, "CT500MX500SSD1")).await;
    tab_to(&dialog, "CT500MX500SSD1", |row| {
        row.title() == "CT500MX500SSD1"
    });
    focus(&dialog).unwrap().activate();
    let ssd = focused_row(&dialog).unwrap();
    assert_eq!(ssd.title(), "SSD: CT500MX500SSD1");
    // Outside the lists, Enter presses Review.
    tab_until(&dialog, "Review", |focus| focus == &review);
    review.mnemonic_activate(false);

    // Enter erases nothing; only the mnemonic, or a press on the button itself, does, after the promise of a backup.
    let erase = hand::wait(&dialog, "steps", || {
        hand::button(&dialog, "Erase CT500MX500SSD1 and Set Up")
    })
    .await;
    assert_eq!(erase.label().unwrap(), "_Erase CT500MX500SSD1 and Set Up");
    assert_eq!(dialog.default_widget(), None);
    assert!(
        focus(&dialog).is_some_and(|focus| focus.is::<gtk::ScrolledWindow>()),
        "the text has the focus, so that it can be scrolled: {:?}",
        focus(&dialog)
    );
    tab_to(&dialog, "backup", |row| row.title() == "I have a backup");
    focus(&dialog).unwrap().activate();
    hand::wait(&dialog, "erase", || erase.is_sensitive().then_some(())).await;
    tab_until(&dialog, "Erase", |focus| focus == &erase);

    // Alt+Left goes back, and the choice stays.
    let back = hand::shown(&dialog)
        .into_iter()
        .find(|widget| widget.tooltip_text().is_some_and(|words| words == "Back"))
        .unwrap();
    assert!(shortcuts(&back).contains(&"<Alt>Left".to_owned()));
    back.activate();
    wizard::is_chosen(&dialog, "SSD", "CT500MX500SSD1").await;
    assert_eq!(focus(&dialog), Some(review.upcast()), "all is chosen");

    assert!(shortcuts(&dialog).contains(&"Escape".to_owned()));
    WidgetExt::activate_action(&dialog, "window.close", None).unwrap();
    hand::wait(window, "end of the dialog", || {
        (!dialog.is_visible()).then_some(())
    })
    .await;
}

fn focus(dialog: &Wizard) -> Option<gtk::Widget> {
    gtk::prelude::RootExt::focus(dialog)
}

/// The row that has the focus, or whose part has it.
fn focused_row(dialog: &Wizard) -> Option<adw::ActionRow> {
    let focus = focus(dialog)?;
    match focus.clone().downcast::<adw::ActionRow>() {
        Ok(row) => Some(row),
        Err(_) => focus
            .ancestor(adw::ActionRow::static_type())
            .and_downcast::<adw::ActionRow>(),
    }
}

/// Presses the arrow key that goes down in a list.
fn down(dialog: &Wizard) {
    let list = focused_row(dialog).and_then(|row| row.parent()).unwrap();
    let step = gtk::MovementStep::DisplayLines;
    list.emit_by_name::<()>("move-cursor", &[&step, &1, &false, &false]);
}

/// Presses Tab until the wanted widget has the focus.
fn tab_until(dialog: &Wizard, what: &str, wanted: impl Fn(&gtk::Widget) -> bool) {
    let mut seen = Vec::new();
    for _ in 0..60 {
        if focus(dialog).is_some_and(|focus| wanted(&focus)) {
            return;
        }
        seen.push(focus(dialog));
        dialog.child_focus(DirectionType::TabForward);
    }
    panic!("the keyboard does not reach {what}: {seen:?}");
}

fn tab_to(dialog: &Wizard, what: &str, wanted: impl Fn(&adw::ActionRow) -> bool) {
    tab_until(dialog, what, |focus| {
        focus.downcast_ref::<adw::ActionRow>().is_some_and(&wanted)
    });
}

/// The keys that a widget listens to.
fn shortcuts(widget: &impl IsA<gtk::Widget>) -> Vec<String> {
    let controllers = widget.observe_controllers();
    (0..controllers.n_items())
        .filter_map(|place| {
            controllers
                .item(place)
                .and_downcast::<gtk::ShortcutController>()
        })
        .flat_map(|controller| {
            (0..controller.n_items())
                .filter_map(|place| controller.item(place).and_downcast::<gtk::Shortcut>())
                .collect::<Vec<_>>()
        })
        .filter_map(|shortcut| shortcut.trigger())
        .map(|trigger| trigger.to_str().to_string())
        .collect()
}
