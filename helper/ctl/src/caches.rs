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

/// Which of these caches `wanted` names. Each cache: its UUID, and its names. What is named exactly is never what only
/// begins alike.
fn named(caches: &[(&str, [&str; 2])], wanted: &str) -> Vec<usize> {
    let places = |meant: Vec<bool>| -> Vec<usize> {
        let all = meant.into_iter().enumerate();
        all.filter_map(|(at, meant)| meant.then_some(at)).collect()
    };
    let is_exact = |(uuid, names): &(&str, [&str; 2])| *uuid == wanted || names.contains(&wanted);
    let exact = places(caches.iter().map(is_exact).collect());
    match wanted.len() {
        0 => Vec::new(),
        UUID_PART.. if exact.is_empty() => {
            let begins = |(uuid, _): &(&str, [&str; 2])| uuid.starts_with(wanted);
            places(caches.iter().map(begins).collect())
        }
        _ => exact,
    }
}

/// The cache with this name or UUID, or with a UUID that begins so; the only cache if `wanted` is none.
pub async fn one(
    connection: &Connection,
    wanted: Option<&str>,
) -> Result<CacheProxy<'static>, Ending> {
    let mut found = caches(connection).await?;
    if let Some(wanted) = wanted {
        let mut names = Vec::new();
        for cache in &found {
            // A service of an older version gives no names.
            let chosen = cache.chosen_name().await.unwrap_or_default();
            names.push((cache.uuid().await?, cache.name().await?, chosen));
        }
        let names: Vec<_> = names
            .iter()
            .map(|(uuid, name, chosen)| (uuid.as_str(), [name.as_str(), chosen.as_str()]))
            .collect();
        let meant = named(&names, wanted);
        let mut at = 0..;
        found.retain(|_| at.next().is_some_and(|at| meant.contains(&at)));
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
            ("ab12cd34", ["sda1", "Archive"]),
            ("ab12ef56", ["sdb1", "Archive2"]),
            ("0099aabb", ["sdc1", ""]),
        ];
        let named = |wanted| named(&caches, wanted);
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
