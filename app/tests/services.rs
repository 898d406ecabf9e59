// SPDX-License-Identifier: GPL-3.0-or-later
//! The service and UDisks2 are killed while the window shows a cache: the page stays until the service is missed, the
//! first page says so then, and all is well when both are back.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use std::time::Duration;

use adw::prelude::*;
use gtk::glib;
use stage::{hand, opened, wizard};
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::wizard::Wizard;

/// Shorter than the window waits for the service to come back.
const A_WHILE: Duration = Duration::from_secs(3);

#[gtk::test]
async fn the_window_recovers_from_services_that_are_killed() {
    let mut opened = opened::open(20).await;
    let window = opened.window.clone();
    // A page that fades out would still be on the screen.
    window.settings().set_gtk_enable_animations(false);
    window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;
    wizard::answer(&dialog, "Archive").await;
    hand::press(&dialog, "Set Up the Cache").await;
    hand::press(&dialog, "Show Cache").await;
    let shown = hand::wait(&window, "page of the cache", || window.shown_cache()).await;

    opened.machine.kill_service();
    glib::timeout_future(A_WHILE).await;
    let still = window.shown_cache().map(|cache| cache.facts().uuid);
    assert_eq!(
        still,
        Some(shown.facts().uuid),
        "a cache goes on without the service"
    );
    let words = hand::wait(&window, "word of the service", || {
        hand::button(&window, "Try Again").filter(|_| window.shown_cache().is_none())?;
        Some(hand::words(&window)).filter(|words| words.contains("did not answer"))
    })
    .await;
    assert!(words.contains("No Answer"), "{words}");

    // The machine of the new service has no cache.
    let row = || {
        let mut all = hand::shown(&window).into_iter();
        all.find(|widget| widget.is::<CacheRow>())
    };
    opened.machine.start_again();
    hand::wait(&window, "offer", || {
        hand::button(&window, "Set Up a Cache…").filter(|offer| offer.is_sensitive())
    })
    .await;
    hand::wait(&window, "plain disk", || {
        let words = hand::words(&window);
        (row().is_none() && words.contains("Archive") && !words.contains("did not answer"))
            .then_some(())
    })
    .await;
}
