// SPDX-License-Identifier: GPL-3.0-or-later
//! The modes that the service offers for a disk and an SSD.

use crate::model::facts::Device;
use tandem_api::{Failure, Kind, Mode, ModeRefusal, RefusedMode, Sharing, Target};

/// File systems that other systems on the same machine are likely to write to.
pub(super) const FOREIGN: [&str; 5] = ["ntfs", "vfat", "exfat", "hfsplus", "BitLocker"];

/// The modes that the service refuses for a cache that this target serves. `mapped`: the mapping of the cache, if there is a cache already. Then the names
/// that the system uses at its start lead to the mapping. `sharing`: what beside a cache changes the disk.
pub fn refused_modes(
    target: Target,
    origin: &Device,
    ssd: &Device,
    mapped: Option<&Device>,
    sharing: Sharing,
) -> Vec<RefusedMode> {
    if target == Target::DmCache {
        return of_dm_cache();
    }
    let mut named = [Some(origin), mapped].into_iter().flatten();
    let at_start = named.clone().any(Device::used_at_start);
    let early = named.clone().any(|device| device.used_early().is_some());
    let unlocked = named.any(|device| device.unlocked_at_start() || device.behind_lock);
    let mut devices = [Some(origin), Some(ssd), mapped].into_iter().flatten();
    let assembled = devices.all(|device| device.found_at_start);
    let system = |device: &Device| device.mounts.iter().any(|m| m.point == "/");
    let reason = if ssd.ident.is_memory() {
        ModeRefusal::Memory
    } else if origin.removable || ssd.removable {
        ModeRefusal::Removable
    } else if sharing == Sharing::Network {
        ModeRefusal::Network
    } else if [Some(origin), mapped].into_iter().flatten().any(system) {
        ModeRefusal::System
    } else if FOREIGN.contains(&origin.ident.text.content.as_str()) {
        ModeRefusal::OtherSystems
    } else if unlocked {
        ModeRefusal::UnlockedAtStart
    } else if early || (at_start && !assembled) {
        ModeRefusal::MountedAtStart
    } else if sharing != Sharing::Alone {
        ModeRefusal::Shared
    } else if ssd.block_bytes > origin.block_bytes {
        ModeRefusal::BlockSize
    } else {
        return Vec::new();
    };
    let mode = Mode::Writeback;
    vec![RefusedMode { mode, reason }]
}

/// The mode that the service refuses for a cache that the next start of the machine puts over its disk: until then no
/// record says whether data may be on the SSD only.
pub fn at_next_start() -> RefusedMode {
    RefusedMode {
        mode: Mode::Writeback,
        reason: ModeRefusal::NextStart,
    }
}

/// The modes that the service refuses for each cache of dm-cache. In write-back, after a crash dm-cache takes all its copies for
/// newer than the disk, also where another system has changed the disk since. Write-around is unknown to dm-cache.
fn of_dm_cache() -> Vec<RefusedMode> {
    let refused = |mode| RefusedMode {
        mode,
        reason: ModeRefusal::Target,
    };
    [Mode::Writeback, Mode::Writearound].map(refused).into()
}

/// Checks that the service offers a mode.
///
/// # Errors
/// `ModeRefused`.
pub fn offered(mode: Mode, refused: &[RefusedMode], origin: &Device) -> Result<(), Failure> {
    match refused.iter().find(|refused| refused.mode == mode) {
        Some(refused) => Err(Failure::new(Kind::ModeRefused)
            .device(&origin.ident.text)
            .name(refused.reason.as_str())),
        None => Ok(()),
    }
}
