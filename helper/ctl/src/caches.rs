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

/// Characters of a UUID that name a cache at the least.
const UUID_PART: usize = 4;

/// The caches that `wanted` names, each given with its UUID and its names. An exact name comes first; else the beginning of a
/// UUID names caches. The beginning of a name names none.
fn named<T>(caches: Vec<(T, [String; 3])>, wanted: &str) -> Vec<T> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let is_exact = |(_, names): &(T, [String; 3])| names.iter().any(|name| name == wanted);
    let (exact, mut others): (Vec<_>, Vec<_>) = caches.into_iter().partition(is_exact);
    others.retain(|(_, [uuid, ..])| wanted.len() >= UUID_PART && uuid.starts_with(wanted));
    let meant = if exact.is_empty() { others } else { exact };
    meant.into_iter().map(|(cache, _)| cache).collect()
}

/// The cache with this name or UUID, or with a UUID that begins so; the only cache if `wanted` is none.
pub async fn one(
    connection: &Connection,
    wanted: Option<&str>,
) -> Result<CacheProxy<'static>, Ending> {
    let mut found = caches(connection).await?;
    if let Some(wanted) = wanted {
        let mut caches = Vec::new();
        for cache in found {
            let names = [
                cache.uuid().await?,
                cache.name().await?,
                // A service of an older version gives no names.
                cache.chosen_name().await.unwrap_or_default(),
            ];
            caches.push((cache, names));
        }
        found = named(caches, wanted);
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

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_cache_is_named_exactly_or_by_the_beginning_of_its_uuid() {
        let caches = [
            (0, ["ab12cd34", "sda1", "Archive"]),
            (1, ["ab12ef56", "sdb1", "Archive2"]),
            (2, ["0099aabb", "sdc1", ""]),
        ]
        .map(|(number, names)| (number, names.map(str::to_owned)));
        let named = |wanted| named(caches.to_vec(), wanted);
        assert_eq!(named("Archive"), [0]);
        assert_eq!(named("sdb1"), [1]);
        assert_eq!(named("ab12cd34"), [0]);
        assert_eq!(named("ab12e"), [1]);
        assert_eq!(named("ab12"), [0, 1]);
        // A name is no beginning of another one, and nothing names nothing.
        for wanted in ["Arch", "sd", "sda", "", "009"] {
            assert!(named(wanted).is_empty(), "{wanted}");
        }
    }
}
