// SPDX-License-Identifier: GPL-3.0-or-later
//! Giving the plain disk back.

use super::{Plan, Subject};
use crate::action::{Action, Face, Pair};
use crate::facts::Mount;
use tandem_api::{Failure, FileUser, JobKind, Kind, Warning, WarningKind};

/// What may be on the SSD only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// There may be something.
    pub possible: bool,
    /// Bytes as the module has them; 0 if it cannot be asked.
    pub bytes: u64,
    /// Why it cannot be written to the disk now, a word as for `StateReason`; none if it can.
    pub stuck: Option<String>,
    /// The disk has refused something: it can be tried to write that, and it can be given up.
    pub refused: bool,
}

/// What is known of a cache that is to go.
pub struct RemoveInput<'a> {
    /// The cache.
    pub pair: &'a Pair,
    /// It is assembled, and its mapping uses the SSD.
    pub attached: bool,
    /// Its mapping uses the SSD, but the disk below was pulled, and may have been plugged in again
    /// as another device: nothing can be written through it any more.
    pub orphaned: bool,
    /// Its mapping exists.
    pub mapped: bool,
    /// The SSD is there.
    pub ssd_present: bool,
    /// Where the mapping is mounted, in the order of mounting.
    pub mounts: &'a [Mount],
    /// Who uses it, and what keeps it from being unmounted.
    pub users: Vec<FileUser>,
    /// It cannot be unmounted for a reason other than a program (other file systems below it).
    pub pinned: bool,
    /// What may be on the SSD only.
    pub unwritten: Unwritten,
    /// The person gives that up.
    pub discard: bool,
}

/// What removing a cache takes.
///
/// The SSD is let go first, under the running file system, so that a busy one is no obstacle; then,
/// if nobody uses the file system, it moves to the plain disk. If somebody does, it stays on a
/// mapping that only passes through and that goes at the next start. What is on the SSD only goes to the
/// disk before anything else.
///
/// With `discard` the file system would find older blocks below it and mix them with what it has in memory, so
/// it is unmounted before the SSD goes, and left so: it has to be checked. The SSD goes with the mapping then, which
/// the kernel refuses if somebody has mounted it since. Only where that cannot be, which may be so as long as
/// somebody is logged in, does it go on: a disk that refuses writes shall trap nobody.
///
/// # Errors
/// `UnwrittenData` if that is not possible; with `discard`, `WrongState` if it is and the disk has refused
/// nothing, or if nothing is there to be given up.
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
    let face = Face::Mapped(Box::new(pair.clone()));
    let unmounts = || {
        let mounts = mounts.iter().rev();
        mounts.map(|m| Action::Unmount(face.clone(), m.clone()))
    };
    let unmapped_first = attached && mapped && discard && !stays;
    if unmapped_first {
        actions.extend(unmounts());
        actions.push(Action::Unmap(pair.clone()));
    } else if attached {
        actions.push(Action::Detach(pair.clone()));
    }
    if ssd_present && !orphaned {
        actions.push(Action::FreeSsd(pair.clone()));
    }
    if mapped && !stays {
        if !unmapped_first {
            actions.extend(unmounts());
            actions.push(Action::Unmap(pair.clone()));
        }
        if orphaned && ssd_present {
            actions.push(Action::FreeSsd(pair.clone()));
        }
        let face = Face::Plain(Box::new(pair.origin.clone()));
        let back = mounts.iter().filter(|_| !orphaned && !discard);
        actions.extend(back.map(|m| Action::Mount(face.clone(), m.clone())));
    }
    if !mapped {
        // What is no mapping in use may still hold the disk back since the start.
        actions.push(Action::Unmap(pair.clone()));
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
