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
use stage::{hand, opened};
use tandem_app::widgets::wizard::Wizard;

#[gtk::test]
async fn the_wizard_needs_no_mouse() {
    let opened = opened::open(20).await;
    let window = &opened.window;
    window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;

    // The focus is in the list; the arrow keys and Tab reach every row that can be chosen, and Enter chooses.
    hand::wait(&dialog, "first row", || hand::row(&dialog, "Archive")).await;
    assert!(focused_row(&dialog).is_some(), "{:?}", focus(&dialog));
    tab_to(&dialog, "Archive", |row| row.title() == "Archive");
    focus(&dialog).unwrap().activate();
    let next = hand::button(&dialog, "Next").unwrap();
    assert!(next.is_sensitive(), "Enter on a row chooses it");
    assert_eq!(next.label().unwrap(), "_Next", "Alt+N is Next");
    assert!(next.uses_underline());
    // Outside the list, Enter presses Next.
    assert_eq!(dialog.default_widget(), Some(next.clone().upcast()));
    tab_until(&dialog, "Next", |focus| focus == &next);
    next.mnemonic_activate(false);

    hand::wait(&dialog, "SSDs", || hand::row(&dialog, "CT500MX500SSD1")).await;
    assert!(focused_row(&dialog).is_some(), "a new page has the focus");
    tab_to(&dialog, "CT500MX500SSD1", |row| {
        row.title() == "CT500MX500SSD1"
    });
    focus(&dialog).unwrap().activate();
    dialog.activate_default();

    // On a page that has its answer, the button has the focus.
    hand::wait(&dialog, "modes", || {
        hand::words(&dialog).contains("Choose a Mode").then_some(())
    })
    .await;
    assert_eq!(focus(&dialog), Some(next.clone().upcast()));
    dialog.activate_default();

    hand::wait(&dialog, "backup", || hand::row(&dialog, "I have a backup")).await;
    assert!(focused_row(&dialog).is_some());
    focus(&dialog).unwrap().activate();
    dialog.activate_default();

    // Enter erases nothing; only the mnemonic, or a press on the button itself, does.
    let erase = hand::wait(&dialog, "steps", || {
        hand::button(&dialog, "Erase CT500MX500SSD1 and Set Up").filter(WidgetExt::is_sensitive)
    })
    .await;
    assert_eq!(erase.label().unwrap(), "_Erase CT500MX500SSD1 and Set Up");
    assert_eq!(dialog.default_widget(), None);
    assert!(
        focus(&dialog).is_some_and(|focus| focus.is::<gtk::ScrolledWindow>()),
        "the text has the focus, so that it can be scrolled: {:?}",
        focus(&dialog)
    );
    tab_until(&dialog, "Erase", |focus| focus == &erase);

    // Alt+Left goes back, and the choice stays.
    let back = hand::shown(&dialog)
        .into_iter()
        .find(|widget| widget.tooltip_text().is_some_and(|words| words == "Back"))
        .unwrap();
    assert!(shortcuts(&back).contains(&"<Alt>Left".to_owned()));
    back.activate();
    hand::wait(&dialog, "backup", || hand::row(&dialog, "I have a backup")).await;
    assert_eq!(focus(&dialog), Some(next.upcast()), "it is answered");

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

/// Presses Tab and the arrow keys until the wanted widget has the focus.
fn tab_until(dialog: &Wizard, what: &str, wanted: impl Fn(&gtk::Widget) -> bool) {
    let mut seen = Vec::new();
    for direction in [DirectionType::Down, DirectionType::TabForward] {
        for _ in 0..30 {
            if focus(dialog).is_some_and(|focus| wanted(&focus)) {
                return;
            }
            seen.push(focus(dialog));
            if !dialog.child_focus(direction) {
                break;
            }
        }
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
