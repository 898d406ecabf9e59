// SPDX-License-Identifier: GPL-3.0-or-later
//! Living with a cache on a simulated machine: it gets a name of its own.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use stage::opened::Opened;
use stage::{hand, opened};
use tandem_api::{MAX_NAME_CHARS, ManagerProxy, Mode, PlanSpec};
use tandem_app::widgets::cache_row::CacheRow;
use zbus::OwnedObjectPath;

#[gtk::test]
async fn a_cache_gets_a_name_of_its_own() {
    let opened = opened::open(20).await;
    set_up(&opened).await;
    a_name_is_typed(&opened).await;
    a_name_that_does_not_fit_cannot_be_given(&opened).await;
    a_refused_name_is_told(&opened).await;
    an_empty_name_is_the_disks_own(&opened).await;
}

async fn set_up(opened: &Opened) {
    let block = |name: &str| {
        let path = format!("/org/freedesktop/UDisks2/block_devices/{name}");
        OwnedObjectPath::try_from(path).unwrap()
    };
    let spec = PlanSpec {
        origin: block("sda1"),
        ssd: block("sdc"),
        mode: Mode::Writethrough,
        erase_ssd: false,
        at_next_start: false,
        partition_bytes: 0,
    };
    let manager = ManagerProxy::new(&opened.bus).await.unwrap();
    let plan = manager.plan(&spec).await.unwrap();
    manager.create(&plan.plan_id, &plan.digest).await.unwrap();
    let window = &opened.window;
    let row = hand::wait(window, "row of the cache", || cache_row(opened)).await;
    window.show_cache(&row.cache().unwrap().facts().uuid);
    // A removal is offered when the job that made the cache has ended.
    hand::wait(window, "cache", || hand::removal(window)).await;
}

fn cache_row(opened: &Opened) -> Option<CacheRow> {
    let mut all = hand::shown(&opened.window).into_iter();
    all.find_map(|widget| widget.downcast::<CacheRow>().ok())
}

async fn dialog(opened: &Opened) -> (adw::Window, adw::EntryRow) {
    WidgetExt::activate_action(&page(opened), "cache.rename", None).unwrap();
    let dialog: adw::Window = hand::window(&opened.application).await;
    let entry = hand::wait(&dialog, "entry", || {
        let mut all = hand::shown(&dialog).into_iter();
        all.find_map(|widget| widget.downcast::<adw::EntryRow>().ok())
    })
    .await;
    (dialog, entry)
}

fn page(opened: &Opened) -> gtk::Widget {
    hand::removal(&opened.window).unwrap().upcast()
}

/// Waits until the page says this name at its top.
async fn is_called(opened: &Opened, name: &str) {
    hand::wait(&opened.window, name, || {
        let words = hand::words(&opened.window);
        (words.lines().next() == Some(name)).then_some(())
    })
    .await;
}

async fn a_name_is_typed(opened: &Opened) {
    is_called(opened, "Archive").await;
    let (dialog, entry) = dialog(opened).await;
    assert_eq!(entry.text(), "");
    assert!(hand::words(&dialog).contains("the cache is called “Archive” like its disk"));
    let rename = hand::button(&dialog, "Rename").unwrap();
    assert!(!rename.is_sensitive(), "nothing was typed");
    entry.set_text("Photos & films");
    assert!(rename.is_sensitive());
    // The Enter key does the same as the button.
    assert_eq!(dialog.default_widget(), Some(rename.upcast()));
    assert!(entry.activates_default());
    hand::press(&dialog, "Rename").await;
    is_called(opened, "Photos & films").await;
    opened.window.show_overview();
    let row = hand::wait(&opened.window, "row", || cache_row(opened)).await;
    assert_eq!(row.title(), "Photos & films");
    let subtitle = row.subtitle().unwrap();
    assert!(subtitle.contains("WD40EZRZ"), "{subtitle}");
    let uuid = row.cache().unwrap().facts().uuid;
    opened.window.show_cache(&uuid);
    hand::wait(&opened.window, "page", || hand::removal(&opened.window)).await;
}

async fn a_name_that_does_not_fit_cannot_be_given(opened: &Opened) {
    let (dialog, entry) = dialog(opened).await;
    assert_eq!(entry.text(), "Photos & films");
    let rename = hand::button(&dialog, "Rename").unwrap();
    for name in [&"a".repeat(MAX_NAME_CHARS + 1), "a\u{202e}b"] {
        entry.set_text(name);
        assert!(!rename.is_sensitive(), "{name:?}");
        assert!(hand::words(&dialog).contains("at most 64 characters"));
    }
    // Spaces at the ends change nothing.
    entry.set_text(" Photos & films ");
    assert!(!rename.is_sensitive());
    hand::press(&dialog, "Cancel").await;
}

async fn a_refused_name_is_told(opened: &Opened) {
    opened.levers.set_authorized(false).await.unwrap();
    let (dialog, entry) = dialog(opened).await;
    entry.set_text("Films");
    hand::press(&dialog, "Rename").await;
    let told: adw::MessageDialog = hand::window(&opened.application).await;
    hand::press(&told, "Close").await;
    is_called(opened, "Photos & films").await;
    opened.levers.set_authorized(true).await.unwrap();
}

async fn an_empty_name_is_the_disks_own(opened: &Opened) {
    let (dialog, entry) = dialog(opened).await;
    entry.set_text("");
    hand::press(&dialog, "Rename").await;
    is_called(opened, "Archive").await;
}
