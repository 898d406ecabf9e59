// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks as UDisks2 shows them, to list them and to find the object of one that a person named.

use crate::Ending;
use serde::Serialize;
use zbus::fdo::ObjectManagerProxy;
use zbus::{Connection, OwnedObjectPath, Variant};

const UDISKS: &str = "org.freedesktop.UDisks2";

/// A block device in a list.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Kernel name.
    pub name: String,
    /// UDisks2 object.
    pub object: OwnedObjectPath,
    /// Drive's model; empty for volumes.
    pub model: String,
    /// Bytes.
    pub size: u64,
    /// Type of the content, empty if there is no known signature.
    pub content: String,
    /// Label of the file system.
    pub label: String,
    /// Hidden from people: lies below a cache, or is part of something.
    pub hidden: bool,
    /// Other names of the node.
    #[serde(skip)]
    nodes: Vec<String>,
}

fn text(value: Option<&zbus::OwnedVariant>) -> String {
    match value.map(|v| &**v) {
        Some(Variant::Str(text)) => text.as_str().to_owned(),
        Some(Variant::ObjectPath(path)) => path.as_str().to_owned(),
        _ => String::new(),
    }
}

fn bytes(value: &Variant<'_>) -> String {
    let Variant::Array(array) = value else {
        return String::new();
    };
    let bytes: Vec<u8> = array
        .iter()
        .filter_map(|v| {
            if let Variant::U8(byte) = v {
                Some(*byte)
            } else {
                None
            }
        })
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All block devices, by name.
pub async fn list(connection: &Connection) -> Result<Vec<Listed>, Ending> {
    let manager = ObjectManagerProxy::builder(connection)
        .destination(UDISKS)
        .path("/org/freedesktop/UDisks2")
        .build()
        .await?;
    let objects = manager
        .get_managed_objects()
        .await
        .map_err(zbus::Error::from)?;
    let properties = |path: &OwnedObjectPath, interface: &str| {
        let name = format!("{UDISKS}.{interface}");
        objects
            .get(path)?
            .iter()
            .find(|(n, _)| n.as_str() == name)
            .map(|(_, p)| p)
    };
    let mut all: Vec<_> = objects
        .keys()
        .filter_map(|path| {
            let block = properties(path, "Block")?;
            let mut nodes = vec![
                bytes(block.get("Device")?),
                bytes(block.get("PreferredDevice")?),
            ];
            if let Some(Variant::Array(links)) = block.get("Symlinks").map(|v| &**v) {
                nodes.extend(links.iter().map(bytes));
            }
            let drive = OwnedObjectPath::try_from(text(block.get("Drive"))).ok();
            let drive = drive.and_then(|drive| properties(&drive, "Drive"));
            let model = drive.map(|d| {
                format!("{} {}", text(d.get("Vendor")), text(d.get("Model")))
                    .trim()
                    .to_owned()
            });
            let table = properties(path, "PartitionTable").is_some();
            Some(Listed {
                name: nodes.first()?.strip_prefix("/dev/")?.to_owned(),
                object: path.clone(),
                model: model.unwrap_or_default(),
                size: match block.get("Size").map(|v| &**v) {
                    Some(Variant::U64(size)) => *size,
                    _ => 0,
                },
                content: if table {
                    "partition-table".to_owned()
                } else {
                    text(block.get("IdType"))
                },
                label: text(block.get("IdLabel")),
                hidden: matches!(
                    block.get("HintIgnore").map(|v| &**v),
                    Some(Variant::Bool(true))
                ),
                nodes,
            })
        })
        .filter(|device| device.size > 0)
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The object of the device that a person named by kernel name or by any path of its node.
pub async fn find(connection: &Connection, name: &str) -> Result<OwnedObjectPath, Ending> {
    let wanted = if name.starts_with('/') {
        name.to_owned()
    } else {
        format!("/dev/{name}")
    };
    let found = list(connection)
        .await?
        .into_iter()
        .find(|device| device.nodes.contains(&wanted));
    found.map(|device| device.object).ok_or_else(|| {
        Ending::Usage(format!(
            "there is no disk {name}; “tandemctl list” shows them"
        ))
    })
}
