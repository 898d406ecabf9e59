// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of the way to a cache: the choices, a refusal, a failure, the progress and the end.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{SimulationProxy, StepKind};
use tandem_app::display::fill;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

use crate::stage::{hand, wizard};
use crate::{Camera, Result};

/// Starts without a cache, and ends on the page of a new one.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
    window.set_up(None);
    let dialog: Wizard = hand::window(application).await;
    dialog.set_default_size(camera.width.min(640), 720);
    let review = gettext("_Review");
    let (disk, ssd, mode) = (gettext("Hard Disk"), gettext("SSD"), gettext("Mode"));
    glib::timeout_future(Duration::from_millis(500)).await;
    camera.take(&dialog, "02-wizard-disks").await?;
    wizard::choose(&dialog, &disk, "Archive").await;
    wizard::is_chosen(&dialog, &ssd, wizard::EMPTY).await;
    glib::timeout_future(Duration::from_millis(500)).await;
    camera.take(&dialog, "03-wizard-choices").await?;
    wizard::choose(&dialog, &ssd, &free_space()).await;
    glib::timeout_future(Duration::from_millis(500)).await;
    camera.take(&dialog, "68-wizard-shared").await?;
    wizard::open(&dialog, &ssd).await;
    glib::timeout_future(Duration::from_millis(500)).await;
    camera.take(&dialog, "04-wizard-ssds").await?;
    hand::choose(&dialog, "CT500MX500SSD1").await;
    wizard::open(&dialog, &mode).await;
    glib::timeout_future(Duration::from_millis(500)).await;
    camera.take(&dialog, "05-wizard-mode").await?;

    levers.set_step_time(900).await?;
    hand::press(&dialog, &review).await;
    glib::timeout_future(Duration::from_millis(1200)).await;
    camera.take(&dialog, "06-wizard-review").await?;
    hand::choose(&dialog, &gettext("I have a backup")).await;
    let begin = primary(&dialog);
    levers.set_authorized(false).await?;
    hand::press(&dialog, &begin).await;
    hand::wait(&dialog, "refusal", || {
        hand::button(&dialog, &gettext("_Try Again"))
    })
    .await;
    camera.take(&dialog, "07-wizard-refused").await?;
    levers.set_authorized(true).await?;
    hand::press(&dialog, &gettext("_Try Again")).await;
    hand::wait(&dialog, "steps", || hand::button(&dialog, &begin)).await;

    levers.fail_next(StepKind::Map).await?;
    hand::press(&dialog, &begin).await;
    hand::wait(&dialog, "failure", || {
        hand::button(&dialog, &gettext("_Try Again")).filter(WidgetExt::is_sensitive)
    })
    .await;
    camera.take(&dialog, "08-wizard-failed").await?;
    if let Some(expander) = hand::shown(&dialog)
        .into_iter()
        .find_map(|widget| widget.downcast::<gtk::Expander>().ok())
    {
        expander.set_expanded(true);
    }
    camera.take(&dialog, "09-wizard-failed-details").await?;
    hand::press(&dialog, &gettext("_Try Again")).await;
    // The data that was erased before the failure does not come back, so that there is nothing to erase now.
    hand::press(&dialog, &gettext("_Set Up the Cache")).await;
    hand::wait(&dialog, "progress", || {
        hand::button(&dialog, &gettext("_Cancel"))
    })
    .await;
    glib::timeout_future(Duration::from_millis(1200)).await;
    camera.take(&dialog, "10-wizard-progress").await?;
    let show = gettext("_Show Cache");
    hand::wait(&dialog, &show, || hand::button(&dialog, &show)).await;
    camera.take(&dialog, "11-wizard-done").await?;
    hand::press(&dialog, &show).await;
    Ok(())
}

/// The row of the free space beside the partitions of the system.
pub fn free_space() -> String {
    let words = gettext("Free space on {model}");
    fill(&words, &[("model", "Samsung SSD 970 EVO 500GB")])
}

/// Words on the button at the bottom.
pub fn primary(dialog: &Wizard) -> String {
    let buttons = hand::shown(dialog)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Button>().ok());
    buttons
        .filter(|button| button.has_css_class("pill"))
        .find_map(|button| button.label())
        .map(|label| label.to_string())
        .unwrap_or_default()
}
