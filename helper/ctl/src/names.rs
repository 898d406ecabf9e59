// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl names`: shows how a file has to name a disk that is to have a cache, asks, and has it changed.

use crate::{Ending, agree, devices, emit, say};
use gettextrs::gettext;
use tandem_api::ManagerProxy;
use tandem_words::fill;
use zbus::Connection;

/// Changes the names for `disk`, a device as the user named it.
pub async fn change(
    connection: &Connection,
    disk: &str,
    yes: bool,
    json: bool,
) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let device = devices::find(connection, disk).await?;
    let changes = manager.name_changes(&device).await?;
    if json {
        emit(serde_json::json!({ "changes": changes }));
    }
    let Some(first) = changes.first() else {
        if !json {
            say(gettext(
                "There is nothing that this program can change: the start of this computer finds the disk with a cache, too, or “tandemctl plan” says what you have to change.",
            ));
        }
        return Ok(());
    };
    if !json {
        let words = gettext(
            "In {file}, by which this computer finds the disk with a cache and without one afterwards:",
        );
        say(fill(&words, &[("file", &first.file)]));
        for change in &changes {
            let values = [
                ("entry", change.entry.as_str()),
                ("before", &change.before),
                ("after", &change.after),
            ];
            let words = gettext("{entry}: {after} instead of {before}");
            say(format_args!("  {}", fill(&words, &values)));
        }
    }
    if !yes {
        agree::ask(json)?;
    }
    let backup = manager.change_names(&device, &changes).await?;
    if json {
        emit(serde_json::json!({ "backup": backup }));
    } else {
        let words = gettext("Done. The file of before is {backup}.");
        say(fill(&words, &[("backup", &backup)]));
    }
    Ok(())
}
