// SPDX-License-Identifier: GPL-3.0-or-later
//! The usual case: from the row of a disk to its cache in three clicks, and the overview after that.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use stage::{hand, opened, wizard};
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::overview::Overview;
use tandem_app::widgets::wizard::Wizard;

#[gtk::test]
async fn three_clicks_lead_from_a_disk_to_its_cache() {
    let opened = opened::open(20).await;
    let window = &opened.window;
    let overview = || {
        let mut shown = hand::shown(window).into_iter();
        shown.find(|widget| widget.is::<Overview>()).unwrap()
    };
    let titles = |wanted: &str| {
        let shown = hand::shown(&overview()).into_iter();
        let rows = shown.filter_map(|widget| widget.downcast::<adw::ActionRow>().ok());
        rows.filter(|row| row.title() == wanted).count()
    };
    let has = |model: &str| {
        hand::words(&overview())
            .lines()
            .any(|line| line.starts_with(model))
    };
    assert!(titles("Archive") == 1 && has(wizard::EMPTY));

    hand::press(&hand::row(window, "Archive").unwrap(), "Speed Up…").await;
    let dialog: Wizard = hand::window(&opened.application).await;
    wizard::is_chosen(&dialog, "Hard Disk", "Archive").await;
    wizard::is_chosen(&dialog, "SSD", wizard::EMPTY).await;
    hand::press(&dialog, "Review").await;
    hand::press(&dialog, "Set Up the Cache").await;

    // The last page says what changes in daily life.
    let show = hand::wait(&dialog, "end", || hand::button(&dialog, "Show Cache")).await;
    let words = hand::words(&dialog);
    for part in [
        "Use your files as always",
        "starts automatically with your computer",
        "If the SSD fails, you lose nothing",
        "You can stop at any time",
    ] {
        assert!(words.contains(part), "no {part} among:\n{words}");
    }
    show.emit_clicked();

    // In the overview the disk and its SSD are one row: that of the cache.
    hand::wait(window, "cache", || hand::removal(window)).await;
    window.show_overview();
    hand::wait(window, "row of the cache", || {
        let mut shown = hand::shown(window).into_iter();
        shown.find(|widget| widget.is::<CacheRow>())
    })
    .await;
    assert_eq!(titles("Archive"), 1);
    assert!(!has(wizard::EMPTY), "{}", hand::words(&overview()));
    assert_eq!(titles("Windows"), 1, "other volumes stay");
}
