// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a speed test, and the picture that a person shares.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use std::time::Duration;
use tandem_api::SimulationProxy;
use tandem_app::widgets::speed_dialog::SpeedDialog;
use tandem_app::widgets::speed_picture::SpeedPicture;
use tandem_app::widgets::window::Window;

use crate::stage::hand;
use crate::{Camera, Result};

/// Starts and ends at the page of the cache.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
    WidgetExt::activate_action(&cache_page(window)?, "cache.test-speed", None)?;
    let dialog: SpeedDialog = hand::window(application).await;
    camera.take(&dialog, "80-speed").await?;
    levers.set_step_time(1200).await?;
    hand::press(&dialog, &gettext("_Start Test")).await;
    let cancel = gettext("_Cancel");
    hand::wait(&dialog, &cancel, || hand::button(&dialog, &cancel)).await;
    glib::timeout_future(Duration::from_millis(1500)).await;
    camera.take(&dialog, "81-speed-running").await?;
    levers.set_step_time(20).await?;
    let again = gettext("_Test Again");
    hand::wait(&dialog, &again, || hand::button(&dialog, &again)).await;
    camera.take(&dialog, "82-speed-result").await?;
    let picture = hand::shown(&dialog)
        .into_iter()
        .find_map(|widget| widget.downcast::<SpeedPicture>().ok());
    let picture = picture.ok_or("no picture of the result")?.texture()?;
    camera.keep(&picture, "83-speed-shared")?;

    levers.set_other_load(24).await?;
    hand::press(&dialog, &again).await;
    let warned = || {
        let test = window.shown_cache()?.facts().speed?;
        let again = hand::button(&dialog, &again)?;
        (test.others_permille > 0 && again.is_sensitive()).then_some(())
    };
    hand::wait(&dialog, "unreliable result", warned).await;
    camera.take(&dialog, "84-speed-unreliable").await?;
    levers.set_other_load(0).await?;

    levers.set_step_time(60_000).await?;
    hand::press(&dialog, &again).await;
    let reading = gettext("Reading from the hard disk…");
    hand::wait(&dialog, &reading, || {
        hand::words(&dialog).contains(&reading).then_some(())
    })
    .await;
    let ssd = window.shown_cache().ok_or("no cache")?.facts().parts.ssd;
    let ssd = zbus::OwnedObjectPath::try_from(ssd)?;
    levers.unplug(&ssd).await?;
    let retry = gettext("_Try Again");
    hand::wait(&dialog, &retry, || hand::button(&dialog, &retry)).await;
    camera.take(&dialog, "85-speed-failed").await?;
    levers.set_step_time(20).await?;
    levers.replug(&ssd).await?;
    hand::wait(window, "cache", || {
        let facts = window.shown_cache()?.facts();
        facts.is_live().then_some(())
    })
    .await;
    dialog.close();
    camera.take(window, "86-cache-tested").await?;
    levers.set_step_time(900).await?;
    Ok(())
}

fn cache_page(window: &Window) -> Result<gtk::Widget> {
    let page = hand::shown(window)
        .into_iter()
        .find(|widget| widget.is::<tandem_app::widgets::cache_page::CachePage>());
    page.ok_or_else(|| "the page is not shown".into())
}
