// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl found`, `take-over`, `discard-found` and `confirm-disk`: caches that this system does not know, and disks that
//! it is not sure of.

use crate::{Ending, agree, devices, emit, say};
use gettextrs::gettext;
use tandem_api::{CacheProxy, FoundCache, ManagerProxy};
use tandem_words::{
    Consent, confirm_words, discard_found_words, fill, found_words, take_over_words,
};
use zbus::{Connection, OwnedObjectPath};

/// Shows the caches without a record.
pub async fn show(connection: &Connection, json: bool) -> Result<(), Ending> {
    let found = ManagerProxy::new(connection).await?.found_caches().await?;
    if json {
        emit(serde_json::json!({ "found": found }));
        return Ok(());
    }
    if found.is_empty() {
        say(gettext("This system knows all caches that are there."));
    }
    for cache in &found {
        let [title, words] = found_words(cache);
        say(title);
        for line in words.lines() {
            say(format_args!("  {line}"));
        }
        say(format_args!(
            "  {}",
            if cache.disk.is_none() {
                gettext("To save the data on any system: tandemctl rescue write-back SSD DISK")
            } else {
                gettext(
                    "To use the cache: tandemctl take-over SSD. To discard what it holds: tandemctl discard-found SSD.",
                )
            }
        ));
    }
    Ok(())
}

/// Says which caches have no record, if there are any.
pub async fn tell(connection: &Connection) -> Result<(), Ending> {
    for cache in ManagerProxy::new(connection).await?.found_caches().await? {
        let [title, words] = found_words(&cache);
        let first = words.lines().next().unwrap_or_default();
        let see = gettext("See “tandemctl found”.");
        say(format_args!("{title}: {first} {see}"));
    }
    Ok(())
}

/// The cache without a record on an SSD, as the user named the SSD.
async fn one(
    connection: &Connection,
    manager: &ManagerProxy<'_>,
    ssd: &str,
) -> Result<(FoundCache, OwnedObjectPath), Ending> {
    let object = devices::find(connection, ssd).await?;
    let all = manager.found_caches().await?;
    let found = all.into_iter().find(|found| found.ssd.object == object);
    let found = found.ok_or_else(|| {
        let words = gettext(
            "There is no cache on {ssd} that this system does not know. See “tandemctl found”.",
        );
        Ending::Usage(fill(&words, &[("ssd", ssd)]))
    })?;
    Ok((found, object))
}

/// Asks, unless `yes`.
fn agree(question: &Consent, yes: bool, json: bool) -> Result<(), Ending> {
    if yes {
        return Ok(());
    }
    if !json {
        say(&question.heading);
        say(&question.body);
    }
    agree::ask(json)
}

/// Takes a cache over.
pub async fn take_over(
    connection: &Connection,
    ssd: &str,
    yes: bool,
    json: bool,
) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let (found, object) = one(connection, &manager, ssd).await?;
    agree(&take_over_words(&found), yes, json)?;
    manager.take_over(&object, &found.uuid).await?;
    if !json {
        say(gettext(
            "The cache is on record now. “tandemctl status” shows it.",
        ));
    }
    Ok(())
}

/// Gives a cache up.
pub async fn discard(
    connection: &Connection,
    ssd: &str,
    yes: bool,
    json: bool,
) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let (found, object) = one(connection, &manager, ssd).await?;
    agree(&discard_found_words(&found), yes, json)?;
    manager.discard_found(&object, &found.uuid).await?;
    if !json {
        say(gettext("The SSD is empty now."));
    }
    Ok(())
}

/// Confirms the disk of a cache.
pub async fn confirm(
    connection: &Connection,
    cache: &CacheProxy<'_>,
    disk: &str,
    yes: bool,
    json: bool,
) -> Result<(), Ending> {
    let object = devices::find(connection, disk).await?;
    let candidates = cache.candidates().await?;
    match candidates.iter().find(|c| c.device.object == object) {
        Some(candidate) => agree(&confirm_words(candidate), yes, json)?,
        None if yes => {}
        None => agree::ask(json)?,
    }
    cache.confirm_disk(&object).await?;
    if !json {
        say(gettext("The cache uses this disk from now on."));
    }
    Ok(())
}
