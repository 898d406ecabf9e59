// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks which devices a table names that is loaded and not yet in force.

use crate::machine::blocks::check_place;
use crate::machine::dm::control::is_part_of;
use crate::machine::dm::table::Tandem;
use crate::model::facts::Ident;
use std::path::Path;

/// The folder in which the kernel shows each block device by its number.
const NUMBERS: &str = "/sys/dev/block";

/// The devices of a table that is loaded and not in force.
pub struct LoadedDevices(Vec<(String, Ident)>);

impl LoadedDevices {
    /// The disk and the SSD of this table.
    pub fn new(table: &Tandem, disk: &Ident, ssd: &Ident) -> Self {
        let disk = (table.origin.clone(), disk.clone());
        Self(vec![disk, (table.ssd.clone(), ssd.clone())])
    }

    /// An SSD whose disk is not in the table.
    pub fn ssd(number: String, ssd: Ident) -> Self {
        Self(vec![(number, ssd)])
    }

    /// Whether the table may come into force: its numbers still belong to the devices that are meant, and the mapping
    /// `ours` (a kernel name) is the only volume on them.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn check(&self, ours: &str) -> Result<(), String> {
        self.check_numbers(Path::new(NUMBERS))?;
        self.0
            .iter()
            .try_for_each(|(_, ident)| ensure_alone(&ident.text.name, ours))
    }

    /// A number is given to another disk when its disk is unplugged, but not while a table holds the device open.
    fn check_numbers(&self, numbers: &Path) -> Result<(), String> {
        for (number, ident) in &self.0 {
            let name = &ident.text.name;
            let folder = std::fs::canonicalize(numbers.join(number));
            let mut folder = folder.map_err(|e| format!("{name} is gone: {e}"))?;
            check_place(&folder, ident)?;
            // Older kernels give no sequence numbers.
            if ident.diskseq == 0 {
                continue;
            }
            if folder.join("partition").exists() {
                folder.pop();
            }
            let now = crate::read_lossy(folder.join("diskseq")).unwrap_or_default();
            if now.trim().parse() != Ok(ident.diskseq) {
                return Err(format!("{name} is another disk now"));
            }
        }
        Ok(())
    }
}

/// Checks that our mapping is the only volume on a device.
fn ensure_alone(name: &str, ours: &str) -> Result<(), String> {
    let Ok(holders) = std::fs::read_dir(crate::machine::blocks::sysfs(name).join("holders")) else {
        return Ok(());
    };
    for holder in holders.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        if holder != ours && !is_part_of(&holder, ours) {
            return Err(format!("{name} is in use by {holder}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::tests::device;
    use std::fs;

    /// Partition tables are written anew beside a job: the drive stays, and so do its sequence number and the names.
    #[test]
    fn a_number_that_belongs_to_another_partition_now_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let numbers = root.path();
        let folder = numbers.join("8:1");
        fs::create_dir_all(&folder).unwrap();
        let mut ident = device("sda1", 1 << 30).ident;
        (ident.start, ident.diskseq) = (1 << 20, 0);
        let checked = |start: u64, size: u64| {
            fs::write(folder.join("start"), format!("{start}\n")).unwrap();
            fs::write(folder.join("size"), format!("{size}\n")).unwrap();
            LoadedDevices::ssd("8:1".to_owned(), ident.clone()).check_numbers(numbers)
        };
        checked(2048, 2 << 20).unwrap();
        for (start, size) in [(4096, 2 << 20), (2048, 1 << 20), (0, 2 << 20)] {
            let refused = checked(start, size).unwrap_err();
            assert!(refused.contains("another partition"), "{refused}");
        }
    }

    #[test]
    fn a_number_that_belongs_to_another_disk_now_is_refused() {
        let root = std::env::temp_dir().join(format!("tandem-diskseq-{}", std::process::id()));
        let disk = root.join("devices/sda");
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        for folder in [disk.clone(), disk.join("sda1")] {
            fs::write(folder.join("size"), "2097152\n").unwrap();
        }
        let numbers = root.join("dev/block");
        fs::create_dir_all(&numbers).unwrap();
        for (number, folder) in [("8:0", disk.clone()), ("8:1", disk.join("sda1"))] {
            std::os::unix::fs::symlink(folder, numbers.join(number)).unwrap();
        }
        let at = |number: &str, name: &str, diskseq| {
            let mut ident = device(name, 1 << 30).ident;
            ident.diskseq = 0;
            let unknown = ident.clone();
            ident.diskseq = diskseq;
            let devices = vec![("8:0".to_owned(), unknown), (number.to_owned(), ident)];
            LoadedDevices(devices).check_numbers(&numbers)
        };
        fs::write(disk.join("diskseq"), "7\n").unwrap();
        at("8:0", "sda", 7).unwrap();
        at("8:1", "sda1", 7).unwrap();
        at("8:1", "sda1", 0).unwrap();
        assert!(at("8:0", "sda", 6).unwrap_err().contains("another disk"));
        assert!(at("8:1", "sda1", 8).is_err());
        assert!(at("8:16", "sdb", 7).unwrap_err().contains("gone"));
        fs::remove_dir_all(&root).unwrap();
    }
}
