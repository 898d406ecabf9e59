// SPDX-License-Identifier: GPL-3.0-or-later
//! Objects of drives.

use crate::world::{Drive, World};
use std::collections::HashMap;
use std::sync::Arc;
use zbus::{OwnedVariant, interface};

pub struct DriveObject {
    pub world: Arc<World>,
    pub serial: String,
}

impl DriveObject {
    fn get<T: Default>(&self, f: impl FnOnce(&Drive) -> T) -> T {
        self.world
            .read(|s| s.drives.get(&self.serial).map(f))
            .unwrap_or_default()
    }
}

#[interface(name = "org.freedesktop.UDisks2.Drive")]
impl DriveObject {
    #[zbus(property)]
    fn vendor(&self) -> String {
        self.get(|d| d.vendor.clone())
    }

    #[zbus(property)]
    fn model(&self) -> String {
        self.get(|d| d.model.clone())
    }

    #[zbus(property)]
    fn revision(&self) -> String {
        "1.0".to_owned()
    }

    #[zbus(property)]
    fn serial(&self) -> String {
        self.serial.clone()
    }

    #[zbus(property, name = "WWN")]
    fn wwn(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn id(&self) -> String {
        self.get(|d| format!("{}-{}", d.model.replace(' ', "-"), d.serial))
    }

    #[zbus(property)]
    fn media(&self) -> String {
        String::new()
    }

    #[zbus(property)]
    fn media_compatibility(&self) -> Vec<String> {
        Vec::new()
    }

    #[zbus(property)]
    fn media_removable(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn media_available(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn size(&self) -> u64 {
        self.get(|d| d.size)
    }

    #[zbus(property)]
    fn rotation_rate(&self) -> i32 {
        self.get(|d| d.rotation)
    }

    #[zbus(property)]
    fn connection_bus(&self) -> String {
        self.get(|d| {
            if d.bus == "usb" {
                "usb".to_owned()
            } else {
                String::new()
            }
        })
    }

    #[zbus(property)]
    fn removable(&self) -> bool {
        self.get(|d| d.removable)
    }

    #[zbus(property)]
    fn ejectable(&self) -> bool {
        self.get(|d| d.removable)
    }

    #[zbus(property)]
    fn can_power_off(&self) -> bool {
        self.get(|d| d.removable)
    }

    #[zbus(property)]
    fn optical(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn optical_blank(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn seat(&self) -> String {
        "seat0".to_owned()
    }

    #[zbus(property)]
    fn sort_key(&self) -> String {
        self.serial.clone()
    }

    #[zbus(property)]
    fn time_detected(&self) -> u64 {
        0
    }

    #[zbus(property)]
    fn configuration(&self) -> HashMap<String, OwnedVariant> {
        HashMap::new()
    }
}
