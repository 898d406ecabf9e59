// SPDX-License-Identifier: GPL-3.0-or-later
//! What a start of the machine opens: the entries of all files that name block devices.

use super::nodes::{node_number, optional};
use super::{boot_loader, table, units};
use crate::model::facts::{StartEntry, StartTable};
use std::path::Path;

/// The entries of fstab, crypttab, systemd and the boot loader that lead to a block device, each with the `major:minor`
/// of the device.
///
/// # Errors
/// If one of the files is there and cannot be read.
pub fn start_entries() -> std::io::Result<Vec<(String, StartEntry)>> {
    let (fstab, crypttab) = (table::fstab()?, optional(StartTable::Crypttab.file())?);
    let all = table::all_entries(&fstab, &crypttab);
    Ok(all
        .chain(units::read(Path::new("/")))
        .chain(boot_loader::read(|one, other| {
            let number = node_number(one);
            number.is_some() && number == node_number(other)
        })?)
        .filter_map(|(node, entry)| Some((node_number(&node)?, entry)))
        .collect())
}
