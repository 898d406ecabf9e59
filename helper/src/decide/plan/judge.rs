// SPDX-License-Identifier: GPL-3.0-or-later
//! What can be done with each device, by the checks that a plan makes.

use super::checks;
use crate::model::facts::{Device, Facts};
use tandem_api::{Failure, JudgedDevice, Objection};

/// All devices, and the reasons against them, by name. `caches`: object paths of all devices that are part of a cache.
pub fn judge(facts: &Facts, caches: &[String]) -> Vec<JudgedDevice> {
    let judged = |device| of(device, facts, caches);
    let mut all: Vec<_> = facts.devices.iter().map(judged).collect();
    all.sort_by(|a, b| a.device.name.cmp(&b.device.name));
    all
}

fn of(device: &Device, facts: &Facts, caches: &[String]) -> JudgedDevice {
    let disk = |later| {
        checks::identity(device, facts)?;
        checks::origin(device, facts, caches, later)?;
        match later {
            // The SSD is not known yet, so only the disk is looked at.
            true => checks::at_next_start(device, device, facts),
            false => Ok(()),
        }
    };
    let ssd = || {
        checks::identity(device, facts)?;
        checks::ssd(device, facts, caches, true)?;
        // A plan erases what is left of a volume group, an array or bcache if that is agreed to. Whether it is only left over,
        // or waits for a disk that is not there, nobody can tell from here, so it is not offered.
        std::iter::once(device)
            .chain(facts.partitions(device))
            .try_for_each(|part| checks::no_part(part, facts, false))
    };
    JudgedDevice {
        device: device.ident.text.clone(),
        against_disk: against(disk(false)),
        against_disk_later: against(disk(true)),
        against_ssd: against(ssd()),
    }
}

fn against(checked: Result<(), Failure>) -> Vec<Objection> {
    checked.err().map(Objection::from).into_iter().collect()
}
