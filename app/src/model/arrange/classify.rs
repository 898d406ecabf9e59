// SPDX-License-Identifier: GPL-3.0-or-later
//! What a block is and holds, and what its drive is called. Pure.

use crate::model::inventory::{Block, Content, Drive, Medium, VirtualKind};

/// What a block with this drive, or without one, is.
pub fn medium(block: &Block, drive: Option<&Drive>) -> Medium {
    // A server on the network is slower than an SSD in this computer, whatever it says of its drives.
    if is_on_network(block) {
        return Medium::HardDisk;
    }
    match drive {
        Some(drive) => match drive.rotation_rate {
            Some(0) => Medium::Ssd,
            // USB sticks claim to rotate at an unknown speed, just as USB disks do.
            Some(-1) | None if drive.connection == "usb" => Medium::Usb,
            _ => Medium::HardDisk,
        },
        None => Medium::Virtual(virtual_kind(block)),
    }
}

/// Whether a block is on the network: iSCSI, NBD or Ceph RBD.
pub fn is_on_network(block: &Block) -> bool {
    let mut links = block.symlinks.iter();
    let is_iscsi = links.any(|link| link.contains("/by-path/") && link.contains("-iscsi-"));
    let mut others = ["/dev/nbd", "/dev/rbd"].iter();
    is_iscsi || others.any(|start| block.device.starts_with(start))
}

fn virtual_kind(block: &Block) -> VirtualKind {
    if block.md_array {
        VirtualKind::Array
    } else if block.crypto_backing.is_some() {
        VirtualKind::Unlocked
    } else if block
        .symlinks
        .iter()
        .any(|link| link.contains("dm-uuid-LVM-"))
    {
        VirtualKind::Logical
    } else {
        VirtualKind::Other
    }
}

/// What a block holds.
pub fn content(block: &Block) -> Content {
    match (block.usage.as_str(), block.kind.as_str()) {
        ("filesystem", kind) => Content::FileSystem(kind.to_owned()),
        ("crypto", _) => Content::Encrypted,
        (_, "swap") => Content::Swap,
        ("raid", kind) => Content::Member(kind.to_owned()),
        _ if block.has_table => Content::EmptyTable,
        ("", "") => Content::Unknown,
        (_, kind) => Content::Member(kind.to_owned()),
    }
}

/// Maker and model; the maker is left out where the model begins with it.
pub fn model(drive: &Drive) -> String {
    let (vendor, model) = (drive.vendor.trim(), drive.model.trim());
    // SATA disks all have the vendor "ATA", which names no maker.
    if vendor.is_empty()
        || vendor == "ATA"
        || model.to_lowercase().starts_with(&vendor.to_lowercase())
    {
        model.to_owned()
    } else {
        format!("{vendor} {model}").trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_of_unknown_speed_is_a_hard_disk_unless_it_may_be_a_stick() {
        let of = |rotation_rate: Option<i32>, connection: &str| {
            let drive = Drive {
                rotation_rate,
                connection: connection.into(),
                ..Drive::default()
            };
            medium(&Block::default(), Some(&drive))
        };
        assert_eq!(of(Some(-1), ""), Medium::HardDisk);
        assert_eq!(of(Some(7200), "usb"), Medium::HardDisk);
        assert_eq!(of(Some(-1), "usb"), Medium::Usb);
        assert_eq!(of(Some(0), "usb"), Medium::Ssd);
        assert_eq!(of(None, ""), Medium::HardDisk);
    }

    #[test]
    fn a_disk_on_the_network_is_no_ssd() {
        let fast = Drive {
            rotation_rate: Some(0),
            ..Drive::default()
        };
        let mut block = Block::default();
        assert_eq!(medium(&block, Some(&fast)), Medium::Ssd);
        block.symlinks =
            vec!["/dev/disk/by-path/ip-10.0.0.2:3260-iscsi-iqn.2026-01.org.example:a-lun-0".into()];
        assert_eq!(medium(&block, Some(&fast)), Medium::HardDisk);
        let block = Block {
            device: "/dev/nbd0".into(),
            ..Block::default()
        };
        assert_eq!(medium(&block, None), Medium::HardDisk);
    }

    #[test]
    fn the_maker_is_named_once() {
        let named = |vendor: &str, name: &str| {
            model(&Drive {
                vendor: vendor.into(),
                model: name.into(),
                ..Drive::default()
            })
        };
        assert_eq!(named("ATA", "ST2000DM008"), "ST2000DM008");
        assert_eq!(named("Samsung", "Samsung SSD 870"), "Samsung SSD 870");
        assert_eq!(named("WD", "Elements"), "WD Elements");
    }
}
