// SPDX-License-Identifier: GPL-3.0-or-later
//! A number for each content of a sector. Equal contents have one number, so that sectors are compared by their numbers.

use std::collections::HashMap;

use tandem_record_log::{Device, SECTOR, untouched};
use tandem_sim::stamp::Stamp;

type Bytes = [u8; SECTOR];

/// These bits mark a sector of the disk or of the SSD that no request has written to; the sector's number is in the bits below.
const OLD_DATA: u64 = 1 << 62;
const NEW_SSD: u64 = 3 << 61;

/// The content of a sector before the first write to it.
pub fn fresh(device: Device, sector: u64) -> Stamp {
    match device {
        Device::Ssd if untouched(device, sector) == [0; SECTOR] => Contents::ZEROES,
        Device::Ssd => Stamp(NEW_SSD | sector),
        _ => Stamp(OLD_DATA | sector),
    }
}

/// All contents that requests have written.
pub struct Contents {
    names: HashMap<Bytes, u64>,
    all: Vec<(Bytes, usize)>,
}

impl Contents {
    /// The name of a sector of zeroes.
    pub const ZEROES: Stamp = Stamp(0);

    /// Knows zeroes only.
    pub fn new() -> Self {
        Self {
            names: HashMap::from([([0; SECTOR], 0)]),
            all: vec![([0; SECTOR], 0)],
        }
    }

    /// The name of a content; `event` is the number of the event that wrote it, for [`Contents::describe`].
    pub fn name(&mut self, bytes: &Bytes, event: usize) -> Stamp {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[8..16]);
        let number = u64::from_le_bytes(number);
        for device in [Device::Disk, Device::Ssd] {
            if number < OLD_DATA && *bytes == untouched(device, number) {
                return fresh(device, number);
            }
        }
        let next = self.all.len() as u64;
        let name = *self.names.entry(*bytes).or_insert(next);
        if name == next {
            self.all.push((*bytes, event));
        }
        Stamp(name)
    }

    /// The name of this content after one bit of it changed, behind the first eight bytes.
    pub fn spoiled(&mut self, name: Stamp, event: usize, rng: &mut fastrand::Rng) -> Stamp {
        let mut bytes = self.bytes(name);
        bytes[rng.usize(8..SECTOR)] ^= 1 << rng.u8(..8);
        self.name(&bytes, event)
    }

    /// The content that has this name.
    pub fn bytes(&self, name: Stamp) -> Bytes {
        match name.0 & NEW_SSD {
            NEW_SSD => untouched(Device::Ssd, name.0 & !NEW_SSD),
            OLD_DATA => untouched(Device::Disk, name.0 & !NEW_SSD),
            _ => self.all[name.0 as usize].0,
        }
    }

    /// A content in words, for a person.
    pub fn describe(&self, name: Stamp) -> String {
        match name.0 & NEW_SSD {
            _ if name == Self::ZEROES => "zeroes".to_owned(),
            NEW_SSD => format!("what the SSD held at first at {}", name.0 & !NEW_SSD),
            OLD_DATA => format!("what the disk held at first at {}", name.0 & !NEW_SSD),
            _ => format!(
                "content {} of event {}",
                name.0, self.all[name.0 as usize].1
            ),
        }
    }
}
