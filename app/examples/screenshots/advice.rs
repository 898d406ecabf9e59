// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of the advisor: before a disk is watched, too early, and both answers.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{ManagerProxy, SimulationProxy};
use tandem_app::widgets::advice_dialog::AdviceDialog;
use tandem_app::widgets::window::Window;

use crate::stage::hand;
use crate::{Camera, Result};

const HOUR: u32 = 3600;

/// Starts and ends at the overview, with no disk watched.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
    bus: &zbus::Connection,
) -> Result {
    // The service tells of new requests after 60 of these.
    levers.set_sample_period(20).await?;
    let manager = ManagerProxy::new(bus).await?;

    window.advise(block("sda1")?.as_str());
    let dialog: AdviceDialog = hand::window(application).await;
    camera.take(&dialog, "100-advice").await?;
    hand::press(&dialog, &gettext("_Watch This Disk")).await;
    let early = gettext("Too Early to Say");
    says(&dialog, &early).await;
    levers.advance(5 * HOUR).await?;
    seen(&manager, 5).await?;
    glib::timeout_future(Duration::from_millis(1800)).await;
    camera.take(&dialog, "101-advice-early").await?;
    levers.advance(48 * HOUR).await?;
    says(&dialog, &gettext("An SSD Would Help")).await;
    seen(&manager, 53).await?;
    glib::timeout_future(Duration::from_millis(1800)).await;
    camera.take(&dialog, "102-advice-helps").await?;
    let width = dialog.width();
    dialog.set_default_size(width, 1500);
    camera.take(&dialog, "106-advice-whole").await?;
    dialog.set_default_size(width, 720);
    hand::press(&dialog, &gettext("_Stop Watching…")).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "103-advice-stop").await?;
    question.close();
    dialog.close();
    camera.take(window, "104-overview-watched").await?;

    window.advise(block("sda2")?.as_str());
    let dialog: AdviceDialog = hand::window(application).await;
    hand::press(&dialog, &gettext("_Watch This Disk")).await;
    says(&dialog, &early).await;
    levers.advance(30 * HOUR).await?;
    says(&dialog, &gettext("An SSD Will Not Help You")).await;
    camera.take(&dialog, "105-advice-no-help").await?;
    dialog.close();

    levers.unplug(&block("sda1")?).await?;
    let height = window.height();
    window.set_default_size(camera.width, if camera.width < 600 { 3600 } else { 2000 });
    let away = gettext("Watched Disks That Are Not Connected");
    hand::wait(window, &away, || {
        hand::words(window).contains(&away).then_some(())
    })
    .await;
    camera.take(window, "107-overview-away").await?;
    window.set_default_size(camera.width, height);
    // All that was on the drive comes back.
    for name in ["sda", "sda1", "sda2"] {
        levers.replug(&block(name)?).await?;
    }

    for watch in manager.watches().await? {
        manager.stop_watching(&watch.id).await?;
    }
    levers.set_sample_period(1000).await?;
    Ok(())
}

fn block(name: &str) -> Result<zbus::OwnedObjectPath> {
    let path = format!("/org/freedesktop/UDisks2/block_devices/{name}");
    Ok(zbus::OwnedObjectPath::try_from(path)?)
}

async fn says(dialog: &AdviceDialog, words: &str) {
    hand::wait(dialog, words, || {
        hand::words(dialog).contains(words).then_some(())
    })
    .await;
}

/// Waits until the first disk was watched for so many hours.
async fn seen(manager: &ManagerProxy<'_>, hours: u64) -> Result {
    loop {
        let watches = manager.watches().await?;
        if watches
            .first()
            .is_some_and(|w| w.watched_seconds >= hours * 3600)
        {
            return Ok(());
        }
        glib::timeout_future(Duration::from_millis(100)).await;
    }
}
