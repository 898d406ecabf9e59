// SPDX-License-Identifier: GPL-3.0-or-later
//! The disks of UDisks2: a list for the person, and the object of a disk that the person names.

use crate::Ending;
use gettextrs::gettext;
use serde::Serialize;
use tandem_api::udisks::{self, Object};
use tandem_words::fill;
use zbus::fdo::ManagedObjects;
use zbus::{Connection, OwnedObjectPath};

/// A block device in a list.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Kernel name.
    pub name: String,
    /// UDisks2 object.
    pub object: OwnedObjectPath,
    /// Drive's model; empty for volumes.
    pub model: String,
    /// Size in bytes.
    pub size: u64,
    /// Type of the content, empty if there is no known signature.
    pub content: String,
    /// Label of the file system.
    pub label: String,
    /// UDisks2 asks programs to hide the device from a person: for example, a cache or a volume uses it.
    pub hidden: bool,
    /// All paths of the device node.
    #[serde(skip)]
    nodes: Vec<String>,
}

/// All block devices, by name.
pub async fn list(connection: &Connection) -> Result<Vec<Listed>, Ending> {
    let objects = udisks::objects(connection).await?;
    let mut all: Vec<_> = objects
        .keys()
        .filter_map(|path| listed(&objects, path))
        .filter(|device| device.size > 0)
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn listed(objects: &ManagedObjects, path: &OwnedObjectPath) -> Option<Listed> {
    let object = Object(objects, path);
    let block = object.get("Block")?;
    let node = block.path("Device");
    let name = node.strip_prefix("/dev/")?.to_owned();
    let drive = OwnedObjectPath::try_from(block.text("Drive")).ok();
    let drive = drive
        .as_ref()
        .and_then(|drive| Object(objects, drive).get("Drive"));
    let model = drive.map(|drive| {
        let both = format!("{} {}", drive.text("Vendor"), drive.text("Model"));
        both.trim().to_owned()
    });
    let content = match object.get("PartitionTable") {
        Some(_) => "partition-table".to_owned(),
        None => block.text("IdType"),
    };
    let mut nodes = vec![node, block.path("PreferredDevice")];
    nodes.extend(block.paths("Symlinks"));
    Some(Listed {
        name,
        object: path.clone(),
        model: model.unwrap_or_default(),
        size: block.number("Size"),
        content,
        label: block.text("IdLabel"),
        hidden: block.flag("HintIgnore"),
        nodes,
    })
}

/// The object of a device. `name`: the kernel name, or any path of the device node.
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
        let words = gettext("There is no disk {name}. “tandemctl list” shows all.");
        Ending::Usage(fill(&words, &[("name", name)]))
    })
}
