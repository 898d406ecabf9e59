// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a cache of another system, and of a disk that a person has to confirm.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{
    BUS_NAME, CacheProxy, ManagerProxy, Mode, PlanSpec, ROOT_PATH, SimulationProxy, managed_objects,
};
use tandem_app::widgets::window::Window;
use zbus::{Connection, OwnedObjectPath};

use crate::stage::hand;
use crate::{Camera, Result};

fn block(name: &str) -> Result<OwnedObjectPath> {
    let path = format!("/org/freedesktop/UDisks2/block_devices/{name}");
    Ok(OwnedObjectPath::try_from(path)?)
}

/// Starts without a cache, and leaves one that waits for an answer.
pub async fn tour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
    bus: &Connection,
) -> Result {
    window.show_overview();
    let disk = block("sda1")?;
    let ssd = levers
        .plug_cache(&disk, "Dart 80", "D80-0815", 2_300_000_000)
        .await?;
    for (label, picture) in [
        (gettext("Use…"), "79-take-over"),
        (gettext("Discard…"), "79-discard-found"),
    ] {
        hand::wait(window, &label, || hand::button(window, &label)).await;
        camera.take(window, "78-overview-found").await?;
        hand::press(window, &label).await;
        let dialog: adw::MessageDialog = hand::window(application).await;
        camera.take(&dialog, picture).await?;
        dialog.close();
    }
    let manager = ManagerProxy::new(bus).await?;
    manager.discard_found(&ssd).await?;
    levers.unplug(&ssd).await?;

    let spec = PlanSpec {
        origin: disk.clone(),
        ssd: block("sdc")?,
        mode: Mode::Writeback,
        erase_ssd: false,
        at_next_start: false,
        partition_bytes: 0,
    };
    let plan = manager.plan(&spec).await?;
    manager.create(&plan.plan_id, &plan.digest).await?;
    let (path, uuid) = loop {
        let all = managed_objects(bus, BUS_NAME, ROOT_PATH).await?;
        let mut paths = all.keys().map(|path| path.as_str());
        let found = paths.find_map(|path| Some((path, path.split_once("/caches/")?.1)));
        if let Some((path, uuid)) = found {
            break (path.to_owned(), uuid.to_owned());
        }
        glib::timeout_future(Duration::from_millis(50)).await;
    };
    let working = || {
        window.show_cache(&uuid);
        let facts = window.shown_cache()?.facts();
        let works = facts.uuid == uuid && facts.mode == Mode::Writeback && facts.job.is_none();
        works.then_some(())
    };
    hand::wait(window, "a cache that works", working).await;
    levers.advance(200).await?;
    levers.rehouse(&disk, "ENC-4711").await?;
    levers.restart().await?;
    window.show_cache(&uuid);
    let confirm = gettext("This Is My Disk…");
    hand::wait(window, &confirm, || hand::button(window, &confirm)).await;
    camera.take(window, "80-cache-question").await?;
    hand::press(window, &confirm).await;
    let dialog: adw::MessageDialog = hand::window(application).await;
    camera.take(&dialog, "81-confirm-disk").await?;
    dialog.close();
    let cache = CacheProxy::builder(bus)
        .path(OwnedObjectPath::try_from(path)?)
        .build()
        .await?;
    cache.confirm_disk(&disk).await?;
    Ok(())
}
