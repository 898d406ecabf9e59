// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures of a cache of another system, and of a disk that a person has to confirm.

use std::time::Duration;

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{
    BUS_NAME, CacheProxy, DeviceText, ManagerProxy, Mode, OtherCache, OtherKind, OtherMode,
    OtherState, PlanSpec, ROOT_PATH, SimulationProxy, managed_objects,
};
use tandem_app::widgets::other_dialog::OtherDialog;
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
    for found in manager.found_caches().await? {
        manager.discard_found(&ssd, &found.uuid).await?;
    }
    levers.unplug(&ssd).await?;
    others(application, window, camera, levers).await?;

    let spec = PlanSpec {
        origin: disk.clone(),
        ssd: block("sdc")?,
        mode: Mode::Writeback,
        erase_ssd: false,
        at_next_start: false,
        partition_bytes: 0,
        target: tandem_api::Target::Tandem,
        memory_bytes: 0,
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

/// Caches of other systems beside the disks.
async fn others(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
) -> Result {
    let device = |name: &str, model: &str, size| -> Result<DeviceText> {
        Ok(DeviceText {
            object: block(name)?,
            name: name.to_owned(),
            model: model.to_owned(),
            serial: format!("S-{name}"),
            size,
            ..DeviceText::none()
        })
    };
    let bcache = OtherCache {
        mount_points: vec!["/srv/photos".to_owned()],
        disks: vec![device("sdx", "Seagull Barge", 4_000_000_000_000)?],
        ssds: vec![device("sdy", "Swift Dart", 250_000_000_000)?],
        cache_bytes: 250_000_000_000,
        used_bytes: 96_000_000_000,
        unwritten_bytes: 1_300_000_000,
        read_hits: 91,
        read_misses: 9,
        ..OtherCache::empty(OtherKind::Bcache, "bcache0")
    };
    let lvm = OtherCache {
        kind: OtherKind::LvmCache,
        id: format!("LVM-{}", "a".repeat(64)),
        name: "vg/films".to_owned(),
        mode: OtherMode::Writethrough,
        unwritten_bytes: 0,
        ..bcache.clone()
    };
    let alone = OtherCache {
        id: "bcache1".to_owned(),
        name: "bcache1".to_owned(),
        mount_points: vec![],
        ssds: vec![],
        state: OtherState::WithoutSsd,
        cache_bytes: 0,
        unwritten_bytes: 0,
        read_hits: 0,
        read_misses: 0,
        ..bcache.clone()
    };
    let all = [bcache, lvm, alone];
    levers.set_other_caches(&all).await?;
    let words = gettext("Other Caches");
    hand::wait(window, &words, || {
        let is_it = |group: &adw::PreferencesGroup| group.title() == words;
        let shown = hand::shown(window).into_iter();
        shown.filter_map(|w| w.downcast().ok()).find(is_it)
    })
    .await;
    camera.take(window, "80-overview-others").await?;
    last_hour(application, window, camera, levers, all).await?;
    levers.set_other_caches(&[]).await?;
    Ok(())
}

/// The chart of the first of these caches, after most of an hour.
async fn last_hour(
    application: &adw::Application,
    window: &Window,
    camera: &Camera,
    levers: &SimulationProxy<'_>,
    mut all: [OtherCache; 3],
) -> Result {
    let row = |id: &str| {
        let rows = hand::shown(window).into_iter();
        let mut rows = rows.filter_map(|widget| widget.downcast::<adw::ActionRow>().ok());
        let target = Some(id.to_variant());
        rows.find(|row| row.action_target_value() == target && row.is_activatable())
    };
    let open = async |id: &str| -> OtherDialog {
        let row = hand::wait(window, "the row", || row(id)).await;
        let _ = WidgetExt::activate(&row);
        hand::window(application).await
    };
    let dialog = open(&all[0].id).await;
    let measuring = gettext("Measuring…");
    hand::wait(&dialog, &measuring, || {
        hand::words(&dialog).contains(&measuring).then_some(())
    })
    .await;
    camera.take(&dialog, "80-other-measuring").await?;
    dialog.close();
    for look in 0..65 {
        levers.advance(50).await?;
        all[0].read_hits += 190;
        all[0].read_misses += 10 + look % 7;
        // The words change each time.
        all[0].unwritten_bytes = 990_000_000 - 12_000_000 * look;
        levers.set_other_caches(&all).await?;
        hand::wait(window, "a look", || {
            let amount = tandem_app::display::bytes(all[0].unwritten_bytes);
            hand::words(window).contains(&amount).then_some(())
        })
        .await;
    }
    let dialog = open(&all[0].id).await;
    let rate = gettext("Hit rate, approximate: {share}");
    let rate = rate.split('{').next().unwrap_or_default().to_owned();
    hand::wait(&dialog, &rate, || {
        hand::words(&dialog).contains(&rate).then_some(())
    })
    .await;
    camera.take(&dialog, "80-other-hour").await?;
    dialog.close();
    Ok(())
}
