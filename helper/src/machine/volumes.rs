// SPDX-License-Identifier: GPL-3.0-or-later
//! The volumes above the drives, as the kernel shows them.

use crate::machine::sysfs::{line, names_in, sysfs, whole_disk};
use std::collections::BTreeSet;

/// Kind of a volume: `luks`, `lvm`, `md`, `tandem`, ... or its kernel name.
pub fn volume_kind(name: &str) -> String {
    let uuid = line(sysfs(name).join("dm/uuid")).unwrap_or_default();
    let kind = match uuid.split('-').next().unwrap_or_default() {
        "CRYPT" => "luks",
        "LVM" => "lvm",
        "TANDEM" => "tandem",
        "mpath" => "multipath",
        _ if name.starts_with("md") => "md",
        _ if name.starts_with("bcache") => "bcache",
        _ => name,
    };
    kind.to_owned()
}

/// Volumes that may lie above each other. A longer chain is a loop.
pub const DEPTH: u32 = 8;

/// Kernel names of the devices below a volume. For a partition: of the devices below the whole device.
pub fn slaves(name: &str) -> Vec<String> {
    names_in(sysfs(&whole_disk(name)).join("slaves"))
}

/// Kernel names of the whole drives below a device, each once: of the drive itself for a drive or a partition.
pub fn drives_below(name: &str) -> BTreeSet<String> {
    below(name, DEPTH, &slaves)
}

fn below(name: &str, depth: u32, slaves: &impl Fn(&str) -> Vec<String>) -> BTreeSet<String> {
    let lower = if depth > 0 { slaves(name) } else { Vec::new() };
    if lower.is_empty() {
        return BTreeSet::from([whole_disk(name)]);
    }
    lower
        .iter()
        .flat_map(|name| below(name, depth - 1, slaves))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drives_below_a_volume_are_counted_once() {
        let slaves = |name: &str| -> Vec<String> {
            let slaves: &[&str] = match name {
                "luks" => &["raid"],
                "raid" => &["none1", "none2", "none1"],
                _ => &[],
            };
            slaves.iter().map(|&name| name.to_owned()).collect()
        };
        let drives = |name| below(name, DEPTH, &slaves).into_iter().collect::<Vec<_>>();
        assert_eq!(drives("luks"), ["none1", "none2"]);
        assert_eq!(drives("none1"), ["none1"]);
    }
}
