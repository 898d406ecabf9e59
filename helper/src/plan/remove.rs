// SPDX-License-Identifier: GPL-3.0-or-later
//! Giving the plain disk back.

use super::{Plan, Subject};
use crate::action::{Action, Face, Pair};
use crate::facts::Mount;
use tandem_api::{FileUser, JobKind, Warning, WarningKind};

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
}

/// What removing a cache takes.
///
/// The SSD is let go first, under the running file system, so that a busy one is no obstacle; then,
/// if nobody uses the file system, it moves to the plain disk. If somebody does, it stays on a
/// mapping that only passes through and that goes at the next start.
pub fn remove(input: RemoveInput<'_>) -> Plan {
    let RemoveInput {
        pair,
        attached,
        orphaned,
        mapped,
        ssd_present,
        mounts,
        users,
        pinned,
    } = input;
    let stays = mapped && !orphaned && (!users.is_empty() || pinned);
    let mut actions = Vec::new();
    if attached {
        actions.push(Action::Detach(pair.clone()));
    }
    if ssd_present && !orphaned {
        actions.push(Action::FreeSsd(pair.clone()));
    }
    if mapped && !stays {
        let face = Face::Mapped(Box::new(pair.clone()));
        actions.extend(
            mounts
                .iter()
                .rev()
                .map(|m| Action::Unmount(face.clone(), m.clone())),
        );
        actions.push(Action::Unmap(pair.clone()));
        if orphaned && ssd_present {
            actions.push(Action::FreeSsd(pair.clone()));
        }
        let face = Face::Plain(Box::new(pair.origin.clone()));
        let back = mounts.iter().filter(|_| !orphaned);
        actions.extend(back.map(|m| Action::Mount(face.clone(), m.clone())));
    }
    if actions.is_empty() {
        // Nothing is left but the record, which goes with the job.
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
    if stays {
        warn(WarningKind::StaysMapped, users);
    } else if !mounts.is_empty() {
        warn(WarningKind::Unavailable, Vec::new());
    }
    let subject = Subject {
        origin: &pair.origin.text,
        ssd: &pair.ssd.text,
        mode: pair.mode,
        refused_modes: Vec::new(),
        mount_points: mounts.iter().map(|m| m.point.clone()).collect(),
    };
    Plan::new(JobKind::Remove, &pair.uuid, actions, warnings, subject)
}
