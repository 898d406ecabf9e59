// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a block can be cached or become a cache, as far as UDisks2 tells; the service has the last word. Pure.

use crate::model::inventory::{Block, Medium, Obstacle};

/// Smallest volume that is offered, in bytes. A smaller one gains nothing from a cache, and boot partitions are small.
const SMALLEST: u64 = 64 << 20;

/// Partition types that firmware and boot loaders read without the module.
const BOOT_TYPES: [&str; 5] = [
    "c12a7328-f81f-11d2-ba4b-00a0c93ec93b",
    "21686148-6449-6e6f-744e-656564454649",
    "bc13c2ff-59e6-4262-a352-b275fd6f7172",
    "0xef",
    "0xea",
];

/// Mount points from which the system starts: the running system cannot unmount them.
const BOOT_MOUNTS: [&str; 3] = ["/boot", "/boot/efi", "/efi"];
const SYSTEM_MOUNTS: [&str; 3] = ["/", "/usr", "/var"];

/// What a block is in a cache that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The disk.
    Disk,
    /// The SSD.
    Ssd,
}

/// Why a block can be neither cached nor become a cache. `visible_block` is the block that the person sees: the mapped device if
/// the block is cached.
pub fn common_obstacle(
    block: &Block,
    visible_block: &Block,
    part: Option<Part>,
) -> Option<Obstacle> {
    let mounted = |places: &[&str]| {
        visible_block
            .mount_points
            .iter()
            .any(|mount| places.contains(&mount.as_str()))
    };
    let type_id = block
        .partition
        .as_ref()
        .map(|partition| partition.type_id.to_lowercase());
    if let Some(part) = part {
        Some(match part {
            Part::Disk => Obstacle::Cached,
            Part::Ssd => Obstacle::CacheSsd,
        })
    } else if mounted(&SYSTEM_MOUNTS) {
        Some(Obstacle::System)
    } else if mounted(&BOOT_MOUNTS) || type_id.is_some_and(|id| BOOT_TYPES.contains(&id.as_str())) {
        Some(Obstacle::Boot)
    } else if block.kind == "swap" {
        Some(Obstacle::Swap)
    } else if block.read_only {
        Some(Obstacle::ReadOnly)
    } else if block.cleartext.is_some() {
        Some(Obstacle::UnlockedElsewhere)
    } else if block.usage == "raid" {
        Some(Obstacle::Member)
    } else if block.size < SMALLEST {
        Some(Obstacle::TooSmall)
    } else {
        None
    }
}

/// Whether the file system of the running system is on a block: it can be cached from the next start on.
pub fn is_root(visible_block: &Block) -> bool {
    visible_block.mount_points.iter().any(|mount| mount == "/")
}

/// Whether a block without [`common_obstacle`] can be cached.
pub fn as_origin(block: &Block, medium: Medium) -> Result<(), Obstacle> {
    match medium {
        Medium::Ssd => Err(Obstacle::AlreadyFast),
        _ if block.has_table => Err(Obstacle::Empty),
        _ => Ok(()),
    }
}

/// Whether a block without [`common_obstacle`] can become a cache.
pub fn as_ssd(block: &Block, medium: Medium) -> Result<(), Obstacle> {
    match medium {
        Medium::HardDisk | Medium::Usb | Medium::Virtual(_) => Err(Obstacle::NotFast),
        _ if !block.mount_points.is_empty() => Err(Obstacle::InUse),
        _ => Ok(()),
    }
}
