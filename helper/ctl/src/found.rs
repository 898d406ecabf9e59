// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl found`, `take-over`, `discard-found` and `confirm-disk`: caches that this system does not know, and disks that
//! it is not sure of.

use crate::{Ending, devices, run, say, words};
use tandem_api::{CacheProxy, DiskCandidate, DiskMark, FoundCache, ManagerProxy};
use zbus::{Connection, OwnedObjectPath};

/// Shows the caches without a record.
pub async fn show(connection: &Connection, json: bool) -> Result<(), Ending> {
    let found = ManagerProxy::new(connection).await?.found_caches().await?;
    if json {
        say(serde_json::json!({ "found": found }));
        return Ok(());
    }
    if found.is_empty() {
        say("This system knows all caches that are there.");
    }
    for cache in &found {
        say(sentence(cache));
        if cache.may_be_unwritten {
            let node = &cache.ssd.name;
            say(format_args!(
                "  To see how much, without changing anything: sudo tandemctl rescue show /dev/{node}."
            ));
        }
        if cache.disk.is_none() {
            say("  Connect that disk, or save the data with “tandemctl rescue write-back”.");
        } else {
            say(
                "  To use the cache: tandemctl take-over SSD. To give up what it holds: tandemctl discard-found SSD.",
            );
        }
    }
    Ok(())
}

/// Says which caches have no record, if there are any.
pub async fn tell(connection: &Connection) -> Result<(), Ending> {
    for cache in ManagerProxy::new(connection).await?.found_caches().await? {
        say(format_args!("{} See “tandemctl found”.", sentence(&cache)));
    }
    Ok(())
}

fn sentence(cache: &FoundCache) -> String {
    let ssd = words::device(&cache.ssd);
    let disk = match cache.disk.is_none() {
        true => "a disk that is not there".to_owned(),
        false => format!("the disk {}", words::device(&cache.disk)),
    };
    match cache.may_be_unwritten {
        true => format!("{ssd} may hold changes for {disk} that are not on it."),
        false => format!("{ssd} is the cache of {disk}; everything is on that disk."),
    }
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
        Ending::Usage(format!(
            "there is no cache on {ssd} that this system does not know; “tandemctl found” shows them"
        ))
    })?;
    Ok((found, object))
}

/// Asks, unless `yes`, whether `warning` is accepted for this cache.
fn agree(found: &FoundCache, warning: &str, yes: bool, json: bool) -> Result<(), Ending> {
    if yes {
        return Ok(());
    }
    if !json {
        say(sentence(found));
        say(warning);
    }
    run::ask(json)
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
    let warning = "The disk will use this cache again, and what is only on the SSD will be written to it. Do this only if the \
                   disk was not used without the SSD since.";
    agree(&found, warning, yes, json)?;
    manager.take_over(&object).await?;
    if !json {
        say("The cache is on record now. “tandemctl status” shows it.");
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
    agree(&found, "What is only on the SSD will be lost.", yes, json)?;
    manager.discard_found(&object).await?;
    if !json {
        say("The SSD is empty now.");
    }
    Ok(())
}

/// The disks that may be that of a cache, each with what speaks for it and against it.
pub fn candidate(candidate: &DiskCandidate) -> String {
    let device = &candidate.device;
    let serial = match device.serial.as_str() {
        "" => "no serial number".to_owned(),
        serial => format!("serial number {serial}"),
    };
    format!(
        "{}, {serial}. The same: {}. Different: {}.",
        words::device(device),
        list(&candidate.agreeing),
        list(&candidate.differing)
    )
}

fn list(marks: &[DiskMark]) -> String {
    let word = |mark: &DiskMark| match mark {
        DiskMark::Wwn => "the WWN",
        DiskMark::Serial => "the serial number",
        DiskMark::Place => "place and size",
        DiskMark::Partition => "the UUID of the partition",
        DiskMark::Content => "the UUID of the file system",
        DiskMark::Used => "it was used without the SSD since",
    };
    let words: Vec<_> = marks.iter().map(word).collect();
    match words.is_empty() {
        true => "nothing".to_owned(),
        false => words.join(", "),
    }
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
    if !yes {
        let candidates = cache.candidates().await?;
        if let Some(found) = candidates.iter().find(|c| c.device.object == object)
            && !json
        {
            say(candidate(found));
            say(
                "If this is the disk, what is only on the SSD can be written to it. If it is another disk, its data is \
                 destroyed by that.",
            );
        }
        run::ask(json)?;
    }
    cache.confirm_disk(&object).await?;
    if !json {
        say("The cache uses this disk from now on.");
    }
    Ok(())
}
