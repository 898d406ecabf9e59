// SPDX-License-Identifier: GPL-3.0-or-later
//! The way through all pages and dialogs on a simulated machine. The pictures and the test of accessibility go it, each
//! with a `Camera` of its own.

mod advice;
mod cache;
mod found;
mod help;
mod kernel_cache;
mod living;
mod memory;
mod module;
mod next_start;
mod past;
mod set_up;
mod share;
mod speed;
mod trouble;
mod write_back;

use adw::prelude::*;
use gettextrs::gettext;
use tandem_api::SimulationProxy;
use tandem_app::widgets::window::Window;

use crate::stage::hand;
use crate::{Camera, Result};

/// Shows every page and dialog to the camera.
pub async fn tour(application: &adw::Application, camera: &Camera) -> Result {
    let bus = zbus::Connection::system().await?;
    let levers = SimulationProxy::new(&bus).await?;
    let window = Window::new(application);
    window.set_default_size(camera.width, if camera.width < 600 { 720 } else { 860 });
    window.present();
    let set_up = gettext("Set Up a Cache…");
    hand::wait(&window, &set_up, || hand::button(&window, &set_up)).await;
    camera.take(&window, "01-overview-empty").await?;
    help::tour(application, &window, camera).await?;
    advice::tour(application, &window, camera, &levers, &bus).await?;
    set_up::tour(application, &window, camera, &levers).await?;
    let window = cache::tour(application, window, camera, &levers).await?;
    share::tour(application, &window, camera, &levers, &bus).await?;
    write_back::tour(application, &window, camera, &levers).await?;
    next_start::tour(application, &window, camera).await?;
    module::tour(application, &window, camera, &levers, &bus).await?;
    kernel_cache::tour(application, &window, camera, &levers).await?;
    memory::tour(application, &window, camera, &levers).await?;
    trouble::tour(application, &window, camera, &levers).await?;
    found::tour(application, &window, camera, &levers, &bus).await
}

/// Scrolls the page of the window to its end. Returns the place, so that the page can be scrolled back.
fn scrolled_to_end(window: &Window) -> Result<gtk::Adjustment> {
    let scroller = hand::shown(window)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::ScrolledWindow>().ok())
        .next_back()
        .ok_or("no page to scroll")?;
    let height = scroller.vadjustment();
    height.set_value(height.upper());
    Ok(height)
}
