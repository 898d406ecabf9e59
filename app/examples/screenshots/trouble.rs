// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a failure, and of services that do not answer.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{Failure, FileUser, Kind, SimulationProxy};
use tandem_app::display::{SYSTEM_BUS, fill};
use tandem_app::model::inventory::Snapshot;
use tandem_app::model::store::Store;
use tandem_app::widgets::overview::Overview;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;
use zbus::OwnedObjectPath;

use crate::stage::hand;
use crate::stage::wizard::answer;
use crate::{Camera, Result};

/// Starts and ends without a cache.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
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
    named_by_device(application, window, camera, levers).await
}

/// The wizard where the start would not find the disk with a cache.
async fn named_by_device(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
    let disk = OwnedObjectPath::try_from("/org/freedesktop/UDisks2/block_devices/sdb1")?;
    levers.set_fstab_name(&disk, "/dev/sdb1").await?;
    let grub = ("/etc/default/grub", "GRUB_CMDLINE_LINUX", "root=/dev/sdb1");
    levers
        .add_start_entry(&disk, grub.0, grub.1, grub.2)
        .await?;
    window.set_up(None);
    let wizard: Wizard = hand::window(application).await;
    wizard.set_default_size(camera.width.min(640), 720);
    answer(&wizard, "Projects").await;
    for (file, picture) in [
        ("/etc/fstab", "73-wizard-fstab"),
        ("/etc/default/grub", "73-wizard-grub"),
    ] {
        let change = fill(&gettext("_Change {file}"), &[("file", file)]);
        hand::wait(&wizard, &change, || hand::button(&wizard, &change)).await;
        camera.take(&wizard, picture).await?;
        hand::press(&wizard, &change).await;
    }
    wizard.close();
    Ok(())
}
