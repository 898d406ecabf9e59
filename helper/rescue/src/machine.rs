// SPDX-License-Identifier: GPL-3.0-or-later
//! The disks of this machine with the identity that an SSD names, and the record that the service made of its cache.

use std::collections::BTreeSet;
use std::path::Path;

use tandem_api::plain;
use tandem_helper::facts::Ident;
use tandem_helper::machine::{BlockDevice, Machine};
use tandem_helper::state::Store;

use crate::Cache;
use crate::owner::{Owner, Record};

/// The identities that a device may have been recorded with. Different versions of UDisks2 choose different ones of the WWNs
/// and serial numbers of a drive.
fn identities(ident: &Ident) -> BTreeSet<String> {
    let mut names: Vec<_> = ident.names.clone();
    names.extend(ident.names.iter().map(|name| name.replace('_', " ")));
    names.push(String::new());
    let pairs = names.iter().flat_map(|wwn| {
        names
            .iter()
            .filter(move |serial| !(wwn.is_empty() && serial.is_empty()))
            .map(move |serial| format!("{wwn}/{serial}"))
    });
    pairs
        .chain([ident.hardware.clone()])
        .map(|hardware| {
            Ident {
                hardware,
                ..ident.clone()
            }
            .origin_id()
        })
        .collect()
}

fn owner(device: &BlockDevice, cache: &Cache) -> Owner {
    let property = |name: &str| plain(device.properties.get(name));
    let serial = [property("ID_SERIAL_SHORT"), property("ID_SERIAL")];
    let recognized = !device.ident.hardware.is_empty() || !device.ident.part_uuid.is_empty();
    Owner {
        path: device.ident.node(),
        model: property("ID_MODEL").replace('_', " ").trim().to_owned(),
        serial: serial
            .into_iter()
            .find(|serial| !serial.is_empty())
            .unwrap_or_default(),
        bytes: device.ident.text.size,
        is_image: false,
        named: recognized && identities(&device.ident).contains(&cache.disk_id()),
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
pub fn record(cache: &Cache, folder: &Path) -> Option<Record> {
    let records = Store::open_untidied(folder).caches();
    let record = records.into_iter().find(|r| r.pair.uuid == cache.uuid())?;
    let generation = cache.superblock.geometry.sequence;
    let lost = record.pair.lost_generation;
    Some(Record {
        disk_model: record.pair.origin.text.model.clone(),
        disk_name: record.pair.origin.text.name.clone(),
        disk_bytes: record.pair.origin.text.size,
        outdated: record.origin_diverged || (lost > 0 && lost >= generation),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_a_drive_is_tried() {
        let ident = Ident {
            hardware: "0x5000/A_1".to_owned(),
            names: vec!["0x5000".to_owned(), "A_1".to_owned(), "B".to_owned()],
            start: 1 << 20,
            ..Ident::default()
        };
        let recorded = |hardware: &str| {
            Ident {
                hardware: hardware.to_owned(),
                ..ident.clone()
            }
            .origin_id()
        };
        let all = identities(&ident);
        for hardware in ["0x5000/A_1", "0x5000/A 1", "/B", "0x5000/B", "0x5000/"] {
            assert!(all.contains(&recorded(hardware)), "{hardware}");
        }
        for hardware in ["/", "0x5001/A_1", "0x5000/C"] {
            assert!(!all.contains(&recorded(hardware)), "{hardware}");
        }
        let elsewhere = Ident {
            start: 2 << 20,
            ..ident.clone()
        };
        assert!(!all.contains(&elsewhere.origin_id()));
    }
}
