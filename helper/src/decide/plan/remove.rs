// SPDX-License-Identifier: GPL-3.0-or-later
//! The plan that removes a cache and gives the plain disk back.

use super::{Plan, Subject};
use crate::model::action::{Action, MountDevice, Pair};
use crate::model::facts::Mount;
use tandem_api::{Failure, FileUser, JobKind, Kind, Warning, WarningKind};

/// The data that may be on the SSD only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// There may be such data.
    pub possible: bool,
    /// Number of bytes, from the module; 0 if the module cannot be asked.
    pub bytes: u64,
    /// Why the data cannot be written back now, a word as for `StateReason`; none if it can be.
    pub stuck: Option<String>,
    /// The disk has refused a write. The write can be tried again, and its data can be given up.
    pub refused: bool,
}

/// The facts about a cache that is to be removed.
pub struct RemoveInput<'a> {
    /// The cache.
    pub pair: &'a Pair,
    /// The cache is assembled, and its mapping uses the SSD.
    pub attached: bool,
    /// The mapping uses the SSD, but the disk below was unplugged, and may have been plugged in again as another
    /// device: no data can be written through the mapping any more.
    pub orphaned: bool,
    /// The mapping exists.
    pub mapped: bool,
    /// The SSD is there.
    pub ssd_present: bool,
    /// The mounts of the mapping, in the order in which they were made.
    pub mounts: &'a [Mount],
    /// The programs that use the file system and prevent its unmount.
    pub users: Vec<FileUser>,
    /// The file system cannot be unmounted for a reason other than a program (other file systems are mounted below
    /// it).
    pub pinned: bool,
    /// The data that may be on the SSD only.
    pub unwritten: Unwritten,
    /// Only the SSD is prepared: the next start of the machine would map the cache.
    pub pending: bool,
    /// The initial file systems have a copy of the cache's record.
    pub in_initramfs: bool,
    /// The user gives up that data.
    pub discard: bool,
}

/// The plan for the removal of a cache.
///
/// The data that is on the SSD only is written back first. Then the SSD is released under the mounted file system, so
/// a busy file system is no obstacle. If no program uses the file system, it moves to the plain disk. Otherwise it
/// stays on a mapping that only passes through, which is gone after the next start.
///
/// With `discard`, a mounted file system would read older blocks from the disk and mix them with its data in memory.
/// So it is unmounted before the SSD is released, and stays unmounted: it has to be checked. The SSD is then released
/// by removing the mapping, which the kernel refuses if the file system was mounted since. If the file system cannot
/// be unmounted, which may be so as long as a user is logged in, the removal goes on under the mounted file system: a
/// disk that refuses writes must not block the removal for ever.
///
/// # Errors
/// `UnwrittenData` if the data cannot be written back. With `discard`: `WrongState` if there is no data to be given
/// up, or if the data can be written back and the disk has refused nothing.
pub fn remove(input: RemoveInput<'_>) -> Result<Plan, Failure> {
    let RemoveInput {
        pair,
        attached,
        orphaned,
        mapped,
        ssd_present,
        mounts,
        users,
        pinned,
        unwritten,
        pending,
        in_initramfs,
        discard,
    } = input;
    let stuck = unwritten.stuck.as_ref().filter(|_| unwritten.possible);
    match stuck {
        Some(reason) if !discard => {
            return Err(Failure::new(Kind::UnwrittenData)
                .device(&pair.ssd.text)
                .name(reason)
                .sizes(unwritten.bytes, 0));
        }
        None if discard && !(unwritten.possible && unwritten.refused) => {
            return Err(Failure::new(Kind::WrongState).name("written"));
        }
        _ => {}
    }
    let stays = mapped && !orphaned && (!users.is_empty() || pinned);
    let mut actions = Vec::new();
    if unwritten.possible && stuck.is_none() && !discard {
        actions.push(Action::Drain(pair.clone()));
    }
    let device = MountDevice::Mapping(Box::new(pair.clone()));
    let unmounts = || {
        let mounts = mounts.iter().rev();
        mounts.map(|m| Action::Unmount(device.clone(), m.clone()))
    };
    let unmapped_first = attached && mapped && discard && !stays;
    if unmapped_first {
        actions.extend(unmounts());
        actions.push(Action::Unmap(pair.clone()));
    } else if attached {
        actions.push(Action::Detach(pair.clone()));
    }
    let free = || {
        let deletes = pair.partition.is_some();
        let delete = deletes.then(|| Action::DeletePartition(pair.clone()));
        std::iter::once(Action::FreeSsd(pair.clone())).chain(delete)
    };
    if ssd_present && !orphaned {
        actions.extend(free());
    }
    if mapped && !stays {
        if !unmapped_first {
            actions.extend(unmounts());
            actions.push(Action::Unmap(pair.clone()));
        }
        if orphaned && ssd_present {
            actions.extend(free());
        }
        let device = MountDevice::Origin(Box::new(pair.origin.clone()));
        let back = mounts.iter().filter(|_| !orphaned && !discard);
        actions.extend(back.map(|m| Action::Mount(device.clone(), m.clone())));
    }
    if !mapped && !pending {
        // A mapping that is not in force may still hold the disk since the start of the machine.
        actions.push(Action::Unmap(pair.clone()));
    }
    if in_initramfs {
        actions.push(Action::UpdateInitramfs(pair.origin.text.clone()));
    }
    let mut warnings = Vec::new();
    let mut warn = |kind, users| {
        warnings.push(Warning {
            kind,
            device: pair.origin.text.clone(),
            users,
        });
    };
    if discard {
        warn(WarningKind::LosesUnwritten, Vec::new());
    }
    if stays && discard {
        warn(WarningKind::LosesInUse, users);
    } else if stays {
        warn(WarningKind::StaysMapped, users);
    } else if discard && !mounts.is_empty() {
        warn(WarningKind::StaysUnmounted, Vec::new());
    } else if !mounts.is_empty() {
        warn(WarningKind::Unavailable, Vec::new());
    }
    let subject = Subject {
        origin: &pair.origin.text,
        ssd: &pair.ssd.text,
        mode: pair.mode,
        refused_modes: Vec::new(),
        dirty_bytes: unwritten.bytes,
        mount_points: mounts.iter().map(|m| m.point.clone()).collect(),
    };
    let plan = Plan::new(JobKind::Remove, &pair.uuid, actions, warnings, subject);
    Ok(Plan {
        discards: discard,
        ..plan
    })
}
