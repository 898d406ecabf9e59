// SPDX-License-Identifier: GPL-3.0-or-later
//! The counters of a cache of another system: those of its block devices, and its own.

use super::system::Told;
use crate::machine::block_traffic::traffic;
use crate::machine::clock::boottime_us;
use crate::machine::sysfs::SYSFS;
use crate::machine::volumes::{drives_below, slaves};
use crate::model::other_reading::{BlockTraffic, Counting, Counts, OtherReading};
use std::path::Path;
use tandem_api::OtherKind;

/// Kernel names of the disks, and of the devices of the cache if they are known and serve no other cache.
pub(super) type Below = (Vec<String>, Option<Vec<String>>);

/// Whether the device with this kernel name is memory.
pub(super) fn in_memory(name: &str) -> bool {
    ["rd", "ram", "zram"]
        .iter()
        .any(|kind| name.starts_with(kind))
}

/// Whether the kernel counts what a cache moves at this device. Memory is read and written past the block device.
fn is_counted(name: &str) -> bool {
    let is_memory = |name: &String| in_memory(name) || name.starts_with("pmem");
    !drives_below(name).iter().any(is_memory)
}

/// The devices below a mapping whose table does not name them: a disk, and memory.
pub(super) fn below(mapping: &[String]) -> Below {
    let all = mapping.iter().flat_map(|name| slaves(name));
    (all.filter(|name| is_counted(name)).collect(), None)
}

/// The system's own counters.
pub(super) fn counts(kind: OtherKind, told: &Told) -> Counts {
    Counts {
        counting: Counting::of(kind),
        hits: told.reads.0,
        misses: told.reads.1,
        beside: told.beside.clone(),
    }
}

/// All counters of the cache whose device has this kernel name. Nothing if those of the device or of the disk are not told.
pub(super) fn read(device: Option<String>, below: Below, counts: Counts) -> Option<OtherReading> {
    let (disks, ssds) = below;
    let all = |names: Vec<String>| -> Option<Vec<BlockTraffic>> {
        let counted = names.iter().all(|name| is_counted(name));
        let each = |name: &String| traffic(Path::new(SYSFS), name);
        counted.then(|| names.iter().map(each).collect())?
    };
    Some(OtherReading {
        time_us: boottime_us(),
        device: traffic(Path::new(SYSFS), &device?)?,
        disks: all(disks).filter(|disks| !disks.is_empty())?,
        ssds: ssds.and_then(all),
        counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{OtherMode, OtherState};

    #[test]
    fn a_cache_whose_devices_are_not_told_has_no_counters() {
        let told = Told::of(OtherState::Working, OtherMode::Writeback);
        let counts = || counts(OtherKind::DmCache, &told);
        let none = || "no-such-device".to_owned();
        assert_eq!(read(None, (vec![none()], None), counts()), None);
        assert_eq!(read(Some(none()), (vec![none()], None), counts()), None);
        assert_eq!(counts().counting, Counting::Has32Bits);
    }

    #[test]
    fn memory_is_not_counted() {
        assert!(in_memory("rd0") && in_memory("zram1") && !in_memory("sda"));
        assert!(!is_counted("pmem0") && !is_counted("ram0") && is_counted("sda"));
        assert_eq!(below(&["no-such-device".to_owned()]), (vec![], None));
    }
}
