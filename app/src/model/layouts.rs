// SPDX-License-Identifier: GPL-3.0-or-later
//! How each SSD is divided, as long as the SSD is the one for which the service said so. Pure.

use std::collections::HashMap;

use tandem_api::SsdPart;

use super::inventory::{Device, Medium};

/// The layouts of the SSDs.
#[derive(Debug, Default)]
pub struct Layouts {
    parts: HashMap<String, Vec<SsdPart>>,
    asked_for: HashMap<String, Device>,
}

impl Layouts {
    /// The layouts that are known, by block path.
    #[must_use]
    pub fn parts(&self) -> &HashMap<String, Vec<SsdPart>> {
        &self.parts
    }

    /// Keeps the answer for this SSD; none if the service has no layout.
    pub fn insert(&mut self, ssd: &Device, parts: Option<Vec<SsdPart>>) {
        self.asked_for.insert(ssd.path.clone(), lasting(ssd));
        match parts {
            Some(parts) => self.parts.insert(ssd.path.clone(), parts),
            None => self.parts.remove(&ssd.path),
        };
    }

    /// Drops each layout whose SSD is gone, is another one, or is divided in another way now.
    pub fn drop_old(&mut self, devices: &[Device]) {
        self.asked_for.retain(|path, known| {
            let now = devices.iter().find(|device| device.path == *path);
            now.is_some_and(|now| lasting(now) == *known)
        });
        let known = &self.asked_for;
        self.parts.retain(|path, _| known.contains_key(path));
    }

    /// An SSD whose layout was not asked for.
    #[must_use]
    pub fn missing(&self, devices: &[Device]) -> Option<Device> {
        let mut ssds = devices.iter().filter(|device| device.medium == Medium::Ssd);
        ssds.find(|ssd| !self.asked_for.contains_key(&ssd.path))
            .cloned()
    }
}

/// The facts on which a layout depends. A mount, for example, does not change it.
fn lasting(ssd: &Device) -> Device {
    let mut ssd = ssd.clone();
    ssd.whole_as_ssd = Ok(());
    for volume in &mut ssd.volumes {
        volume.mount_points.clear();
        volume.as_origin = Ok(());
        volume.as_ssd = Ok(());
        volume.watched = None;
    }
    ssd
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::inventory::{Content, Volume};

    fn ssd(content: Content) -> Device {
        Device {
            path: "/b/sdc".into(),
            device: "/dev/sdc".into(),
            model: "Flash".into(),
            serial: "A".into(),
            size: 9,
            medium: Medium::Ssd,
            outside: false,
            volumes: vec![Volume {
                path: "/b/sdc".into(),
                device: "/dev/sdc".into(),
                size: 9,
                name: String::new(),
                partition: None,
                content,
                mount_points: vec![],
                as_origin: Ok(()),
                only_later: false,
                as_ssd: Ok(()),
                watched: None,
            }],
            whole_as_ssd: Ok(()),
        }
    }

    #[test]
    fn a_layout_that_has_become_old_is_dropped_and_asked_for_again() {
        let empty = ssd(Content::Empty);
        let mut mounted = empty.clone();
        mounted.volumes[0].mount_points.push("/mnt".into());
        let mut other = empty.clone();
        other.serial = "B".into();
        for (now, stays) in [
            (vec![empty.clone()], true),
            (vec![mounted], true),
            (vec![other], false),
            (vec![ssd(Content::Swap)], false),
            (vec![], false),
        ] {
            let mut layouts = Layouts::default();
            assert_eq!(
                layouts.missing(std::slice::from_ref(&empty)),
                Some(empty.clone())
            );
            layouts.insert(&empty, Some(vec![]));
            assert_eq!(layouts.missing(std::slice::from_ref(&empty)), None);
            layouts.drop_old(&now);
            assert_eq!(layouts.parts().contains_key("/b/sdc"), stays);
            assert_eq!(layouts.missing(&now), now.into_iter().find(|_| !stays));
        }
    }

    #[test]
    fn an_ssd_without_a_layout_is_asked_once() {
        let mut layouts = Layouts::default();
        let ssd = ssd(Content::Empty);
        layouts.insert(&ssd, None);
        assert_eq!(layouts.missing(std::slice::from_ref(&ssd)), None);
        assert!(layouts.parts().is_empty());
    }
}
