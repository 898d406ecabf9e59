// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks which device an action names, and whether the action may change the device.

use super::step;
use crate::machine::dm::control::is_part;
use crate::machine::mounts::table::Mounts;
use crate::model::action::Pair;
use crate::model::facts::Device;
use tandem_api::{Failure, Kind};
use zbus::OwnedObjectPath;

/// The node, number and names of a device at this moment.
pub struct DeviceNode {
    /// Node to mount it by.
    pub node: String,
    /// `major:minor`.
    pub number: String,
    /// All names that the mount table may give it.
    pub nodes: [Option<String>; 2],
    /// UDisks2 block object.
    pub object: OwnedObjectPath,
}

impl DeviceNode {
    /// A device by kernel name, node and object path; none if the kernel does not have it.
    pub fn of(name: &str, node: String, object: &str) -> Option<Self> {
        let nodes = [Some(format!("/dev/{name}")), Some(node.clone())];
        let object = OwnedObjectPath::try_from(object.to_owned()).ok()?;
        Some(Self {
            node,
            number: crate::machine::blocks::number(name)?,
            nodes,
            object,
        })
    }

    /// Whether it is what is mounted at a point.
    pub fn mounted_at(&self, point: &str) -> Result<bool, Failure> {
        let mounts = mounts()?;
        Ok(mounts
            .of(&self.number, &self.nodes)
            .any(|m| m.point == point))
    }
}

/// The mounts of the machine at this moment.
///
/// # Errors
/// If the kernel does not tell them.
pub fn mounts() -> Result<Mounts, Failure> {
    Mounts::read().map_err(|e| Failure::new(Kind::Internal).detail(e))
}

/// Checks that no volume but the mapping of `pair` uses a device that becomes part of the mapping.
pub fn free_to_map(device: &Device, pair: &Pair) -> Result<(), Failure> {
    let ours = pair.name();
    let holder = device
        .holders
        .iter()
        .find(|holder| holder.name != ours && !is_mapping(&holder.name, pair));
    if let Some(holder) = holder {
        return Err(step(&format!(
            "{} is in use by {}",
            device.ident.text.name, holder.name
        ))
        .device(&device.ident.text));
    }
    if device.swap || !device.mounts.is_empty() {
        return Err(
            step(&format!("{} is in use", device.ident.text.name)).device(&device.ident.text)
        );
    }
    Ok(())
}

/// Whether a volume is the mapping of `pair`, or a part of its SSD.
fn is_mapping(name: &str, pair: &Pair) -> bool {
    let uuid =
        crate::read_lossy(crate::machine::blocks::sysfs(name).join("dm/uuid")).unwrap_or_default();
    uuid.trim() == pair.dm_uuid() || is_part(uuid.trim(), &pair.uuid)
}

/// Checks that no program has made partitions or a file system on the SSD since the plan.
pub fn unclaimed_content(ssd: &Device) -> Result<(), Failure> {
    let content = ssd.ident.text.content.as_str();
    if ssd.partitioned || !matches!(content, "" | "tandem") {
        return Err(Failure::new(Kind::SsdHoldsData).device(&ssd.ident.text));
    }
    Ok(())
}
