// SPDX-License-Identifier: GPL-3.0-or-later
//! The block devices below a mount.

use super::nodes::is_node;
use super::table::Entry;
use crate::machine::blocks::line;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// More devices than that below each other are a loop in a damaged sysfs.
const DEPTH: usize = 16;

/// `major:minor` of the block device with the file system of a mount; none for a file system in memory or on a network.
/// `root` is `/`; tests have other roots.
pub fn number(root: &Path, entry: &Entry) -> Option<String> {
    if !entry.device.starts_with("0:") {
        return Some(entry.device.clone());
    }
    // Btrfs has numbers of its own. The source of any other such mount is a text that a user may have chosen.
    let named = entry.mount.fstype == "btrfs" && is_node(&entry.source);
    let source = named.then(|| root.join(entry.source.trim_start_matches('/')))?;
    let node = fs::canonicalize(source).ok()?;
    line(
        root.join("sys/class/block")
            .join(node.file_name()?)
            .join("dev"),
    )
}

/// The number of a device and those of all devices below it: what it is a mapping, a volume or an array of.
pub fn with_those_below(root: &Path, number: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::from([number.to_owned()]);
    add_below(root, number, &mut all, DEPTH);
    all
}

fn add_below(root: &Path, number: &str, all: &mut BTreeSet<String>, depth: usize) {
    if depth == 0 {
        return;
    }
    let slaves = root.join("sys/dev/block").join(number).join("slaves");
    let slaves = fs::read_dir(slaves).into_iter().flatten().flatten();
    for below in slaves.filter_map(|slave| line(slave.path().join("dev"))) {
        all.insert(below.clone());
        add_below(root, &below, all, depth - 1);
    }
}
