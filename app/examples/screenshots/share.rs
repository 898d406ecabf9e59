// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a cache on a share of an SSD that gets another size.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{CacheProxy, CacheState, SimulationProxy};
use tandem_app::widgets::size_row::SizeRow;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

use super::set_up::free_space;
use crate::stage::{hand, wizard};
use crate::{Camera, Result};

const GB: u64 = 1_000_000_000;

/// Starts and ends without a cache.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
    bus: &zbus::Connection,
) -> Result {
    levers.set_step_time(20).await?;
    window.set_up(None);
    let dialog: Wizard = hand::window(application).await;
    dialog.set_default_size(camera.width.min(640), 720);
    wizard::choose(&dialog, &gettext("Hard Disk"), "Archive").await;
    wizard::choose(&dialog, &gettext("SSD"), &free_space()).await;
    size_row(&dialog).await.choose(60 * GB);
    hand::press(&dialog, &gettext("_Review")).await;
    hand::press(&dialog, &gettext("_Set Up the Cache")).await;
    hand::press(&dialog, &gettext("_Show Cache")).await;
    hand::wait(window, "a cache that works", || {
        let facts = window.shown_cache()?.facts();
        (facts.state == CacheState::Active && facts.job.is_none()).then_some(())
    })
    .await;

    hand::wait(window, "the action", || {
        let mut all = hand::shown(window).into_iter();
        all.find(|widget| widget.activate_action("cache.change-size", None).is_ok())
    })
    .await;
    let sizes = hand::wait(window, "sizes", || {
        let windows = gtk::Window::list_toplevels().into_iter();
        windows
            .filter_map(|window| window.downcast::<gtk::Window>().ok())
            .find(has_sizes)
    })
    .await;
    camera.take(&sizes, "74-size").await?;
    size_row(&sizes).await.choose(110 * GB);
    camera.take(&sizes, "75-size-larger").await?;
    hand::press(&sizes, &gettext("C_ontinue")).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "76-size-review").await?;
    levers.set_step_time(900).await?;
    hand::agree(&question).await;
    glib::timeout_future(Duration::from_millis(1500)).await;
    camera.take(window, "77-size-changing").await?;
    hand::wait(window, "the new size", || {
        let facts = window.shown_cache()?.facts();
        (facts.job.is_none() && facts.ssd.size > 100 * GB).then_some(())
    })
    .await;
    camera.take(window, "78-size-changed").await?;

    levers.set_step_time(20).await?;
    let path = window.shown_cache().ok_or("no cache")?.facts().path;
    let path = zbus::OwnedObjectPath::try_from(path)?;
    let cache = CacheProxy::builder(bus).path(path).build().await?;
    let plan = cache.plan_remove().await?;
    cache.remove(&plan.plan_id, &plan.digest).await?;
    hand::wait(window, "the overview", || {
        hand::button(window, &gettext("Set Up a Cache…"))
    })
    .await;
    Ok(())
}

fn has_sizes(root: &gtk::Window) -> bool {
    hand::shown(root)
        .iter()
        .any(|widget| widget.is::<SizeRow>())
}

async fn size_row(root: &impl IsA<gtk::Widget>) -> SizeRow {
    hand::wait(root, "sizes", || {
        let mut all = hand::shown(root).into_iter();
        all.find_map(|widget| widget.downcast::<SizeRow>().ok())
    })
    .await
}
