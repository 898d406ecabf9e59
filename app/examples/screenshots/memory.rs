// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a cache in the computer's memory: the choice, the review, the page, and the page while programs need the memory.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::SimulationProxy;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

use super::scrolled_to_end;
use super::set_up::primary;
use crate::stage::{hand, wizard};
use crate::{Camera, Result};

/// Sets such a cache up and removes it again.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
    let wait = |milliseconds| glib::timeout_future(Duration::from_millis(milliseconds));
    window.set_up(None);
    let dialog: Wizard = hand::window(application).await;
    dialog.set_default_size(camera.width.min(640), 1000);
    wizard::choose_disk(&dialog, "Archive").await;
    wizard::open(&dialog, &gettext("SSD")).await;
    wait(500).await;
    camera.take(&dialog, "87-memory-row").await?;
    hand::choose(&dialog, &gettext("Memory")).await;
    wait(800).await;
    camera.take(&dialog, "87-memory-choices").await?;
    wizard::open(&dialog, &gettext("Mode")).await;
    wait(500).await;
    camera.take(&dialog, "87-memory-mode").await?;
    hand::press(&dialog, &gettext("_Review")).await;
    wait(1200).await;
    camera.take(&dialog, "88-memory-review").await?;
    hand::press(&dialog, &primary(&dialog)).await;
    let show = gettext("_Show Cache");
    hand::wait(&dialog, &show, || hand::button(&dialog, &show)).await;
    camera.take(&dialog, "88-memory-done").await?;
    hand::press(&dialog, &show).await;
    hand::wait(window, "removal", || hand::removal(window)).await;
    levers.advance(15 * 60).await?;
    wait(2500).await;
    camera.take(window, "89-memory-page").await?;
    let height = scrolled_to_end(window)?;
    wait(300).await;
    camera.take(window, "89-memory-about").await?;
    height.set_value(0.0);
    levers.set_memory_available(0).await?;
    wait(4000).await;
    camera.take(window, "89-memory-needed").await?;
    levers.set_memory_available(8 << 30).await?;
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "89-memory-remove").await?;
    hand::agree(&question).await;
    let set_up = gettext("Set Up a Cache…");
    hand::wait(window, &set_up, || hand::button(window, &set_up)).await;
    Ok(())
}
