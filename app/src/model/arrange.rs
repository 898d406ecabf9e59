// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns what UDisks2 shows into the disks and volumes that a person can choose. Pure.

mod classify;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{BTreeMap, HashMap};

use super::inventory::{Block, CacheParts, Content, Device, Drive, Medium, Snapshot, Volume};
use classify::{content, is_on_network, medium, model};
use tandem_api::JudgedDevice;
use verdict::{Part, as_origin, as_ssd, is_only_later};

/// The disks of `snapshot`, hard disks first, each with its volumes.
///
/// `judged`: the judgement of the service on each device, by block path. `caches` are the parts of the caches that exist. The
/// disk under a cache is shown with the file system of the mapped device, and the mapped device itself is left out.
#[must_use]
pub fn arrange(
    snapshot: &Snapshot,
    caches: &[CacheParts],
    judged: &HashMap<String, JudgedDevice>,
) -> Vec<Device> {
    let known = Known::new(snapshot, caches, judged);
    let mut devices: Vec<Device> = snapshot
        .blocks
        .values()
        .filter(|block| block.partition.is_none() && known.is_shown(block))
        .map(|block| known.device(block))
        .collect();
    devices.sort_by_key(|device| (rank(device.medium), natural(&device.device)));
    devices
}

fn rank(medium: Medium) -> u8 {
    match medium {
        Medium::HardDisk => 0,
        Medium::Virtual(_) => 1,
        Medium::Ssd => 2,
        Medium::Usb => 3,
    }
}

/// Sorts sda before sdaa, and nvme2 before nvme10.
fn natural(name: &str) -> (usize, String) {
    (name.len(), name.to_owned())
}

struct Known<'a> {
    snapshot: &'a Snapshot,
    judged: &'a HashMap<String, JudgedDevice>,
    origins: HashMap<&'a str, &'a CacheParts>,
    ssds: HashMap<&'a str, &'a CacheParts>,
    mapped: HashMap<&'a str, &'a CacheParts>,
    partitions: BTreeMap<&'a str, Vec<&'a Block>>,
}

impl<'a> Known<'a> {
    fn new(
        snapshot: &'a Snapshot,
        caches: &'a [CacheParts],
        judged: &'a HashMap<String, JudgedDevice>,
    ) -> Self {
        let by = |key: fn(&CacheParts) -> &str| {
            caches
                .iter()
                .filter(|parts| !key(parts).is_empty())
                .map(|parts| (key(parts), parts))
                .collect()
        };
        let mut partitions: BTreeMap<&str, Vec<&Block>> = BTreeMap::new();
        for block in snapshot.blocks.values() {
            if let Some(partition) = &block.partition {
                partitions.entry(&partition.table).or_default().push(block);
            }
        }
        for list in partitions.values_mut() {
            list.sort_by_key(|block| block.partition.as_ref().map(|partition| partition.number));
        }
        Self {
            snapshot,
            judged,
            origins: by(|parts| &parts.origin),
            ssds: by(|parts| &parts.ssd),
            mapped: by(|parts| &parts.mapped),
            partitions,
        }
    }

    fn drive(&self, block: &Block) -> Option<&'a Drive> {
        self.snapshot.drives.get(block.drive.as_ref()?)
    }

    /// The part that the block has in a cache that exists.
    fn part(&self, block: &Block) -> Option<Part> {
        let path = block.path.as_str();
        let disk = self.origins.contains_key(path).then_some(Part::Disk);
        disk.or_else(|| self.ssds.contains_key(path).then_some(Part::Ssd))
    }

    fn is_shown(&self, block: &Block) -> bool {
        if self.mapped.contains_key(block.path.as_str()) || block.size == 0 {
            return false;
        }
        if self.part(block).is_some() {
            return true;
        }
        let memory = ["/dev/ram", "/dev/zram", "/dev/fd", "/dev/sr"]
            .iter()
            .any(|start| block.device.starts_with(start));
        let packed = block.is_loop && (block.read_only || block.kind == "squashfs");
        let optical = self.drive(block).is_some_and(|drive| drive.optical);
        !(block.hint_ignore || memory || packed || optical)
    }

    fn device(&self, block: &'a Block) -> Device {
        let drive = self.drive(block);
        let medium = medium(block, drive);
        let parts = self.partitions.get(block.path.as_str());
        let volumes: Vec<Volume> = match parts {
            Some(parts) => parts
                .iter()
                .filter(|part| {
                    !part
                        .partition
                        .as_ref()
                        .is_some_and(|partition| partition.container)
                })
                .filter(|part| self.part(part).is_some() || (part.size > 0 && !part.hint_ignore))
                .map(|part| self.volume(part, medium))
                .collect(),
            None => vec![self.volume(block, medium)],
        };
        Device {
            whole_as_ssd: as_ssd(self.part(block), self.judged.get(&block.path), medium),
            path: block.path.clone(),
            device: block.device.clone(),
            model: match self.judged.get(&block.path) {
                // The server's drive says nothing to a person, the name of the target does.
                Some(judged) if is_on_network(block) => judged.device.model.clone(),
                _ => drive.map(model).unwrap_or_default(),
            },
            serial: drive
                .map(|drive| drive.serial.trim().to_owned())
                .unwrap_or_default(),
            size: block.size,
            medium,
            outside: drive.is_some_and(|drive| !drive.connection.is_empty()),
            volumes,
        }
    }

    fn volume(&self, block: &'a Block, medium: Medium) -> Volume {
        let cache = self.origins.get(block.path.as_str());
        // The file system of a cached disk is found, named and mounted through its mapped device.
        let visible_block = cache
            .and_then(|parts| self.snapshot.blocks.get(&parts.mapped))
            .unwrap_or(block);
        let name = match &block.partition {
            _ if !visible_block.label.is_empty() => visible_block.label.clone(),
            Some(partition) if !partition.name.is_empty() => partition.name.clone(),
            _ => block.hint_name.clone(),
        };
        let (part, judged) = (self.part(block), self.judged.get(&block.path));
        Volume {
            path: block.path.clone(),
            device: block.device.clone(),
            size: block.size,
            name,
            partition: block.partition.as_ref().map(|partition| partition.number),
            content: if part == Some(Part::Ssd) {
                Content::Cache
            } else {
                content(visible_block)
            },
            mount_points: visible_block.mount_points.clone(),
            as_origin: as_origin(part, judged, medium),
            only_later: judged.is_some_and(is_only_later),
            as_ssd: as_ssd(part, judged, medium),
            watched: None,
        }
    }
}
