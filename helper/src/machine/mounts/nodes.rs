// SPDX-License-Identifier: GPL-3.0-or-later
//! Names and numbers of block devices, as the files say them that a start reads.

use crate::machine::blocks;
use std::fs;

/// `major:minor` of a device, as the kernel writes it.
pub(crate) fn device_number(device: u64) -> String {
    format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    )
}

pub(super) fn optional(path: &str) -> std::io::Result<String> {
    match crate::read_lossy(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// The device node, or the link to one, in a field that names a device by its path or by a tag.
pub(super) fn named(spec: &str) -> Option<String> {
    match spec.split_once('=') {
        Some((tag, value)) => link(tag, value.trim_matches('"')),
        None => is_node(spec).then(|| spec.to_owned()),
    }
}

/// `major:minor` of the block device that a node or a link leads to.
pub(super) fn node_number(node: &str) -> Option<String> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = fs::metadata(node)
        .ok()
        .filter(|m| m.file_type().is_block_device())?;
    Some(device_number(metadata.rdev()))
}

/// Whether a path is below `/dev`. Any other path, as that of an image, is not looked at: the file system that it is on
/// may not answer, and the service would wait for it.
pub(super) fn is_node(path: &str) -> bool {
    path.starts_with("/dev/") && !path.split('/').any(|part| part == "..")
}

/// udev's link for a tag: libmount and systemd know these.
pub(super) fn link(tag: &str, value: &str) -> Option<String> {
    let folder = match tag {
        "UUID" => "by-uuid",
        "LABEL" => "by-label",
        "PARTUUID" => "by-partuuid",
        "PARTLABEL" => "by-partlabel",
        _ => return None,
    };
    Some(format!("/dev/disk/{folder}/{}", blocks::link_name(value)?))
}
