// SPDX-License-Identifier: GPL-3.0-or-later
//! The caches of other systems, in `tandemctl list`, `tandemctl flush` and `tandemctl remove`.

use crate::caches::caches;
use crate::job::follow;
use crate::{Ending, agree, emit, say};
use gettextrs::gettext;
use tandem_api::{ManagerProxy, OtherCache, OtherKind};
use tandem_words::{fill, other_words, remove_other_words};
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
    follow(connection, job, json).await?;
    if !json {
        say(next_words(cache, &plan.origin.name));
    }
    Ok(())
}

/// The sentence that names the next command on the way to a cache of Tandem. `disk`: kernel name of the device that the plan was for.
fn next_words(cache: &OtherCache, disk: &str) -> String {
    let words = match cache.kind {
        OtherKind::Bcache if cache.is_left_alone() => {
            gettext("Next, for a Tandem cache: tandemctl create {disk} SSD")
        }
        OtherKind::Bcache => gettext(
            "Next, for a Tandem cache: unmount {name}, then make it a plain partition with: tandemctl remove {name}",
        ),
        OtherKind::LvmCache | OtherKind::LvmWritecache => {
            gettext("Next, for a Tandem cache: tandemctl create {name} SSD")
        }
        _ => gettext(
            "Next, for a Tandem cache: unmount {name}, remove the mapping with “dmsetup remove {name}”, then: tandemctl create {disk} SSD",
        ),
    };
    fill(&words, &[("name", &cache.name), ("disk", disk)])
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

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{DeviceText, OtherState};

    #[test]
    fn what_comes_next_is_a_command_that_can_be_given() {
        let mut cache = OtherCache {
            ssds: vec![DeviceText::none()],
            ..OtherCache::empty(OtherKind::Bcache, "bcache0")
        };
        assert!(next_words(&cache, "sda").ends_with("tandemctl remove bcache0"));
        (cache.state, cache.ssds) = (OtherState::WithoutSsd, vec![]);
        assert!(next_words(&cache, "sda1").ends_with("tandemctl create sda1 SSD"));
        (cache.kind, cache.name) = (OtherKind::LvmCache, "films/movies".into());
        assert!(next_words(&cache, "sda").ends_with("tandemctl create films/movies SSD"));
        (cache.kind, cache.name) = (OtherKind::DmCache, "slow".into());
        let words = next_words(&cache, "sda");
        assert!(words.contains("dmsetup remove slow") && words.ends_with("create sda SSD"));
    }
}
