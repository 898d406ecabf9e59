// SPDX-License-Identifier: GPL-3.0-or-later
//! The disks of this machine with the identity that an SSD names, and the record that the service made of its cache.

use std::path::Path;

use tandem_api::plain;
use tandem_helper::machine::blocks::{BlockDevice, Machine};
use tandem_helper::machine::store::Store;

use crate::Cache;
use crate::owner::{Owner, Record};

fn owner(device: &BlockDevice, cache: &Cache) -> Owner {
    let property = |name: &str| plain(device.properties.get(name));
    let serial = [property("ID_SERIAL_SHORT"), property("ID_SERIAL")];
    Owner {
        path: device.ident.node(),
        model: property("ID_MODEL").replace('_', " ").trim().to_owned(),
        serial: serial
            .into_iter()
            .find(|serial| !serial.is_empty())
            .unwrap_or_default(),
        bytes: device.ident.text.size,
        is_image: false,
        named: device.ident.origin_ids().contains(&cache.disk_id()),
    }
}

/// The disks of this machine that the SSD names. More than one: copies of one disk.
pub fn owners(cache: &Cache) -> Vec<Owner> {
    let devices = Machine::default().block_devices().unwrap_or_default();
    let owners = devices.iter().map(|device| owner(device, cache));
    owners.filter(|owner| owner.named).collect()
}

/// The device with this kernel name.
pub fn named(name: &str, cache: &Cache) -> Option<Owner> {
    let devices = Machine::default().block_devices().unwrap_or_default();
    let found = devices.iter().find(|device| device.name() == name);
    found.map(|device| owner(device, cache))
}

/// What the records in `folder` say of the cache; `None` if there is no record.
///
/// # Errors
/// If the record is there, or may be, and cannot be read.
pub fn record(cache: &Cache, folder: &Path) -> std::io::Result<Option<Record>> {
    let Some(record) = Store::open_untidied(folder).cache(&cache.uuid())? else {
        return Ok(None);
    };
    let generation = cache.superblock.geometry.sequence;
    let lost = record.pair.lost_generation;
    Ok(Some(Record {
        disk_model: record.pair.origin.text.model.clone(),
        disk_name: record.pair.origin.text.name.clone(),
        disk_bytes: record.pair.origin.text.size,
        outdated: record.origin_diverged || (lost > 0 && lost >= generation),
    }))
}
