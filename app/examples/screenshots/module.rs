// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of the page of the kernel module, from each problem to the restart, and of the notice of other kernels.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{ManagerProxy, ModuleState, SimulationProxy};
use tandem_app::enrollment;
use tandem_app::widgets::module_page::ModulePage;
use tandem_app::widgets::window::Window;

use crate::stage::hand;
use crate::{Camera, Result};

/// Takes the pictures. Afterwards the kernel can run a cache.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
    bus: &zbus::Connection,
) -> Result {
    let manager = ManagerProxy::new(bus).await?;
    enrollment::forget();
    levers
        .set_kernels_without_module(&["6.12.48+deb13-amd64"])
        .await?;
    manager.check_kernels().await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    camera.take(window, "69-kernel-without-module").await?;
    levers.set_kernels_without_module(&[]).await?;
    manager.check_kernels().await?;

    levers.set_module(ModuleState::NotBuilt).await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    camera.take(window, "70-overview-not-built").await?;
    window.set_up(None);
    let page: ModulePage = hand::window(application).await;
    camera.take(&page, "65-module-not-built").await?;
    for expander in hand::shown(&page)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Expander>().ok())
    {
        expander.set_expanded(true);
    }
    camera.take(&page, "71-module-not-built-details").await?;
    levers.set_module(ModuleState::Refused).await?;
    let enroll = gettext("_Enroll Key…");
    hand::wait(&page, &enroll, || hand::button(&page, &enroll)).await;
    camera.take(&page, "64-module-refused").await?;
    hand::press(&page, &enroll).await;
    let entries = hand::wait(&page, "entries", || {
        let all = hand::shown(&page).into_iter();
        let entries: Vec<_> = all
            .filter_map(|widget| widget.downcast::<adw::PasswordEntryRow>().ok())
            .collect();
        <[_; 2]>::try_from(entries).ok()
    })
    .await;
    entries[0].set_text("12345678");
    entries[1].set_text("1234567x");
    camera.take(&page, "66-module-password").await?;
    entries[1].set_text("12345678");
    hand::press(&page, &gettext("_Enroll Key")).await;
    let restart = gettext("_Restart…");
    hand::wait(&page, &restart, || hand::button(&page, &restart)).await;
    camera.take(&page, "67-module-restart").await?;
    levers.restart().await?;
    let set_up = gettext("_Set Up a Cache");
    hand::wait(&page, &set_up, || hand::button(&page, &set_up)).await;
    camera.take(&page, "72-module-ready").await?;
    page.close();
    glib::timeout_future(Duration::from_millis(200)).await;
    Ok(())
}
