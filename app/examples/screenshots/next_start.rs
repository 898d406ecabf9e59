// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a cache that is set up at the next start.

use adw::prelude::*;
use gettextrs::gettext;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

use crate::stage::hand;
use crate::stage::wizard::answer;
use crate::{Camera, Result};

/// Sets up a cache at the next start, and cancels that.
pub async fn tour(application: &adw::Application, window: &Window, camera: &Camera) -> Result {
    window.set_up(None);
    let wizard: Wizard = hand::window(application).await;
    wizard.set_default_size(camera.width.min(640), 720);
    answer(&wizard, "Archive").await;
    let switch = hand::wait(&wizard, "switch", || {
        hand::shown(&wizard)
            .into_iter()
            .find_map(|widget| widget.downcast::<gtk::Switch>().ok())
    })
    .await;
    switch.set_active(true);
    let begin = gettext("_Set Up at the Next Start");
    hand::wait(&wizard, &begin, || {
        hand::button(&wizard, &begin).filter(WidgetExt::is_sensitive)
    })
    .await;
    camera.take(&wizard, "60-next-start-review").await?;
    hand::press(&wizard, &begin).await;
    let show = gettext("_Show Cache");
    hand::wait(&wizard, &show, || hand::button(&wizard, &show)).await;
    camera.take(&wizard, "61-next-start-done").await?;
    hand::press(&wizard, &show).await;
    hand::wait(window, "removal", || hand::removal(window)).await;
    camera.take(window, "62-next-start-waiting").await?;
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    camera.take(&question, "63-next-start-cancel").await?;
    hand::agree(&question).await;
    let set_up = gettext("Set Up a Cache…");
    hand::wait(window, &set_up, || hand::button(window, &set_up)).await;
    Ok(())
}
