// SPDX-License-Identifier: GPL-3.0-or-later
//! Living with a cache on a simulated machine: it gets a name of its own, its SSD wears out, it is paused, its figures
//! begin anew.
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
use tandem_api::{
    CacheProxy, MAX_NAME_CHARS, ManagerProxy, Mode, PlanSpec, SelfReport, Span, SsdHealth,
};
use tandem_app::widgets::cache_row::CacheRow;
use zbus::OwnedObjectPath;

#[gtk::test]
async fn a_cache_is_named_its_ssd_fails_and_its_figures_begin_anew() {
    let opened = opened::open(20).await;
    set_up(&opened).await;
    a_name_is_typed(&opened).await;
    a_name_that_does_not_fit_cannot_be_given(&opened).await;
    a_refused_name_is_told(&opened).await;
    an_empty_name_is_the_disks_own(&opened).await;
    the_health_of_the_ssd_is_told_and_its_failure_is_told_first(&opened).await;
    a_cache_is_paused_and_goes_on(&opened).await;
    the_figures_begin_anew_and_that_can_be_taken_back(&opened).await;
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
        target: tandem_api::Target::Tandem,
        memory_bytes: 0,
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

async fn says(opened: &Opened, sentence: &str) {
    hand::wait(&opened.window, sentence, || {
        let words = hand::words(&opened.window).replace('\u{a0}', " ");
        words.contains(sentence).then_some(())
    })
    .await;
}

async fn the_health_of_the_ssd_is_told_and_its_failure_is_told_first(opened: &Opened) {
    says(
        opened,
        "6% used. Time left at the pace so far: about 16 years",
    )
    .await;
    says(opened, "Good, by the SSD’s own report").await;
    says(opened, "At least ").await;
    let facts = opened.window.shown_cache().unwrap().facts();
    let ssd = OwnedObjectPath::try_from(facts.parts.ssd.clone()).unwrap();
    let failing = SsdHealth {
        report: SelfReport::Failing,
        used_percent: -1,
        read_at: facts.health.read_at + 600,
        ..facts.health
    };
    opened.levers.set_health(&ssd, &failing).await.unwrap();
    says(
        opened,
        "The SSD reports that it is failing. Replace it soon. If the SSD dies now, you lose nothing.",
    )
    .await;
    opened.window.show_overview();
    hand::wait(&opened.window, "warning in the overview", || {
        let row = cache_row(opened)?;
        let words = row.subtitle()?;
        words
            .contains("The SSD reports that it is failing.")
            .then_some(())
    })
    .await;
    opened.window.show_cache(&facts.uuid);
    says(opened, "Not known. An SSD that reports its failure").await;
    let unknown = SsdHealth::unknown();
    opened.levers.set_health(&ssd, &unknown).await.unwrap();
    says(opened, "Not known: the SSD does not report it").await;
    assert!(!hand::words(&opened.window).contains("failing"));
    opened.levers.set_health(&ssd, &facts.health).await.unwrap();
    says(opened, "Good, by the SSD’s own report").await;
}

async fn a_cache_is_paused_and_goes_on(opened: &Opened) {
    let pause = || WidgetExt::activate_action(&page(opened), "cache.pause", None).unwrap();
    let is_paused = || opened.window.shown_cache().unwrap().facts().paused;
    let resumed = async || {
        hand::wait(&opened.window, "no banner", || {
            let words = hand::words(&opened.window);
            let gone = ["What is on the SSD is still read from it.", "Cache paused"];
            (!gone.iter().any(|sentence| words.contains(sentence))).then_some(())
        })
        .await;
        assert!(!is_paused());
    };
    pause();
    says(opened, "Cache paused").await;
    says(opened, "What is on the SSD is still read from it.").await;
    assert!(is_paused());
    hand::press(&opened.window, "Undo").await;
    resumed().await;
    pause();
    says(opened, "What is on the SSD is still read from it.").await;
    hand::wait(&opened.window, "button", || {
        hand::button(&opened.window, "Resume").filter(gtk::prelude::WidgetExt::is_sensitive)
    })
    .await;
    // A refusal is told, and the cache stays paused.
    opened.levers.set_authorized(false).await.unwrap();
    hand::press(&opened.window, "Resume").await;
    let told: adw::MessageDialog = hand::window(&opened.application).await;
    hand::press(&told, "Close").await;
    assert!(is_paused());
    opened.levers.set_authorized(true).await.unwrap();
    hand::press(&opened.window, "Resume").await;
    resumed().await;
}

async fn the_figures_begin_anew_and_that_can_be_taken_back(opened: &Opened) {
    says(opened, "Read from SSD since setup").await;
    let path = opened.window.shown_cache().unwrap().facts().path;
    let builder = CacheProxy::builder(&opened.bus).path(OwnedObjectPath::try_from(path).unwrap());
    let cache = builder.build().await.unwrap();
    let was_reset = async || cache.long_history(Span::Day).await.unwrap().was_reset;
    WidgetExt::activate_action(&page(opened), "cache.reset-statistics", None).unwrap();
    says(opened, "Statistics reset").await;
    assert!(was_reset().await);
    hand::wait(&opened.window, "new caption", || {
        let words = hand::words(&opened.window);
        (!words.contains("since setup")).then_some(())
    })
    .await;
    hand::press(&opened.window, "Undo").await;
    says(opened, "Read from SSD since setup").await;
    assert!(!was_reset().await);
    // The window tells a refusal of the service, and nothing begins anew.
    opened.levers.set_authorized(false).await.unwrap();
    WidgetExt::activate_action(&page(opened), "cache.reset-statistics", None).unwrap();
    let told: adw::MessageDialog = hand::window(&opened.application).await;
    hand::press(&told, "Close").await;
    assert!(!was_reset().await);
}
