// SPDX-License-Identifier: GPL-3.0-or-later
//! The caches of other systems in `tandemctl list`.

use crate::{Ending, say};
use gettextrs::gettext;
use tandem_api::{ManagerProxy, OtherCache};
use tandem_words::other_words;
use zbus::Connection;

/// The caches that other systems have made.
pub async fn all(connection: &Connection) -> Result<Vec<OtherCache>, Ending> {
    Ok(ManagerProxy::new(connection).await?.other_caches().await?)
}

/// Shows them, if there are any.
pub async fn show(connection: &Connection) -> Result<(), Ending> {
    let caches = all(connection).await?;
    if !caches.is_empty() {
        say(gettext(
            "Caches of other systems, which Tandem does not change:",
        ));
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
