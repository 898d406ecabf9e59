// SPDX-License-Identifier: GPL-3.0-or-later
//! Simulated disks that a mapping keeps from every program, because their newest data is on an SSD only.

use super::failed;
use super::world::{Block, Map, Scene, number};
use tandem_api::{Failure, Kind};
use tandem_helper::model::action::Pair;

impl Scene {
    /// Whether a volume uses this device, or a cache holds it.
    pub fn has_holder(&self, name: &str) -> bool {
        self.has_holder_beside(name, "")
    }

    /// As [`Self::has_holder`], but a hold by the cache with this uuid does not count.
    fn has_holder_beside(&self, name: &str, uuid: &str) -> bool {
        let disk = |pair: &Pair| self.locate(&pair.origin).is_ok_and(|disk| disk == name);
        let below = |b: &Block| matches!(&b.backing, Some((below, _)) if below == name);
        let held = |(other, pair): (&String, &Pair)| other != uuid && disk(pair);
        self.blocks.values().any(below) || self.held.iter().any(held)
    }

    /// Whether the cache with this uuid cannot use this device.
    pub fn busy(&self, name: &str, uuid: &str) -> bool {
        let mounted = |b: &Block| !b.mounts.is_empty();
        self.has_holder_beside(name, uuid) || self.blocks.get(name).is_some_and(mounted)
    }

    /// Holds the disk, or the device that may be the disk, until the cache is mapped.
    pub fn hold(&mut self, pair: &Pair) -> Result<(), Failure> {
        let leads = |map: &Map| self.blocks.values().any(|b| number(b) == map.origin);
        if self.maps.get(&pair.uuid).is_some_and(leads) {
            return Ok(());
        }
        let facts = self.facts();
        let disk = facts.to_be_held(&pair.origin).next();
        let disk = disk.ok_or_else(|| Failure::new(Kind::DeviceGone).device(&pair.origin.text))?;
        if self.busy(&disk.ident.text.name, &pair.uuid) {
            return Err(failed("device is busy"));
        }
        let held = Pair {
            origin: disk.ident.clone(),
            ..pair.clone()
        };
        self.held.insert(pair.uuid.clone(), held);
        Ok(())
    }

    /// Removes the mapping. If data is on the SSD only, holds the disk afterwards. A hold without a mapping stays.
    pub fn disassemble(&mut self, pair: &Pair) -> Result<(), Failure> {
        let dirty = self
            .maps
            .get(&pair.uuid)
            .is_some_and(|m| m.load.dirt.dirty > 0);
        if self.maps.contains_key(&pair.uuid) {
            self.unmap(pair)?;
        }
        if dirty && self.locate(&pair.origin).is_ok() {
            return self.hold(pair);
        }
        Ok(())
    }
}
