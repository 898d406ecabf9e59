// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of the cache that was set up, and of its removal.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{CacheState, SimulationProxy};
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::window::Window;

use super::living;
use super::past::remember;
use super::speed;
use crate::stage::hand;
use crate::{Camera, Result};

/// Starts with a cache and ends without one, in the window that is returned.
pub async fn tour(
    application: &adw::Application,
    window: Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result<Window> {
    hand::wait(&window, "removal", || hand::removal(&window)).await;
    camera.take(&window, "12-cache-new").await?;
    // The service takes a sample each second, so that the long history has a shape.
    for minutes in [40, 25, 55, 30] {
        levers.advance(minutes * 60).await?;
        glib::timeout_future(Duration::from_millis(1200)).await;
    }
    window.show_overview();
    glib::timeout_future(Duration::from_millis(300)).await;
    // The window reads the kept samples when it first shows the cache.
    let window = again(application, window, camera.width).await;
    hand::wait(&window, "cache", || {
        hand::shown(&window)
            .into_iter()
            .find_map(|widget| widget.downcast::<CacheRow>().ok())
    })
    .await;
    let cache = first_row(&window)?
        .cache()
        .ok_or("the row shows no cache")?;
    window.show_cache(&cache.facts().uuid);
    glib::timeout_future(Duration::from_millis(2500)).await;
    remember(&cache, false);
    glib::timeout_future(Duration::from_millis(2500)).await;
    window.show_overview();
    camera.take(&window, "13-overview-cache").await?;
    let uuid = cache.facts().uuid;
    window.show_cache(&uuid);
    glib::timeout_future(Duration::from_millis(1200)).await;
    camera.take(&window, "14-cache").await?;
    let height = if camera.width < 600 { 720 } else { 860 };
    window.set_default_size(camera.width, if camera.width < 600 { 2900 } else { 2050 });
    camera.take(&window, "15-cache-whole").await?;
    window.set_default_size(camera.width, height);
    let range = hand::shown(&window)
        .into_iter()
        .find_map(|widget| widget.downcast::<gtk::DropDown>().ok())
        .ok_or("no choice of the range")?;
    range.set_selected(2);
    glib::timeout_future(Duration::from_millis(900)).await;
    camera.take(&window, "22-chart-day").await?;
    range.set_selected(0);

    speed::tour(application, &window, camera, levers).await?;
    living::tour(application, &window, camera, levers).await?;

    levers
        .set_state(&uuid, CacheState::Bypass, "ssd-error")
        .await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    camera.take(&window, "16-cache-bypass").await?;
    levers.set_state(&uuid, CacheState::Active, "").await?;

    remember(&cache, true);
    camera.take(&window, "21-chart-two-lines").await?;

    hand::press_removal(&window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "17-remove").await?;
    levers.set_step_time(1500).await?;
    hand::agree(&question).await;
    hand::wait(&window, "removal", || {
        hand::button(&window, &gettext("_Cancel"))
    })
    .await;
    glib::timeout_future(Duration::from_millis(700)).await;
    camera.take(&window, "18-removing").await?;
    let set_up = gettext("Set Up a Cache…");
    hand::wait(&window, &set_up, || hand::button(&window, &set_up)).await;
    camera.take(&window, "19-removed").await?;
    Ok(window)
}

/// A new window in place of an old one.
async fn again(application: &adw::Application, old: Window, width: i32) -> Window {
    let window = Window::new(application);
    old.close();
    window.set_default_size(width, if width < 600 { 720 } else { 860 });
    window.present();
    window
}

/// The row of the only cache.
fn first_row(window: &Window) -> Result<CacheRow> {
    hand::shown(window)
        .into_iter()
        .find_map(|widget| widget.downcast::<CacheRow>().ok())
        .ok_or_else(|| "the cache is not listed".into())
}
