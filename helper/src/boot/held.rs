// SPDX-License-Identifier: GPL-3.0-or-later
//! Lets the machine start without the file system of a held disk. A mount that fails would stop the start; a mount
//! that is left out does not.

use crate::action::Pair;
use crate::machine::BlockDevice;
use crate::mounts::systemd::mount_unit;
use crate::mounts::table;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

const UNITS: &str = "/run/systemd/system";
const DROP_IN: &str = "50-tandem.conf";

/// Makes systemd leave out the fstab entries that lead to held disks now, as long as the disks are held. An entry that is
/// left out already stays so.
///
/// # Errors
/// If systemd cannot be reached. Then these mounts fail, because the disk is in use.
pub fn leave_out(held: &[(&Pair, &BlockDevice)]) -> io::Result<()> {
    let mut new = Vec::new();
    for (pair, disk) in held {
        for point in table::points_at_start(&disk.number)? {
            let folder = Path::new(UNITS).join(format!("{}.d", mount_unit(&point)));
            let (file, text) = (folder.join(DROP_IN), drop_in(pair, disk));
            if fs::read_to_string(&file).is_ok_and(|known| known == text) {
                continue;
            }
            fs::create_dir_all(&folder)?;
            fs::write(&file, text)?;
            tracing::info!("{point} is left out of the start as long as its cache is not there");
            new.push(file);
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    systemctl(&["daemon-reload"]).inspect_err(|_| {
        // The next look tries it again.
        for file in &new {
            let _ = fs::remove_file(file);
        }
    })
}

/// Runs systemctl, which uses systemd's own socket: the bus does not run yet.
pub(super) fn systemctl(arguments: &[&str]) -> io::Result<()> {
    let status = Command::new("/bin/systemctl").args(arguments).status()?;
    if status.success() {
        return Ok(());
    }
    let what = arguments.join(" ");
    Err(io::Error::other(format!("systemctl {what}: {status}")))
}

/// The mounts that were left out because of this cache in this boot. Only the system writes that folder.
pub fn left_out(pair: &Pair) -> Vec<String> {
    let cache = format!("/dev/mapper/{}\n", pair.name());
    let unit = |entry: io::Result<fs::DirEntry>| {
        let folder = entry.ok()?;
        let name = folder.file_name().into_string().ok()?;
        let unit = name.strip_suffix(".d")?;
        let text = fs::read_to_string(folder.path().join(DROP_IN)).ok()?;
        text.contains(&cache).then(|| unit.to_owned())
    };
    let units = fs::read_dir(UNITS);
    units.map_or_else(|_| Vec::new(), |all| all.filter_map(unit).collect())
}

/// Text of the drop-in. Its conditions allow the mount again as soon as the cache is assembled or the disk is
/// released.
fn drop_in(pair: &Pair, disk: &BlockDevice) -> String {
    format!(
        "# What was written last to this file system may be on an SSD only.\n\
         [Unit]\n\
         ConditionPathExists=|/dev/mapper/{}\n\
         ConditionPathExistsGlob=|!/sys/class/block/{}/holders/*\n",
        pair.name(),
        disk.name()
    )
}
