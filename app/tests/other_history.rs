// SPDX-License-Identifier: GPL-3.0-or-later
//! The last hour of a cache of another system, opened from its row.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use stage::{hand, opened};
use tandem_api::{DeviceText, OtherCache, OtherKind, OtherMode, OtherState};
use tandem_app::widgets::chart::Chart;
use tandem_app::widgets::other_dialog::OtherDialog;

fn cache() -> OtherCache {
    let device = |model: &str| DeviceText {
        model: model.into(),
        serial: model.into(),
        ..DeviceText::none()
    };
    OtherCache {
        kind: OtherKind::LvmCache,
        id: "LVM-1".into(),
        name: "vg/films".into(),
        mapped: DeviceText::none().object,
        mount_points: vec![],
        disks: vec![device("Barge")],
        ssds: vec![device("Dart")],
        state: OtherState::Working,
        mode: OtherMode::Writeback,
        cache_bytes: 1 << 30,
        used_bytes: 1 << 20,
        unwritten_bytes: 1_000_000,
        unwritten_known: true,
        read_hits: 1_000,
        read_misses: 100,
    }
}

#[gtk::test]
async fn a_person_looks_at_the_last_hour_of_a_cache_of_another_system() {
    let opened = opened::open(20).await;
    let (window, levers) = (&opened.window, &opened.levers);
    let mut cache = cache();
    levers
        .set_other_caches(std::slice::from_ref(&cache))
        .await
        .unwrap();
    let row = hand::wait(window, "row", || {
        let rows = hand::shown(window).into_iter();
        let mut rows = rows.filter_map(|widget| widget.downcast::<adw::ActionRow>().ok());
        rows.find(|row| row.title().starts_with("Barge"))
    })
    .await;
    assert!(row.is_activatable() && row.is_focusable());
    // As the Enter key does.
    assert!(WidgetExt::activate(&row));
    let dialog: OtherDialog = hand::window(&opened.application).await;
    says(&dialog, "Measuring…").await;
    assert!(chart(&dialog).is_none());

    levers.advance(14).await.unwrap();
    cache.read_hits += 90;
    cache.read_misses += 10;
    levers
        .set_other_caches(std::slice::from_ref(&cache))
        .await
        .unwrap();
    for words in [
        "vg/films",
        "Hit rate, approximate: 90%",
        "read requests of any size",
        "Waiting to be written: 1.0 MB now",
        "What the cache itself moves between them is included.",
    ] {
        says(&dialog, &words.replace(" MB", "\u{a0}MB")).await;
    }
    let chart = chart(&dialog).unwrap();
    assert_eq!(chart.bars().len(), 1);
    assert!(chart.is_focusable(), "the arrow keys select a bar");
    assert!(!chart.bars()[0].dirty_unknown && chart.bars()[0].ssd > chart.bars()[0].disk);

    // The window goes with its cache.
    levers.set_other_caches(&[]).await.unwrap();
    hand::wait(window, "end of the window", || {
        (!dialog.is_mapped()).then_some(())
    })
    .await;
}

fn chart(dialog: &OtherDialog) -> Option<Chart> {
    let all = hand::shown(dialog).into_iter();
    all.filter_map(|widget| widget.downcast().ok()).next()
}

async fn says(dialog: &OtherDialog, words: &str) {
    hand::wait(dialog, words, || {
        hand::words(dialog).contains(words).then_some(())
    })
    .await;
}
