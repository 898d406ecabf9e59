// SPDX-License-Identifier: GPL-3.0-or-later
//! The window opens with the page that it showed last.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use gtk::gio;
use stage::opened::Opened;
use stage::settings::Settings;
use stage::{hand, opened, wizard};
use tandem_app::application::APP_ID;
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

#[gtk::test]
async fn the_page_that_was_shown_last_is_shown_again() {
    let _settings = Settings::install();
    let opened = opened::open(20).await;
    set_up(&opened).await;
    let shown = |window: &Window| window.shown_cache().map(|cache| cache.facts().uuid);
    let uuid = hand::wait(&opened.window, "cache", || shown(&opened.window)).await;
    opened.window.close();

    let window = again(&opened);
    let page = hand::wait(&window, "page of the cache", || shown(&window)).await;
    assert_eq!(page, uuid);
    window.show_overview();
    window.close();

    let window = again(&opened);
    overview(&window).await;
    assert_eq!(shown(&window), None, "the overview was shown last");
    window.close();

    let settings = gio::Settings::new(APP_ID);
    settings
        .set_string("shown-cache", "of a cache that is gone")
        .unwrap();
    let window = again(&opened);
    overview(&window).await;
    assert_eq!(shown(&window), None);
    window.close();
}

/// Sets up a cache, and goes to its page.
async fn set_up(opened: &Opened) {
    opened.window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;
    wizard::answer(&dialog, "Archive").await;
    hand::press(&dialog, "Set Up the Cache").await;
    hand::press(&dialog, "Show Cache").await;
}

/// The window of the next start.
fn again(opened: &Opened) -> Window {
    let window = Window::new(&opened.application);
    window.present();
    window
}

/// Waits until the window knows the disks and the cache, and shows them.
async fn overview(window: &Window) {
    hand::wait(window, "overview", || {
        let shown = hand::shown(window);
        let cache = shown.iter().any(|widget| widget.is::<CacheRow>());
        (cache && hand::row(window, "Private").is_some()).then_some(())
    })
    .await;
}
