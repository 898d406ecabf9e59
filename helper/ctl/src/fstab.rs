// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl fstab`: shows how fstab has to name a disk that is to have a cache, asks, and has it changed.

use crate::{Ending, devices, run, say};
use tandem_api::ManagerProxy;
use zbus::Connection;

/// Changes the entries of fstab for `disk`, a device as the user named it.
pub async fn change(
    connection: &Connection,
    disk: &str,
    yes: bool,
    json: bool,
) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let device = devices::find(connection, disk).await?;
    let changes = manager.fstab_changes(&device).await?;
    if json {
        say(serde_json::json!({ "changes": changes }));
    }
    if changes.is_empty() {
        if !json {
            say(
                "Nothing has to be changed: /etc/fstab does not name this disk, or finds it with a cache, too.",
            );
        }
        return Ok(());
    }
    if !json {
        say("In /etc/fstab, which finds the disk with a cache and without one afterwards:");
        for change in &changes {
            let (point, before, after) = (&change.point, &change.before, &change.after);
            say(format_args!("  {point}: {after} instead of {before}"));
        }
    }
    if !yes {
        run::ask(json)?;
    }
    let backup = manager.change_fstab(&device, &changes).await?;
    if json {
        say(serde_json::json!({ "backup": backup }));
    } else {
        say(format_args!("Done. The file of before is {backup}."));
    }
    Ok(())
}
