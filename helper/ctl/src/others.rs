// SPDX-License-Identifier: GPL-3.0-or-later
//! The caches of other systems, in `tandemctl list`, `tandemctl flush` and `tandemctl remove`.

use crate::caches::caches;
use crate::job::follow;
use crate::{Ending, agree, emit, say};
use gettextrs::gettext;
use tandem_api::{ManagerProxy, OtherCache};
use tandem_words::{other_words, remove_other_words};
use zbus::Connection;

/// The caches that other systems have made.
pub async fn all(connection: &Connection) -> Result<Vec<OtherCache>, Ending> {
    Ok(ManagerProxy::new(connection).await?.other_caches().await?)
}

/// Shows them, if there are any.
pub async fn show(connection: &Connection) -> Result<(), Ending> {
    let caches = all(connection).await?;
    if !caches.is_empty() {
        say(gettext("Caches of other systems:"));
    }
    for cache in &caches {
        let [title, lines] = other_words(cache);
        say(format_args!("  {title}"));
        for line in lines.lines() {
            say(format_args!("    {line}"));
        }
    }
    Ok(())
}

/// The cache of another system with exactly this name. A cache of Tandem with the same name makes it ambiguous.
pub async fn named(connection: &Connection, name: &str) -> Result<Option<OtherCache>, Ending> {
    let all = all(connection).await?;
    let Some(found) = all.into_iter().find(|cache| cache.name == name) else {
        return Ok(None);
    };
    for cache in caches(connection).await? {
        if cache.chosen_name().await.unwrap_or_default() == name {
            return Err(Ending::Usage(gettext(
                "There is more than one cache: name one.",
            )));
        }
    }
    Ok(Some(found))
}

/// Has a cache written back and removed.
pub async fn remove(
    connection: &Connection,
    cache: &OtherCache,
    yes: bool,
    json: bool,
) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let plan = manager.plan_remove_other(&cache.id).await?;
    if json {
        emit(serde_json::json!({ "plan": plan }));
    } else {
        say(remove_other_words(cache).body);
    }
    if !yes {
        agree::ask(json)?;
    }
    let job = manager.remove_other(&plan.plan_id, &plan.digest).await?;
    follow(connection, job, json).await
}

/// Has a cache write everything back.
pub async fn write_back(
    connection: &Connection,
    cache: &OtherCache,
    json: bool,
) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let job = manager.write_back_other(&cache.id).await?;
    follow(connection, job, json).await
}
