// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a cache in write-back, from the choice of the mode to the discarded data.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{CacheState, Mode, SimulationProxy};
use tandem_app::display::mode_name;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

use super::set_up::primary;
use crate::stage::{hand, wizard};
use crate::{Camera, Result};

/// Bytes a second, so slow that a flush is still going on when its picture is taken.
const SLOW: u64 = 20_000_000;

/// Starts and ends without a cache.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
    levers.set_step_time(300).await?;
    choose(application, window, camera).await?;

    let uuid = window
        .shown_cache()
        .ok_or("its page is not shown")?
        .facts()
        .uuid;
    camera.take(window, "33-cache-nothing-waits").await?;
    levers.set_drain_rate(SLOW).await?;
    levers.advance(200).await?;
    let flush = gettext("Write Everything to the Hard Disk Now");
    hand::wait(window, "something that waits", || {
        hand::words(window).contains(&flush).then_some(())
    })
    .await;
    camera.take(window, "34-cache-waiting").await?;
    let height = window.default_height();
    window.set_default_size(camera.width, if camera.width < 600 { 2700 } else { 2000 });
    camera.take(window, "35-cache-waiting-whole").await?;
    window.set_default_size(camera.width, height);
    before_off(window, camera).await?;
    window.show_overview();
    camera.take(window, "36-overview-waiting").await?;
    window.show_cache(&uuid);

    flushed(window, camera).await?;
    mode_changed(application, window, camera).await?;
    troubled(window, camera, levers, &uuid).await?;
    given_up(application, window, camera, levers, &uuid).await?;
    Ok(())
}

/// Has a shutdown write everything, at the end of the page.
async fn before_off(window: &Window, camera: &Camera) -> Result {
    let row = hand::row(window, &gettext("Write Everything Before Shutting Down"));
    let row = row.and_downcast::<adw::ComboRow>();
    let row = row.ok_or("no choice of what a shutdown does")?;
    row.set_selected(1);
    let page = row.ancestor(gtk::ScrolledWindow::static_type());
    let page = page.and_downcast::<gtk::ScrolledWindow>();
    let page = page.ok_or("the page does not scroll")?.vadjustment();
    // Until the window has its old size again, the whole page is shown.
    glib::timeout_future(Duration::from_millis(500)).await;
    page.set_value(page.upper());
    camera.take(window, "35-before-off").await?;
    page.set_value(0.0);
    camera.take(window, "35-before-off-line").await
}

/// Goes through the wizard.
async fn choose(application: &adw::Application, window: &Window, camera: &Camera) -> Result {
    let (disk, mode) = (gettext("Hard Disk"), gettext("Mode"));
    window.set_up(None);
    let dialog: Wizard = hand::window(application).await;
    dialog.set_default_size(camera.width.min(640), 720);
    wizard::choose(&dialog, &disk, "Windows").await;
    wizard::open(&dialog, &mode).await;
    glib::timeout_future(Duration::from_millis(1200)).await;
    camera.take(&dialog, "30-wizard-mode-refused").await?;
    wizard::choose(&dialog, &disk, "Archive").await;
    glib::timeout_future(Duration::from_millis(500)).await;
    wizard::choose(&dialog, &mode, &mode_name(Mode::Writeback)).await;
    glib::timeout_future(Duration::from_millis(500)).await;
    camera.take(&dialog, "31-wizard-mode-back").await?;
    hand::press(&dialog, &gettext("_Review")).await;
    glib::timeout_future(Duration::from_millis(1200)).await;
    hand::choose(&dialog, &gettext("I have a backup")).await;
    camera.take(&dialog, "32-wizard-review-back").await?;
    let begin = primary(&dialog);
    hand::press(&dialog, &begin).await;
    hand::press(&dialog, &gettext("_Show Cache")).await;
    Ok(())
}

async fn flushed(window: &Window, camera: &Camera) -> Result {
    let flush = hand::shown(window)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Button>().ok())
        .find(|button| {
            hand::words(button).contains(&gettext("Write Everything to the Hard Disk Now"))
        });
    flush.ok_or("it cannot be written now")?.emit_clicked();
    let pause = gettext("Pause");
    hand::wait(window, &pause, || hand::button(window, &pause)).await;
    glib::timeout_future(Duration::from_millis(2500)).await;
    camera.take(window, "37-flushing").await?;
    hand::press(window, &pause).await;
    let resume = gettext("Resume");
    hand::wait(window, &resume, || hand::button(window, &resume)).await;
    camera.take(window, "38-flush-paused").await?;
    hand::press(window, &gettext("Cancel")).await;
    hand::wait(window, "end of the flush", || {
        hand::button(window, &resume).is_none().then_some(())
    })
    .await;
    Ok(())
}

async fn mode_changed(application: &adw::Application, window: &Window, camera: &Camera) -> Result {
    let row = hand::row(window, &gettext("Mode")).ok_or("no row of the mode")?;
    row.emit_by_name::<()>("activated", &[]);
    let dialog: adw::Window = hand::window(application).await;
    camera.take(&dialog, "39-mode").await?;
    hand::choose(&dialog, &mode_name(Mode::Writearound)).await;
    camera.take(&dialog, "40-mode-away").await?;
    hand::press(&dialog, &gettext("_Cancel")).await;
    glib::timeout_future(Duration::from_millis(300)).await;
    Ok(())
}

/// Pictures of faults.
async fn troubled(
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
    uuid: &str,
) -> Result {
    for (state, reason, name) in [
        (CacheState::Active, "disk-error", "41-disk-error"),
        (CacheState::Bypass, "-", "42-bypass"),
        (CacheState::Stopped, "disk-changed", "43-disk-changed"),
        (CacheState::Stopped, "ssd-missing", "44-ssd-missing"),
        (CacheState::Stopped, "ssd-damaged", "50-ssd-damaged"),
        (CacheState::Stopped, "ssd-blocks", "51-ssd-blocks"),
        (CacheState::Bypass, "disk-missing", "52-disk-missing"),
        (CacheState::Stopped, "disk-missing", "53-disk-not-there"),
        (CacheState::Bypass, "ssd-gone-dirty", "45-ssd-gone"),
    ] {
        levers.set_state(uuid, state, reason).await?;
        glib::timeout_future(Duration::from_millis(600)).await;
        camera.take(window, name).await?;
    }
    Ok(())
}

async fn given_up(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
    uuid: &str,
) -> Result {
    hand::press_removal(window).await;
    let refusal: adw::MessageDialog = hand::window(application).await;
    camera.take(&refusal, "46-not-written").await?;
    hand::press(&refusal, &gettext("_Discard…")).await;
    glib::timeout_future(Duration::from_millis(700)).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "47-give-up").await?;
    hand::press(&question, &gettext("_Cancel")).await;
    glib::timeout_future(Duration::from_millis(300)).await;

    // The SSD is back, but the disk refuses what the removal writes.
    levers.set_stall_limit(1000).await?;
    levers
        .set_state(uuid, CacheState::Active, "disk-error")
        .await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    hand::agree(&question).await;
    let give_up = gettext("_Discard…");
    let refusals = || {
        gtk::Window::list_toplevels()
            .into_iter()
            .filter_map(|window| window.downcast::<adw::MessageDialog>().ok())
            .filter(|dialog| hand::button(dialog, &give_up).is_some())
    };
    let ours =
        |dialog: &adw::MessageDialog| dialog.transient_for().as_ref() == Some(window.upcast_ref());
    let refusal = hand::wait(window, "refusal", || refusals().find(ours)).await;
    // The other window of the tour shows the same refusal.
    refusals()
        .filter(|dialog| !ours(dialog))
        .for_each(|dialog| dialog.close());
    camera.take(&refusal, "54-refused").await?;
    hand::press(&refusal, &give_up).await;
    glib::timeout_future(Duration::from_millis(700)).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "55-give-up-refused").await?;
    hand::press(&question, &gettext("_Cancel")).await;
    glib::timeout_future(Duration::from_millis(300)).await;

    // Now the disk accepts writes: dirty data is written back, and then the SSD is removed.
    levers.set_state(uuid, CacheState::Active, "").await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "48-remove-waiting").await?;
    hand::agree(&question).await;
    let pause = gettext("Pause");
    hand::wait(window, &pause, || hand::button(window, &pause)).await;
    glib::timeout_future(Duration::from_millis(1500)).await;
    camera.take(window, "49-removing-drain").await?;
    levers.set_drain_rate(u64::from(u32::MAX)).await?;
    let set_up = gettext("Set Up a Cache…");
    hand::wait(window, &set_up, || hand::button(window, &set_up)).await;
    Ok(())
}
