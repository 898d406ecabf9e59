// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl names`: shows how a file has to name a disk that is to have a cache, asks, and has it changed.

use crate::{Ending, devices, run, say};
use tandem_api::ManagerProxy;
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
        say(serde_json::json!({ "changes": changes }));
    }
    let Some(first) = changes.first() else {
        if !json {
            say(
                "There is nothing that this program can change: the start of this computer finds the disk with a cache, \
                 too, or “tandemctl plan” says what you have to change.",
            );
        }
        return Ok(());
    };
    if !json {
        say(format_args!(
            "In {}, by which this computer finds the disk with a cache and without one afterwards:",
            first.file
        ));
        for change in &changes {
            let (entry, before, after) = (&change.entry, &change.before, &change.after);
            say(format_args!("  {entry}: {after} instead of {before}"));
        }
    }
    if !yes {
        run::ask(json)?;
    }
    let backup = manager.change_names(&device, &changes).await?;
    if json {
        say(serde_json::json!({ "backup": backup }));
    } else {
        say(format_args!("Done. The file of before is {backup}."));
    }
    Ok(())
}
