// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes the dirty data of a cache to its disk when a person asks for that in the menu.

use std::thread;

use futures_util::StreamExt;
use gettextrs::gettext;
use tandem_api::{CacheProxy, Failure, JobProxy, ROOT_PATH};
use tandem_words::fill;
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedObjectPath};

use crate::notices;
use crate::words::Shown;

/// Begins to write back, and sends a notification at the end: the person waits for it. Returns at once.
pub fn begin(cache: &Shown) {
    let (uuid, disk) = (cache.uuid.clone(), cache.disk.clone());
    drop(thread::spawn(move || zbus::block_on(run(&uuid, &disk))));
}

async fn run(uuid: &str, disk: &str) {
    let words = match flush(uuid).await {
        Ok(true) => gettext("{disk}: everything is on the hard disk"),
        Ok(false) => gettext("{disk}: not everything is on the hard disk yet"),
        // The person has refused the password, or the service has said why nothing can be written.
        Err(error) => {
            tracing::warn!("nothing is written back: {}", Failure::from(error));
            gettext("{disk}: nothing was written. Open Tandem to see why.")
        }
    };
    notices::tell(&fill(&words, &[("disk", disk)])).await;
}

/// Returns whether everything was written.
async fn flush(uuid: &str) -> zbus::Result<bool> {
    let connection = Connection::system().await?;
    let cache = CacheProxy::builder(&connection)
        .path(format!("{ROOT_PATH}/caches/{uuid}"))
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let job: OwnedObjectPath = cache.flush().await?;
    let job = JobProxy::builder(&connection)
        .path(job)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let mut completed = job.receive_completed().await?;
    // The job may have ended before the signal was asked for.
    let (over, success, _) = job.finished().await?;
    if over {
        return Ok(success);
    }
    let signal = completed.next().await;
    let arguments = signal.as_ref().map(|signal| signal.args()).transpose()?;
    Ok(arguments.is_some_and(|arguments| arguments.success))
}
