// SPDX-License-Identifier: GPL-3.0-or-later
//! A window in which nothing changes draws nothing: no page of it has a frame in five seconds.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use adw::prelude::*;
use gtk::glib;
use stage::opened::Opened;
use stage::{hand, opened, wizard};
use tandem_api::{Failure, Kind};
use tandem_app::model::store::Store;
use tandem_app::widgets::overview::Overview;
use tandem_app::widgets::wizard::Wizard;

/// Longest time of transitions and of a page's calls to the service.
const SETTLED: Duration = Duration::from_millis(2500);
/// How long a window is watched.
const WATCHED: Duration = Duration::from_secs(5);

#[gtk::test]
async fn no_page_draws_a_frame_while_nothing_changes() {
    let opened = opened::open(20).await;
    let mut windows: Vec<(&str, gtk::Window)> = vec![("overview", opened.window.clone().upcast())];
    windows.push(("wizard: disks", new_wizard(&opened).await.upcast()));
    let chosen = new_wizard(&opened).await;
    wizard::choose(&chosen, "Hard Disk", "Archive").await;
    windows.push(("wizard: choices", chosen.upcast()));
    windows.push(("wizard: review", reviewed(&opened).await.upcast()));
    windows.push(("wizard: refused", refused(&opened).await.upcast()));
    windows.push(("problem", problem()));
    let (loading, _overview) = loading();
    glib::timeout_future(SETTLED).await;
    let turning = count(&loading);
    draw_nothing(&windows).await;
    assert!(
        turning.get() > 20,
        "a spinner that is shown turns, and its frames are counted"
    );
    for (_, window) in windows.drain(1..) {
        window.close();
    }

    // From here on the overview shows a cache, which gets a sample every ten seconds.
    let done = set_up(&opened).await;
    glib::timeout_future(SETTLED).await;
    draw_nothing(&[("wizard: done", done.clone().upcast())]).await;
    a_cache_page_draws_a_frame_or_two_for_a_sample(&opened, &done).await;
}

/// Checks that windows at rest draw nothing.
async fn draw_nothing(windows: &[(&str, gtk::Window)]) {
    let frames: Vec<_> = windows.iter().map(|(_, window)| count(window)).collect();
    glib::timeout_future(WATCHED).await;
    for ((page, _), frames) in windows.iter().zip(&frames) {
        assert_eq!(frames.get(), 0, "{page} draws frames at rest");
    }
}

/// Counts the frames of a window from now on.
fn count(window: &gtk::Window) -> Rc<Cell<u32>> {
    let frames = Rc::new(Cell::new(0));
    let counted = Rc::clone(&frames);
    let clock = window.frame_clock().unwrap();
    clock.connect_after_paint(move |_| counted.set(counted.get() + 1));
    frames
}

/// Opens one more wizard.
async fn new_wizard(opened: &Opened) -> Wizard {
    let dialogs = || -> Vec<Wizard> {
        gtk::Window::list_toplevels()
            .into_iter()
            .filter_map(|window| window.downcast().ok())
            .collect()
    };
    let before = dialogs();
    opened.window.set_up(None);
    hand::wait(&opened.window, "wizard", || {
        dialogs()
            .into_iter()
            .find(|dialog| !before.contains(dialog) && dialog.is_mapped())
    })
    .await
}

/// Opens one more wizard, on its review.
async fn reviewed(opened: &Opened) -> Wizard {
    let dialog = new_wizard(opened).await;
    wizard::answer(&dialog, "Archive").await;
    dialog
}

/// A wizard whose job was not authorised.
async fn refused(opened: &Opened) -> Wizard {
    let dialog = reviewed(opened).await;
    opened.levers.set_authorized(false).await.unwrap();
    hand::press(&dialog, "Set Up the Cache").await;
    hand::wait(&dialog, "refusal", || hand::button(&dialog, "Try Again")).await;
    opened.levers.set_authorized(true).await.unwrap();
    dialog
}

/// A wizard on its last page.
async fn set_up(opened: &Opened) -> Wizard {
    let dialog = reviewed(opened).await;
    hand::press(&dialog, "Set Up the Cache").await;
    hand::wait(&dialog, "end", || hand::button(&dialog, "Show Cache")).await;
    dialog
}

/// An overview that cannot show anything.
fn problem() -> gtk::Window {
    let (window, overview) = loading();
    let store = Store::default();
    overview.connect_to(&store);
    store.apply_disks(Err(Failure::new(Kind::ServiceUnavailable).name("UDisks2")));
    store.service_failed(Failure::new(Kind::ServiceUnavailable).name("tandem"));
    window
}

/// An overview that knows nothing yet.
fn loading() -> (gtk::Window, Overview) {
    let overview: Overview = glib::Object::new();
    let window = gtk::Window::builder().child(&overview).build();
    window.present();
    (window, overview)
}

async fn a_cache_page_draws_a_frame_or_two_for_a_sample(opened: &Opened, done: &Wizard) {
    let window = &opened.window;
    hand::press(done, "Show Cache").await;
    let cache = hand::wait(window, "cache page", || window.shown_cache()).await;
    glib::timeout_future(SETTLED).await;
    let samples = Rc::new(Cell::new(0));
    let counted = Rc::clone(&samples);
    let _samples = cache.follow_samples(move |_| counted.set(counted.get() + 1));
    let frames = count(window.upcast_ref());
    glib::timeout_future(WATCHED).await;
    assert!(samples.get() >= 3, "the cache is watched");
    // A page that draws all the time has sixty for each. On a busy machine one change is drawn in several frames.
    assert!(
        frames.get() <= samples.get() * 6,
        "{} frames for {} samples",
        frames.get(),
        samples.get()
    );
}
