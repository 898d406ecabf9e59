// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads UDisks2's objects into a [`Snapshot`].
//!
//! All objects are read at once through the ObjectManager rather than property by property through proxies: an
//! overview needs every property of every block, and this is one call.

use std::collections::HashMap;

use tandem_api::plain;
use zbus::OwnedObjectPath;

use super::mirror::{Objects, Properties, Source, read};
use crate::model::inventory::{Block, Drive, Partition, Snapshot};

/// UDisks2 on the bus.
pub const SOURCE: Source = Source {
    service: "org.freedesktop.UDisks2",
    root: "/org/freedesktop/UDisks2",
    interface: None,
    always: true,
};

/// All that UDisks2 shows.
pub fn snapshot(objects: &Objects) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (path, interfaces) in objects {
        if let Some(values) = interfaces.get("org.freedesktop.UDisks2.Drive") {
            snapshot.drives.insert(path.clone(), drive(path, values));
        }
        if interfaces.contains_key("org.freedesktop.UDisks2.Block") {
            snapshot
                .blocks
                .insert(path.clone(), block(path, interfaces));
        }
    }
    snapshot
}

fn drive(path: &str, values: &Properties) -> Drive {
    Drive {
        path: path.to_owned(),
        vendor: text(values, "Vendor"),
        model: text(values, "Model"),
        serial: text(values, "Serial"),
        rotation_rate: read(values, "RotationRate"),
        connection: text(values, "ConnectionBus"),
        optical: read(values, "Optical").unwrap_or_default(),
    }
}

fn block(path: &str, interfaces: &HashMap<String, Properties>) -> Block {
    let of = |name: &str| interfaces.get(&format!("org.freedesktop.UDisks2.{name}"));
    let none = Properties::new();
    let values = of("Block").unwrap_or(&none);
    let preferred = bytes(values, "PreferredDevice");
    Block {
        path: path.to_owned(),
        device: if preferred.is_empty() {
            bytes(values, "Device")
        } else {
            preferred
        },
        size: read(values, "Size").unwrap_or_default(),
        drive: object(values, "Drive"),
        usage: text(values, "IdUsage"),
        kind: text(values, "IdType"),
        label: text(values, "IdLabel"),
        hint_name: text(values, "HintName"),
        hint_ignore: read(values, "HintIgnore").unwrap_or_default(),
        read_only: read(values, "ReadOnly").unwrap_or_default(),
        crypto_backing: object(values, "CryptoBackingDevice"),
        md_array: object(values, "MDRaid").is_some(),
        is_loop: of("Loop").is_some(),
        partition: of("Partition").map(|values| Partition {
            table: object(values, "Table").unwrap_or_default(),
            number: read(values, "Number").unwrap_or_default(),
            name: text(values, "Name"),
            container: read(values, "IsContainer").unwrap_or_default(),
        }),
        has_table: of("PartitionTable").is_some(),
        mount_points: of("Filesystem")
            .map(|values| paths(values, "MountPoints"))
            .unwrap_or_default(),
        symlinks: paths(values, "Symlinks"),
    }
}

/// A text, which may be of a drive or of a file system.
fn text(values: &Properties, name: &str) -> String {
    let text: String = read(values, name).unwrap_or_default();
    plain(&text)
}

/// A file name: bytes that end with a zero byte.
fn bytes(values: &Properties, name: &str) -> String {
    read::<Vec<u8>>(values, name)
        .map(|bytes| file_name(&bytes))
        .unwrap_or_default()
}

fn paths(values: &Properties, name: &str) -> Vec<String> {
    let all: Vec<Vec<u8>> = read(values, name).unwrap_or_default();
    all.iter().map(|bytes| file_name(bytes)).collect()
}

fn file_name(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// An object path property; the path `/` stands for no object.
fn object(values: &Properties, name: &str) -> Option<String> {
    let path: OwnedObjectPath = read(values, name)?;
    (path.as_str() != "/").then(|| path.to_string())
}
