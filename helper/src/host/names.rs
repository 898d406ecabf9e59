// SPDX-License-Identifier: GPL-3.0-or-later
//! Has the files changed by which the start of the machine finds a disk: see [`crate::machine::names`].

use crate::host::systemd;
use crate::machine::names::{REQUEST, Request, free_backup, is_changed, write_request};
use crate::machine::store::FOLDER;
use crate::model::facts::StartTable;
use std::fs;
use std::path::Path;
use tandem_api::{Failure, Kind, NameChange};
use tokio::sync::Mutex;
use zbus::Connection;

/// The unit that carries out the request.
const UNIT: &str = "tandem-names.service";
/// The unit that makes the menu of GRUB from the settings.
const GRUB_UNIT: &str = "tandem-grub.service";
/// One change at a time: there is one request and one unit.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Has the changes made, and has the programs that use the file read it again. Returns the path of the file of before.
///
/// # Errors
/// `StepFailed`: the file is as before then, or the failure says that it is not.
pub async fn change(connection: &Connection, changes: &[NameChange]) -> Result<String, Failure> {
    let _alone = ALONE.lock().await;
    let mut request = Request {
        changes: changes.to_vec(),
        backup: String::new(),
        undo: false,
    };
    let failed = |e: &dyn std::fmt::Display| Failure::new(Kind::StepFailed).detail(e);
    let table = request.table().map_err(|e| failed(&e))?;
    let file = Path::new(table.file());
    let as_before =
        |e: &dyn std::fmt::Display| failed(&format_args!("{} is as before: {e}", file.display()));
    let backup = crate::waiting(|| free_backup(file)).map_err(|e| as_before(&e))?;
    request.backup.clone_from(&backup);
    if let Err(e) = carry_out(connection, &request).await {
        let text = crate::waiting(|| fs::read_to_string(file)).unwrap_or_default();
        if !is_changed(table, &text, changes) {
            return Err(as_before(&e));
        }
        tracing::warn!(
            "{} is changed, although {UNIT} did not end well: {e}",
            file.display()
        );
    }
    if table == StartTable::Grub {
        if let Err(e) = systemd::start(connection, GRUB_UNIT).await {
            let e = format!("{e}; “journalctl -u {GRUB_UNIT}” tells why");
            request.undo = true;
            return Err(match carry_out(connection, &request).await {
                Ok(()) => as_before(&e),
                Err(undo) => failed(&format_args!(
                    "{} is changed, and the menu of GRUB was not made anew: {e}; the file of before stays in {backup}: {undo}",
                    file.display()
                )),
            });
        }
    } else if let Err(e) = systemd::reload(connection).await {
        tracing::warn!(
            "systemd reads the changed {} at its next reload only: {e}",
            file.display()
        );
    }
    Ok(file.with_file_name(backup).display().to_string())
}

/// Has the unit do what the request says.
async fn carry_out(connection: &Connection, request: &Request) -> Result<(), String> {
    let file = Path::new(FOLDER).join(REQUEST);
    write_request(&file, request).map_err(|e| e.to_string())?;
    let done = systemd::start(connection, UNIT).await;
    if let Err(e) = fs::remove_file(&file) {
        tracing::warn!("the request stays in {}: {e}", file.display());
    }
    done.map_err(|e| format!("{e}; “journalctl -u {UNIT}” tells why"))
}
