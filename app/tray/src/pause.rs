// SPDX-License-Identifier: GPL-3.0-or-later
//! Pauses caches, or has them go on, when a person asks for that in the menu.

use std::thread;

use gettextrs::gettext;
use tandem_api::{CacheProxy, Failure, Kind, ROOT_PATH};
use tandem_words::fill;
use zbus::Connection;
use zbus::proxy::CacheProperties;

use crate::notices;
use crate::words::Shown;

/// Pauses these caches one after the other, or has them go on. The first failure ends that; a notification tells it,
/// unless the person has refused the password. Returns at once.
pub fn begin(caches: Vec<Shown>, paused: bool) {
    drop(thread::spawn(move || zbus::block_on(run(&caches, paused))));
}

async fn run(caches: &[Shown], paused: bool) {
    for cache in caches {
        let Err(error) = set(&cache.uuid, paused).await else {
            continue;
        };
        let failure = Failure::from(error);
        tracing::warn!("nothing has changed: {failure}");
        if failure.kind != Kind::NotAuthorized {
            let words = match paused {
                true => gettext("{disk}: the cache is not paused. Open Tandem to see why."),
                false => gettext("{disk}: the cache is still paused. Open Tandem to see why."),
            };
            notices::tell(&fill(&words, &[("disk", &cache.disk)])).await;
        }
        return;
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
