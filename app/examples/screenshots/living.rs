// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of living with a cache: its name, the health of its SSD, its figures that begin anew, its pause.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{SelfReport, SimulationProxy, SsdHealth};
use tandem_app::widgets::window::Window;
use zbus::OwnedObjectPath;

use crate::stage::hand;
use crate::{Camera, Result};

/// The window shows the page of a cache before and after.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
    let cache = window.shown_cache().ok_or("no cache is shown")?;
    WidgetExt::activate_action(&removal(window)?, "cache.rename", None)?;
    let dialog: adw::Window = hand::window(application).await;
    let entry = hand::wait(&dialog, "entry", || {
        let mut all = hand::shown(&dialog).into_iter();
        all.find_map(|widget| widget.downcast::<adw::EntryRow>().ok())
    })
    .await;
    entry.set_text("Fotos & Filme");
    camera.take(&dialog, "90-rename").await?;
    dialog.close();

    let facts = cache.facts();
    let ssd = OwnedObjectPath::try_from(facts.parts.ssd)?;
    let failing = SsdHealth {
        report: SelfReport::Failing,
        used_percent: 97,
        hours_on: 41_000,
        read_at: facts.health.read_at + 86_400,
    };
    levers.set_health(&ssd, &failing).await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    camera.take(window, "91-ssd-failing").await?;
    window.show_overview();
    camera.take(window, "96-overview-ssd-failing").await?;
    window.show_cache(&facts.uuid);
    hand::wait(window, "page", || hand::removal(window)).await;
    WidgetExt::activate_action(&removal(window)?, "cache.reset-statistics", None)?;
    hand::wait(window, "toast", || hand::button(window, &gettext("_Undo"))).await;
    camera.take(window, "92-statistics-reset").await?;
    hand::press(window, &gettext("_Undo")).await;
    WidgetExt::activate_action(&removal(window)?, "cache.pause", None)?;
    hand::wait(window, "banner", || {
        hand::button(window, &gettext("Res_ume"))
    })
    .await;
    camera.take(window, "97-paused").await?;
    window.show_overview();
    camera.take(window, "98-overview-paused").await?;
    window.show_cache(&facts.uuid);
    hand::wait(window, "banner", || {
        hand::button(window, &gettext("Res_ume"))
    })
    .await;
    hand::press(window, &gettext("Res_ume")).await;
    let page = show_health(window)?;
    camera.take(window, "93-ssd-failing-life").await?;
    levers.set_health(&ssd, &facts.health).await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    camera.take(window, "94-ssd-good").await?;
    levers.set_health(&ssd, &SsdHealth::unknown()).await?;
    glib::timeout_future(Duration::from_millis(600)).await;
    camera.take(window, "95-ssd-unknown").await?;
    levers.set_health(&ssd, &facts.health).await?;
    page.set_value(0.0);
    glib::timeout_future(Duration::from_millis(400)).await;
    Ok(())
}

/// Scrolls the page to the health of the SSD.
fn show_health(window: &Window) -> Result<gtk::Adjustment> {
    let row = hand::row(window, &gettext("Condition")).ok_or("no health of the SSD")?;
    let page = row.ancestor(gtk::ScrolledWindow::static_type());
    let page = page.and_downcast::<gtk::ScrolledWindow>();
    let page = page.ok_or("the page does not scroll")?;
    let place = row.compute_bounds(&page).ok_or("the row has no place")?;
    let adjustment = page.vadjustment();
    adjustment.set_value(adjustment.value() + f64::from(place.y()) - 80.0);
    Ok(adjustment)
}

/// A widget of the page, through which its actions are reached.
fn removal(window: &Window) -> Result<gtk::Button> {
    hand::removal(window).ok_or_else(|| "no page of a cache is shown".into())
}
