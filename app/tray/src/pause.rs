// SPDX-License-Identifier: GPL-3.0-or-later
//! Pauses a cache, or has it go on, when a person asks for that in the menu.

use std::thread;

use gettextrs::gettext;
use tandem_api::{CacheProxy, Failure, ROOT_PATH};
use zbus::Connection;
use zbus::proxy::CacheProperties;

use crate::display::fill;
use crate::notices;
use crate::words::Shown;

/// Pauses the cache, or has it go on. Sends a notification only if that fails; the indicator shows the rest. Returns at
/// once.
pub fn begin(cache: &Shown, paused: bool) {
    let (uuid, disk) = (cache.uuid.clone(), cache.disk.clone());
    drop(thread::spawn(move || {
        zbus::block_on(run(&uuid, &disk, paused))
    }));
}

async fn run(uuid: &str, disk: &str, paused: bool) {
    if let Err(error) = set(uuid, paused).await {
        tracing::warn!("the cache goes on as before: {}", Failure::from(error));
        let words = gettext("{disk}: the cache goes on as before. Open Tandem to see why.");
        notices::tell(&fill(&words, &[("disk", disk)])).await;
    }
}

async fn set(uuid: &str, paused: bool) -> zbus::Result<()> {
    let connection = Connection::system().await?;
    let cache = CacheProxy::builder(&connection)
        .path(format!("{ROOT_PATH}/caches/{uuid}"))
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    cache.set_paused(paused).await
}
