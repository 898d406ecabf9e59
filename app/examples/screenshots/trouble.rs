// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a failure, and of services that do not answer.

use adw::prelude::*;
use gtk::glib;
use tandem_api::{Failure, FileUser, Kind};
use tandem_app::display::SYSTEM_BUS;
use tandem_app::model::inventory::Snapshot;
use tandem_app::model::store::Store;
use tandem_app::widgets::overview::Overview;
use tandem_app::widgets::window::Window;

use crate::stage::hand;
use crate::{Camera, Result};

/// Starts and ends without a cache.
pub async fn tour(application: &adw::Application, window: &Window, camera: &Camera) -> Result {
    let failure = Failure::new(Kind::FilesystemBusy)
        .mount_points(vec!["/srv/films".into()])
        .users(vec![FileUser {
            pid: 4711,
            command: "vlc".into(),
            uid: 1000,
            user: "anna".into(),
        }]);
    tandem_app::widgets::remove_dialog::show_failure(Some(window.upcast_ref()), &failure);
    let message: adw::MessageDialog = hand::window(application).await;
    camera.take(&message, "20-failure").await?;
    message.close();

    for (name, failed) in [("57-no-bus", true), ("58-service-failed", false)] {
        let (store, overview) = (Store::default(), glib::Object::new::<Overview>());
        let failure = |name| Failure::new(Kind::ServiceUnavailable).name(name);
        if failed {
            store.bus_failed(failure(SYSTEM_BUS));
        } else {
            store.apply_disks(Ok(Snapshot::default()));
            store.service_failed(failure("tandem"));
        }
        overview.connect_to(&store);
        let page = adw::Window::builder()
            .content(&overview)
            .default_width(camera.width)
            .default_height(560)
            .build();
        page.present();
        camera.take(&page, name).await?;
        page.close();
    }
    Ok(())
}
