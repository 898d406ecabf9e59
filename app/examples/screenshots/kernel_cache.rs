// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of the way to the kernel's own cache, where the module cannot be loaded.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{ModuleState, SimulationProxy};
use tandem_app::widgets::module_page::ModulePage;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

use super::scrolled_to_end;
use super::set_up::primary;
use crate::stage::{hand, wizard};
use crate::{Camera, Result};

/// Sets such a cache up and removes it again. Afterwards the kernel can run a cache of Tandem.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
    levers.set_module(ModuleState::NotBuilt).await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    window.set_up(None);
    let page: ModulePage = hand::window(application).await;
    hand::press(&page, &gettext("_Use the Kernel's Own Cache…")).await;
    let dialog: Wizard = hand::window(application).await;
    dialog.set_default_size(camera.width.min(640), 720);
    wizard::choose_disk(&dialog, "Archive").await;
    wizard::open(&dialog, &gettext("Mode")).await;
    glib::timeout_future(Duration::from_millis(500)).await;
    camera.take(&dialog, "73-kernel-cache-choices").await?;
    hand::press(&dialog, &gettext("_Review")).await;
    glib::timeout_future(Duration::from_millis(1200)).await;
    camera.take(&dialog, "74-kernel-cache-review").await?;
    hand::press(&dialog, &primary(&dialog)).await;
    let show = gettext("_Show Cache");
    hand::wait(&dialog, &show, || hand::button(&dialog, &show)).await;
    camera.take(&dialog, "75-kernel-cache-done").await?;
    hand::press(&dialog, &show).await;
    hand::wait(window, "removal", || hand::removal(window)).await;
    levers.advance(15 * 60).await?;
    glib::timeout_future(Duration::from_millis(2500)).await;
    camera.take(window, "76-kernel-cache-page").await?;
    scrolled_to_end(window)?;
    glib::timeout_future(Duration::from_millis(300)).await;
    camera.take(window, "78-kernel-cache-about").await?;
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    hand::agree(&question).await;
    let set_up = gettext("Set Up a Cache…");
    hand::wait(window, &set_up, || hand::button(window, &set_up)).await;
    levers.set_module(ModuleState::Available).await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    // The row of whoever prefers it.
    window.set_up(None);
    let dialog: Wizard = hand::window(application).await;
    dialog.set_default_size(camera.width.min(640), 1000);
    wizard::choose_disk(&dialog, "Archive").await;
    wizard::open(&dialog, &gettext("Mode")).await;
    glib::timeout_future(Duration::from_millis(500)).await;
    camera.take(&dialog, "77-kernel-cache-row").await?;
    dialog.close();
    glib::timeout_future(Duration::from_millis(200)).await;
    Ok(())
}
