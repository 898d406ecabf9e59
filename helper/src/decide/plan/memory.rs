// SPDX-License-Identifier: GPL-3.0-or-later
//! A part of the computer's memory in the place of the SSD of a new cache.

use super::{MINIMUM_SSD_BYTES, checks};
use crate::model::facts::{Device, Facts, Ident};
use tandem_api::{Failure, Kind, PlanSpec, Target};

/// Memory is taken in multiples of this.
const MIB: u64 = 1 << 20;

/// The memory that the cache `uuid` of this disk asks for. The device does not exist yet.
///
/// # Errors
/// `MemoryUnable`; `InvalidArgument` if an SSD is named, too.
pub(super) fn asked(
    spec: &PlanSpec,
    uuid: &str,
    origin: &Device,
    facts: &Facts,
) -> Result<Device, Failure> {
    if spec.ssd.as_str() != "/" || spec.partition_bytes > 0 {
        return Err(Failure::new(Kind::InvalidArgument).name("memory"));
    }
    let bytes = spec.memory_bytes / MIB * MIB;
    let most = facts.memory_for_cache;
    let refused = |name: &str| Failure::new(Kind::MemoryUnable).name(name);
    match () {
        () if spec.target != Target::Tandem => Err(refused("target")),
        () if spec.at_next_start || checks::is_root(origin) => Err(refused("at-next-start")),
        () if bytes < MINIMUM_SSD_BYTES => {
            Err(refused("too-small").sizes(MINIMUM_SSD_BYTES, bytes))
        }
        () if bytes > most => Err(refused("too-large").sizes(bytes, most)),
        () => Ok(device(Ident::memory(uuid, bytes))),
    }
}

/// The device as it will be: empty, and there whenever the computer runs.
fn device(ident: Ident) -> Device {
    Device {
        found_at_start: true,
        ..Device::empty(ident)
    }
}
