// SPDX-License-Identifier: GPL-3.0-or-later
//! The caches of the service, and the cache that a command means.

use crate::Ending;
use gettextrs::gettext;
use tandem_api::{BUS_NAME, CACHE_INTERFACE, CacheProxy, ROOT_PATH, managed_objects};
use tandem_words::fill;
use zbus::Connection;

pub async fn caches(connection: &Connection) -> Result<Vec<CacheProxy<'static>>, Ending> {
    let objects = managed_objects(connection, BUS_NAME, ROOT_PATH).await?;
    let mut paths: Vec<_> = objects
        .into_iter()
        .filter(|(_, interfaces)| {
            interfaces
                .keys()
                .any(|name| name.as_str() == CACHE_INTERFACE)
        })
        .map(|(path, _)| path)
        .collect();
    paths.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    let mut caches = Vec::new();
    for path in paths {
        caches.push(CacheProxy::builder(connection).path(path).build().await?);
    }
    Ok(caches)
}

/// The cache with this name or UUID, or the only cache if `wanted` is none.
pub async fn one(
    connection: &Connection,
    wanted: Option<&str>,
) -> Result<CacheProxy<'static>, Ending> {
    let mut found = Vec::new();
    for cache in caches(connection).await? {
        let names = [
            cache.uuid().await?,
            cache.name().await?,
            // A service of an older version gives no names.
            cache.chosen_name().await.unwrap_or_default(),
        ];
        if wanted.is_none_or(|wanted| names.iter().any(|name| name.starts_with(wanted))) {
            found.push(cache);
        }
    }
    match (found.pop(), found.is_empty(), wanted) {
        (Some(cache), true, _) => Ok(cache),
        (Some(_), false, _) => Err(Ending::Usage(gettext(
            "There is more than one cache: name one.",
        ))),
        (None, _, None) => Err(Ending::Usage(gettext("There is no cache."))),
        (None, _, Some(wanted)) => {
            let words = gettext("There is no cache {name}.");
            Err(Ending::Usage(fill(&words, &[("name", wanted)])))
        }
    }
}
